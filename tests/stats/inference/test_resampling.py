"""Drawing clusters: the spread of resampled means is the standard error; and critical values, against scipy."""

import math

import numpy as np
import pytest
from scipy import stats
from statsmodels.regression.linear_model import OLS

from ragsweep.stats.inference.resampling import (
    as_normal,
    as_student,
    cluster_scores,
    deviations,
    draws,
    student_quantile,
)
from support.matrices import matrix


def drawn(values: np.ndarray, clusters: np.ndarray) -> np.ndarray:
    """How far resampled means are from the observed ones."""
    data = cluster_scores(values, clusters)
    return np.concatenate(list(deviations(data.sums / data.sizes.sum(), 10_000)))


def test_sums_of_clusters_by_hand() -> None:
    data = cluster_scores(np.array([[1.0, 2.0, 3.0, 6.0]]), np.array([0, 1, 1, 0]))
    assert data.means.tolist() == [3.0]
    assert data.sums.tolist() == [[1.0, -1.0]]  # (1 - 3) + (6 - 3), (2 - 3) + (3 - 3)
    assert data.sizes.tolist() == [2, 2]
    assert data.errors[0] == pytest.approx(np.sqrt(2 * (1 + 1)) / 4)


def test_error_of_equal_clusters_is_that_of_statsmodels() -> None:
    generator = np.random.default_rng(0)
    clusters = generator.permutation(np.repeat(np.arange(15), 4))
    values = generator.normal(size=15)[clusters] + generator.normal(size=60)
    expected = OLS(values, np.ones(60)).fit(cov_type="cluster", cov_kwds={"groups": clusters}).bse[0]
    assert cluster_scores(values[None, :], clusters).errors[0] == pytest.approx(expected)


def test_resamples_spread_as_far_as_those_of_scipy() -> None:
    values = np.random.default_rng(1).gamma(0.5, size=(1, 50))
    theirs = stats.bootstrap((values[0],), np.mean, n_resamples=10_000, rng=0, method="percentile")
    ours = drawn(values, np.arange(50))[:, 0] + values.mean()
    assert ours.std() == pytest.approx(theirs.standard_error, rel=0.03)
    ends = np.quantile(ours, [0.025, 0.975])
    assert ends == pytest.approx([*theirs.confidence_interval], abs=0.05 * theirs.standard_error * 4)


def test_clusters_are_drawn_whole() -> None:
    """Three copies of each question carry no more information than one, unless they are resampled one by one."""
    once = np.random.default_rng(2).normal(size=(1, 30))
    thrice = np.repeat(once, 3, axis=1)
    assert drawn(thrice, np.repeat(np.arange(30), 3)) == pytest.approx(drawn(once, np.arange(30)), abs=1e-5)
    assert drawn(thrice, np.arange(90)).std() < 0.7 * drawn(once, np.arange(30)).std()


def test_resampled_means_of_uneven_clusters_vary_as_the_uncorrected_error_says() -> None:
    """They are linear in the draws: a large cluster that is drawn twice moves the mean twice as far."""
    clusters = np.array([0] * 9 + list(range(1, 12)))
    values = np.where(clusters == 0, 1.0, 0.0)[None, :]
    weights = np.concatenate(list(draws(12, 10_000)))
    expected = (weights[:, 0] * 9 * 0.55 - (12 - weights[:, 0]) * 0.45) / 20  # less the mean of .45
    assert drawn(values, clusters)[:, 0] == pytest.approx(expected, abs=1e-6)
    data = cluster_scores(values, clusters)
    spread = np.sqrt(np.square(data.sums).sum()) / 20
    assert expected.std() == pytest.approx(spread, rel=0.03)
    assert data.errors[0] > 1.2 * spread  # of which one cluster is nine parts of twenty


def test_draws_are_the_same_each_time_and_begin_alike() -> None:
    weights = np.concatenate(list(draws(17, 1200)))
    assert weights.shape == (1200, 17)
    assert (weights.sum(axis=1) == 17).all()
    assert (np.concatenate(list(draws(17, 700))) == weights[:700]).all()


def test_draws_too_large_to_remember_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    weights = np.concatenate(list(draws(23, 600)))
    monkeypatch.setattr("ragsweep.stats.inference.resampling.REMEMBERED", 0)
    assert (np.concatenate(list(draws(23, 600))) == weights).all()


def test_a_spread_that_is_rounding_is_none() -> None:
    one = matrix([[0.1] * 12, np.arange(12) / 10])
    shifted = one.values[1] + 0.3 - one.values[1]
    assert cluster_scores(shifted[None, :], one.clusters).errors.tolist() == [0.0]
    assert not len(cluster_scores(np.empty((2, 0)), np.empty(0, dtype=np.int64)).sizes)


@pytest.mark.parametrize("degrees", [9, 99, 10**6])
@pytest.mark.parametrize("share", [0.6, 0.975, 0.00135])
def test_quantiles_are_those_of_scipy(share: float, degrees: int) -> None:
    expected = stats.t.ppf(share, degrees)
    assert student_quantile(share, degrees) == pytest.approx(expected, rel=1e-9)
    assert as_student(stats.norm.ppf(share), degrees) == pytest.approx(expected, rel=0.006)


@pytest.mark.parametrize("degrees", [1, 9, 99])
def test_there_and_back(degrees: int) -> None:
    values = np.linspace(-4, 4, 17)
    there = np.array([as_student(value, degrees) for value in values.tolist()])
    assert as_normal(there, degrees) == pytest.approx(values, abs=1e-9)


def test_nothing_is_infinite() -> None:
    assert math.isfinite(as_student(40.0, 9))
    assert as_student(-40.0, 9) == -as_student(40.0, 9)
    assert math.isnan(as_student(2.0, 0))
