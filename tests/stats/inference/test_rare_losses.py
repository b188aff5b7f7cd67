"""Losses too rare to have been seen: what they leave of a lead, and how frequent they may be."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from scipy import stats

from ragsweep.stats.inference.factorial import effects
from ragsweep.stats.inference.matrix import Matrix
from ragsweep.stats.inference.noninferiority import gate
from ragsweep.stats.inference.rare_losses import (
    SEEN,
    chance_of_no_gain,
    find_exposed,
    largest_loss,
    largest_losses,
    losses_are_seen,
    rare_losses,
    studentised_low,
)
from ragsweep.stats.inference.slices import by_slice
from support.matrices import matrices


def skewed(questions: int, seed: int, loss: float = 0.5, share: float = 0.04) -> np.ndarray:
    """Draw small gains on 40 %, losses on a few, so that the true mean is 0."""
    drawn = np.random.default_rng(seed).random(questions)
    return np.where(drawn < 0.4, loss * share / 0.4, np.where(drawn < 0.4 + share, -loss, 0.0))


@pytest.mark.parametrize("questions", [50, 200])
def test_small_gains_with_rare_large_losses_are_no_improvement(questions: int) -> None:
    """At most 5 % of leads survive where none is true (12 of 100 would be exceeded by chance in .2 % of such tests)."""
    found = [rare_losses(skewed(questions, seed), np.arange(questions), 0.6) for seed in range(100)]
    assert sum(one.survives for one in found) <= 12


@pytest.mark.parametrize(("count", "lost"), [(36, 0), (36, 2), (100, 5)])
def test_share_of_losses_that_cannot_be_excluded_is_clopper_and_pearson_s(count: int, lost: int) -> None:
    gains = np.where(np.arange(count) < lost, -0.5, 0.1)
    found = rare_losses(gains, np.arange(count), 1.0)
    assert (found.seen, found.questions, found.size) == (lost, count, 1.0)
    assert found.share == pytest.approx(stats.binomtest(lost, count).proportion_ci(0.9, method="exact").high)
    assert rare_losses(np.full(36, 0.1), np.arange(36), 0.5).share == pytest.approx(1 - 0.05 ** (1 / 36))


def test_losses_of_one_cluster_count_together() -> None:
    gains = np.where(np.arange(120) < 4, -0.6, 0.1)
    found = rare_losses(gains, np.arange(120) // 4, 1.0)
    assert (found.seen, found.questions) == (1, 30)


def test_where_no_question_can_lose_every_lead_survives() -> None:
    found = rare_losses(np.where(np.arange(40) < 3, 0.1, 0.0), np.arange(40), 0.0)
    assert (found.survives, found.share, found.seen) == (True, 0.0, 0)


def test_a_large_share_of_large_gains_survives_and_small_gains_do_not() -> None:
    gaining = np.arange(60) < 20
    assert rare_losses(np.where(gaining, 1.0, 0.0), np.arange(60), 1.0).survives
    assert not rare_losses(np.where(gaining, 0.05, 0.0), np.arange(60), 0.6).survives
    assert not rare_losses(np.zeros(60), np.arange(60), 0.6).survives
    assert not rare_losses(np.where(gaining, -1.0, 0.0), np.arange(60), 1.0).survives
    found = rare_losses(np.where(np.arange(200) < 2, -1.0, 0.031), np.arange(200), 1.0)
    assert (found.survives, found.seen) == (False, 2)  # the resampled critical value of such differences is of 84 %


def test_a_loss_on_a_single_question_has_no_bound_without_a_warning_of_numpy() -> None:
    """A third of the resamples lack the question and so have no error: (9 / 10) ** 10."""
    lost = np.append(np.zeros(9), -0.5)
    assert studentised_low(lost, np.arange(10), None) == -np.inf
    assert not rare_losses(lost, np.arange(10), 1.0).survives


def test_losses_are_seen_where_ten_clusters_lose_half_a_mean_gain() -> None:
    gains = np.array([0.3] * 60 + [-0.2] * SEEN + [0.0] * 30)
    assert losses_are_seen(gains, np.arange(100))
    assert not losses_are_seen(gains, np.minimum(np.arange(100), 61))  # the losing questions come from two sources
    assert not losses_are_seen(np.where(gains < 0, -0.1, gains), np.arange(100))  # small losses
    assert losses_are_seen(-np.abs(gains), np.arange(100))  # nothing gains


def test_the_largest_loss_follows_from_bounds_where_there_are_any() -> None:
    scores = np.array([0.2, 0.7])
    assert largest_loss(scores, "", falls=True) == pytest.approx(0.7)
    assert largest_loss(scores, "", falls=False) == pytest.approx(0.8)
    assert largest_losses(scores, "") == (largest_loss(scores, "", falls=True), largest_loss(scores, "", falls=False))
    assert largest_loss(scores * 100, "", falls=True) == pytest.approx(70)
    assert largest_loss(np.zeros(0), "", falls=True) == 0


@pytest.mark.parametrize("higher_is_better", [True, False])
@given(matrices())
def test_no_decision_on_amounts_depends_on_their_unit(higher_is_better: bool, one: Matrix) -> None:
    """The zeros among the scores exclude a comparison by ratios; as shares, these scores would be bounded by 1."""
    one = replace(one, unit="USD", higher_is_better=higher_is_better)
    labels, settings = {"all": ["each"] * len(one.questions)}, [{"k": str(row)} for row in range(len(one.configs))]

    def decisions(scale: float) -> tuple[object, ...]:
        amounts = replace(one, values=one.values * scale)
        losses = np.array(largest_losses(amounts.scores, amounts.unit)) / scale
        (part,) = by_slice(amounts, labels)
        exposed = [effect.exposed for effect in effects(settings, amounts).effects]
        tested = gate(amounts.select_configs([0, 1]), 0.05 * scale)
        return losses.tolist(), part.exposed.tolist(), exposed, tested.decision, tested.low / scale

    assert decisions(1024) == decisions(1)  # a power of 2, so that no rounding differs


def test_the_chance_is_that_of_exponential_weights() -> None:
    """All questions gain g: the chance is that of a Beta(1, n) share above g / (g + loss), (loss / (g + loss))^n."""
    for count, gain, loss in ((10, 0.2, 0.5), (20, 0.1, 1.0)):
        expected = (loss / (gain + loss)) ** count
        found = chance_of_no_gain(np.full(count, gain), np.arange(count), loss)
        assert found == pytest.approx(expected, abs=4 * np.sqrt(expected / 10_000))


def test_only_directions_that_an_unseen_loss_could_undo_are_exposed_on_a_slice() -> None:
    gains = np.where(np.arange(50) < 20, 0.05, 0.0)
    rows = np.stack([gains, -gains, np.where(gains > 0, 0.6, 0.0), gains])
    shown = np.array([True, True, True, False])
    assert find_exposed(rows, np.arange(50), shown, (0.6, 0.4), 0.025).tolist() == [True, True, False, False]
