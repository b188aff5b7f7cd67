"""The gate: worse by more than a margin?"""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, binomtest
from statsmodels.stats.weightstats import ttost_paired

from ragsweep.core.errors import InputError
from ragsweep.stats.inference.matrix import Matrix
from ragsweep.stats.inference.noninferiority import FEW_DIFFER, UNSEEN, gate, reaches, sequential_gate
from support import nightly
from support.matrices import matrices, matrix, normal, turned


@pytest.mark.parametrize("margin", [0.0, 0.01, 0.03, 0.06, 0.2])
def test_passes_where_the_one_sided_test_of_statsmodels_rejects(margin: float) -> None:
    one = normal(2, 80, -0.02, seed=4)
    _, (_, p_value, _), _ = ttost_paired(one.values[1], one.values[0], -margin, margin + 1)
    assert (gate(one, margin).decision == "pass") == (p_value < 0.05)


def test_three_answers() -> None:
    decisions = [gate(normal(2, 200, gain), 0.1).decision for gain in (0.0, -0.2, -0.1)]
    assert decisions == ["pass", "fail", "inconclusive"]
    for beyond in (-0.01, 0.01):  # either side of the margin, nearer than the spread
        spread = np.tile([0.2, -0.2], 20) - 0.1 + beyond
        found = gate(matrix([np.full(40, 0.5), 0.5 + spread]), 0.1)
        assert (found.slack, found.decision) == (pytest.approx(beyond), "inconclusive")


def test_a_relative_margin_without_a_baseline_is_unknown() -> None:
    nothing = matrix(np.empty((2, 0)))
    assert gate(nothing, 0.05).margin == 0.05
    assert math.isnan(gate(nothing, 0.05, relative=True).margin)


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
    assert (found.decision, found.note) == ("inconclusive", FEW_DIFFER)
    assert gate(matrix([[1.0] * 100, [1.0] * 99 + [0.0]]), 0.2).note == ""


@pytest.mark.parametrize(
    ("questions", "share"), [(60, 0.05), nightly(100, 0.1), nightly(20, 0.02), nightly(60, 0.02), nightly(200, 0.02)]
)
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
    assert gate(slower.select_configs([1, 0]), 0.0, relative=relative).decision == "pass"
    assert gate(slower, 1.5 if relative else 150.0, relative=relative).decision == "pass"


def test_same_scores_pass_only_where_the_rule_of_three_leaves_less_than_the_margin() -> None:
    found = gate(matrix(np.ones((2, 20))), 0.1)
    assert (found.decision, found.slack) == ("inconclusive", pytest.approx(0.1))
    assert found.low == pytest.approx(0.1 - (1 - 0.05 ** (1 / 20)))  # .139: about 3 / 20
    assert found.note == "the same scores for every question"
    assert gate(matrix(np.ones((2, 40))), 0.1).decision == "pass"
    assert gate(matrix(np.ones((2, 40)), np.arange(40) % 20), 0.1).decision == "inconclusive"  # 20 clusters
    assert gate(matrix(np.full((2, 40), 0.1)), 0.01).decision == "pass"  # no question has more than .1 to lose
    assert gate(matrix(np.zeros((2, 12))), 0.0).decision == "pass"  # and here nothing


def test_superiority_is_a_gain_that_is_shown() -> None:
    decisions = [gate(normal(2, 200, gain), -0.1).decision for gain in (0.2, 0.0, 0.1)]
    assert decisions == ["pass", "fail", "inconclusive"]


def test_mean_reaches_a_bound_where_its_whole_interval_does() -> None:
    scores = matrix([[0.2, 0.8] * 50])
    assert [reaches(scores, bound).decision for bound in (0.3, 0.5, 0.7)] == ["pass", "inconclusive", "fail"]
    error = 0.3 * math.sqrt(100 / 99 / 100)
    assert reaches(scores, 0.3).low == pytest.approx(0.2 - 1.6604 * error, rel=0.01)
    assert reaches(dataclasses.replace(scores, higher_is_better=False), 0.7).decision == "pass"


