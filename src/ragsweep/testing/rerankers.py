"""The contract of a reranker, as tests: ``class TestMine(RerankerContract): part = Mine``."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy as np

from ragsweep.types import Reranker

PAIRS = (
    ("who sat on the mat", "The cat sat on the mat."),
    ("who sat on the mat", "Stars, planets and moons"),
    ("", "The cat sat on the mat."),
    ("who sat on the mat", ""),
    ("who sat on the mat", "many words " * 700),
    ("who sat on the mat", "The cat sat on the mat."),
)


class RerankerContract:
    """Inherit, and set ``part`` to your class, or override it with a method that returns an instance.

    ``tolerance`` is how far a score may move when a pair is scored in other company.
    """

    tolerance: ClassVar[float] = 1e-4

    part: Callable[[], Reranker]  # it may return the same instance for every test

    def test_candidates_are_counted_from_zero(self) -> None:
        """It says how many candidates it wants to see; 0 leaves the ranking as it is."""
        assert self.part().candidates >= 0

    def test_every_pair_gets_one_finite_score(self) -> None:
        """In float32; no pairs, no scores."""
        scores = self.part().score(PAIRS)
        assert scores.dtype == np.float32
        assert scores.shape == (len(PAIRS),)
        assert np.isfinite(scores).all()
        assert self.part().score([]).shape == (0,)

    def test_a_pair_is_scored_alike_in_any_company(self) -> None:
        """Scores are stored by pair and asked for in any company."""
        scores = self.part().score(PAIRS)
        alone = np.concatenate([self.part().score([pair]) for pair in PAIRS])
        np.testing.assert_allclose(alone, scores, atol=self.tolerance)
