"""Losses too rare to have been seen: a lead without them is no evidence."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from ragsweep.stats.inference.differences import UNSEEN, compare_with_baseline
from ragsweep.stats.inference.matrix import Matrix
from ragsweep.stats.inference.rare_losses import (
    SEEN,
    chance_of_no_gain,
    largest_loss,
    losses_are_seen,
    rare_losses,
    smallest_gain_shown,
    studentised_p_value,
)


def matrix(values: np.ndarray, *, higher_is_better: bool = True) -> Matrix:
    count = values.shape[1]
    names = tuple(str(n) for n in range(max(values.shape)))
    return Matrix(values, np.arange(count), names[: len(values)], names[:count], "score", higher_is_better, count)


def skewed(configs: int, questions: int, seed: int) -> Matrix:
    """Small gains on 40 %, losses of .5 on 4 %: no config is better than the first."""
    drawn = np.random.default_rng(seed).random((configs - 1, questions))
    gains = np.where(drawn < 0.4, 0.05, np.where(drawn < 0.44, -0.5, 0.0))
    return matrix(0.6 + np.vstack([np.zeros(questions), gains]))


@pytest.mark.parametrize("questions", [50, 200])
def test_small_gains_with_rare_large_losses_are_no_improvement(questions: int) -> None:
    """At most 5 % of sweeps with ten configs may claim one (before: 71 and 19 %)."""
    claims = [compare_with_baseline(skewed(10, questions, seed), 0, resamples=999).better.any() for seed in range(60)]
    assert sum(claims) <= 3


def test_a_withheld_claim_has_its_reason_in_either_direction() -> None:
    gains = np.where(np.arange(50) < 20, 0.05, 0.0)
    for sign, higher_is_better in ((1, True), (-1, False)):
        found = compare_with_baseline(
            matrix(0.6 + np.vstack([0 * gains, sign * gains]), higher_is_better=higher_is_better), 0
        )
        assert min(abs(found.low[1]), abs(found.high[1])) > 0  # the interval alone would claim it
        assert found.notes[1] == UNSEEN
        assert not found.better.any()


def test_losses_that_are_seen_often_enough_change_nothing() -> None:
    gains = np.array([0.3] * 60 + [-0.2] * SEEN + [0.0] * 30)
    assert losses_are_seen(gains, np.arange(100))
    assert not losses_are_seen(gains, np.minimum(np.arange(100), 61))  # the losing questions come from two sources
    assert not losses_are_seen(np.where(gains < 0, -0.1, gains), np.arange(100))  # small losses
    assert compare_with_baseline(matrix(0.5 + np.vstack([0 * gains, gains])), 0).better[1]


def test_the_chance_is_that_of_exponential_weights() -> None:
    """All questions gain g: the chance is that of a Beta(1, n) share above g / (g + loss), (loss / (g + loss))^n."""
    for count, gain, loss in ((10, 0.2, 0.5), (20, 0.1, 1.0)):
        expected = (loss / (gain + loss)) ** count
        found = chance_of_no_gain(np.full(count, gain), np.arange(count), loss)
        assert found == pytest.approx(expected, abs=4 * np.sqrt(expected / 10_000))


def test_a_large_share_of_large_gains_survives() -> None:
    gains = np.where(np.arange(60) < 20, 1.0, 0.0)
    assert compare_with_baseline(matrix(np.vstack([0 * gains, gains])), 0).better[1]


def test_the_largest_loss_follows_from_bounds_where_there_are_any() -> None:
    scores = np.array([0.2, 0.7])
    assert largest_loss(scores, falls=True) == pytest.approx(0.7)
    assert largest_loss(scores, falls=False) == pytest.approx(0.8)
    assert largest_loss(scores * 100, falls=True) == pytest.approx(70)
    assert largest_loss(np.zeros(0), falls=True) == 0


def test_gain_that_is_claimed_as_often_grows_where_few_losses_are_seen() -> None:
    """Of 30 questions the guard withholds the claim of the plain gain; of 400, where losses are seen, it does not."""
    plain, critical = {}, 2.9
    for questions in (30, 400):
        gains = np.random.default_rng(0).normal(0, 0.25, questions)
        gain = (critical + 0.85) * 0.25 / np.sqrt(questions)
        plain[questions] = smallest_gain_shown(gains, np.arange(questions), 1.0, gain, critical) / gain
    assert plain[30] > 1.3
    assert plain[400] == 1
    harmless = smallest_gain_shown(np.random.default_rng(0).normal(0, 0.25, 60), np.arange(60), None, 0.12, critical)
    assert harmless == 0.12


def test_gain_by_further_hits_must_be_larger_as_it_widens_the_spread_itself() -> None:
    """Of 100 questions 4 won and 4 lost: a gain of k further wins has the spread of k + 8 changed questions."""
    gains, critical, power = np.zeros(100), 1.984, 0.8
    gains[:4], gains[4:8] = 1, -1
    observed = (critical + 0.845) * gains.std(ddof=1) / 10
    shown = smallest_gain_shown(gains, np.arange(100), None, observed, critical, power)
    assert shown > 1.2 * observed
    drawn = np.random.default_rng(1).choice([1.0, -1.0, 0.0], (4000, 100), p=[shown + 0.04, 0.04, 0.92 - shown])
    claimed = drawn.mean(axis=1) > critical * drawn.std(axis=1, ddof=1) / 10
    assert 0.75 < claimed.mean() < 0.85


def test_two_losses_among_equal_gains_are_no_improvement() -> None:
    """The resampled critical value of such differences is that of 84 %, which a lead must not be measured by."""
    lost = np.arange(200) < 2
    found = compare_with_baseline(matrix(np.stack([np.where(lost, 1, 0.969), np.where(lost, 0, 1.0)])), 0)
    assert found.low[1] > 0
    assert found.critical < 1.6
    assert found.exposed[1]
    assert not found.better[1]


def test_the_share_that_may_lose_is_the_exact_bound_of_a_rate() -> None:
    """None of 36 leaves 8 %, which is 1 - .05^(1/36); some are Clopper and Pearson's bound."""
    gains = np.full(36, 0.1)
    found = rare_losses(gains, np.arange(36), 0.5)
    assert (found.seen, found.questions, found.size) == (0, 36, 0.5)
    assert found.share == pytest.approx(1 - 0.05 ** (1 / 36), rel=1e-9)
    gains[:3] = [-0.5, -0.25, -0.24]  # the last one is less than half of the largest
    found = rare_losses(gains, np.arange(36), 0.5)
    assert found.seen == 2
    assert found.share == pytest.approx(stats.binomtest(2, 36).proportion_ci(0.90, "exact").high, rel=1e-9)


