"""Laws of the intervals."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from ragsweep.statistics.intervals import mean_intervals, quantile_interval

NONE = np.array([np.nan])


def interval(values: list[float], lowest: float = 0.0, highest: float = 1.0) -> tuple[float, float]:
    low, high = mean_intervals(np.array(values)[:, None], np.array([lowest]), np.array([highest]))
    return float(low[0]), float(high[0])


def test_interval_of_a_mean_agrees_with_the_t_interval_for_many_questions() -> None:
    values = np.random.default_rng(0).beta(2, 3, size=400)
    low, high = mean_intervals(values[:, None], NONE, NONE)
    expected = stats.t.interval(0.95, 399, loc=values.mean(), scale=stats.sem(values))
    assert (low[0], high[0]) == pytest.approx(expected, abs=2e-3)


def test_interval_covers_the_true_mean_nineteen_times_in_twenty() -> None:
    generator = np.random.default_rng(1)
    samples = generator.beta(2, 3, size=(120, 600))  # each column is one sample of 120 questions
    low, high = mean_intervals(samples, np.full(600, np.nan), np.full(600, np.nan))
    assert np.mean((low <= 0.4) & (high >= 0.4)) == pytest.approx(0.95, abs=0.03)


def test_perfect_scores_are_not_certainty() -> None:
    low, high = interval([1.0] * 20)
    assert high == 1.0
    assert low == pytest.approx(stats.binomtest(20, 20).proportion_ci(0.95, "exact").low)


def test_zero_scores_are_not_certainty() -> None:
    low, high = interval([0.0] * 50)
    assert low == 0.0
    assert high == pytest.approx(stats.binomtest(0, 50).proportion_ci(0.95, "exact").high)


def test_questions_without_a_score_do_not_move_the_interval_to_zero() -> None:
    values = list(np.random.default_rng(2).uniform(0.4, 0.6, size=100))
    low, high = interval([*values, *[float("nan")] * 100])
    assert 0.45 < low < np.mean(values) < high < 0.55


def test_no_score_at_all_gives_nan() -> None:
    assert np.isnan(interval([float("nan")] * 5)).all()


def test_same_scores_give_the_same_interval() -> None:
    values = list(np.random.default_rng(3).uniform(size=40))
    assert interval(values) == interval(values)


@pytest.mark.parametrize("quantile", [0.5, 0.95])
def test_quantile_interval_covers_the_true_quantile(quantile: float) -> None:
    generator = np.random.default_rng(4)
    bounds = [quantile_interval(generator.uniform(size=200), quantile) for _ in range(800)]
    assert np.mean([low <= quantile <= high for low, high in bounds]) >= 0.93


def test_quantile_interval_without_scores_is_nan() -> None:
    assert np.isnan(quantile_interval(np.array([np.nan]), 0.95)).all()