def test_amounts_pass_whatever_their_unit() -> None:
    """Costs in EUR may all be below 1, but are not bounded by 1, as the same costs in cents show."""
    costs = np.random.default_rng(5).uniform(0.1, 0.12, 40)
    for factor in (1, 100):
        amounts = matrix([factor * costs, factor * costs * 0.76], higher_is_better=False)
        found = gate(dataclasses.replace(amounts, unit="money"), 0.05, relative=True)
        assert (found.decision, found.low / factor) == ("pass", pytest.approx(0.0314, abs=0.001))


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


@given(matrices(), st.floats(0, 2))
def test_laws(one: Matrix, margin: float) -> None:
    """A wider margin is never harder to pass; direction and a constant change nothing."""
    order = {"fail": 0, "inconclusive": 1, "pass": 2}
    pair = one.select_configs([0, 1])
    found = gate(pair, margin)
    assert order[gate(pair, margin + 0.5).decision] >= order[found.decision]
    assert gate(turned(pair), margin).slack == pytest.approx(found.slack, abs=1e-9)
    assert gate(dataclasses.replace(pair, values=pair.values + 2), margin).slack == pytest.approx(found.slack, abs=1e-9)
    assert gate(pair.select_configs([0, 0]), margin).slack == pytest.approx(margin)
    assert gate(pair.select_configs([0, 0]), margin).decision != "fail"


def test_a_bad_candidate_passes_one_time_in_twenty_at_most() -> None:
    """A candidate worse by the very margin: 600 times, 5 % pass (at most 7.7, three Monte Carlo errors)."""
    passed = sum(gate(normal(2, 60, -0.05, seed), 0.05).decision == "pass" for seed in range(600))
    assert 14 <= passed <= 46


def flipped(questions: int, lost: float, won: float, seed: int) -> Matrix:
    """Hit or miss; the candidate loses a share of the baseline's hits and wins a share of its misses."""
    generator = np.random.default_rng(seed)
    baseline, chance = generator.random(questions) < 0.6, generator.random(questions)
    candidate = np.where(baseline, chance >= lost, chance < won)
    return matrix(np.stack([baseline, candidate]).astype(float))


@pytest.mark.nightly
def test_sequential_gate_rarely_passes_a_worse_candidate_however_often_it_is_asked() -> None:
    """Worse by just the margin, five looks at growing suites: at most 5 % pass (the plain gate: more than 8 %)."""
    wrong = plain = 0
    for seed in range(80):
        whole = flipped(400, 0.25, 0.25, seed)  # .6 * .25 lost, .4 * .25 won
        looks = [whole.select_questions(np.arange(400) < n) for n in range(80, 401, 80)]
        wrong += any(sequential_gate(one, 0.05, 1.0).decision == "pass" for one in looks)
        plain += any(gate(one, 0.05).decision == "pass" for one in looks)
    assert wrong <= 8  # 5 % and two Monte Carlo errors
    assert plain > 6


def test_sequential_gate_decides_clear_cases_and_depends_on_no_order() -> None:
    good, bad = flipped(300, 0.05, 0.2, 1), flipped(300, 0.5, 0.1, 2)
    assert sequential_gate(good, 0.05, 1.0).decision == "pass"
    assert sequential_gate(bad, 0.05, 1.0).decision == "fail"
    assert sequential_gate(flipped(30, 0.1, 0.1, 3), 0.02, 1.0).decision == "inconclusive"
    order = np.random.default_rng(0).permutation(300)
    other = dataclasses.replace(good, values=good.values[:, order], clusters=good.clusters[order])
    assert sequential_gate(other, 0.05, 1.0).low == pytest.approx(sequential_gate(good, 0.05, 1.0).low)


