"""Contract tests for a hybrid retriever; to apply them, inherit from HybridRetrieverContract and define ``part``."""

from collections.abc import Callable

import numpy as np

from ragsweep.core.types import NO_CHUNK, HybridRetriever, Rankings
from ragsweep.parts.ranking import arrange
from ragsweep.testing.contract import Contract, assert_equal, assert_lawful

CHUNKS = 40


def rankings(seed: int, questions: int = 30, depth: int = 12) -> Rankings:
    """Return random rankings of CHUNKS chunks; they have ties and lengths from 0 to ``depth``."""
    chance = np.random.default_rng(seed)
    positions = np.stack([chance.permutation(CHUNKS)[:depth] for _ in range(questions)])
    lengths = chance.integers(0, depth + 1, questions)
    positions[np.arange(depth) >= lengths[:, None]] = NO_CHUNK
    return arrange(positions, chance.integers(-3, 4, positions.shape) / 2, depth)._replace(chunks="chunking")


class HybridRetrieverContract(Contract):
    """Contract tests for a hybrid retriever: define ``part`` as a method that returns an instance with several legs.

    If legs have weights, each must be above 0: a leg with weight 0 adds no chunks.
    """

    part: Callable[[], HybridRetriever]

    def test_satisfies_the_protocol(self) -> None:
        """Check that the part has all members of the protocol ``HybridRetriever``."""
        assert isinstance(self.part(), HybridRetriever)

    def test_fused_rankings_are_sorted_unique_and_padded(self) -> None:
        """Check the fused rankings at depths below, equal to and above the depth of the legs' rankings."""
        for depth in (1, 12, 100):
            fused = self.part().fuse(self._legs(), depth)
            assert_lawful(fused, depth, CHUNKS)
            assert fused.chunks == "chunking"

    def test_only_what_a_leg_found_is_ranked(self) -> None:
        """Check that a fused ranking of sufficient depth contains exactly the chunks in the rankings of the legs."""
        legs = self._legs()
        for row, fused in enumerate(self.part().fuse(legs, CHUNKS).positions):
            candidates = {chunk for leg in legs.values() for chunk in leg.positions[row]}
            assert set(fused) - {NO_CHUNK} == candidates - {NO_CHUNK}

    def test_the_order_of_the_legs_does_not_matter(self) -> None:
        """Check that the fused ranking does not depend on the order of the legs, only on their names."""
        legs = self._legs()
        assert_equal(self.part().fuse(dict(reversed(legs.items())), 20), self.part().fuse(legs, 20))

    def test_a_question_is_fused_alike_in_any_batch(self) -> None:
        """Check that each question has the same fused ranking alone as in the batch.

        This is required because fused rankings are stored by question.
        """
        legs = self._legs()
        together = self.part().fuse(legs, 20)
        for row in range(len(together.positions)):
            own = slice(row, row + 1)
            alone = {name: Rankings(leg.positions[own], leg.scores[own], leg.chunks) for name, leg in legs.items()}
            assert_equal(self.part().fuse(alone, 20), Rankings(together.positions[own], together.scores[own]))

    def test_nothing_found_gives_empty_rankings(self) -> None:
        """Check that the fused ranking is empty if the rankings of all legs are empty."""
        empty = Rankings(np.full((2, 4), NO_CHUNK, np.int32), np.full((2, 4), -np.inf, np.float32))
        fused = self.part().fuse(dict.fromkeys(self.part().legs, empty), 3)
        assert_lawful(fused, 3, CHUNKS)
        assert (fused.positions == NO_CHUNK).all()

    def _legs(self) -> dict[str, Rankings]:
        return {name: rankings(seed) for seed, name in enumerate(self.part().legs)}
