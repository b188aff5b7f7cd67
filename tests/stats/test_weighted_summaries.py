"""Weighted summaries: a weight is as many copies of a question, and equal weights are none."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragsweep.core.types import GoldenSet, Question
from ragsweep.stats.intervals import means_with_intervals, varying, weighted_quantile_interval

NONE = np.array([np.nan])


@given(st.lists(st.tuples(st.floats(0, 1), st.integers(1, 5)), min_size=1, max_size=30))
def test_a_weight_is_as_many_copies(pairs: list[tuple[float, int]]) -> None:
    scores, counts = np.array([one for one, _ in pairs]), np.array([count for _, count in pairs])
    copies, weights = np.repeat(scores, counts), counts.astype(np.float64)
    mean = means_with_intervals(scores[None, :], NONE, NONE, weights)[0][0]
    assert mean == pytest.approx(copies.mean())
    quantile = weighted_quantile_interval(scores, weights, 0.95)[0]
    assert quantile == pytest.approx(np.quantile(copies, 0.95, method="inverted_cdf"))


def test_equal_weights_are_none() -> None:
    assert varying(np.full(9, 0.25)) is None
    plain = tuple(Question(str(n), f"what is {n}?") for n in range(3))
    equal = tuple(Question(str(n), f"what is {n}?", weight=7.0) for n in range(3))
    other = tuple(Question(str(n), f"what is {n}?", weight=1.0 + n) for n in range(3))
    assert GoldenSet(plain).digest == GoldenSet(equal).digest != GoldenSet(other).digest


def test_intervals_of_weighted_means_hold() -> None:
    held = 0
    for seed in range(200):
        generator = np.random.default_rng(seed)
        heavy = generator.random(80) < 0.25
        scores = generator.normal(np.where(heavy, 0.7, 0.4), 0.1)
        _, low, high = means_with_intervals(scores[None, :], NONE, NONE, np.where(heavy, 4.0, 1.0))
        held += bool(low[0] <= (0.7 + 0.75 * 0.4) / 1.75 <= high[0])
    assert 180 <= held <= 198


def test_few_heavy_questions_are_few() -> None:
    scores, weights = np.random.default_rng(0).uniform(size=50), np.where(np.arange(50) < 3, 500.0, 1.0)
    _, low, high = means_with_intervals(scores[None, :], NONE, NONE, weights)
    assert high[0] - low[0] > 2 * scores[:3].std()
