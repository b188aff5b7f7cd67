"""Losses too rare to have been seen: whether a lead survives one more cluster on which everything is lost.

A config that gains a little on many questions and loses a lot on a few leads by chance wherever the few were not drawn,
and no spread of the drawn scores shows it. The remedy needs bounds: how much one question can lose at most.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ragsweep.stats.inference.resampling import cluster_sums

Doubles = NDArray[np.float64]
Floats = NDArray[np.float32]
Numbers = NDArray[np.int64]

SEEN = 10
"""With as many clusters that lose, losses are seen: their spread is in the interval."""
COMPARABLE = 0.5
"""Losses count from this part of the mean gain on: smaller ones say nothing about large ones."""
DRAWS = 10_000
SEED = 20261125


def largest_loss(scores: Doubles, falls: bool) -> float:
    """Return the most that one question can lose against these scores: for scores within 0 and 1 up to these bounds.

    Other scores are taken to vary as widely as the largest of them. ``falls``: a loss is a lower score.
    """
    if not scores.size or scores.min() < 0 or scores.max() > 1:
        return float(np.abs(scores).max(initial=0.0))
    return float(scores.max() if falls else 1 - scores.min())


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


@lru_cache(maxsize=4)
def _weights(clusters: int) -> Floats:
    """Draw weights of so many clusters and one more: (draws, clusters + 1)."""
    return np.random.default_rng((SEED, clusters)).exponential(size=(DRAWS, clusters + 1)).astype(np.float32)
