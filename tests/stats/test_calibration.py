"""Judges against people: agreement as sklearn and scipy compute it, and the coverage of intervals."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest
from sklearn.metrics import cohen_kappa_score

from ragsweep.stats.calibration import Confusion, Share, confusion, corrected_share, kappa, kappa_interval, noise


@pytest.mark.parametrize(("hits", "n"), [(0, 1), (1, 1), (0, 30), (30, 30), (7, 30), (499, 500)])
def test_wilson_is_that_of_scipy(hits: int, n: int) -> None:
    expected = binomtest(hits, n).proportion_ci(method="wilson")
    assert Share(hits, n).interval == pytest.approx((hits / n, expected.low, expected.high), abs=1e-12)
    assert all(math.isnan(value) for value in Share(0, 0).interval)


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=2, max_size=60))
def test_kappa_is_that_of_sklearn(pairs: list[tuple[int, int]]) -> None:
    one, other = map(np.array, zip(*pairs, strict=True))
    if len({*one, *other}) == 1:
        assert math.isnan(kappa(one, other))
        return
    for ours, theirs in (("none", None), ("linear", "linear"), ("quadratic", "quadratic")):
        expected = cohen_kappa_score(one, other, labels=range(5), weights=theirs)
        assert kappa(one, other, ours) == pytest.approx(expected, abs=1e-9, nan_ok=True)


def test_kappa_lies_within_its_interval() -> None:
    chance = np.random.default_rng(3)
    one = chance.random(80) < 0.5
    other = one ^ (chance.random(80) < 0.2)
    value, low, high = kappa_interval(one, other, "none")
    assert low < value < high
    assert math.isnan(kappa_interval(one[:9], other[:9], "none").low)


def test_rater_with_one_value_has_a_kappa_of_0_and_no_bounds() -> None:
    people = np.arange(20) % 3 == 0
    for pair in ((np.zeros(20, dtype=bool), people), (people, np.ones(20, dtype=bool))):
        found = kappa_interval(*pair, "none")
        assert (found.value, math.isnan(found.low), math.isnan(found.high)) == (0, True, True)


def test_sensitivity_is_of_what_people_pass_and_specificity_of_what_they_fail() -> None:
    counts = confusion([True, True, False, False, True], [True, True, True, False, False])
    assert counts == Confusion(Share(2, 3), Share(1, 2))


def test_correction_by_hand() -> None:
    # 60 of 100 pass; the judge finds 90 % of the right and passes 20 % of the wrong: (.6 - .2) / (.9 - .2)
    value, low, high = corrected_share(Share(60, 100), Confusion(Share(45, 50), Share(40, 50)))
    assert value == pytest.approx(0.4 / 0.7)
    assert low < value < high
    # a perfect judge needs no correction
    value, low, high = corrected_share(Share(300, 1000), Confusion(Share(10**6, 10**6), Share(10**6, 10**6)))
    assert value == pytest.approx(0.3)
    assert (low, high) == pytest.approx(Share(300, 1000).interval[1:], abs=1e-3)


@pytest.mark.parametrize(
    ("passed", "errors"),
    [
        (Share(0, 0), Confusion(Share(5, 10), Share(9, 10))),
        (Share(5, 10), Confusion(Share(0, 0), Share(9, 10))),
        (Share(5, 10), Confusion(Share(5, 10), Share(0, 0))),
        (Share(5, 10), Confusion(Share(5, 10), Share(5, 10))),  # no better than chance
        (Share(5, 10), Confusion(Share(1, 10), Share(2, 10))),
    ],
)
def test_what_cannot_be_corrected_is_nan(passed: Share, errors: Confusion) -> None:
    assert all(math.isnan(value) for value in corrected_share(passed, errors))


@pytest.mark.parametrize(
    ("truth", "sensitivity", "specificity", "labels"),
    [(0.7, 0.9, 0.8, 60), (0.3, 0.8, 0.9, 60), (0.5, 0.7, 0.7, 100), (0.9, 0.95, 0.6, 100), (0.6, 1.0, 1.0, 60)],
)
def test_corrected_share_covers_truth(truth: float, sensitivity: float, specificity: float, labels: int) -> None:
    chance, covered, judged_covered, trials = np.random.default_rng(7), 0, 0, 1000
    for _ in range(trials):
        right = int(chance.binomial(labels, truth))
        errors = Confusion(
            Share(int(chance.binomial(right, sensitivity)), right),
            Share(int(chance.binomial(labels - right, specificity)), labels - right),
        )
        passed = Share(int(chance.binomial(500, truth * sensitivity + (1 - truth) * (1 - specificity))), 500)
        _, low, high = corrected_share(passed, errors)
        covered += math.isnan(low) or low <= truth <= high
        judged_covered += passed.interval.low <= truth <= passed.interval.high
    assert covered / trials >= 0.93
    if sensitivity < 1 and abs(truth * sensitivity + (1 - truth) * (1 - specificity) - truth) > 0.05:
        assert judged_covered / trials < 0.8  # the plain interval ignores the judge's errors


def test_the_noise_floor_is_the_spread_of_the_differences() -> None:
    measured = noise([0.5, 1.0, math.nan, 0.0], [0.5, 0.5, 1.0, 0.5])
    assert measured == pytest.approx((3, 0, 0.5, 0.5 / 2**0.5, 1.959964 * 0.5 / 3**0.5, 2 / 3))
    assert math.isnan(noise([1.0], [1.0]).spread)
    assert noise([0.5, 1.0], [0.5, 1.0]).spread == 0
