"""Losses too rare to have been seen: whether a lead survives one more cluster on which everything is lost.

A config that gains a little on many questions and loses a lot on a few leads by chance wherever the few were not drawn,
and no spread of the drawn scores shows it. The remedy needs bounds: how much one question can lose at most.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ragsweep.stats.inference.cluster_errors import effective_clusters
from ragsweep.stats.inference.resampling import cluster_sums, draws

Doubles = NDArray[np.float64]
Floats = NDArray[np.float32]
Numbers = NDArray[np.int64]
Flags = NDArray[np.bool_]

SEEN = 10
"""With as many clusters that lose, losses are seen: their spread is in the interval."""
COMPARABLE = 0.5
"""Losses count from this part of the mean gain on: smaller ones say nothing about large ones."""
DRAWS = 10_000
SEED = 20261125
SIMULATED = 400
"""Golden sets that are drawn to find how often a true gain is claimed."""
FEWER = 4_000
"""Draws of weights that do where many golden sets are simulated."""
WIDEST = 8.0
"""A gain of more than so many times the one that the observed spread gives is not tried."""
ROUGHLY = 0.02
"""A share of simulated cases that is short of the wanted one by so little is not distinguished from it."""


RESAMPLES = 4_000
"""Golden sets that are drawn for one studentised bootstrap."""


@dataclass(frozen=True)
class RareLosses:
    """What large losses on few questions leave of the lead of one config over another.

    ``survives``: the lead is not undone by one more cluster that loses everything or, where losses were seen, the
    studentised bootstrap excludes a mean gain of 0. Losses of ``size`` (metric's unit) on a ``share`` of the questions
    cannot be excluded: ``seen`` of ``questions`` lost at least half as much, questions of one cluster counting
    together and ``questions`` being the effective number of clusters.
    """

    survives: bool
    size: float
    share: float
    seen: int
    questions: int


def rare_losses(
    gains: Doubles, clusters: Numbers, largest: float, weights: Doubles | None = None, level: float = 0.95
) -> RareLosses:
    """Return what rare large losses leave of the lead of one config over another, and how frequent they may be.

    The share is the exact upper bound of a rate (Clopper and Pearson, Biometrika 26, 1934).

    Args:
        gains: Of each question (questions,), positive where the config is better; times ``weights`` if there are any.
        clusters: Of each question, numbered from 0.
        largest: By how much one question can lose at most; 0 where the metric's definition excludes a loss.
        weights: Of each question, of mean 1.
        level: One-sided level of the share and of the lead.
    """
    sizes = np.bincount(clusters, weights).astype(np.float64)
    effective = effective_clusters(sizes)
    if not len(gains) or largest <= 0:
        return RareLosses(True, max(largest, 0.0), 0.0, 0, round(effective))
    from scipy.special import betaincinv

    seen = int(np.count_nonzero(cluster_sums(gains[None, :], clusters)[0] <= -largest / 2 * sizes))
    counted = seen * effective / len(sizes)
    share = float(betaincinv(counted + 1, effective - counted, level)) if counted < effective else 1.0
    if losses_are_seen(gains, clusters):
        chance = studentised_p_value(gains, clusters, weights)
    else:
        chance = chance_of_no_gain(gains, clusters, largest)
    return RareLosses(chance < 1 - level, largest, share, seen, round(effective))


def studentised_p_value(gains: Doubles, clusters: Numbers, weights: Doubles | None = None) -> float:
    """Return the one-sided p-value of a mean gain above 0 by the bootstrap of t statistics over whole clusters.

    Each resample has a standard error of its own (Efron 1982; Hall, Annals of Statistics 16, 1988): where rare large
    losses happen not to be drawn, the mean is high and the error small, which the normal distribution does not show. A
    resample without spread counts as the most extreme. 1 where there is no lead.
    """
    sizes = np.bincount(clusters, weights).astype(np.float64)
    mean = float(gains.sum() / sizes.sum())
    sums = cluster_sums(gains[None, :], clusters)[0] - mean * sizes
    if mean <= 0 or not sums.any():
        return 1.0 if mean <= 0 else 0.0
    columns = np.stack([sums, sizes, sums**2, sums * sizes, sizes**2], axis=1).astype(np.float32)
    drawn = np.concatenate([block @ columns for block in draws(len(sizes), RESAMPLES)]).astype(np.float64)
    total, size, squares, products, of_sizes = drawn.T
    centre = total / size
    errors = np.sqrt(np.maximum(squares - 2 * centre * products + centre**2 * of_sizes, 0.0))
    beyond = total >= mean * sizes.sum() / math.sqrt(float(np.square(sums).sum())) * errors
    return float((np.count_nonzero(beyond) + 1) / (RESAMPLES + 1))


def largest_loss(scores: Doubles, falls: bool) -> float:
    """Return the most that one question can lose against these scores: for scores within 0 and 1 up to these bounds.

    Other scores are taken to vary as widely as the largest of them. ``falls``: a loss is a lower score.
    """
    if not scores.size or scores.min() < 0 or scores.max() > 1:
        return float(np.abs(scores).max(initial=0.0))
    return float(scores.max() if falls else 1 - scores.min())


def largest_losses(scores: Doubles) -> tuple[float, float]:
    """Return by how much one question can fall below these scores, and rise above them."""
    return largest_loss(scores, falls=True), largest_loss(scores, falls=False)


def losses_are_seen(gains: Doubles, clusters: Numbers) -> bool:
    """Return whether enough clusters lose at least half of what the gaining ones gain on average.

    Args:
        gains: Of each question (questions,), positive where the config is better.
        clusters: Of each question, numbered from 0.
    """
    sums = cluster_sums(gains[None, :], clusters)[0]
    if not (sums > 0).any():
        return True
    return int(np.count_nonzero(sums <= -COMPARABLE * sums[sums > 0].mean())) >= SEEN


def find_exposed(rows: Doubles, clusters: Numbers, shown: Flags, most: tuple[float, float], allowed: float) -> Flags:
    """Flag the rows where a loss too rare to have been seen could undo the direction of the mean difference.

    Args:
        rows: Differences of each question (rows, questions).
        clusters: Of each question, numbered from 0.
        shown: The rows in question, one flag a row; the others are not exposed.
        most: By how much one question can fall, and rise (`largest_losses`).
        allowed: One-sided p-value below which a direction stands.
    """
    exposed = np.zeros(len(rows), dtype=bool)
    for n in np.flatnonzero(shown):
        rises = bool(rows[n].mean() > 0)
        gains, loss = (rows[n], most[0]) if rises else (-rows[n], most[1])
        exposed[n] = not losses_are_seen(gains, clusters) and chance_of_no_gain(gains, clusters, loss) >= allowed
    return exposed


def chance_of_no_gain(gains: Doubles, clusters: Numbers, loss: float) -> float:
    """Return the p-value of a mean gain above 0 when one more cluster, of mean size, loses ``loss`` a question.

    The share of weightings in which the weighted gain is not above 0; the weights of the clusters and of the added one
    are independent and exponential. It is Gaffke's bound on the mean of a bounded variable (Mathematical Methods of
    Statistics 14, 2005; its coverage: Learned-Miller and Thomas, arXiv 1905.06208): a Bayesian bootstrap with one
    observation more at the worst value.
    """
    sums = cluster_sums(gains[None, :], clusters)[0]
    weights = _weights(len(sums))
    lost = loss * len(gains) / len(sums) * weights[:, -1]
    return float((np.count_nonzero(weights[:, :-1] @ sums.astype(np.float32) <= lost) + 1) / (DRAWS + 1))


def least_gain(gains: Doubles, clusters: Numbers, loss: float, allowed: float) -> float:
    """Return the bound below which a mean gain lies with probability ``allowed`` (see ``chance_of_no_gain``).

    Below 0 where that chance is above ``allowed``.
    """
    sums = cluster_sums(gains[None, :], clusters)[0]
    weights, size = _weights(len(sums)), len(gains) / len(sums)
    totals = weights[:, :-1] @ sums.astype(np.float32) - loss * size * weights[:, -1]
    return float(np.quantile(totals / (size * weights.sum(axis=1)), allowed))


def smallest_gain_shown(
    gains: Doubles, clusters: Numbers, loss: float | None, gain: float, critical: float, power: float = 0.8
) -> float:
    """Return the smallest true gain, from ``gain`` on, that is claimed in ``power`` of all cases.

    Simulated by clusters drawn from those observed, so weighted that the mean is the true one: no value is made up. The
    interval must exclude 0 where the gaining clusters are more frequent and the losing ones hardly less, as a gain by
    further hits widens the spread itself; and the guard must let it pass where large gains are more frequent and losses
    less (Efron's tilted bootstrap, Canadian Journal of Statistics 9, 1981), as a gain on all questions makes them. NaN
    where no gain of up to ``WIDEST`` times as much is claimed as often.

    Args:
        gains: Of each question (questions,), of any mean.
        clusters: Of each question, numbered from 0.
        loss: The most that one question can lose; None where the guard against unseen losses does not apply.
        gain: A true gain that would be claimed as often if its spread were the observed one.
        critical: How many standard errors a mean gain must be large to be shown.
        power: Share of cases.
    """
    from scipy.special import stdtr

    sums, size = np.sort(cluster_sums(gains[None, :], clusters)[0]), len(gains) / (clusters.max() + 1)
    if sums[-1] <= 0:
        return gain
    places = np.random.default_rng((SEED, len(sums))).random((SIMULATED // 2, len(sums)))
    places = np.concatenate([places, 1 - places])  # antithetic: lucky and unlucky sets are as frequent
    allowed = 1 - float(stdtr(len(sums) - 1, critical))

    def shown(weights: Doubles) -> Doubles:
        drawn = sums[np.minimum(np.searchsorted(np.cumsum(weights) / weights.sum(), places), len(sums) - 1)]
        return np.asarray(drawn[drawn.mean(axis=1) > critical * drawn.std(axis=1, ddof=1) / np.sqrt(len(sums))])

    def is_shown(true: float) -> bool:
        enough = (power - ROUGHLY) * SIMULATED
        if len(shown(_lifted(sums, true * size))) < enough:
            return False
        return loss is None or _confirmed(shown(_tilted(sums, true * size)), loss * size, allowed).sum() >= enough

    most = min(WIDEST * gain, 0.98 * float(sums[-1]) / size)
    if is_shown(gain):
        return gain
    if most <= gain or not is_shown(most):
        return math.nan
    low, high = gain, most
    while high > 1.03 * low:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if is_shown(middle) else (middle, high)
    return float(high)


def _confirmed(drawn: Doubles, lost: float, allowed: float) -> NDArray[np.bool_]:
    """Return for each row of cluster sums whether the guard lets a gain pass that is shown."""
    won = drawn > 0
    usual = np.where(won, drawn, 0.0).sum(axis=1) / np.maximum(won.sum(axis=1), 1)
    passed = np.asarray((drawn <= -COMPARABLE * usual[:, None]).sum(axis=1) >= SEEN)
    weights = _weights(drawn.shape[1])[:FEWER]
    totals = weights[:, :-1] @ drawn[~passed].T.astype(np.float32)
    passed[~passed] = (totals <= lost * weights[:, -1:]).mean(axis=0) < allowed
    return passed


def _lifted(sums: Doubles, mean: float) -> Doubles:
    """Weight gaining clusters, and the others, so that the mean of all sums is ``mean``."""
    won = sums > 0
    rest = float(sums[~won].mean()) if (~won).any() else 0.0
    share = min(max((mean - rest) / (float(sums[won].mean()) - rest), 0.0), 1.0)
    return np.where(won, share / won.sum(), (1 - share) / max(int((~won).sum()), 1))


def _tilted(sums: Doubles, mean: float) -> Doubles:
    """Weight clusters exponentially by what they gain, so that the mean of all sums is ``mean``."""
    scaled = (sums - sums.mean()) / sums.std()
    low, high = -50.0, 50.0
    for _ in range(50):
        tilt = (low + high) / 2
        weights = np.exp(tilt * scaled - (tilt * scaled).max())
        low, high = (low, tilt) if weights @ sums > mean * weights.sum() else (tilt, high)
    return np.asarray(weights)


@lru_cache(maxsize=4)
def _weights(clusters: int) -> Floats:
    """Draw weights of so many clusters and one more: (draws, clusters + 1)."""
    return np.random.default_rng((SEED, clusters)).exponential(size=(DRAWS, clusters + 1)).astype(np.float32)
