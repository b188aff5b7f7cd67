"""Contract tests for a reranker; to apply them, write ``class TestMine(RerankerContract): part = Mine``."""

from collections.abc import Callable
from typing import ClassVar

import numpy as np

from ragsweep.core.traits import traits_of
from ragsweep.core.types import ReadingReranker, Reranker
from ragsweep.parts.reordering import REORDERING
from ragsweep.testing.contract import Contract

PAIRS = (
    ("who sat on the mat", "The cat sat on the mat."),
    ("who sat on the mat", "Stars, planets and moons"),
    ("", "The cat sat on the mat."),
    ("who sat on the mat", ""),
    ("moons", "The cat sat on the mat."),
    ("who sat on the mat", "many words " * 700),
    ("moons", "Stars, planets and moons"),
    ("who sat on the mat", "The cat sat on the mat."),
)


class RerankerContract(Contract):
    """Contract tests for a reranker: set ``part`` to your class, or to a method that returns an instance.

    ``tolerance`` is the largest accepted difference between the scores of a pair in different batches. Increase it for
    a model in half precision.
    """

    tolerance: ClassVar[float] = 1e-4

    part: Callable[[], Reranker]  # it may return the same instance for every test

    def test_candidates_are_counted_from_zero(self) -> None:
        """Check that ``candidates``, the number of chunks to rerank, is at least 0."""
        assert self.part().candidates >= 0

    def test_parameters_that_only_reorder_exist(self) -> None:
        """Check that every parameter named in the part's trait ``reordering`` exists and is in ``REORDERING``."""
        part = self.part()
        named = traits_of(part).reordering
        assert set(named) <= REORDERING
        assert all(hasattr(part, name) for name in named)

    def test_every_pair_gets_one_finite_score(self) -> None:
        """Check that there is one finite float32 score per pair, and an empty array for an empty list of pairs."""
        scores = self.part().score(PAIRS)
        assert scores.dtype == np.float32
        assert scores.shape == (len(PAIRS),)
        assert np.isfinite(scores).all()
        none = self.part().score([])
        assert none.dtype == np.float32
        assert none.shape == (0,)

    def test_a_pair_is_scored_alike_in_any_batch(self) -> None:
        """Check that a pair has the same score, within ``tolerance``, in any batch; scores are stored by pair.

        The last pair in PAIRS equals the first. Scoring the same batch again must give identical scores.
        """
        part = self.part()
        scores = part.score(PAIRS)
        np.testing.assert_array_equal(part.score(PAIRS), scores)
        np.testing.assert_allclose(scores[-1], scores[0], atol=self.tolerance)
        for size in (1, 3):
            groups = [PAIRS[start : start + size] for start in range(0, len(PAIRS), size)]
            np.testing.assert_allclose(np.concatenate(list(map(part.score, groups))), scores, atol=self.tolerance)
        np.testing.assert_allclose(part.score(PAIRS[::-1])[::-1], scores, atol=self.tolerance)


class ReadingRerankerContract(RerankerContract):
    """Contract tests for a reranker that encodes chunks in advance, independently of the queries."""

    part: Callable[[], ReadingReranker]

    def test_satisfies_the_protocol(self) -> None:
        """Check that the part has all members of the protocol ``ReadingReranker``."""
        assert isinstance(self.part(), ReadingReranker)

    def test_chunks_read_beforehand_are_scored_like_their_texts(self) -> None:
        """Check that chunks read in advance, in any batch, get the scores of their texts, within ``tolerance``."""
        part = self.part()
        texts = sorted({text for _, text in PAIRS})
        chunks = part.read(texts)
        assert chunks.vectors.dtype == np.float16
        assert len(chunks.start) == len(texts) + 1
        assert len(part.read([]).start) == 1
        scores = part.score_read(chunks, [(query, texts.index(text)) for query, text in PAIRS])
        np.testing.assert_allclose(scores, part.score(PAIRS), atol=self.tolerance)
        for position, text in enumerate(texts):
            alone = part.read([text])
            assert len(alone.vectors) == chunks.start[position + 1] - chunks.start[position]
            np.testing.assert_allclose(
                part.score_read(alone, [("moons", 0)]),
                part.score_read(chunks, [("moons", position)]),
                atol=self.tolerance,
            )
