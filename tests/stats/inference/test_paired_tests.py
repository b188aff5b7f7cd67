"""Tests of paired differences, against scipy and their definitions."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from ragsweep.stats.inference.paired_tests import holm, randomisation, round_to_ties, tail_bound, wilcoxon

SCORES = st.lists(st.integers(-4, 4), min_size=1, max_size=9)


def two_sided(values: np.ndarray, method: str) -> float:
    return float(stats.wilcoxon(values, zero_method="wilcox", correction=False, method=method).pvalue)


@pytest.mark.parametrize("n", [1, 5, 12, 25])
def test_wilcoxon_is_exact_with_few_questions(n: int) -> None:
    values = np.random.default_rng(n).normal(0.3, 1, n)
    found = wilcoxon(values[None, :])
    assert found.p[0] == pytest.approx(two_sided(values, "exact"))
    assert found.variant == ("exact",)


@pytest.mark.parametrize("n", [26, 60, 400])
def test_wilcoxon_is_normal_with_many_corrected_for_ties(n: int) -> None:
    values = np.random.default_rng(n).integers(-3, 5, n).astype(float)
    values[:26] = np.arange(26) + 1.5  # at least as many that are not 0
    found = wilcoxon(values[None, :])
    assert found.p[0] == pytest.approx(two_sided(values, "asymptotic"))
    assert found.variant == ("normal",)


@given(SCORES)
def test_exact_p_counts_out_every_sign_with_ties_and_zeros(scores: list[int]) -> None:
    values = np.array(scores, dtype=float)
    found = wilcoxon(values[None, :])
    apart = values[values != 0]
    if not len(apart):
        assert (found.p[0], found.variant) == (1.0, ("none",))
        return
    ranks = stats.rankdata(np.abs(apart))
    sums = np.array([ranks[np.array(signs) > 0].sum() for signs in product([-1, 1], repeat=len(apart))])
    observed = ranks[apart > 0].sum()
    assert found.statistic[0] == observed
    tail = min((sums >= observed).mean(), (sums <= observed).mean())
    assert found.p[0] == pytest.approx(min(1.0, 2 * tail))


def test_rows_are_tested_one_by_one() -> None:
    rows = np.random.default_rng(0).integers(-2, 4, (7, 30)) / 3
    apart = [wilcoxon(row[None, :]) for row in rows]
    together = wilcoxon(rows)
    assert together.p.tolist() == [one.p[0] for one in apart]
    assert together.variant == tuple(one.variant[0] for one in apart)


def test_rounding_makes_no_tie_and_breaks_none() -> None:
    values = np.array([[0.3 - 0.1, 0.2, 0.1 + 0.2 - 0.3, -0.1]])
    assert round_to_ties(values)[0, 0] == round_to_ties(values)[0, 1]
    assert np.abs(round_to_ties(values) - values).max() < 1e-12
    assert wilcoxon(values).statistic[0] == 5.0  # 2.5 and 2.5: the third is 0


@given(SCORES)
def test_random_signs_are_counted_out_where_they_are_few(scores: list[int]) -> None:
    values = np.array(scores, dtype=float)
    found = randomisation(values[None, :], np.arange(len(values)))[0]
    sums = np.array([np.abs(np.array(signs) @ values) for signs in product([-1, 1], repeat=len(values))])
    assert found == pytest.approx((sums >= abs(values.sum()) - 1e-9).mean())


def test_random_signs_agree_with_scipy() -> None:
    values = np.random.default_rng(3).normal(0.25, 1, 60)
    theirs = stats.permutation_test(
        (values,), np.mean, permutation_type="samples", n_resamples=20_000, rng=1, vectorized=True
    )
    assert randomisation(values[None, :], np.arange(60))[0] == pytest.approx(theirs.pvalue, abs=0.01)


def test_questions_of_one_cluster_change_their_sign_together() -> None:
    values = np.array([[1.0, 1.0, 1.0, 1.0, 1.0, 1.0]])
    assert randomisation(values, np.arange(6))[0] == pytest.approx(2 / 2**6)
    assert randomisation(values, np.array([0, 0, 0, 1, 1, 1]))[0] == pytest.approx(2 / 2**2)
    assert randomisation(values, np.zeros(6, dtype=np.int64))[0] == 1.0


def test_a_small_p_value_survives_the_correction_over_many() -> None:
    rows = np.vstack([np.random.default_rng(4).normal(0, 1, (400, 50)), np.full(50, 1.0)])
    assert holm(randomisation(rows, np.arange(50)))[-1] < 0.01


@given(SCORES)
def test_the_bound_of_the_tail_is_one(scores: list[int]) -> None:
    values = np.array(scores, dtype=float)[None, :]
    assert tail_bound(values)[0] >= randomisation(values, np.arange(len(scores)))[0] - 1e-9


def test_far_out_the_bound_is_near_the_truth() -> None:
    values = np.random.default_rng(5).normal(2, 1, (1, 40))
    normal = 2 * stats.norm.sf(abs(values.sum()) / np.sqrt(np.square(values).sum()))
    assert normal < 1e-4
    assert tail_bound(values)[0] == pytest.approx(3.178 * normal, rel=1e-3)
    assert randomisation(values, np.arange(40))[0] == pytest.approx(tail_bound(values)[0])


def test_where_nothing_differs_nothing_is_said() -> None:
    assert randomisation(np.zeros((2, 20)), np.arange(20)).tolist() == [1.0, 1.0]
    assert randomisation(np.empty((2, 0)), np.empty(0, dtype=np.int64)).tolist() == [1.0, 1.0]
    assert wilcoxon(np.empty((2, 0))).p.tolist() == [1.0, 1.0]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_holm_is_its_definition(p_values: list[float]) -> None:
    """The smallest of n is taken n times, the next n - 1 times ..., and none becomes smaller than one before it."""
    expected, largest = [0.0] * len(p_values), 0.0
    for rank, row in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = expected[row] = min(1.0, max(largest, (len(p_values) - rank) * p_values[row]))
    assert holm(np.array(p_values)) == pytest.approx(expected)


def test_what_was_not_tested_is_not_corrected_for() -> None:
    found = holm(np.array([0.01, np.nan, 0.04]))
    assert found[[0, 2]].tolist() == [0.02, 0.04]
    assert np.isnan(found[1])
    assert holm(np.empty(0)).tolist() == []