def test_sequential_gate_refuses_what_it_cannot_bet_on() -> None:
    one = flipped(50, 0.1, 0.1, 0)
    with pytest.raises(InputError, match="range must be finite and larger than the margin"):
        sequential_gate(one, 1.0, 1.0)
    with pytest.raises(InputError, match="beyond"):
        sequential_gate(dataclasses.replace(one, values=one.values * 3), 0.1, 1.0)


def rare(questions: int, gain: float, loss: float, losing: float, seed: int) -> Matrix:
    """Nine of ten questions gain a little, and a share of them loses much."""
    drawn = np.random.default_rng([seed, 9]).random(questions)
    gains = np.where(drawn < 0.9, gain, np.where(drawn >= 1 - losing, -loss, 0.0))
    base = np.where(gains < 0, 1.0, 1 - gain)
    return matrix(np.stack([base, base + gains]))


@pytest.mark.parametrize(("questions", "unseen"), [(50, 60), nightly(100, 60), nightly(300, 0)])
def test_rare_losses_behind_many_small_gains_seldom_pass(questions: int, unseen: int) -> None:
    """600 candidates worse by the margin that lose 1 on 6 of 100: at most 7.7 % pass, three errors (by t: 20, 10)."""
    found = [gate(rare(questions, 0.01, 1.0, 0.059, seed), 0.05) for seed in range(600)]
    assert sum(one.decision == "pass" for one in found) <= 46
    assert sum(one.note == UNSEEN for one in found) >= unseen
    assert all(one.low < 0 for one in found if one.note == UNSEEN)


@pytest.mark.parametrize(
    ("questions", "gain", "loss", "losing"),
    [(50, 0.02, 0.3, 0.06), nightly(100, 0.02, 0.6, 0.03), nightly(300, 0.02, 0.3, 0.06)],
)
def test_a_fail_beside_few_large_gains_is_seldom_wrong(questions: int, gain: float, loss: float, losing: float) -> None:
    """300 equal candidates that lose a little and gain much on few: at most 8.8 % fail, three errors (t: 19, 20, 7)."""
    drawn = [rare(questions, gain, loss, losing, seed) for seed in range(300)]
    found = [gate(dataclasses.replace(one, values=1 - one.values), 0.0) for one in drawn]
    mirrored = [gate(dataclasses.replace(one, higher_is_better=False), 0.0) for one in drawn]
    assert [one.decision for one in found] == [one.decision for one in mirrored]
    assert sum(one.decision == "fail" for one in found) <= 26


@pytest.mark.parametrize(("questions", "share"), [(20, 0.5), (60, 0.6), (60, 0.9), (100, 0.98)])
def test_a_share_reaches_its_own_value_one_time_in_twenty_at_most(questions: int, share: float) -> None:
    """The exact chance, from the distribution of the number of hits: at most 5 % of passes, and of fails."""
    counts = np.arange(questions + 1)
    found = [reaches(matrix((np.arange(questions) < hits)[None, :].astype(float)), share) for hits in counts]
    chances = binom.pmf(counts, questions, share)
    for decision in ("pass", "fail"):
        assert sum(chances[[one.decision == decision for one in found]]) <= 0.05


def test_the_interval_of_a_share_is_clopper_and_pearsons_and_clusters_count_as_fewer_questions() -> None:
    hits = np.tile([1.0, 1.0, 1.0, 0.0], 15)
    found = reaches(matrix(hits[None, :]), 0.5)
    exact = binomtest(45, 60).proportion_ci(0.9, "exact")
    assert (found.low + 0.5, found.high + 0.5) == pytest.approx((exact.low, exact.high))
    thrice = reaches(matrix(np.repeat(hits, 3)[None, :], np.repeat(np.arange(60), 3)), 0.5)
    assert (thrice.low, thrice.high) == pytest.approx((found.low, found.high), abs=2e-3)
    assert reaches(matrix(np.ones((1, 60)), np.arange(60) // 2), 0.5).low == pytest.approx(0.05 ** (1 / 30) - 0.5)
