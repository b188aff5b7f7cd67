"""Resample clusters of questions, for the sampling distribution of the means of many configs."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ragsweep.stats.inference.cluster_errors import enough, intraclass_correlation, unequal_clusters

Doubles = NDArray[np.float64]
Floats = NDArray[np.float32]
Numbers = NDArray[np.int64]

RESAMPLES = 10_000
BLOCK = 500
"""Number of resamples per block; the arrays of a block fit into the processor's cache."""
REMEMBERED = 1 << 26
"""Size limit, in bytes, of the cached draws for one number of clusters; larger draws are repeated each time."""
SEED = 20261122
NEGLIGIBLE = 1e-9
"""Spread, relative to the largest number, below which it is mere rounding and counts as 0."""


@dataclass(frozen=True, eq=False)
class ClusteredScores:
    """Rows of scores (rows, questions), summed by cluster for resampling.

    ``sums`` (rows, clusters) are of deviations from each row's mean. ``errors`` are standard errors of the means, with
    the clusters' ``factors`` (see ``unequal_clusters``); their t statistics have ``degrees`` degrees of freedom, NaN
    without ``enough`` clusters. With one question per cluster the error is the ordinary standard error. A spread that
    is mere rounding is 0.
    """

    means: Doubles
    sums: Doubles
    sizes: Doubles  # (clusters,)
    errors: Doubles
    factors: Doubles  # (clusters,)
    degrees: float

    @property
    def clusters(self) -> int:
        """The number of clusters."""
        return len(self.sizes)

    @property
    def enough(self) -> bool:
        """Whether there are enough clusters to estimate a spread."""
        return enough(self.sizes)

    @property
    def standardised(self) -> Doubles:
        """The sums of rows with a spread, scaled so that their resampled deviations have a variance of 1."""
        varied = self.sums[self.errors > 0]
        return np.asarray(varied / np.sqrt(np.square(varied).sum(axis=1, keepdims=True)))


def cluster_scores(
    rows: Doubles, clusters: Numbers, weights: Doubles | None = None, *, compared: bool = False
) -> ClusteredScores:
    """Sum rows (rows, questions) by cluster; ``clusters`` (questions,) has each question's cluster, numbered from 0.

    Without questions, means and errors are NaN. With ``weights`` (questions,), of mean 1, the rows are scores times
    weights: deviations are also weighted, and the size of a cluster is the sum of its weights.

    If rows are ``compared`` with each other, the part of a question's scores that all rows share cancels in differences
    and is excluded from the correlation within clusters.
    """
    questions = rows.shape[1]
    if not questions:
        unknown = np.full(len(rows), np.nan)
        return ClusteredScores(unknown, np.zeros((len(rows), 0)), np.zeros(0), unknown, np.zeros(0), np.nan)
    means = rows.mean(axis=1)
    apart = rows - means[:, None] if weights is None else rows - means[:, None] * weights
    sums = cluster_sums(apart, clusters)
    counts = np.bincount(clusters, minlength=sums.shape[1]).astype(np.float64)
    sizes = counts if weights is None else np.bincount(clusters, weights).astype(np.float64)
    squares = None if weights is None else np.bincount(clusters, np.square(weights)).astype(np.float64)
    own = apart if weights is None else apart / weights
    own = own - own.mean(axis=0) if compared else own
    correlation = intraclass_correlation(own, cluster_sums(own, clusters) if own is not apart else sums, counts)
    factors, degrees = unequal_clusters(sizes, correlation, squares)
    errors = np.sqrt(np.square(sums) @ factors) / questions
    errors[errors <= NEGLIGIBLE * np.abs(rows).max(axis=1)] = 0.0
    return ClusteredScores(means, np.where((errors > 0)[:, None], sums, 0.0), sizes, errors, factors, degrees)


def cluster_sums(rows: Doubles, clusters: Numbers) -> Doubles:
    """Return the sum of each row over each cluster, as (rows, clusters)."""
    order = np.argsort(clusters, kind="stable")
    starts = np.flatnonzero(np.diff(clusters[order], prepend=-1))
    if len(starts) == rows.shape[1]:
        return np.asarray(rows[:, order])
    return np.asarray(np.add.reduceat(rows[:, order], starts, axis=1))


def deviations(sums: Doubles, resamples: int = RESAMPLES) -> Iterator[Floats]:
    """Yield resampled sums of deviations, in blocks (resamples, rows), from sums by cluster (rows, clusters).

    Each resample draws whole clusters with replacement, their number unchanged (cluster bootstrap: Davison and Hinkley
    1997, section 3.8). Divided by the number of questions, a sum is the deviation of a resampled mean from the observed
    one, linearised: division by the number of drawn questions would reduce the weight of a large cluster that is drawn
    often.
    The draws depend only on the number of clusters: all statistics of one set of questions use the same draws.
    Float32 is precise enough: the sums are of deviations, so no large numbers cancel.
    """
    columns = np.ascontiguousarray(sums.T, dtype=np.float32)
    for weights in draws(sums.shape[1], resamples):
        yield weights @ columns


def draws(clusters: int, resamples: int) -> Iterator[Floats]:
    """Yield the count of each cluster in each resample, in blocks (resamples, clusters)."""
    draw = _drawn if clusters * resamples <= REMEMBERED else _drawn.__wrapped__
    for start in range(0, resamples, BLOCK):
        yield draw(clusters, start)[: resamples - start].astype(np.float32)


@lru_cache(maxsize=4 * RESAMPLES // BLOCK)
def _drawn(clusters: int, start: int) -> NDArray[np.uint8]:
    """Draw one block of resamples; each block has its own seed, so that a longer series begins with the same blocks."""
    generator = np.random.default_rng((SEED, clusters, start))
    chosen = generator.integers(0, clusters, (BLOCK, clusters), dtype=np.int32)
    chosen += (np.arange(BLOCK, dtype=np.int32) * clusters)[:, None]
    return np.bincount(chosen.ravel(), minlength=BLOCK * clusters).reshape(BLOCK, clusters).astype(np.uint8)
