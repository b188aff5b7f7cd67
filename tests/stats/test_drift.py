"""Differences between requests and an evaluation: estimates are scipy's, intervals cover, and laws hold."""

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as some
from numpy.typing import NDArray
from scipy import stats

from ragsweep.stats.drift import (
    DRIFT,
    OPEN,
    ORDER,
    RATIO,
    SAME,
    SHARE,
    ClusteredSample,
    Quantity,
    compare,
    mean_interval,
    ratio,
    share_difference,
    share_interval,
    superiority,
)


def sample(values: NDArray[np.float64] | list[float], clusters: list[str] | None = None) -> ClusteredSample:
    return ClusteredSample.of(list(values), clusters or [str(n) for n in range(len(values))])


numbers = some.lists(some.integers(-5, 5).map(float), min_size=3, max_size=30)


@given(numbers, numbers)
@settings(max_examples=60)
def test_superiority_is_mann_whitneys_u_and_mirrors(one: list[float], other: list[float]) -> None:
    found = superiority(sample(one), sample(other), 0.05)
    u = stats.mannwhitneyu(one, other).statistic / (len(one) * len(other))
    least = 1 / (2 * len(one) * len(other))
    assert found.estimate == pytest.approx(min(max(u, least), 1 - least))
    mirrored = superiority(sample(other), sample(one), 0.05)
    assert (1 - mirrored.high, 1 - mirrored.low) == pytest.approx((found.low, found.high))
    assert found.low <= found.estimate <= found.high


@given(some.integers(0, 40), some.integers(1, 40))
@settings(max_examples=40)
def test_share_of_independent_questions_has_the_exact_interval(hits: int, more: int) -> None:
    values = [1.0] * hits + [0.0] * more
    found = share_interval(sample(values), 0.05)
    exact = stats.binomtest(hits, hits + more).proportion_ci(0.95, "exact")
    assert (found.low, found.high) == pytest.approx((exact.low, exact.high), abs=1e-9)


@given(some.lists(some.floats(0.1, 100), min_size=4, max_size=20), some.floats(0.2, 5))
@settings(max_examples=25)
def test_ratio_scales_with_its_numbers(values: list[float], factor: float) -> None:
    one, other = sample(values), sample([2.0, 3.0, 5.0, 7.0, 11.0])
    found, scaled = ratio(one, other, 0.05), ratio(sample([factor * value for value in values]), other, 0.05)
    assert scaled == pytest.approx([factor * one for one in found], rel=1e-6)


@example([1.0, 1.0, 1.0], [0.0, 0.0, 0.0], 2)  # six weights of one sixth add up to less than 1
@given(numbers, numbers, some.integers(2, 5))
@settings(max_examples=30)
def test_repeating_all_requests_makes_nothing_surer(now: list[float], before: list[float], times: int) -> None:
    clusters = [str(n) for n in range(len(now))]
    once, often = sample(now, clusters), sample(now * times, clusters * times)
    assert often.independent == pytest.approx(once.independent)
    other = sample(before)
    assert superiority(often, other, 0.05) == pytest.approx(superiority(once, other, 0.05))
    shares = [one._replace(values=(one.values > 0) * 1.0) for one in (once, often)]
    assert share_interval(shares[1], 0.05) == pytest.approx(share_interval(shares[0], 0.05))


@given(numbers, numbers)
@settings(max_examples=30)
def test_medians_shown_beside_a_comparison_are_the_usual_ones(now: list[float], before: list[float]) -> None:
    (found,) = compare([Quantity("x", ORDER, sample(now), sample(before), 0.1)])
    assert (found.now, found.before) == (pytest.approx(np.median(now)), pytest.approx(np.median(before)))


def test_intervals_cover_the_truth() -> None:
    draw = np.random.default_rng(4)
    missed = dict.fromkeys((SHARE, ORDER, RATIO, "mean"), 0)
    for n in range(150):
        now, before = draw.normal(0, 1, 60), draw.normal(0, 3, 40)
        found = superiority(sample(now), sample(before), 0.1)
        missed[ORDER] += not found.low <= 0.5 <= found.high
        if n < 40:  # many orders each
            found = ratio(sample(np.exp(now) * 2), sample(np.exp(draw.normal(0, 1, 40))), 0.1)
            missed[RATIO] += not found.low <= 2 <= found.high
        shares = [sample((draw.random(size) < share) * 1.0) for size, share in ((60, 0.3), (40, 0.02))]
        found = share_difference(*shares, 0.1)
        missed[SHARE] += not found.low <= 0.28 <= found.high
        found = mean_interval(sample(now), 0.1)
        missed["mean"] += not found.low <= 0 <= found.high
    assert missed.pop(RATIO) <= stats.binom.ppf(0.999, 40, 0.1)
    assert max(missed.values()) <= stats.binom.ppf(0.999, 150, 0.1), missed


def test_clusters_that_vary_as_a_whole_widen_the_interval() -> None:
    draw = np.random.default_rng(5)
    values = np.repeat(draw.normal(0, 1, 20), 10)
    clusters = [str(n // 10) for n in range(200)]
    other = sample(draw.normal(0, 1, 100))
    wide, narrow = (superiority(sample(values, one), other, 0.05) for one in (clusters, None))
    assert wide.high - wide.low > 1.4 * (narrow.high - narrow.low)


def test_verdicts_are_of_the_whole_interval_beside_the_tolerance() -> None:
    many, few = np.linspace(1, 2, 400), np.linspace(1, 2, 12)
    pairs = {
        "far": (many + 2, many), "near": (many, many), "few": (few + 0.3, few), "fewer": (few[:9] + 5, few),
    }  # fmt: skip
    quantities = [Quantity(name, ORDER, sample(now), sample(before), 0.1) for name, (now, before) in pairs.items()]
    found = {one.name: one for one in compare(quantities)}
    verdicts = {name: one.verdict for name, one in found.items()}
    assert verdicts == {"far": DRIFT, "near": SAME, "few": OPEN, "fewer": OPEN}
    assert math.isnan(found["fewer"].compared.low)
    (alone,) = compare(quantities[2:3])
    both = compare([quantities[2], quantities[0]])[0]
    assert both.compared.low < alone.compared.low  # each quantity more costs all of them some of their width


def test_nothing_is_compared_of_nothing() -> None:
    (found,) = compare([Quantity("empty", SHARE, sample([]), sample([]), 0.05)])
    assert found.verdict == OPEN
    assert math.isnan(found.now)


def test_equal_scores_of_two_machines_are_ties() -> None:
    score = 0.0327868
    found = superiority(sample([score * (1 + 1e-8)] * 30), sample([score] * 30), 0.05)
    assert found.estimate == pytest.approx(0.5)
