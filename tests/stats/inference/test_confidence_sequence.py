"""Capitals that may be looked at at any time: by hand, by their definition, and how often they deceive."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import ArrayLike

from ragsweep.stats.inference.confidence_sequence import (
    betting,
    cluster_differences,
    current_leaders,
    deficits,
    evidence,
    lower_bound,
)
from ragsweep.stats.inference.matrix import Matrix
from support.matrices import matrices

DIFFERENCES = st.lists(st.integers(-8, 8).map(lambda eighths: eighths / 8), min_size=1, max_size=40)


def p_values(capital: np.ndarray) -> np.ndarray:
    """P-values that hold at every look: 1 over the largest capital so far."""
    return np.exp(-evidence(capital))


def single(differences: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """One row, or several, in which every question is a cluster."""
    rows = np.atleast_2d(np.array(differences, dtype=np.float64))
    return cluster_differences(rows, np.arange(rows.shape[1]))


def test_capital_by_hand() -> None:
    assert np.exp(betting(*single([0.5]))) == pytest.approx((1.15 + 1.3 + 1.45) / 3)
    assert np.exp(betting(*single([0.5, -1.0]))[0, 1]) == pytest.approx((1.15 * 0.7 + 1.3 * 0.4 + 1.45 * 0.1) / 3)
    assert np.exp(betting(*single([0.5]), margin=0.2)) == pytest.approx((1.075 + 1.15 + 1.225) / 3)
    assert betting(*single([5.0, -20.0]), spread=20.0) == pytest.approx(betting(*single([0.25, -1.0])))


def test_a_cluster_is_one_bet_that_cannot_lose_more_than_nine_tenths() -> None:
    """Two questions, .4 and .6: with .3 each its sum counts whole, with .6 and .9 it is .45 each."""
    sums, sizes = cluster_differences(np.array([[0.4, 0.6, -1.0, -1.0]]), np.array([0, 0, 1, 1]))
    assert sums.tolist() == [[1.0, -2.0]]
    assert sizes.tolist() == [[2.0, 2.0]]
    first, second = np.exp(betting(sums, sizes))[0]
    assert first == pytest.approx((1.3 + 1.45 + 1.45) / 3)
    assert second == pytest.approx((1.3 * 0.4 + 1.45 * 0.1 + 1.45 * 0.1) / 3)
    assert np.exp(betting(sums, sizes, margin=0.25))[0, 0] == pytest.approx((1.12 + 1.18 + 1.18) / 3)  # .5 / 1.25 = .4


NULLS: dict[str, Callable[[np.random.Generator], np.ndarray]] = {
    "all or nothing": lambda generator: generator.choice([-1.0, 1.0], (2000, 150)),
    "mostly equal": lambda generator: generator.choice([-1.0, 0, 0, 0, 0, 0, 0, 0, 0, 1.0], (2000, 150)),
    "rare large wins": lambda generator: np.where(generator.random((2000, 150)) < 1 / 21, 1.0, -0.05),
    "rare large losses": lambda generator: np.where(generator.random((2000, 150)) < 1 / 21, -1.0, 0.05),
    "even": lambda generator: generator.uniform(-0.4, 0.4, (2000, 150)),
}


@pytest.mark.parametrize("name", NULLS)
def test_who_is_not_better_is_hardly_ever_shown_to_be(name: str) -> None:
    """Looked at after each of 150 questions, in 2,000 cases: at most 5 %, and three Monte Carlo errors (.5 % each)."""
    drawn = single(NULLS[name](np.random.default_rng([ord(letter) for letter in name])))
    assert (p_values(betting(*drawn))[:, -1] <= 0.05).mean() <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 2000)
    final = np.exp(betting(*drawn)[:, [0, 9, 49]])
    assert (final.mean(axis=0) <= 1 + 3 * final.std(axis=0) / math.sqrt(2000)).all()


def test_clusters_that_move_as_one_deceive_no_more_often() -> None:
    """100 sources of three questions with the same difference: taken one by one, 8 % and more would be deceived."""
    rows = np.repeat(np.random.default_rng(4).choice([-1.0, 1.0], (2000, 100)), 3, axis=1)
    sources = np.repeat(np.arange(100), 3)
    assert (p_values(betting(*cluster_differences(rows, sources)))[:, -1] <= 0.05).mean() <= 0.05 + 0.015
    assert (p_values(betting(*single(rows)))[:, -1] <= 0.05).mean() > 0.08


def test_who_is_better_is_found_sooner_or_later() -> None:
    drawn = single(np.random.default_rng(0).normal(0.1, 0.25, (200, 600)).clip(-1, 1))
    found = p_values(betting(*drawn)) <= 0.05
    assert found[:, -1].all()
    assert found.argmax(axis=1).mean() < 90


@given(DIFFERENCES, st.integers(0, 99), st.sampled_from([0.0, 0.2]))
def test_the_order_of_questions_means_nothing_to_fixed_stakes(values: list[float], seed: int, margin: float) -> None:
    moved = np.random.default_rng(seed).permutation(values)
    final = betting(*single(moved), margin=margin)[0, -1]
    assert final == pytest.approx(betting(*single(values), margin=margin)[0, -1], abs=1e-9)


@given(DIFFERENCES, st.data())
def test_a_larger_difference_is_never_weaker_evidence(values: list[float], data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(values) - 1))
    raised = [min(value + (number == place) * 0.25, 1.0) for number, value in enumerate(values)]
    low, high = betting(*single([values, raised]))
    assert (high >= low - 1e-12).all()
    assert (betting(*single(values), margin=0.1) <= low + 1e-12).all()


@given(DIFFERENCES)
def test_evidence_is_never_taken_back(values: list[float]) -> None:
    capital = betting(*single(values))
    assert (np.diff(evidence(capital)) >= 0).all()
    assert (evidence(capital) >= np.maximum(capital, 0)).all()


@given(DIFFERENCES)
def test_what_was_not_scored_says_nothing(values: list[float]) -> None:
    held = [*values[:1], math.nan, *values[1:], math.nan]
    assert betting(*single(held))[0, -1] == pytest.approx(betting(*single(values))[0, -1])
    assert betting(*single([math.nan, math.nan])) == pytest.approx(0)
    assert betting(*single(np.zeros(50))) == pytest.approx(0)


@given(DIFFERENCES)
def test_a_bound_is_the_largest_margin_that_was_refused(values: list[float]) -> None:
    drawn = single([values, np.roll(values, 1).tolist()])
    for row, bound in enumerate(lower_bound(*drawn)):
        one = (drawn[0][[row]], drawn[1][[row]])
        assert betting(*one, margin=bound + 1e-6).max() < math.log(20)
        assert bound == -1 or betting(*one, margin=bound - 1e-6).max() >= math.log(20)


def test_bounds_hold_at_every_look_together() -> None:
    """The largest bound of 200 looks lies above the mean in at most 5 % of 500 cases and three errors (1 % each)."""
    drawn = single(np.random.default_rng(1).choice([-1.0, 0.0, 0.0, 0.5], (500, 200)))
    assert (lower_bound(*drawn) > -0.125).mean() <= 0.05 + 0.03
    assert lower_bound(*single(np.full(300, 0.3)))[0] == pytest.approx(0.3, abs=0.02)
    assert lower_bound(np.zeros((0, 4)), np.zeros((0, 4))).tolist() == []


def compared(values: np.ndarray, asked: list[int] | None = None, starts: list[int] | None = None) -> np.ndarray:
    configs, questions = values.shape
    return deficits(values, np.array(asked or [questions] * configs), np.array(starts or range(questions)))


def test_deficits_by_hand() -> None:
    values = np.array([[1.0, 0.0, 0.0], [0.5, 1.0, 0.0], [0.0, 0.5, 1.0]])
    found = compared(values)
    assert found[:, 0].tolist() == [-0.75, 0.0, 0.75]  # nobody leads yet: against the mean of all others
    assert found[:, 1].tolist() == [1.0 - 0.0, 0.0 - 1.0, 0.0 - 0.5]  # the first leads; it is compared with the second
    assert found[:, 2].tolist() == [0.0 - 0.0, 0.0 - 0.0, 0.0 - 1.0]  # the second leads; it is compared with the first


def test_those_that_tie_lead_together() -> None:
    values = np.array([[1.0, 0.2], [1.0, 0.4], [1.0, 0.9], [0.0, 0.0]])
    assert compared(values)[:, 1] == pytest.approx([0.65 - 0.2, 0.55 - 0.4, 0.3 - 0.9, 0.5 - 0.0])


def test_who_was_dropped_leads_no_more() -> None:
    values = np.array([[1.0, math.nan], [0.6, 0.0], [0.5, 0.3]])
    found = compared(values, asked=[1, 2, 2])
    assert math.isnan(found[0, 1])
    assert found[1:, 1] == pytest.approx([0.3, -0.3])


def test_within_a_cluster_the_leader_stays() -> None:
    values = np.array([[0.0, 1.0, 0.5], [0.5, 0.0, 0.5], [0.4, 0.0, 1.0]])
    assert compared(values)[2, 2] == pytest.approx(0.5 - 1.0)  # .5 is the leader's, who won the question before
    assert compared(np.array([[0.0, 1.0, 0.2], [0.5, 0.0, 0.5], [0.4, 0.0, 1.0]]), starts=[0, 1, 1])[2, 2] == -0.5


def test_alone_or_unscored_there_is_nothing_to_compare() -> None:
    assert np.isnan(compared(np.ones((1, 3)))).all()
    unscored = np.array([[math.nan, math.nan], [0.2, 0.4], [0.1, 0.1]])
    found = compared(unscored)
    assert np.isnan(found[0]).all()
    assert np.isnan(found[:, 0]).all()  # nobody leads yet, and of one of all the score is missing
    assert found[1:, 1] == pytest.approx([-0.3, 0.3])  # a config without scores does not lead
    assert current_leaders(unscored, np.array([2, 2, 2])).tolist() == [False, True, False]
    dropped = np.array([[0.5, 0.5], [1.0, math.nan], [0.2, 0.8]])
    assert current_leaders(dropped, np.array([2, 1, 2])).tolist() == [True, False, True]


@given(matrices(), st.integers(0, 99), st.data())
def test_no_leader_knows_what_comes(one: Matrix, seed: int, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, one.values.shape[1]))
    other = one.values.copy()
    other[:, place:] = np.random.default_rng(seed).random(other[:, place:].shape)
    assert compared(one.values)[:, :place] == pytest.approx(compared(other)[:, :place])


@given(matrices(), st.integers(0, 99))
def test_the_order_of_configs_means_nothing_and_twins_fare_alike(one: Matrix, seed: int) -> None:
    rows = np.random.default_rng(seed).permutation(len(one.values))
    assert compared(one.values[rows]) == pytest.approx(compared(one.values)[rows])
    doubled = compared(np.concatenate([one.values, one.values[:1]]))
    assert doubled[-1] == pytest.approx(doubled[0])
