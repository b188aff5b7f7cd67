"""The set that cannot be told from the best: against arch, and by its laws."""

from __future__ import annotations

import dataclasses
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from matrices import matrices, matrix, normal, turned
from ragsweep.stats.inference.confidence_set import (
    ConfidenceSet,
    PairErrors,
    affordable,
    all_pairs,
    model_confidence_set,
    pairs,
    range_p_values,
)
from ragsweep.stats.inference.differences import compare_with_baseline
from ragsweep.stats.inference.matrix import Matrix
from ragsweep.stats.inference.resampling import cluster_scores, deviations


def kept(one: Matrix, resamples: int = 200) -> ConfidenceSet:
    return model_confidence_set(one, resamples=resamples)


def arch_set(losses: np.ndarray, reps: int) -> object:
    from arch.bootstrap import MCS

    theirs = MCS(losses, 0.05, reps=reps, block_size=1, method="R", bootstrap="circular", seed=1)
    theirs.compute()
    return theirs


@pytest.mark.parametrize(("configs", "gain", "seed"), [(2, 0.05, 0), (6, 0.0, 1), (8, 0.08, 2), (12, 0.03, 3)])
def test_range_is_that_of_arch_on_the_same_draws(configs: int, gain: float, seed: int) -> None:
    scores = normal(configs, 90, gain, seed).values
    theirs = arch_set(-scores.T, 400)
    indices = np.array(theirs._bootstrap_indices)
    drawn = (scores[:, indices].mean(axis=2) - scores.mean(axis=1)[:, None]).T
    errors = np.sqrt(theirs._variances)
    means = scores.mean(axis=1)
    compared = PairErrors((means[None, :] - means[:, None]) / errors, (1 / errors).astype(np.float32))
    expected = theirs.pvalues["Pvalue"].sort_index().to_numpy()  # beyond / drawn; ours is (beyond + 1) / (drawn + 1)
    found = range_p_values(compared, [drawn.astype(np.float32)])
    assert found == pytest.approx((expected * 400 + 1) / 401, abs=1e-9)


def test_range_is_that_of_arch_on_other_draws() -> None:
    one = normal(8, 120, 0.05, 5)
    theirs = arch_set(-one.values.T, 4000)
    found = model_confidence_set(one)
    assert found.p_values == pytest.approx(theirs.pvalues["Pvalue"].sort_index().to_numpy(), abs=0.03)
    assert np.flatnonzero(found.mask).tolist() == theirs.included


def slowly(compared: PairErrors, drawn: np.ndarray) -> np.ndarray:
    """The definition, step by step: the range of all that are left, the worse of the pair goes."""
    left, p_values, so_far = list(range(len(compared.worse))), np.ones(len(compared.worse)), 0.0
    while len(left) > 1:
        inside = np.ix_(left, left)
        worse = compared.worse[inside]
        apart = np.abs(drawn[:, left, None] - drawn[:, None, left]) * compared.scale[inside]
        so_far = max(so_far, float(((apart.max(axis=(1, 2)) >= worse.max()).sum() + 1) / (len(drawn) + 1)))
        gone = left[int(worse.max(axis=1).argmax())]
        p_values[gone] = so_far
        left.remove(gone)
    return p_values


@given(matrices())
def test_one_pass_is_the_stepwise_definition(one: Matrix) -> None:
    data = cluster_scores(np.unique(one.better, axis=0), one.clusters)
    compared, drawn = pairs(data), np.concatenate(list(deviations(data.sums, 300)))
    assert range_p_values(compared, [drawn]) == pytest.approx(slowly(compared, drawn), abs=1 / 300 + 1e-9)


def test_what_only_the_one_that_left_had_shown_is_forgotten() -> None:
    """The second is worse than the first by 4, which leaves before it; than the third, by 1, less than chance does."""
    worse = np.array([[0.0, -4.0, 5.0], [4.0, 0.0, 1.0], [-5.0, -1.0, 0.0]])
    drawn = np.tile(np.array([0.0, 1.0, -1.0], dtype=np.float32), (99, 1))
    compared = PairErrors(worse, np.ones((3, 3), dtype=np.float32))
    assert range_p_values(compared, [drawn]).tolist() == [0.01, 1.0, 1.0]
    assert slowly(compared, drawn).tolist() == [0.01, 1.0, 1.0]