def test_questions_of_one_cluster_count_together() -> None:
    gains = np.full(60, 0.1)
    gains[:2] = -0.5  # two of five questions of a document: on average it gains
    found = rare_losses(gains, np.arange(60) // 5, 0.5)
    assert (found.seen, found.questions) == (0, 12)
    sizes = np.repeat(np.arange(15), [20, *[2] * 14])
    assert rare_losses(np.full(48, 0.1), sizes, 0.5).questions == round(48**2 / (400 + 14 * 4))


def test_a_weighted_loss_is_large_by_its_score() -> None:
    """Gains are scores times weights: a weight of 2 does not make a loss of .2 a large one."""
    weights = np.where(np.arange(40) < 10, 2.0, 2 / 3)
    gains = np.where(np.arange(40) < 10, -0.2, 0.2)
    found = rare_losses(gains * weights, np.arange(40), 0.5, weights)
    assert found.seen == 0
    assert found.questions == round(40**2 / (weights**2).sum())


def test_a_lead_survives_by_the_guard_where_losses_are_unseen() -> None:
    gains = np.where(np.arange(50) < 20, 0.05, 0.0)
    for loss in (0.02, 0.6):
        chance = chance_of_no_gain(gains, np.arange(50), loss)
        assert rare_losses(gains, np.arange(50), loss).survives == (chance < 0.05)
    assert rare_losses(gains, np.arange(50), 0.02).survives
    assert not rare_losses(gains, np.arange(50), 0.6).survives


def test_no_loss_is_possible_where_the_metric_excludes_it() -> None:
    found = rare_losses(np.where(np.arange(50) < 20, 0.05, 0.0), np.arange(50), 0.0)
    assert found.survives
    assert found.share == 0.0


def test_a_lead_survives_by_the_studentised_bootstrap_where_losses_are_seen() -> None:
    gains = np.array([0.3] * 60 + [-0.2] * SEEN + [0.0] * 30)
    assert rare_losses(gains, np.arange(100), 1.0).survives
    assert not rare_losses(gains - gains.mean() + 0.01, np.arange(100), 1.0).survives


def test_the_studentised_bootstrap_is_a_t_test_of_normal_gains_and_stricter_with_rare_losses() -> None:
    drawn = np.random.default_rng(3).normal(0, 0.2, 200)
    gains = drawn - drawn.mean() + 0.2 * 1.7 / np.sqrt(200) * drawn.std() / 0.2
    by_t = stats.ttest_1samp(gains, 0, alternative="greater").pvalue
    assert studentised_p_value(gains, np.arange(200)) == pytest.approx(by_t, abs=0.015)
    rare = np.repeat([0.06, 0.0, -0.3], [84, 100, 10])
    by_t = stats.ttest_1samp(rare, 0, alternative="greater").pvalue
    assert studentised_p_value(rare, np.arange(194)) > 1.5 * by_t
    assert studentised_p_value(-rare, np.arange(194)) == 1.0


def test_the_studentised_bootstrap_draws_whole_clusters() -> None:
    """Repeated questions of a cluster are no further evidence."""
    gains = np.random.default_rng(5).normal(0.03, 0.2, 60)
    once = studentised_p_value(gains, np.arange(60))
    assert studentised_p_value(np.repeat(gains, 4), np.repeat(np.arange(60), 4)) == once
