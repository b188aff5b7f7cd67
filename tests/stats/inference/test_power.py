"""How small a difference can be seen: against statsmodels, and by simulation."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.power import TTestPower

from ragsweep.stats.inference.differences import compare_with_baseline
from ragsweep.stats.inference.matrix import Matrix
from ragsweep.stats.inference.power import (
    each_level,
    estimate_power,
    questions_needed,
    shared_level,
    typical_questions_needed,
)
from support import nightly
from support.matrices import matrix, normal


@pytest.mark.parametrize("questions", [15, 30, 100, 400])
def test_detectable_effect_is_that_of_statsmodels(questions: int) -> None:
    one = normal(2, questions)
    spread = (one.values[1] - one.values[0]).std(ddof=1)
    expected = TTestPower().solve_power(nobs=questions, alpha=0.05, power=0.8) * spread
    found = estimate_power(one)
    assert found.typical == pytest.approx(expected, rel=0.02)
    assert found.spread[1] == pytest.approx(spread)
    assert (found.questions, found.clusters) == (questions, questions)


@pytest.mark.parametrize(("effect", "spread"), [(0.02, 0.2), (0.1, 0.3), (0.05, 0.05)])
def test_questions_needed_are_those_of_statsmodels(effect: float, spread: float) -> None:
    expected = TTestPower().solve_power(effect_size=effect / spread, alpha=0.05, power=0.8)
    assert questions_needed(effect, spread) == pytest.approx(math.ceil(expected), abs=2)


@given(st.floats(0.01, 0.5), st.floats(0.01, 0.5))
def test_one_question_less_is_too_few(effect: float, spread: float) -> None:
    count = questions_needed(effect, spread)
    assert count is not None
    assert count >= 10
    assert questions_needed(-effect, spread) == count
    larger = questions_needed(effect * 1.5, spread)
    assert larger is not None
    assert larger <= count


def test_more_comparisons_need_more_questions() -> None:
    drawn = normal(3, 60)
    one = typical_questions_needed(estimate_power(drawn), 0.02)
    many = typical_questions_needed(estimate_power(drawn, level=shared_level(20)), 0.02)
    assert one is not None
    assert many is not None
    assert one < many


@pytest.mark.parametrize(("comparisons", "critical"), [(1, 1.960), (2, 2.212), (5, 2.511), (10, 2.720), (20, 2.910)])
def test_shared_level_is_that_of_dunnett_s_table(comparisons: int, critical: float) -> None:
    """Two-sided, infinite degrees of freedom: Dunnett, Biometrics 20, 1964, to the table's two decimals."""
    assert stats.norm.ppf((1 + shared_level(comparisons)) / 2) == pytest.approx(critical, abs=0.006)


@pytest.mark.parametrize("configs", [2, *(nightly(n) for n in (10, 50))])
def test_difference_as_large_as_foretold_is_shown_among_all_configs_in_four_sweeps_of_five(configs: int) -> None:
    def foretold(drawn: Matrix) -> float:
        return estimate_power(drawn, level=each_level(compare_with_baseline(drawn, 0, resamples=499))).typical

    effect = np.mean([foretold(normal(configs, 100, seed=seed)) for seed in range(10)])
    shown = [
        bool(compare_with_baseline(normal(configs, 100, float(effect), seed), 0, resamples=499).better[-1])
        for seed in range(200)
    ]
    assert 0.71 < np.mean(shown) < 0.89  # .8 with three standard errors of 200 sweeps


@pytest.mark.parametrize("hits", [2, 3, 12])
def test_differences_among_several_configs_are_never_easier_to_show_than_between_two(hits: int) -> None:
    """A few differing questions out of 24: the resampled critical value can be below that of a single interval."""
    values = np.zeros((3, 24))
    values[1:, :hits] = 1
    drawn = matrix(values)
    level = each_level(compare_with_baseline(drawn, 0))
    found = estimate_power(drawn, level=level)
    assert level >= 0.95
    assert not found.typical < found.alone


def test_gain_by_further_hits_must_be_larger_as_it_widens_the_spread_itself() -> None:
    """Of 100 questions 4 won and 4 lost: a gain of k further wins has the spread of k + 8 changed questions."""
    gains, critical = np.zeros(100), stats.t.ppf(0.975, 99)
    gains[:4], gains[4:8] = 1, -1
    observed = (critical + stats.t.ppf(0.8, 99)) * gains.std(ddof=1) / 10
    shown = estimate_power(matrix(np.stack([np.zeros(100), gains]))).typical
    assert shown > 1.2 * observed
    drawn = np.random.default_rng(1).choice([1.0, -1.0, 0.0], (4000, 100), p=[shown + 0.04, 0.04, 0.92 - shown])
    claimed = drawn.mean(axis=1) > critical * drawn.std(axis=1, ddof=1) / 10
    assert 0.75 < claimed.mean() < 0.85


def test_what_is_detectable_depends_on_the_spread_alone_where_gains_do_not_widen_it() -> None:
    """Student's (t_.975 + t_.8) standard errors also of few questions, and of gains that lose nothing."""
    for questions in (30, 400):
        spread = np.random.default_rng(0).normal(0, 0.25, questions)
        for gains in (spread, spread - spread.min()):
            quantiles = stats.t.ppf([0.975, 0.8], questions - 1).sum()
            found = estimate_power(matrix(np.stack([np.full(questions, 0.5), 0.5 + gains])))
            assert found.typical == pytest.approx(quantiles * gains.std(ddof=1) / np.sqrt(questions), rel=0.08)


def test_questions_of_one_source_are_worth_less() -> None:
    values = np.repeat(normal(2, 30).values, 4, axis=1)
    alone, together = estimate_power(matrix(values)), estimate_power(matrix(values, np.repeat(np.arange(30), 4)))
    assert together.typical > 1.9 * alone.typical
    assert together.clusters == 30


def test_where_nothing_can_be_said_it_is_not() -> None:
    same = estimate_power(matrix([np.arange(12), np.arange(12), np.arange(12) + 1.0]))
    assert np.isnan([*same.spread, same.typical]).all()
    assert "by more than a constant" in same.note
    assert typical_questions_needed(same, 0.1) is None
    few = estimate_power(matrix(np.random.default_rng(0).random((2, 9))))
    assert np.isnan([*few.spread, few.typical]).all()
    assert "fewer than 10" in few.note
    assert questions_needed(0.0, 0.2) is None
    assert questions_needed(0.1, math.nan) is None
    assert questions_needed(0.1, math.inf) is None
    assert questions_needed(2e-14, 0.11) is None


def test_typical_is_of_those_that_differ() -> None:
    values = np.random.default_rng(1).random((4, 40))
    values[1] = values[0]
    found, factor = estimate_power(matrix(values)), stats.t.ppf([0.975, 0.8], 39).sum() / np.sqrt(40)
    assert found.typical == pytest.approx(factor * np.median(found.spread[2:]), rel=0.02)
