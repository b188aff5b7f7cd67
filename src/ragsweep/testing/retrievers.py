"""The contract of a retriever by text, as tests: ``class TestMine(TextRetrieverContract): part = Mine``."""

from __future__ import annotations

from collections.abc import Callable

from ragsweep.core.types import Rankings, TextRetriever
from ragsweep.testing.rankings import assert_equal, assert_lawful, stored

TEXTS = (
    "The cat sat on the mat.",
    "A dog chased the cat over the mat and the fence",
    "",
    "The cat sat on the mat.",
    "Über den Fluss: naïve café",
    "   \n",
    "stars and planets and moons",
    "The cat sat on the mat.",
    "a mat, a mat, a mat!",
    "planets moons stars, planets moons stars",
)
QUERIES = ("cat on a mat", "planets", "", "café", "quite unknown words: zyzzyva", "dog dog fence")


class TextRetrieverContract:
    """Inherit, and set ``part`` to your class, or override it with a method that returns an instance."""

    part: Callable[[], TextRetriever]

    def test_satisfies_the_protocol(self) -> None:
        """The pipeline recognises it by its methods."""
        assert isinstance(self.part(), TextRetriever)

    def test_rankings_are_sorted_unique_and_padded(self) -> None:
        """For every query and depth."""
        for depth in (1, 3, len(TEXTS), 3 * len(TEXTS)):
            assert_lawful(self._retrieve(QUERIES, depth), depth, len(TEXTS))

    def test_no_queries_give_no_rankings(self) -> None:
        """The result still has its depth."""
        assert self._retrieve((), 5).positions.shape == (0, 5)

    def test_one_chunk_is_enough(self) -> None:
        """A corpus may be that small, or blank."""
        for text in ("one text about a cat", ""):
            part = self.part()
            assert_lawful(part.retrieve(part.build([text]), QUERIES, 4), 4, 1)

    def test_a_query_is_ranked_alike_in_any_batch(self) -> None:
        """Rows are stored one by one and read in any batch."""
        together = self._retrieve(QUERIES, 5)
        for row, query in enumerate(QUERIES):
            alone = self._retrieve((query,), 5)
            assert_equal(alone, Rankings(together.positions[row : row + 1], together.scores[row : row + 1]))

    def test_a_shorter_depth_is_the_beginning_of_a_longer_one(self) -> None:
        """Cutting a ranking must not change it."""
        assert_equal(self._retrieve(QUERIES, 2), self._retrieve(QUERIES, 8).first(2))

    def test_a_stored_index_serves_another_instance(self) -> None:
        """Everything that retrieving needs is in what ``build`` returned, as named arrays."""
        index = stored(self.part().build(TEXTS))
        assert_equal(self.part().retrieve(index, QUERIES, 5), self._retrieve(QUERIES, 5))

    def test_an_instance_serves_two_indexes(self) -> None:
        """One instance may serve several chunkings."""
        part = self.part()
        one, other = part.build(TEXTS), part.build(TEXTS[::-1])
        part.retrieve(other, QUERIES, 5)
        assert_equal(part.retrieve(one, QUERIES, 5), self._retrieve(QUERIES, 5))

    def _retrieve(self, queries: tuple[str, ...], depth: int) -> Rankings:
        part = self.part()
        return part.retrieve(part.build(TEXTS), queries, depth)
