"""Clusters of unequal size: variances that are unbiased, and t statistics that are exceeded as often as they say."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from ragsweep.stats.inference import cluster_errors
from ragsweep.stats.inference.cluster_errors import (
    FEWEST,
    effective_clusters,
    enough_clusters,
    intraclass_correlation,
    unequal_clusters,
)
from ragsweep.stats.inference.resampling import bound, cluster_scores, cluster_sums

LAYOUTS = {
    "falling": [15, 12, 7, 5, 4, 3, 2, *[1] * 28],
    "five of ten": [10] * 5 + [1] * 50,
    "two of twenty": [20] * 2 + [1] * 60,
}


def of_size(sizes: list[int]) -> np.ndarray:
    return np.repeat(np.arange(len(sizes)), sizes)


def scores(sizes: list[int], correlation: float, rows: int, seed: int = 0) -> np.ndarray:
    """Draw normal scores with mean 0, variance 1 and one correlation inside of clusters: (rows, questions)."""
    generator = np.random.default_rng(seed)
    shared = generator.normal(size=(rows, len(sizes)))[:, of_size(sizes)]
    return math.sqrt(correlation) * shared + math.sqrt(1 - correlation) * generator.normal(size=(rows, sum(sizes)))


def correlation_of(values: np.ndarray, sizes: list[int]) -> float:
    apart = values - values.mean(axis=1, keepdims=True)
    return intraclass_correlation(apart, cluster_sums(apart, of_size(sizes)), np.array(sizes, dtype=float))


@pytest.mark.parametrize(
    ("sizes", "expected"), [([3] * 40, 40), ([4, 2], 36 / 20), ([10] * 5 + [1] * 50, 10_000 / 550)]
)
def test_effective_clusters_by_hand(sizes: list[int], expected: float) -> None:
    assert effective_clusters(np.array(sizes, dtype=float)) == pytest.approx(expected)


def test_enough_are_ten_of_one_size_or_as_many_as_weigh_as_evenly() -> None:
    assert enough_clusters(of_size([3] * FEWEST))
    assert not enough_clusters(of_size([3] * (FEWEST - 1)))
    assert not enough_clusters(of_size([50, *[1] * 50]))  # 51 of them, as good as 3.9
    assert not enough_clusters(of_size([]))


@given(st.lists(st.integers(1, 9), min_size=3, max_size=12).filter(lambda sizes: max(sizes) > 1), st.integers(0, 99))
def test_correlation_is_that_of_the_analysis_of_variance(sizes: list[int], seed: int) -> None:
    values, count = scores(sizes, 0.5, 1, seed), sum(sizes)
    groups = [values[0, of_size(sizes) == n] for n in range(len(sizes))]
    ratio = stats.f_oneway(*groups).statistic
    typical = (count - sum(size**2 for size in sizes) / count) / (len(sizes) - 1)
    expected = max((ratio - 1) / (ratio - 1 + typical), 0.0)
    assert correlation_of(values, sizes) == pytest.approx(expected, abs=1e-9)


def test_correlation_of_single_questions_means_nothing_and_that_of_copies_is_1() -> None:
    assert correlation_of(scores([1] * 20, 0.0, 3), [1] * 20) == 0.0
    assert correlation_of(np.repeat(scores([1] * 20, 0.0, 3), 3, axis=1), [3] * 20) == pytest.approx(1.0)


@given(st.lists(st.integers(1, 9), min_size=2, max_size=12), st.floats(0, 1))
def test_factors_are_those_of_dense_matrices(sizes: list[int], correlation: float) -> None:
    """The expected squared sum of residuals, from the covariance of all questions (rounded as the correlation is)."""
    clusters, count, rounded = of_size(sizes), sum(sizes), round(correlation, 2)
    same = clusters[:, None] == clusters[None, :]
    covariance = np.where(same, rounded, 0.0) + (1 - rounded) * np.eye(count)
    residual = np.eye(count) - 1 / count
    member = (clusters[:, None] == np.arange(len(sizes))).astype(float)
    left = np.diag(member.T @ residual @ covariance @ residual @ member)
    expected = np.diag(member.T @ covariance @ member) / left
    assert unequal_clusters(np.array(sizes, dtype=float), correlation).factors == pytest.approx(expected)


@pytest.mark.parametrize(
    ("name", "error", "degrees"),
    [("falling", 0.12477367196450286, 10.675309279121077),
     ("five of ten", 0.12487439788665435, 17.224956063268895),
     ("two of twenty", 0.10137046572742414, 10.84031522189964)],
)  # fmt: skip
def test_errors_and_degrees_are_those_of_another_package(name: str, error: float, degrees: float) -> None:
    """StatsPAI 1.40.2: ``cr2_se(regress("y ~ 1", data), data, "cluster")`` and its ``satterthwaite_dof``.

    The degrees are also those of the closed form that clubSandwich tests its own by (test_intercept_formulas.R).
    """
    sizes = LAYOUTS[name]
    values = np.random.default_rng(0).normal(size=sum(sizes))
    found = unequal_clusters(np.array(sizes, dtype=float), 0.0)
    sums = cluster_sums((values - values.mean())[None], of_size(sizes))
    assert math.sqrt((np.square(sums) @ found.factors)[0]) / sum(sizes) == pytest.approx(error, rel=1e-12)
    assert found.degrees == pytest.approx(degrees, rel=1e-12)
    count, size = sum(sizes), np.array(sizes)
    share = size / (count - size)
    closed = count**2 / (count**2 * (share**2).sum() - 2 * count * (size * share**2).sum() + (size @ share) ** 2)
    assert degrees == pytest.approx(closed)


@pytest.mark.parametrize("correlation", [0.0, 0.3, 0.9])
def test_clusters_of_one_size_need_no_care(correlation: float) -> None:
    found = unequal_clusters(np.full(40, 3.0), correlation)
    assert found.degrees == 39
    assert found.factors.tolist() == [40 / 39] * 40


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("correlation", [0.0, 0.3])
def test_t_statistics_of_unequal_clusters_are_exceeded_as_often_as_they_say(name: str, correlation: float) -> None:
    sizes = LAYOUTS[name]
    values = scores(sizes, correlation, 20_000, seed=len(sizes))
    found = unequal_clusters(np.array(sizes, dtype=float), correlation)
    means = values.mean(axis=1)
    sums = cluster_sums(values - means[:, None], of_size(sizes))
    variances = np.square(sums) @ found.factors / sum(sizes) ** 2
    assert variances.mean() == pytest.approx(means.var(), rel=0.04)
    beyond = np.abs(means) > stats.t.ppf(0.99, found.degrees) * np.sqrt(variances)
    assert 0.012 < beyond.mean() < 0.023  # told .02; independent questions are on the safe side
    plain = np.sqrt(np.square(sums).sum(axis=1) * len(sizes) / (len(sizes) - 1)) / sum(sizes)
    assert (np.abs(means) > stats.t.ppf(0.99, len(sizes) - 1) * plain).mean() > 0.024


@pytest.mark.parametrize("name", LAYOUTS)
def test_degrees_do_not_pass_those_of_independent_questions_nor_the_effective_clusters(name: str) -> None:
    sizes = np.array(LAYOUTS[name], dtype=float)
    alone = unequal_clusters(sizes, 0.0).degrees
    assert alone < effective_clusters(sizes)
    assert all(unequal_clusters(sizes, correlation / 10).degrees <= alone for correlation in range(11))


def test_degrees_of_too_few_clusters_are_unknown() -> None:
    assert math.isnan(unequal_clusters(np.array([50.0, *[1.0] * 50]), 0.3).degrees)
    assert math.isnan(unequal_clusters(np.array([5.0]), 0.3).degrees)
    assert math.isnan(unequal_clusters(np.zeros(0), 0.0).degrees)


def test_what_compared_rows_share_counts_to_no_correlation() -> None:
    sizes = LAYOUTS["five of ten"]
    values = scores(sizes, 0.0, 1, seed=1) * 5 + scores(sizes, 0.9, 6, seed=2)
    apart, together = (cluster_scores(values, of_size(sizes), compared=flag) for flag in (False, True))
    assert together.degrees < apart.degrees


@pytest.mark.parametrize("name", LAYOUTS)
def test_the_integral_of_the_tail_is_that_of_scipy(name: str) -> None:
    kinds, counts = np.unique(np.array([[size, size] for size in LAYOUTS[name]], float), axis=0, return_counts=True)
    model = cluster_errors._Model.of(kinds, counts, 0.3)
    mean, form, apart = model.mean_and_variance()
    for value in (0.5, 2.0, 4.0):
        single = np.linalg.eigvalsh(np.outer(mean, mean) - value**2 * form)
        eigenvalues, times = np.append(single, -(value**2) * apart), np.append(np.ones(len(single)), model.counts - 1)
        eigenvalues /= np.abs(eigenvalues).max()

        def height(at: float) -> float:
            turned = eigenvalues * at  # noqa: B023
            return math.sin(0.5 * times @ np.arctan(turned)) / at * math.exp(-0.25 * times @ np.log1p(turned**2))  # noqa: B023

        expected = 0.5 + integrate.quad(height, 0, np.inf, limit=500)[0] / math.pi
        assert cluster_errors._exceeds(model, value) == pytest.approx(expected, abs=1e-6)


def power_of(matrix: np.ndarray, exponent: float) -> np.ndarray:
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray(vectors * values**exponent @ vectors.T)


def bell_mccaffrey(values: np.ndarray, sizes: list[int], correlation: float) -> tuple[float, float]:
    """CR2 of a regression on a constant, by its adjustment matrices, and Satterthwaite's degrees of freedom.

    Bell and McCaffrey, Survey Methodology 28, 2002; Pustejovsky and Tipton, JBES 36, 2018.
    """
    count, clusters = sum(sizes), of_size(sizes)
    ones, residual = np.ones(count), np.eye(count) - 1 / count
    covariance = np.where(clusters[:, None] == clusters, correlation, 0.0) + (1 - correlation) * np.eye(count)
    each = []
    for n in range(len(sizes)):
        own = clusters == n
        root = power_of(covariance[np.ix_(own, own)], 0.5)
        left = root @ residual[own] @ covariance @ residual[:, own] @ root
        adjustment = root @ power_of(left, -0.5) @ root
        each.append(residual[:, own] @ adjustment @ ones[own] / count)
    forms = np.array(each)
    spectrum = np.linalg.eigvalsh(forms @ covariance @ forms.T)
    return float(np.linalg.norm(forms @ values)), float(spectrum.sum() ** 2 / np.square(spectrum).sum())


@pytest.mark.parametrize("name", LAYOUTS)
def test_errors_and_degrees_are_those_of_adjustment_matrices(name: str) -> None:
    sizes = LAYOUTS[name]
    values = scores(sizes, 0.3, 1)
    found = cluster_scores(values, of_size(sizes))
    correlation = round(correlation_of(values, sizes), 2)
    assert correlation > 0
    assert found.errors[0] == pytest.approx(bell_mccaffrey(values[0], sizes, correlation)[0], rel=1e-9)
    independent = bell_mccaffrey(values[0], sizes, 0.0)[1]
    assert unequal_clusters(np.array(sizes, dtype=float), 0.0).degrees == pytest.approx(independent, rel=1e-9)


def test_gains_and_losses_that_cancel_in_a_cluster_have_the_error_of_independent_questions() -> None:
    """Of 24 questions in 12 clusters two differ, by +1 and -1, in one cluster: every cluster's sum is 0."""
    row, clusters = np.zeros((1, 24)), of_size([2] * 12)
    row[0, :2] = 1.0, -1.0
    data = cluster_scores(row, clusters)
    assert data.errors[0] == pytest.approx(math.sqrt((1 + 1) / 23 / 24))
    assert data.degrees == 11
    found = bound(data)
    half = stats.t.ppf(0.975, 11) * data.errors[0]
    assert (found.low[0], found.high[0]) == (pytest.approx(-half, rel=0.01), pytest.approx(half, rel=0.01))
    assert bound(data, largest=0.0).high == found.high  # of all pairs of two configs, no sum varies either
    both = bound(cluster_scores(np.concatenate([row, -row]), clusters))
    assert both.critical == pytest.approx(stats.t.ppf(1 - 0.025 / 2, 11), rel=0.01)


