"""What the true means of configs may be: the posterior, its laws, and independent computations of it."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.linalg import hadamard
from scipy.stats import multivariate_normal, norm, t

from ragsweep.stats.inference.matrix import Matrix
from ragsweep.stats.inference.shrinkage import NO_SPREAD, ONE_GROUP, SPREADS, posterior
from support import nightly
from support.matrices import matrices, matrix, normal, turned

Doubles = NDArray[np.float64]
PRIORS = np.append(NO_SPREAD, np.full(25, (1 - NO_SPREAD) / 25))
AGREES = pytest.approx


ERROR = 0.2 / math.sqrt(511)
"""The standard error of the mean of one config of `independent`."""


def independent(means: list[float]) -> Matrix:
    """Scores whose errors have equal variances, no correlation and no skewness, and exactly these means."""
    return matrix(np.array(means)[:, None] + 0.2 * hadamard(512)[1 : len(means) + 1])


def test_two_configs_have_a_closed_form() -> None:
    """A difference d has variance 2 t² + 2 s², and its part t² / (t² + s²) is kept."""
    gap, s, n = 0.03, ERROR, 511
    weights = PRIORS * norm.pdf(gap, 0, np.sqrt(2 * (SPREADS**2 + s**2)))
    weights /= weights.sum()
    kept = SPREADS**2 / (SPREADS**2 + s**2)
    found = posterior(independent([0.53, 0.5]))
    assert found.means[0] - found.means[1] == AGREES(weights @ (kept * gap), rel=1e-9)
    assert found.probability_better(0, 1) == AGREES(
        weights @ t.cdf(np.sqrt(kept) * gap / s / math.sqrt(2), n), rel=1e-9
    )
    nodes = np.linspace(-12, 12, 20001)
    lost = np.maximum(-(kept * gap)[:, None] - np.sqrt(2 * kept)[:, None] * s * nodes, 0.0) * t.pdf(nodes, n)
    assert found.expected_loss(0, 1) == AGREES(weights @ np.trapezoid(lost, nodes, axis=1), rel=1e-5)


def conditioned(means: Doubles, s: float) -> tuple[Doubles, Doubles]:
    """Return posterior means and P(first better than each) by conditioning normal vectors."""
    count, between = len(means), SPREADS[-1]
    centre = np.eye(count) - 1 / count
    axes = np.linalg.svd(centre)[0][:, : count - 1]
    weights, averages, chances = [], [], []
    for upper in range(count):
        member = np.arange(count) < upper
        groups = [np.diag(one * 1.0) - np.outer(one, one) / max(one.sum(), 1) for one in (member, ~member)]
        apart = between**2 * np.outer(centre @ member, centre @ member)
        prior = ONE_GROUP if not upper else (1 - ONE_GROUP) / (count - 1) / math.comb(count, upper)
        for one, first in zip(PRIORS, SPREADS, strict=True):
            for other, second in zip(PRIORS, SPREADS, strict=True):
                true = groups[0] * first**2 + groups[1] * second**2 + apart
                seen = axes.T @ (true + s**2 * centre) @ axes
                weights.append(prior * one * other * multivariate_normal.pdf(axes.T @ means, np.zeros(count - 1), seen))
                gain = true @ axes @ np.linalg.inv(seen)
                average, left = gain @ axes.T @ means, true - gain @ axes.T @ true
                errors = np.sqrt(np.maximum(np.diag(left) + left[0, 0] - 2 * left[0], 1e-18))
                averages.append(average)
                chances.append(norm.cdf((average[0] - average) / errors))
    shares = np.array(weights) / sum(weights)
    return shares @ np.array(averages), shares @ np.array(chances)


@pytest.mark.parametrize(
    "means", [[0.56, 0.55, 0.5, 0.49], nightly([0.53, 0.522, 0.514, 0.35]), nightly([0.51, 0.505, 0.5, 0.495])]
)
def test_several_configs_agree_with_conditioned_normal_vectors(means: list[float]) -> None:
    """Student's t of 511 degrees instead of a normal, and the distance of groups kept whole: within .005."""
    found = posterior(independent(means))
    averages, chances = conditioned(np.array(means) - np.mean(means), ERROR)
    for row in range(1, len(means)):
        assert found.probability_better(0, row) == AGREES(chances[row], abs=5e-3)
        assert found.means[0] - found.means[row] == AGREES(averages[0] - averages[row], abs=5e-4)