def test_one_that_is_better_by_far_is_named_alone() -> None:
    assert kept(normal(10, 100, 0.2)).mask.tolist() == [False] * 9 + [True]


def test_equal_configs_are_all_kept_in_most_cases() -> None:
    """Someone is left out of ten equal ones in 5 % of 200 cases (at most 9.5 %, three Monte Carlo errors)."""
    left_out = sum(not kept(normal(10, 60, seed=seed), resamples=500).mask.all() for seed in range(200))
    assert left_out <= 19


def test_a_constant_difference_is_a_difference() -> None:
    base = np.arange(12) / 10
    found = kept(matrix([base, base + 0.1, base + 0.1, base + 1e-12]))
    assert found.mask.tolist() == [False, True, True, False]
    assert np.isfinite(found.p_values).all()
    assert kept(matrix([np.ones(12), np.zeros(12)])).mask.tolist() == [True, False]


def test_with_few_questions_nobody_is_left_out() -> None:
    found = kept(matrix([np.zeros(9), np.ones(9)]))
    assert found.mask.all()
    assert np.isnan(found.p_values).all()
    assert "fewer than 10" in found.note
    assert kept(matrix(np.empty((3, 0)))).mask.tolist() == [True] * 3
    assert kept(matrix(np.random.default_rng(0).random((2, 40)), np.arange(40) % 9)).note


def test_one_config_is_the_set() -> None:
    assert kept(normal(1, 20)).mask.tolist() == [True]
    assert kept(normal(1, 20)).p_values.tolist() == [1.0]


@given(matrices())
def test_the_best_is_always_in_it_and_p_values_say_who(one: Matrix) -> None:
    found = kept(one)
    assert found.mask[one.better.mean(axis=1).argmax()]
    assert (found.mask == (found.p_values > 0.05)).all()


@given(matrices())
def test_equal_scores_stay_or_go_together(one: Matrix) -> None:
    doubled = kept(one.select_configs([*range(len(one.values)), 0]))
    single = kept(one)
    assert doubled.p_values[-1] == doubled.p_values[0]
    assert doubled.p_values[:-1] == pytest.approx(single.p_values, abs=1e-9)


@given(matrices(), st.integers(0, 99))
def test_the_order_of_configs_and_questions_means_nothing(one: Matrix, seed: int) -> None:
    generator = np.random.default_rng(seed)
    rows, columns = generator.permutation(len(one.values)).tolist(), generator.permutation(one.values.shape[1])
    moved = dataclasses.replace(one, values=one.values[:, columns], clusters=one.clusters[columns]).select_configs(rows)
    assert kept(moved).p_values == pytest.approx(kept(one).p_values[rows], abs=0.011)


@given(matrices())
def test_less_is_better_where_the_metric_says(one: Matrix) -> None:
    assert kept(turned(one)).p_values == pytest.approx(kept(one).p_values, abs=0.011)


def test_many_configs_have_fewer_resamples() -> None:
    assert affordable(10, 10_000) == 10_000
    assert affordable(200, 10_000) == 10_000
    assert affordable(1000, 10_000) == 1000
    assert affordable(1000, 500) == 500


def test_nothing_is_divided_by_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        same = kept(matrix(np.zeros((4, 20))))
        apart = kept(matrix([np.zeros(20), np.arange(20), np.arange(20) + 1.0]))
    assert same.mask.tolist() == [True] * 4
    assert same.p_values.tolist() == [1.0] * 4
    assert apart.mask.tolist() == [False, False, True]  # the second is worse by a constant


# --- all pairs ----------------------------------------------------------------------------------------------------


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
        found = compare_with_baseline(
            one, int(one.values.mean(axis=1).argmax()), largest=all_pairs(one, resamples=500).largest
        )
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
