"""The verdict on a pair: every kind by hand, and its laws."""

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from ragsweep.stats.inference.differences import all_pairs, compare_with_baseline
from ragsweep.stats.inference.estimates import Differences
from ragsweep.stats.inference.matrix import Matrix
from ragsweep.stats.inference.shrinkage import posterior
from ragsweep.stats.verdict import Kind, PairVerdict, pair_verdict, shown_kind
from support.matrices import matrices, matrix, turned

SIDES = ("shown better", "likely better", "likely worse", "shown worse")
MIRRORED = dict(zip(SIDES, SIDES[::-1], strict=True)) | {kind: kind for kind in ("the same", "equal", "open")}


@dataclass(frozen=True)
class Believed:
    """Beliefs of two configs, the second of which is better with a given probability."""

    probability: float

    @property
    def means(self) -> NDArray[np.float64]:
        return np.zeros(2)

    def probability_better(self, row: int, other: int) -> float:
        return self.probability if row > other else 1 - self.probability

    def expected_loss(self, row: int, other: int) -> float:
        return 0.0


BASE = compare_with_baseline(matrix(np.random.default_rng(0).random((2, 40))), 0, resamples=200)


def bounded(low: float, high: float, p: float = 0.001, higher_is_better: bool = True) -> Differences:
    """Return the differences of two configs whose interval and p-values are these."""
    ends = {"low": low, "high": high, "estimate": (low + high) / 2, "wilcoxon": p, "randomisation": p}
    arrays = {name: np.array([0.0, value]) for name, value in ends.items()}
    return replace(BASE, **arrays, higher_is_better=higher_is_better)


@pytest.mark.parametrize(
    ("interval", "p", "probability", "expected"),
    [
        ((0.01, 0.03), 0.001, 0.99, "shown better"),
        ((0.01, 0.03), 0.001, 0.85, "shown better"),  # what is shown, is not only likely
        ((0.01, 0.03), 0.2, 0.85, "likely better"),  # the exact tests do not confirm it
        ((-0.01, 0.09), 0.2, 0.91, "likely better"),
        ((-0.01, 0.03), 0.2, 0.91, "likely better"),  # inside the margin as well
        ((-0.01, 0.03), 0.2, 0.9, "equal"),
        ((-0.05, 0.05), 0.2, 0.5, "equal"),
        ((-0.03, 0.01), 0.2, 0.1, "equal"),
        ((-0.01, 0.09), 0.2, 0.9, "open"),
        ((-0.09, 0.01), 0.2, 0.1, "open"),
        ((-0.051, 0.05), 0.2, 0.5, "open"),
        ((-0.09, 0.01), 0.2, 0.09, "likely worse"),
        ((-0.03, -0.01), 0.2, 0.15, "likely worse"),
        ((-0.03, -0.01), 0.001, 0.01, "shown worse"),
        ((math.nan, math.nan), 0.001, math.nan, "open"),
    ],
)
def test_kind_of_a_verdict(interval: tuple[float, float], p: float, probability: float, expected: Kind) -> None:
    low, high = interval
    found = pair_verdict(bounded(low, high, p), 1, Believed(probability), 0.05)
    assert found.kind == expected
    assert found.probability == pytest.approx(probability, nan_ok=True)
    assert math.isnan(found.within) == (expected != "equal")
    assert found.is_better == (expected in ("shown better", "likely better"))
    less = pair_verdict(bounded(-high, -low, p, higher_is_better=False), 1, Believed(probability), 0.05)
    assert less.kind == expected
    mirrored = pair_verdict(bounded(-high, -low, p), 1, Believed(1 - probability), 0.05)
    assert mirrored.kind == MIRRORED[expected]


def test_the_width_of_equal_is_the_farther_end_of_the_interval() -> None:
    assert pair_verdict(bounded(-0.01, 0.03, 0.2), 1, Believed(0.8), 0.05).within == 0.03
    assert pair_verdict(bounded(-0.04, 0.03, 0.2), 1, Believed(0.8), 0.05).within == 0.04


def test_equal_scores_on_every_question_are_the_same_config() -> None:
    same = replace(bounded(0.0, 0.0, 1.0), apart=np.array([0, 0]))
    assert pair_verdict(same, 1, Believed(0.5), 0.05) == PairVerdict("the same", 0.5)
    assert pair_verdict(same, 1, Believed(0.5), 0.0).kind == "the same"


def test_an_interval_alone_decides_on_a_slice() -> None:
    cases = {(True, False, False): "shown better", (False, True, False): "shown worse",
             (False, False, True): "the same", (False, False, False): "open"}  # fmt: skip
    for given_flags, kind in cases.items():
        assert shown_kind(*given_flags) == kind


ENDS = st.floats(-0.2, 0.2)


@given(ENDS, ENDS, st.floats(0, 1), st.floats(0, 1), st.floats(0, 0.1), st.booleans())
def test_open_is_an_interval_that_holds_0_and_reaches_beyond_the_margin(
    one: float, other: float, p: float, probability: float, margin: float, higher: bool
) -> None:
    low, high = sorted((one, other))
    found = pair_verdict(bounded(low, high, p, higher), 1, Believed(probability), margin)
    if found.kind == "open":
        assert low <= 0 <= high
        assert max(-low, high) > margin
        assert 0.1 <= probability <= 0.9
    if found.kind == "equal":
        assert low <= 0 <= high
        assert max(-low, high) <= margin
    if low > 0 or high < 0:
        assert found.is_better == ((low > 0) == higher) or (probability > 0.9 or probability < 0.1)


def verdict(one: Matrix, first: int, second: int, largest: float) -> PairVerdict:
    """Return the verdict on the second config against the first, all pairs of the matrix together."""
    found = compare_with_baseline(one, first, resamples=200, largest=largest)
    return pair_verdict(found, second, posterior(one), 0.05)


@settings(max_examples=40)
@given(matrices(), st.booleans())
def test_exchanging_two_configs_mirrors_the_verdict(one: Matrix, less: bool) -> None:
    one = turned(one) if less else one
    largest = all_pairs(one, resamples=200).largest
    for first in range(len(one.values)):
        for second in range(len(one.values)):
            found, back = verdict(one, first, second, largest), verdict(one, second, first, largest)
            assert back.kind == MIRRORED[found.kind]
            assert back.probability == pytest.approx(1 - found.probability, nan_ok=True)
            assert back.within == pytest.approx(found.within, nan_ok=True)
            equal = (one.values[first] == one.values[second]).all()
            assert (found.kind == "the same") == equal


@settings(max_examples=40)
@given(matrices())
def test_configs_with_equal_scores_have_equal_verdicts(one: Matrix) -> None:
    one = one.select_configs([*range(len(one.values)), 1])
    largest = all_pairs(one, resamples=200).largest
    for other in range(len(one.values)):
        assert verdict(one, other, 1, largest)[:2] == pytest.approx(
            verdict(one, other, len(one.values) - 1, largest)[:2]
        )
