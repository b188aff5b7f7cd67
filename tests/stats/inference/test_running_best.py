"""Whom a config is compared with: by hand, and that nobody knows a score before it is there."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from matrices import matrices
from ragsweep.stats.inference.matrix import Matrix
from ragsweep.stats.inference.running_best import deficits, leading


def compared(values: np.ndarray, asked: list[int] | None = None, starts: list[int] | None = None) -> np.ndarray:
    configs, questions = values.shape
    return deficits(values, np.array(asked or [questions] * configs), np.array(starts or range(questions)))


def test_by_hand() -> None:
    values = np.array([[1.0, 0.0, 0.0], [0.5, 1.0, 0.0], [0.0, 0.5, 1.0]])
    found = compared(values)
    assert found[:, 0].tolist() == [
        0.25 - 1.0,
        0.5 - 0.5,
        0.75 - 0.0,
    ]  # nobody leads yet: against the mean of all others
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
    assert leading(unscored, np.array([2, 2, 2])).tolist() == [False, True, False]


def test_who_leads_now() -> None:
    values = np.array([[0.5, 0.5], [1.0, math.nan], [0.2, 0.8]])
    assert leading(values, np.array([2, 1, 2])).tolist() == [True, False, True]


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
