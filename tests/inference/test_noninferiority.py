"""The gate: worse by more than a margin?"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.weightstats import ttost_paired

from matrices import matrices, matrix, normal, turned
from ragsweep.errors import InputError
from ragsweep.inference.matrix import Matrix
from ragsweep.inference.noninferiority import gate


@pytest.mark.parametrize("margin", [0.0, 0.01, 0.03, 0.06, 0.2])
def test_passes_where_the_one_sided_test_of_statsmodels_rejects(margin: float) -> None:
    one = normal(2, 80, -0.02, seed=4)
    _, (_, p_value, _), _ = ttost_paired(one.values[1], one.values[0], -margin, margin + 1)
    assert (gate(one, margin).decision == "pass") == (p_value < 0.05)


def test_three_answers() -> None:
    assert gate(normal(2, 200, 0.0), 0.1).decision == "pass"
    assert gate(normal(2, 200, -0.2), 0.1).decision == "fail"
    assert gate(normal(2, 200, -0.1), 0.1).decision == "inconclusive"
    for beyond in (-0.01, 0.01):  # either side of the margin, nearer than the spread
        spread = np.tile([0.2, -0.2], 20) - 0.1 + beyond
        found = gate(matrix([np.full(40, 0.5), 0.5 + spread]), 0.1)
        assert (found.slack, found.decision) == (pytest.approx(beyond), "inconclusive")


def test_numbers_by_hand() -> None:
    found = gate(matrix([[0.5] * 60, [0.5] * 30 + [0.3] * 30]), 0.2)
    assert (found.baseline, found.candidate) == (0.5, pytest.approx(0.4))
    assert found.difference == pytest.approx(-0.1)
    assert found.slack == pytest.approx(0.1)
    error = 0.1 * math.sqrt(60 / 59 / 60)
    assert found.slack - found.low == pytest.approx(1.6711 * error, rel=0.01)  # t, 59 degrees of freedom
    assert found.decision == "pass"


def test_few_that_differ_count_one_more_by_hand() -> None:
    found = gate(matrix([[1.0] * 100, [1.0] * 99 + [0.0]]), 0.03)
    assert found.slack == pytest.approx(0.02)
    losses = np.array([0.0] * 99 + [-1.0, -1.01])  # the last one is added: the mean, less the largest difference
    assert found.low == pytest.approx(0.03 + losses.mean() - 1.6602 * losses.std(ddof=1) / math.sqrt(101), rel=0.01)
    assert found.decision == "inconclusive"


@pytest.mark.parametrize(("questions", "share"), [(60, 0.05), (100, 0.03), (100, 0.1), (200, 0.02)])
def test_rare_losses_as_frequent_as_the_margin_seldom_pass(questions: int, share: float) -> None:
    """1,000 candidates that lose one question in so many, and nothing else: 5 % pass (at most 7.1, three errors)."""
    generator = np.random.default_rng(0)
    lost = generator.random((1000, questions)) < share
    passed = sum(gate(matrix([np.ones(questions), 1.0 - row]), share).decision == "pass" for row in lost)
    assert passed <= 71


def test_a_share_is_of_the_baseline_and_its_uncertainty_counts() -> None:
    one = normal(2, 100, -0.03, seed=1)
    found = gate(one, 0.1, relative=True)
    slack = one.values[1] - 0.9 * one.values[0]
    assert found.slack == pytest.approx(slack.mean())
    assert found.margin == pytest.approx(0.1 * one.values[0].mean())
    assert found.low < found.slack < found.high
    with pytest.raises(InputError, match="absolute"):
        gate(matrix([[0.0] * 12, [1.0] * 12]), 0.1, relative=True)


@pytest.mark.parametrize("relative", [True, False])
def test_less_is_better_where_the_metric_says(relative: bool) -> None:
    slower = matrix([[100.0, 110.0] * 10, [200.0, 230.0] * 10], higher_is_better=False)
    assert gate(slower, 0.5 if relative else 20.0, relative=relative).decision == "fail"
    assert gate(slower.among([1, 0]), 0.0, relative=relative).decision == "pass"
    assert gate(slower, 1.5 if relative else 150.0, relative=relative).decision == "pass"


def test_the_same_scores_pass_and_it_is_said() -> None:
    found = gate(matrix([np.arange(12)] * 2), 0.0)
    assert (found.decision, found.slack) == ("pass", 0.0)
    assert found.note == "the same scores for every question"


def test_a_constant_loss_of_the_margin_is_within_it() -> None:
    base = np.arange(40) / 10
    assert gate(matrix([base, base - 0.1]), 0.1).decision == "pass"
    assert gate(matrix([base, base - 0.11]), 0.1).decision == "fail"


def test_few_questions_decide_nothing() -> None:
    for clusters in (None, np.arange(9)):
        found = gate(matrix([[1.0] * 9, [1.0] * 9], clusters), 0.1)
        assert found.decision == "inconclusive"
        assert "fewer than 10" in found.note
    assert gate(matrix(np.ones((2, 60)), np.arange(60) % 9), 0.1).decision == "inconclusive"
    assert gate(matrix(np.empty((2, 0))), 0.1).decision == "inconclusive"


def test_what_means_nothing_is_refused() -> None:
    for margin in (-0.1, math.nan, math.inf):
        with pytest.raises(InputError, match="margin"):
            gate(normal(2, 20), margin)
    with pytest.raises(InputError, match="two configs, not 3"):
        gate(normal(3, 20), 0.1)


@given(matrices(), st.floats(0, 2))
def test_laws(one: Matrix, margin: float) -> None:
    """A wider margin is never harder to pass; direction and a constant change nothing."""
    order = {"fail": 0, "inconclusive": 1, "pass": 2}
    pair = one.among([0, 1])
    found = gate(pair, margin)
    assert order[gate(pair, margin + 0.5).decision] >= order[found.decision]
    assert gate(turned(pair), margin).slack == pytest.approx(found.slack, abs=1e-9)
    assert gate(dataclasses.replace(pair, values=pair.values + 2), margin).slack == pytest.approx(found.slack, abs=1e-9)
    assert gate(pair.among([0, 0]), margin).decision == "pass"


def test_a_bad_candidate_passes_one_time_in_twenty_at_most() -> None:
    """A candidate worse by the very margin: 600 times, 5 % pass (at most 7.7, three Monte Carlo errors)."""
    passed = sum(gate(normal(2, 60, -0.05, seed), 0.05).decision == "pass" for seed in range(600))
    assert 14 <= passed <= 46