@given(st.integers(0, 10_000), st.booleans(), st.booleans())
def test_only_equal_scores_have_no_error_and_only_cancelled_sums_that_of_questions(
    seed: int, cancels: bool, weighted: bool
) -> None:
    generator, clusters = np.random.default_rng(seed), of_size([2] * 12)
    rows = generator.integers(-1, 2, (3, 24)).astype(float)
    rows[0] = rows[0, 0]
    rows[1:, 1::2] = -rows[1:, ::2] if cancels else rows[1:, 1::2]
    weights = np.repeat(generator.uniform(0.5, 2, 12), 2) if weighted else None
    weights = weights / weights.mean() if weights is not None else None
    scaled = rows if weights is None else rows * weights
    data, alone = cluster_scores(scaled, clusters, weights), cluster_scores(scaled, np.arange(24), weights)
    apart = cluster_sums(scaled - scaled.mean(axis=1, keepdims=True) * (1 if weights is None else weights), clusters)
    robust = np.sqrt(np.square(apart) @ data.factors) / 24
    varies = robust > 1e-9
    assert ((data.errors > 0) == (np.ptp(rows, axis=1) > 0)).all()
    assert data.errors[varies] == pytest.approx(robust[varies], rel=1e-12)
    assert data.errors[~varies].tolist() == alone.errors[~varies].tolist()
    found = bound(data, resamples=200)
    if data.enough:  # otherwise there is no interval
        assert ((found.high > found.low) == (data.errors > 0)).all()
