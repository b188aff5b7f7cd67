"""All pairs of configs, compared at once: Tukey's quantile, its coverage, and the configs that may be the best."""

import dataclasses
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from ragsweep.stats.inference.differences import affordable, all_pairs, compare_with_baseline
from ragsweep.stats.inference.matrix import Matrix
from support.matrices import matrices, matrix, normal, turned


def may_be_best(one: Matrix, resamples: int = 200) -> list[bool]:
    return list(map(bool, all_pairs(one, resamples=resamples).may_be_best))


def test_equal_configs_may_all_be_the_best_in_most_cases() -> None:
    """Of ten equal ones some are excluded in 5 % of 200 cases (at most 9.5 %, three Monte Carlo errors)."""
    assert sum(not all(may_be_best(normal(10, 60, seed=seed), 500)) for seed in range(200)) <= 19


def test_a_constant_difference_is_a_difference() -> None:
    assert may_be_best(normal(10, 100, 0.2)) == [False] * 9 + [True]
    base = np.arange(12) / 10
    assert may_be_best(matrix([base, base + 0.1, base + 0.1, base + 1e-12])) == [False, True, True, False]
    assert may_be_best(matrix([np.ones(12), np.zeros(12)])) == [True, False]


@given(matrices())
def test_the_direction_of_the_metric_decides_what_is_better(one: Matrix) -> None:
    found, mirrored = all_pairs(one, resamples=200), all_pairs(turned(one), resamples=200)
    assert mirrored.largest == pytest.approx(found.largest, rel=1e-3)


def test_many_configs_have_fewer_resamples() -> None:
    assert affordable(10, 10_000) == 10_000
    assert affordable(200, 10_000) == 10_000
    assert affordable(1000, 10_000) == 1000
    assert affordable(1000, 500) == 500


def test_nothing_is_divided_by_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert may_be_best(matrix(np.zeros((4, 20)))) == [True] * 4
        apart = may_be_best(matrix([np.zeros(20), np.arange(20), np.arange(20) + 1.0]))
    assert apart == [False, False, True]  # the second is worse by a constant


@pytest.mark.parametrize("configs", [2, 3, 6, 12])
def test_quantile_of_all_pairs_is_that_of_the_studentised_range(configs: int) -> None:
    """Independent configs, equally uncertain, many questions: Tukey's method. A range of means is root 2 wider."""
    values = np.random.default_rng(configs).normal(0.5, 0.2, (configs, 3000))
    expected = stats.studentized_range.ppf([0.95, 0.975], configs, np.inf) / np.sqrt(2)
    assert [all_pairs(matrix(values), level).largest for level in (0.95, 0.975)] == pytest.approx(expected, rel=0.025)


def test_all_pairs_cover_every_true_difference_in_95_of_100_sweeps() -> None:
    """The best of six equal configs against each of the others: chosen by the scores (90 to 98.5, 200 sweeps)."""
    held = 0
    for seed in range(200):
        one = normal(6, 60, seed=seed)
        best, largest = int(one.values.mean(axis=1).argmax()), all_pairs(one, resamples=500).largest
        found = compare_with_baseline(one, best, largest=largest)
        held += bool(((found.low <= 0) & (found.high >= 0)).all())
    assert 180 <= held <= 197


@given(matrices())
def test_configs_that_may_be_the_best_are_shown_worse_than_no_other(one: Matrix) -> None:
    found = all_pairs(one, resamples=200)
    assert found.may_be_best[one.better.mean(axis=1).argmax()]
    for row in range(len(one.values)):
        against = compare_with_baseline(one, row, resamples=200, largest=found.largest)
        assert not (found.may_be_best & against.worse).any()


@given(matrices())
def test_configs_with_equal_scores_may_be_the_best_together_and_count_once(one: Matrix) -> None:
    found, doubled = all_pairs(one, 0.95, 200), all_pairs(one.select_configs([*range(len(one.values)), 0]), 0.95, 200)
    assert doubled.may_be_best[-1] == doubled.may_be_best[0]
    assert doubled.may_be_best[:-1].tolist() == found.may_be_best.tolist()
    assert doubled.largest == pytest.approx(found.largest)


@given(matrices(), st.integers(0, 99))
def test_the_order_of_configs_changes_no_pair(one: Matrix, seed: int) -> None:
    rows = np.random.default_rng(seed).permutation(len(one.values)).tolist()
    found, moved = all_pairs(one, resamples=200), all_pairs(one.select_configs(rows), resamples=200)
    assert moved.largest == found.largest
    assert moved.may_be_best.tolist() == found.may_be_best[rows].tolist()


def test_two_configs_have_the_quantile_of_their_only_difference() -> None:
    one = normal(2, 80, 0.02)
    assert all_pairs(one).largest == pytest.approx(compare_with_baseline(one, 0).largest, rel=1e-5)


def test_pairs_of_few_clusters_or_equal_configs_leave_nobody_out() -> None:
    for one in (matrix([np.zeros(9), np.ones(9)]), matrix(np.ones((3, 20))), normal(1, 20)):
        found = all_pairs(one)
        assert found.largest == 0
        assert found.may_be_best.all()
    few = compare_with_baseline(matrix(np.random.default_rng(0).random((3, 9))), 0, largest=0.0)
    assert np.isnan(few.low[1:]).all()


def test_a_number_added_to_every_score_changes_no_comparison() -> None:
    one = normal(4, 60, 0.1)
    plain = all_pairs(one)
    assert plain.may_be_best.sum() > 1
    for added in (-1e4, 1e9):
        found = all_pairs(dataclasses.replace(one, values=one.values + added))
        assert found.largest == pytest.approx(plain.largest, rel=1e-5)
        assert found.may_be_best.tolist() == plain.may_be_best.tolist()
    assert all_pairs(normal(2, 0)).may_be_best.all()