@given(matrices(), st.randoms(use_true_random=False))
def test_the_order_of_configs_changes_nothing(one: Matrix, shuffled: object) -> None:
    rows = list(range(len(one.values)))
    shuffled.shuffle(rows)
    found, other = posterior(one), posterior(one.select_configs(rows))
    assert other.means == AGREES(found.means[rows], abs=1e-12, nan_ok=True)
    for row in range(1, len(rows)):
        assert other.probability_better(row, 0) == AGREES(found.probability_better(rows[row], rows[0]), abs=1e-12)
        assert other.expected_loss(row, 0) == AGREES(found.expected_loss(rows[row], rows[0]), abs=1e-12)


@given(matrices())
def test_probabilities_and_losses_of_both_directions_agree(one: Matrix) -> None:
    found = posterior(one)
    for row in range(len(one.values)):
        both = found.probability_better(row, 0) + found.probability_better(0, row)
        assert both == AGREES(1.0, abs=1e-12)
        apart = found.expected_loss(row, 0) - found.expected_loss(0, row)
        assert apart == AGREES(found.means[0] - found.means[row], abs=1e-12)
        assert found.expected_loss(row, 0) >= max(found.means[0] - found.means[row], 0.0) - 1e-12


@given(matrices())
def test_the_order_of_the_observed_means_remains(one: Matrix) -> None:
    found, observed = posterior(one).means, one.better.mean(axis=1)
    order = np.argsort(-observed, kind="stable")
    assert (np.diff(found[order]) <= 1e-12).all()


def test_equal_rows_have_equal_posteriors_and_count_once() -> None:
    one = normal(4, 60, gain=0.1)
    doubled = one.select_configs([0, 1, 2, 3, 1, 1])
    found = posterior(doubled)
    assert found.means[1] == found.means[4] == found.means[5]
    assert found.probability_better(1, 4) == found.probability_better(4, 1) == 0.5
    assert found.expected_loss(1, 4) == 0.0
    for row in range(4):
        assert found.probability_better(3, row) == AGREES(posterior(one).probability_better(3, row), abs=1e-12)


def test_less_is_better_where_the_metric_says_so() -> None:
    one = normal(5, 80, gain=0.1)
    found, other = posterior(one), posterior(turned(one))
    assert other.means == AGREES(found.means, abs=1e-12)
    assert other.probability_better(4, 0) == AGREES(found.probability_better(4, 0), abs=1e-3)  # scaled: not in 0 and 1


def test_a_bad_config_says_nothing_about_the_others() -> None:
    """Eleven equal configs and one worse by .3: the leader's chance is about the same as without it."""
    one = normal(11, 100, seed=4)
    leader, last = (int(row) for row in np.argsort(-one.values.mean(axis=1))[[0, -1]])
    alone = posterior(one).probability_better(leader, last)
    bad = one.values.mean(axis=0) - 0.3 + np.random.default_rng(1).normal(0, 0.18, 100)
    found = posterior(matrix(np.vstack([one.values, bad])))
    assert found.probability_better(leader, last) < alone + 0.05
    assert found.probability_better(leader, 11) > 0.999


def test_rare_large_losses_make_a_lead_less_certain_than_rare_large_gains() -> None:
    """The same mean and variance of differences, mirrored around the mean."""
    gains = np.repeat([0.06, 0.0, -0.3], [160, 140, 20])
    gains = gains - gains.mean()
    pairs = [matrix(0.5 + np.vstack([0 * gains, 0.010 + side * gains])) for side in (1, -1)]
    losing, gaining = (posterior(pair).probability_better(1, 0) for pair in pairs)
    assert losing < gaining - 0.02


