"""Evidence that may be looked at after every question: how sure is it that a mean difference is above a margin?

The evidence is a capital, in logarithms. It starts at 1, and each cluster of questions multiplies it by a factor whose
mean is at most 1 as long as the mean difference is at most the margin. So it ever reaches 20 in at most one of twenty
such cases, however often and whenever it is looked at (Ville 1939): it is an e-value at any time that looking ends.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ragsweep.stats.inference.resampling import cluster_sums

Doubles = NDArray[np.float64]
Numbers = NDArray[np.int64]

STAKES = (0.3, 0.6, 0.9)
"""Shares of the capital that one question may lose; a third of the capital is bet with each of them."""
LARGEST_STAKE = 0.9
"""No cluster can lose more than this, however many questions it has."""
CAUTION = 0.5
"""Bound on the bets of the empirical Bernstein capital, as Waudby-Smith and Ramdas choose it."""
STEPS = 50
"""Bisections to find a bound: its error is the range of the differences times 2^-50."""


def observed(differences: Doubles, clusters: Numbers) -> tuple[Doubles, Doubles]:
    """Sum up differences (rows, questions) by cluster, in the order of their numbers; NaN are left out.

    Returns:
        The sums, and how many differences there are in each: both (rows, clusters).
    """
    known = ~np.isnan(differences)
    return cluster_sums(np.where(known, differences, 0.0), clusters), cluster_sums(known.astype(np.float64), clusters)


def betting(sums: Doubles, sizes: Doubles, margin: float = 0.0, spread: float = 1.0) -> Doubles:
    """Return the logarithm of the capital after each cluster: (rows, clusters).

    A bet that the mean is above the margin (Waudby-Smith and Ramdas, JRSS B 86, 2024), with fixed stakes and the mean
    of their capitals, so that without a change of rival the questions' order means nothing. A question multiplies a
    capital by 1 + stake x (difference - margin) / (spread + margin), which is never below 1 - stake. A cluster is one
    bet: on the sum of its questions, or on that many times less where it could lose more than ``LARGEST_STAKE``. Holds
    for clusters that are independent draws; where a bet was made smaller, what a config wins must have nothing to do
    with how many questions share a source.

    Args:
        sums: Of the differences in each cluster, as ``observed`` makes them. Each difference is within ``spread``.
        sizes: How many differences were summed up; of 0 nothing follows.
        margin: In the unit of the differences, above -spread.
        spread: The metric's highest value less its lowest: a difference lies in [-spread, spread].
    """
    won = (sums - margin * sizes) / (spread + margin)
    capitals = [np.log1p(_fraction(stake, sizes) * won).cumsum(axis=1) for stake in STAKES]
    return np.asarray(np.logaddexp.reduce(capitals, axis=0) - math.log(len(STAKES)))


def _fraction(stake: float, sizes: Doubles) -> Doubles:
    """Return the stake of one question in clusters of these sizes."""
    return np.minimum(stake, LARGEST_STAKE / np.maximum(sizes, 1.0))


def empirical_bernstein(
    sums: Doubles, sizes: Doubles, margin: float = 0.0, spread: float = 1.0, level: float = 0.95
) -> Doubles:
    """Return the logarithm of the capital after each cluster: (rows, clusters).

    The predictable plug-in empirical Bernstein process (Waudby-Smith and Ramdas 2024, theorem 2), one-sided, on the
    mean difference of each cluster. Bets are largest for about as many observations as ``level`` needs; it is valid
    at every level. Arguments as for ``betting``; weaker than that, and here for comparison.
    """
    shares = (sums / np.maximum(sizes, 1.0) + spread) / (2 * spread)
    counts = np.cumsum(sizes > 0, axis=1)
    means = (0.5 + np.where(sizes > 0, shares, 0.0).cumsum(axis=1)) / (counts + 1)
    variances = (0.25 + np.where(sizes > 0, np.square(shares - means), 0.0).cumsum(axis=1)) / (counts + 1)
    before, spreads = _shifted(means, 0.5), _shifted(variances, 0.25)
    count = np.maximum(counts, 1)
    bets = np.sqrt(2 * math.log(1 / (1 - level)) / (spreads * count * np.log1p(count)))
    bets = np.minimum(bets, CAUTION)
    paid = np.square(shares - before) * (-np.log1p(-bets) - bets)
    gained = bets * (shares - (margin + spread) / (2 * spread)) - paid
    return np.where(sizes > 0, gained, 0.0).cumsum(axis=1)


def _shifted(running: Doubles, first: float) -> Doubles:
    """Return the values before each observation."""
    return np.concatenate([np.full((len(running), 1), first), running[:, :-1]], axis=1)


def evidence(capital: Doubles) -> Doubles:
    """Return the logarithm of the largest capital so far (rows, clusters): never below 0, never falling."""
    return np.maximum.accumulate(np.maximum(capital, 0.0), axis=1)


def p_values(capital: Doubles) -> Doubles:
    """Return p-values (rows, clusters) that hold at every look: 1 over the largest capital so far."""
    return np.exp(-evidence(capital))


def lower_bound(sums: Doubles, sizes: Doubles, level: float = 0.95, spread: float = 1.0) -> Doubles:
    """Bound the mean difference of each row (rows,) from below: at every look at once it holds at ``level``.

    The largest margin that ``betting`` has refused so far; -spread where it refused none. Arguments as for ``betting``.
    """
    if not len(sums):
        return np.zeros(0)
    needed = -math.log(1 - level)
    low, high = np.full(len(sums), -spread), np.full(len(sums), spread)
    for _ in range(STEPS):
        middle = (low + high) / 2
        refused = _largest(sums, sizes, middle, spread) >= needed
        low, high = np.where(refused, middle, low), np.where(refused, high, middle)
    return low


def _largest(sums: Doubles, sizes: Doubles, margins: Doubles, spread: float) -> Doubles:
    """Return the largest capital of each row against a margin of its own."""
    moved, room = sums - margins[:, None] * sizes, (spread + margins)[:, None]
    return np.asarray(betting(moved * spread / room, sizes, 0.0, spread).max(axis=1, initial=0.0))
