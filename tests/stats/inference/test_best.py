"""The highest mean, and how much of its lead is luck."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from ragsweep.stats.inference.best import selection_bias, winner
from ragsweep.stats.inference.matrix import Matrix
from support.matrices import matrices, matrix, normal, turned


def test_the_winner_is_the_first_of_those_that_tie() -> None:
    assert winner(matrix([[0.1, 0.2], [0.3, 0.0], [0.0, 0.3]])) == 0
    assert winner(matrix([[0.1, 0.2], [0.4, 0.0]], higher_is_better=False)) == 0
    assert winner(matrix([[0.1, 0.2], [0.4, 0.0]])) == 1


def test_luck_by_hand() -> None:
    """Ten questions, each a fold: without question 0 the second config leads, and on question 0 it is worse by 1."""
    first, second = [1.0] + [0.0] * 9, [0.0] + [0.1] * 9
    one = matrix([first, second, [-1.0] * 10])  # the third never leads
    # Of all: .1 and .09. Without question 0: 0 and .1, and the second has 0 there. Without another: 1/9 and .8/9.
    gaps = [0.1 - 0.0] + [1 / 9 - 0.0] * 9
    found = selection_bias(one)
    assert found.winner == 0
    assert found.observed == pytest.approx(0.1)
    assert found.optimism == pytest.approx(np.mean(gaps) * math.sqrt(0.9))
    assert found.crossfitted == pytest.approx(found.observed - found.optimism)


@pytest.mark.parametrize("higher", [True, False])
def test_no_mean_is_expected_beyond_the_worst_score(higher: bool) -> None:
    """Of configs that are right on one of 20 questions each, none is expected to be right on fewer than none."""
    found = selection_bias(matrix(np.eye(5, 20) if higher else 1 - np.eye(5, 20), higher_is_better=higher))
    assert found.crossfitted == pytest.approx(0 if higher else 1, abs=1e-12)
    assert found.optimism == pytest.approx(1 / 20)


def test_luck_is_foretold_without_bias() -> None:
    """Twenty equal configs, 400 times: what is foretold is the mean lead within three Monte Carlo errors and .002."""
    lead, told = [], []
    for seed in range(400):
        generator = np.random.default_rng(seed)
        one = matrix(generator.normal(0, 0.2, (20, 60)))
        found = selection_bias(one)
        lead.append(found.observed)
        told.append(found.optimism)
    error = 3 * math.hypot(stats.sem(lead), stats.sem(told))
    assert np.mean(told) == pytest.approx(np.mean(lead), abs=error + 0.002)


def test_with_few_clusters_nothing_is_said_of_luck() -> None:
    few = selection_bias(matrix(np.eye(3, 9)))
    assert few.observed == pytest.approx(1 / 9)
    assert math.isnan(few.optimism)
    assert math.isnan(few.crossfitted)
    assert math.isnan(selection_bias(matrix(np.random.default_rng(0).random((3, 60)), np.arange(60) % 9)).optimism)
    nothing = selection_bias(matrix(np.empty((2, 0))))
    assert (nothing.winner, math.isnan(nothing.observed)) == (0, True)


def test_clusters_are_not_torn_between_folds() -> None:
    """What a config knows of a source helps it on all its questions; folds that tear sources see no luck there."""
    known = np.repeat(np.random.default_rng(0).normal(size=(10, 12)), 6, axis=1)
    sources = np.repeat(np.arange(12), 6)
    torn, whole = selection_bias(matrix(known)), selection_bias(matrix(known, sources))
    assert whole.optimism > 3 * torn.optimism > 0


@given(matrices(), st.integers(0, 99))
def test_luck_follows_the_direction_and_no_order_of_configs(one: Matrix, seed: int) -> None:
    found, other = selection_bias(one), selection_bias(turned(one))
    assert other.optimism == pytest.approx(found.optimism, abs=1e-9)
    assert other.crossfitted == pytest.approx(-found.crossfitted, abs=1e-9)
    order = np.random.default_rng(seed).permutation(len(one.values)).tolist()
    assert selection_bias(one.select_configs(order)).optimism == pytest.approx(found.optimism, abs=1e-9)


def test_luck_of_one_config_or_of_rounding_is_zero() -> None:
    """A winner that leads on every question has no selection bias, despite rounding errors in the sums."""
    assert selection_bias(normal(1, 30)).optimism == pytest.approx(0, abs=1e-12)
    base = np.random.default_rng(0).random(90)
    rows = np.array([base, base + 0.1, base + 0.3])
    assert selection_bias(matrix(rows)).optimism == 0.0


def test_what_all_configs_have_in_common_is_no_luck_in_folds_of_unequal_size() -> None:
    clusters = np.repeat(np.arange(16), [3, 3, 2, 2, 2, 2] + 10 * [1])
    shared = np.random.default_rng(0).random(24)
    rows = np.random.default_rng(1).normal(0, 0.1, (3, 24))
    assert selection_bias(matrix(np.tile(shared, (3, 1)), clusters)).optimism == 0.0
    assert selection_bias(matrix([shared, shared + 0.1], clusters)).optimism == 0.0
    alone, together = (selection_bias(matrix(one, clusters)).optimism for one in (rows, rows + shared))
    assert together == pytest.approx(alone, abs=1e-9)
