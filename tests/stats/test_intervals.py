"""Intervals cover the true value, agree with scipy, and are the same to the last bit."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import stats

from ragsweep.stats import intervals
from ragsweep.stats.intervals import FEWEST, means_with_intervals, quantile, quantile_interval

NONE = np.array([np.nan])


def interval(values: list[float], lowest: float = 0.0, highest: float = 1.0) -> tuple[float, float]:
    _, low, high = means_with_intervals(np.array(values)[None, :], np.array([lowest]), np.array([highest]))
    return float(low[0]), float(high[0])


def test_interval_covers_the_true_mean_nineteen_times_in_twenty() -> None:
    generator = np.random.default_rng(1)
    samples = generator.beta(2, 3, size=(120, 600))  # each column is one sample of 120 questions
    _, low, high = means_with_intervals(samples.T, np.full(600, np.nan), np.full(600, np.nan))
    assert np.mean((low <= 0.4) & (high >= 0.4)) == pytest.approx(0.95, abs=0.03)


def test_perfect_scores_are_not_certainty() -> None:
    assert interval([1.0] * 20) == (pytest.approx(stats.binomtest(20, 20).proportion_ci(0.95, "exact").low), 1.0)
    assert interval([0.0] * 50) == (0.0, pytest.approx(stats.binomtest(0, 50).proportion_ci(0.95, "exact").high))


@given(st.lists(st.tuples(st.floats(0, 1), st.sampled_from([0.0, 0.1, 1.0])), min_size=12, max_size=12))
@example([(0.3, 0.0)] + [(0.0, 0.0)] * 11)
@example([(1.0, 1.0)] * 11 + [(0.5, 1.0)])
def test_higher_scores_have_no_lower_end(pairs: list[tuple[float, float]]) -> None:
    """Twelve scores of 0 have the interval [0, .26], so with one score of .3 the upper end is not .1."""
    scores, share = np.array(pairs).T
    lower, higher = interval((scores * share).tolist()), interval(scores.tolist())
    assert lower[0] <= higher[0]
    assert lower[1] <= higher[1]


def test_missing_scores_are_not_zeros() -> None:
    values = list(np.random.default_rng(2).uniform(0.4, 0.6, size=100))
    low, high = interval([*values, *[float("nan")] * 100])
    assert 0.45 < low < np.mean(values) < high < 0.55


def test_intervals_without_scores_are_nan() -> None:
    assert np.isnan(interval([float("nan")] * 5)).all()
    assert np.isnan(quantile_interval(np.array([]), 0.95)).all()


@pytest.mark.parametrize(
    ("quantile", "scores"), [(0.5, 6), (0.5, 200), (0.95, 59), (0.95, 60), (0.95, 200), (0.99, 299)]
)
def test_quantile_interval_covers_the_true_quantile(quantile: float, scores: int) -> None:
    generator = np.random.default_rng(4)
    bounds = [quantile_interval(generator.uniform(size=scores), quantile) for _ in range(4000)]
    assert np.mean([low <= quantile <= high for _, low, high in bounds]) >= 0.943  # .95 less two Monte-Carlo errors


@given(st.integers(1, 2000), st.sampled_from([0.5, 0.9, 0.95, 0.99, 0.999]) | st.floats(0.001, 0.999))
@example(2, 0.99)
def test_quantile_lies_within_its_interval_which_has_at_least_its_level(count: int, share: float) -> None:
    scores = np.arange(count, dtype=np.float64)
    value, low, high = quantile_interval(scores, share)
    enough = share**count + (1 - share) ** count <= 0.05
    assert value == quantile(scores, share)
    assert not low > value
    assert not high < value
    if not enough:
        assert np.isnan([low, high]).any()
        assert np.isnan(low) or stats.binom.cdf(low, count, share) <= 0.025 + 1e-9
        assert np.isnan(high) or stats.binom.sf(high, count, share) <= 0.025 + 1e-9
    else:
        assert low <= value <= high
        covered = stats.binom.cdf(high, count, share) - stats.binom.cdf(low, count, share)
        assert covered >= 0.95 - 1e-9


@given(st.lists(st.tuples(st.floats(0, 1e6), st.floats(0.1, 10)), min_size=1, max_size=120), st.floats(0.01, 0.99))
def test_weighted_quantile_lies_within_its_interval(pairs: list[tuple[float, float]], share: float) -> None:
    scores, weights = np.array(pairs).T
    value, low, high = quantile_interval(scores, share, weights)
    assert np.isnan([low, high]).all() or low <= value <= high
    if len(pairs) == 1:
        assert np.isnan([low, high]).all()


def plain(
    values: np.ndarray, weights: np.ndarray | None = None, clusters: np.ndarray | None = None
) -> tuple[float, float]:
    """Return the expanded percentile bootstrap of whole clusters in its simplest form."""
    generator = np.random.default_rng(20260101)
    weights = np.ones(len(values)) if weights is None else weights
    clusters = np.arange(len(values)) if clusters is None else clusters
    members = [(clusters == name) & ~np.isnan(values) for name in np.unique(clusters)]
    sums = np.array([(weights[here] * values[here]).sum() for here in members])
    sizes = np.array([weights[here].sum() for here in members])
    counts = generator.multinomial(len(sizes), np.full(len(sizes), 1 / len(sizes)), size=intervals.RESAMPLES)
    with np.errstate(invalid="ignore"):
        means = np.sort((counts @ sums) / (counts @ sizes))
    effective = sizes.sum() ** 2 / np.square(sizes).sum()
    widest = stats.t.ppf(0.975, effective - 1) * np.sqrt(effective / (effective - 1))
    last = np.count_nonzero(~np.isnan(means)) - 1
    tail = stats.norm.sf(widest) * last
    return means[int(np.floor(tail))], means[int(np.ceil(last - tail))]


COLUMN = st.lists(st.floats(0, 1) | st.just(np.nan) | st.floats(-1e6, 1e6), min_size=12, max_size=12)


@given(st.lists(COLUMN, min_size=1, max_size=4))
def test_interval_is_that_of_the_plain_bootstrap_to_twelve_digits(columns: list[list[float]]) -> None:
    rows = np.array(columns)
    unbounded = np.full(len(rows), np.nan)
    mean, low, high = means_with_intervals(rows, unbounded, unbounded)
    for n, row in enumerate(rows):
        if np.isnan(row).all():
            assert np.isnan([mean[n], low[n], high[n]]).all()
            continue
        scale = np.nanmax(np.abs(row))
        assert mean[n] == row[~np.isnan(row)].mean()
        if (~np.isnan(row)).sum() >= FEWEST:
            assert (low[n], high[n]) == pytest.approx(plain(row), rel=0, abs=1e-12 * scale)


@pytest.mark.parametrize("questions", range(2, FEWEST))
def test_few_scores_have_the_interval_of_student(questions: int) -> None:
    scores = np.random.default_rng(questions).random(questions)
    expected = stats.t.interval(0.95, questions - 1, scores.mean(), stats.sem(scores))
    _, low, high = means_with_intervals(scores[None, :], np.array([np.nan]), np.array([np.nan]))
    assert (low[0], high[0]) == pytest.approx(expected, abs=1e-3)
    _, low, high = means_with_intervals(scores[None, :], np.array([0.0]), np.array([1.0]))
    width = 1 - 0.025 ** (1 / questions)  # of the interval of scores that are all 0, or all 1
    ends = max(min(expected[0], 1 - width), 0.0), min(max(expected[1], width), 1.0)
    assert (low[0], high[0]) == pytest.approx(ends, abs=1e-3)


def test_few_scores_that_do_not_vary_have_no_interval() -> None:
    """Three scores of .63 give no spread; at a bound there is an exact interval."""
    bounds = np.array([0.0]), np.array([1.0])
    for scores in ([0.63] * 3, [0.63]):
        mean, low, high = means_with_intervals(np.array([scores]), *bounds)
        assert mean[0] == 0.63
        assert np.isnan([low[0], high[0]]).all()
    _, low, high = means_with_intervals(np.ones((1, 3)), *bounds)
    assert (low[0], high[0]) == (pytest.approx(0.025 ** (1 / 3)), 1.0)


@pytest.mark.parametrize("questions", [60, 400])
def test_interval_of_any_number_of_questions_is_that_of_the_plain_bootstrap(questions: int) -> None:
    rows = np.random.default_rng(questions).random((12, questions))
    rows[::3, ::5] = np.nan
    unbounded = np.full(len(rows), np.nan)
    _, low, high = means_with_intervals(rows, unbounded, unbounded)
    for n in (0, 1, 7, 11):
        assert (low[n], high[n]) == pytest.approx(plain(rows[n]), rel=0, abs=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
def test_clusters_are_resampled_as_a_whole(weighted: bool) -> None:
    generator = np.random.default_rng(5)
    clusters = generator.integers(0, 40, 150)
    weights = generator.gamma(2, 1, 150) if weighted else None
    for share in (0.0, 0.3):
        scores = generator.random(150)
        scores[generator.random(150) < share] = np.nan
        _, low, high = means_with_intervals(scores[None, :], NONE, NONE, weights, clusters)
        assert (low[0], high[0]) == pytest.approx(plain(scores, weights, clusters), rel=0, abs=1e-12)


def correlated(generator: np.random.Generator, clusters: int, size: int, correlation: float) -> np.ndarray:
    """Draw normal scores of mean 0 with this correlation between the scores of a cluster."""
    shared = np.repeat(generator.normal(size=clusters), size) * np.sqrt(correlation)
    return shared + generator.normal(size=clusters * size) * np.sqrt(1 - correlation)


@pytest.mark.parametrize(("clusters", "size", "correlation"), [(60, 5, 0.0), (60, 5, 0.4), (12, 10, 0.4), (10, 1, 0.0)])
def test_interval_covers_the_true_mean_whether_or_not_scores_of_a_cluster_correlate(
    clusters: int, size: int, correlation: float
) -> None:
    samples = np.stack([correlated(np.random.default_rng(n), clusters, size, correlation) for n in range(600)])
    unbounded, groups = np.full(600, np.nan), np.repeat(np.arange(clusters), size)
    _, low, high = means_with_intervals(samples, unbounded, unbounded, None, groups)
    assert np.mean((low <= 0) & (high >= 0)) == pytest.approx(0.95, abs=0.02)


@pytest.mark.parametrize("questions", [30, 6])
def test_clusters_of_one_question_are_none(questions: int) -> None:
    scores, names = np.random.default_rng(0).random((2, questions)), np.arange(questions)[::-1]
    plainly = means_with_intervals(scores, np.zeros(2), np.ones(2))
    np.testing.assert_array_equal(means_with_intervals(scores, np.zeros(2), np.ones(2), None, names), plainly)


def test_few_clusters_have_the_interval_of_student_for_their_means() -> None:
    scores, clusters = np.random.default_rng(3).random(24), np.repeat(np.arange(6), 4)
    means = scores.reshape(6, 4).mean(axis=1)
    _, low, high = means_with_intervals(scores[None, :], NONE, NONE, None, clusters)
    assert (low[0], high[0]) == pytest.approx(stats.t.interval(0.95, 5, means.mean(), stats.sem(means)))
    _, low, high = means_with_intervals(scores[None, :], NONE, NONE, None, np.zeros(24, dtype=np.int64))
    assert np.isnan([low[0], high[0]]).all()


@pytest.mark.parametrize("clusters", [4, 20])
def test_equal_means_of_all_clusters_are_not_certainty(clusters: int) -> None:
    scores, groups = np.tile([1.0, 0.0], clusters), np.repeat(np.arange(clusters), 2)
    _, low, high = means_with_intervals(scores[None, :], np.zeros(1), np.ones(1), None, groups)
    assert (low[0], high[0]) == interval(scores.tolist())
    assert low[0] < 0.4 < 0.6 < high[0]


def test_perfect_scores_count_once_a_cluster() -> None:
    _, low, high = means_with_intervals(np.ones((1, 60)), np.zeros(1), np.ones(1), None, np.repeat(np.arange(20), 3))
    assert (low[0], high[0]) == interval([1.0] * 20)


@given(st.lists(COLUMN, min_size=2, max_size=4))
def test_interval_is_the_same_to_the_last_bit_beside_other_metrics(columns: list[list[float]]) -> None:
    rows = np.array(columns)
    unbounded = np.full(len(rows), np.nan)
    together = np.stack(means_with_intervals(rows, unbounded, unbounded), axis=1)
    np.testing.assert_array_equal(np.stack(means_with_intervals(rows, unbounded, unbounded), axis=1), together)
    for n in range(len(rows)):
        alone = np.stack(means_with_intervals(rows[n : n + 1], NONE, NONE), axis=1)
        np.testing.assert_array_equal(alone[0], together[n])


def test_infinite_score_neither_fails_nor_touches_the_other_metrics() -> None:
    scores = np.stack([[1.0, np.inf, 0.0, 2.0], [0.1, 0.2, 0.3, 0.4]], axis=1)
    _, low, high = means_with_intervals(scores.T, np.full(2, np.nan), np.full(2, np.nan))
    assert not np.isfinite(high[0])
    assert (low[1], high[1]) == interval([0.1, 0.2, 0.3, 0.4], np.nan, np.nan)


@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=60), st.sampled_from([0.5, 0.95, 0.99]) | st.floats(0, 1))
def test_quantile_is_numpys(values: list[float], share: float) -> None:
    assert quantile(np.sort(values), share) == np.quantile(values, share)