def test_too_few_clusters_leave_the_observed_means() -> None:
    one = matrix(normal(3, 60).values, np.repeat(np.arange(6), 10))
    found = posterior(one)
    assert not found.known
    assert found.means == AGREES(one.values.mean(axis=1))
    assert math.isnan(found.probability_better(0, 1))
    assert math.isnan(found.expected_loss(0, 1))
    assert found.means[0] - found.means[1] == AGREES(one.values[0].mean() - one.values[1].mean())
    nothing = posterior(matrix(np.zeros((2, 0))))
    assert not nothing.known
    assert np.isnan(nothing.means).all()


def test_equal_weights_change_nothing_and_others_move_the_means() -> None:
    one = normal(3, 60, gain=0.05)
    same = posterior(dataclasses.replace(one, weights=np.ones(60)))
    assert same.means == AGREES(posterior(one).means, abs=1e-12)
    weights = np.where(one.values[2] > one.values[0], 1.5, 0.5)
    weights /= weights.mean()
    weighted = posterior(dataclasses.replace(one, values=one.values * weights, weights=weights))
    assert weighted.probability_better(2, 0) > same.probability_better(2, 0)
    plain = posterior(dataclasses.replace(one, values=one.scores))
    assert weighted.means[2] - weighted.means[0] > plain.means[2] - plain.means[0]


def test_the_unit_of_an_unbounded_metric_changes_nothing() -> None:
    one = normal(5, 80, gain=0.1)
    seconds, milliseconds = matrix(3 + one.values), matrix(1000 * (3 + one.values))
    found, other = posterior(seconds), posterior(milliseconds)
    assert other.probability_better(4, 0) == AGREES(found.probability_better(4, 0), rel=1e-9)
    assert other.expected_loss(0, 4) == AGREES(1000 * found.expected_loss(0, 4), rel=1e-9)


def test_a_constant_difference_is_certain() -> None:
    scores = np.random.default_rng(0).random(40) / 2
    found = posterior(matrix([scores, scores + 0.1]))
    assert found.probability_better(1, 0) == AGREES(1.0)
    assert found.means[1] - found.means[0] == AGREES(0.1)
    assert found.expected_loss(1, 0) == 0.0


def test_many_configs_on_few_questions() -> None:
    """More configs than questions: finite, ordered, and the leader of equal configs is not called better."""
    found = posterior(normal(500, 60))
    leader = int(found.means.argmax())
    chances = [found.probability_better(leader, row) for row in range(0, 500, 50)]
    assert np.isfinite(found.means).all()
    assert all(0.4 < chance < 0.95 for chance in chances)


def test_two_configs_agree_with_an_integral_over_level_and_true_means() -> None:
    """All true means on a grid: level m, then the true mean of each config given m and its observed mean."""
    first, second, s = 0.53, 0.5, ERROR
    chance = total = gain = 0.0
    for prior, spread in zip(PRIORS[1:], SPREADS[1:], strict=True):
        grid = np.linspace(0.515 - 0.12, 0.515 + 0.12, 4001)
        levels = np.linspace(0.515 - 6 * (spread + s), 0.515 + 6 * (spread + s), 201)[:, None]
        shared = norm.pdf(grid, levels, spread)
        a, b = shared * norm.pdf(first, grid, s), shared * norm.pdf(second, grid, s)
        below = np.cumsum(b, axis=1) - b / 2
        step = float(grid[1] - grid[0]) ** 2 * float(levels[1, 0] - levels[0, 0]) * prior
        chance += step * float((a * below).sum())
        total += step * float((a.sum(axis=1) * b.sum(axis=1)).sum())
        gain += step * float(((a @ grid) * b.sum(axis=1) - a.sum(axis=1) * (b @ grid)).sum())
    equal = PRIORS[0] * norm.pdf(first - second, 0, math.sqrt(2) * s)
    found = posterior(independent([first, second]))
    assert found.probability_better(0, 1) == AGREES((chance + equal / 2) / (total + equal), abs=1e-3)
    assert found.means[0] - found.means[1] == AGREES(gain / (total + equal), rel=1e-3)
