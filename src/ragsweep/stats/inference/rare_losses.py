"""Losses too rare to have been seen: whether a lead survives one more cluster on which everything is lost.

A config that gains a little on many questions and loses a lot on a few leads by chance wherever the few were not drawn,
and no spread of the drawn scores shows it. The remedy needs bounds: how much one question can lose at most.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ragsweep.stats.inference.resampling import cluster_sums

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
SIMULATED = 200
"""Golden sets that are drawn to find how often the guard withholds a true gain."""
FEWER = 4_000
"""Draws of weights that do where many golden sets are simulated."""
WIDEST = 8.0
"""A gain of more than so many times the one that is shown without the guard is not tried."""


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


def smallest_gain_shown(gains: Doubles, clusters: Numbers, loss: float, gain: float, critical: float) -> float:
    """Return the smallest true gain that is claimed, guard included, as often as ``gain`` is without the guard.

    Simulated: clusters drawn from those observed, weighted exponentially by what they gain so that the mean is the true
    one (Efron's tilted bootstrap, Canadian Journal of Statistics 9, 1981): wins become more frequent, losses less, and
    no value is made up. NaN where no gain of up to ``WIDEST`` times as much is claimed as often.

    Args:
        gains: Of each question (questions,), of any mean.
        clusters: Of each question, numbered from 0.
        loss: The most that one question can lose.
        gain: A true gain that is shown often enough without the guard.
        critical: How many standard errors a mean gain must be large to be shown.
    """
    from scipy.special import stdtr

    sums, size = cluster_sums(gains[None, :], clusters)[0], len(gains) / (clusters.max() + 1)
    places = np.random.default_rng((SEED, len(sums))).random((SIMULATED, len(sums)))
    allowed = 1 - float(stdtr(len(sums) - 1, critical))

    def share(true: float, guarded: bool) -> float:
        drawn = sums[_tilted(sums, true * size, places)]
        spread = drawn.std(axis=1, ddof=1) / np.sqrt(len(sums))
        shown = drawn[drawn.mean(axis=1) > critical * spread]
        return float((_confirmed(shown, loss * size, allowed).sum() if guarded else len(shown)) / SIMULATED)

    wanted, most = share(gain, guarded=False), min(WIDEST * gain, 0.98 * float(sums.max()) / size)
    if share(gain, guarded=True) >= wanted - 0.02:
        return gain
    if most <= gain or share(most, guarded=True) < wanted:
        return math.nan
    low, high = gain, most
    while high > 1.03 * low:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if share(middle, guarded=True) >= wanted else (middle, high)
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


def _tilted(sums: Doubles, mean: float, places: Doubles) -> Numbers:
    """Draw clusters at these places between 0 and 1, weighted exponentially so that their mean sum is ``mean``."""
    scaled = (sums - sums.mean()) / sums.std()
    low, high = -50.0, 50.0
    for _ in range(50):
        tilt = (low + high) / 2
        weights = np.exp(tilt * scaled - (tilt * scaled).max())
        low, high = (low, tilt) if weights @ sums > mean * weights.sum() else (tilt, high)
    return np.minimum(np.searchsorted(np.cumsum(weights) / weights.sum(), places), len(sums) - 1)


@lru_cache(maxsize=4)
def _weights(clusters: int) -> Floats:
    """Draw weights of so many clusters and one more: (draws, clusters + 1)."""
    return np.random.default_rng((SEED, clusters)).exponential(size=(DRAWS, clusters + 1)).astype(np.float32)
