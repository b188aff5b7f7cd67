"""Draw clusters of questions again and again: what the means of many configs could have been."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]
Floats = NDArray[np.float32]
Numbers = NDArray[np.int64]

RESAMPLES = 10_000
BLOCK = 500
"""Resamples drawn at a time: what is made of them stays in the processor's cache."""
REMEMBERED = 1 << 26
"""Weights of more bytes than this are drawn anew each time rather than remembered."""
FEWEST = 10
"""With fewer clusters no spread is claimed to be known."""
SEED = 20261122
NEGLIGIBLE = 1e-9
"""A spread of less than this part of the largest number is rounding, and counts as none."""


@dataclass(frozen=True, eq=False)
class ClusteredScores:
    """Rows of scores (rows, questions) summed up by cluster, ready to be drawn from.

    ``sums`` (rows, clusters) are of deviations from each row's mean. ``errors`` are standard errors of the means: the
    linearised ratio estimator with whole clusters as units (Cochran 1977, section 9.7), with G / (G - 1). With one
    question a cluster it is the ordinary standard error. A spread that is mere rounding is 0.
    """

    means: Doubles
    sums: Doubles
    sizes: Doubles  # (clusters,)
    errors: Doubles

    @property
    def clusters(self) -> int:
        """How many clusters there are to draw from."""
        return len(self.sizes)

    @property
    def enough(self) -> bool:
        """Whether there are enough clusters to speak of a spread."""
        return self.clusters >= FEWEST


def cluster_scores(rows: Doubles, clusters: Numbers) -> ClusteredScores:
    """Sum up rows (rows, questions) by cluster (questions,), numbered from 0. NaN means and errors of no questions."""
    questions = rows.shape[1]
    if not questions:
        unknown = np.full(len(rows), np.nan)
        return ClusteredScores(unknown, np.zeros((len(rows), 0)), np.zeros(0), unknown)
    means = rows.mean(axis=1)
    sums = cluster_sums(rows - means[:, None], clusters)
    count = sums.shape[1]
    with np.errstate(divide="ignore", invalid="ignore"):
        errors = np.sqrt(np.square(sums).sum(axis=1) * np.divide(count, count - 1)) / questions
    largest = np.abs(rows).max(axis=1)
    errors[errors <= NEGLIGIBLE * largest] = 0.0
    sizes = np.bincount(clusters, minlength=count).astype(np.float64)
    return ClusteredScores(means, np.where((errors > 0)[:, None], sums, 0.0), sizes, errors)


def cluster_sums(rows: Doubles, clusters: Numbers) -> Doubles:
    """Add up the columns of each cluster: (rows, clusters)."""
    order = np.argsort(clusters, kind="stable")
    starts = np.flatnonzero(np.diff(clusters[order], prepend=-1))
    if len(starts) == rows.shape[1]:
        return np.asarray(rows[:, order])
    return np.asarray(np.add.reduceat(rows[:, order], starts, axis=1))


def deviations(sums: Doubles, sizes: Doubles, resamples: int = RESAMPLES) -> Iterator[Floats]:
    """Yield how far resampled means lie from the observed ones, in blocks (resamples, rows).

    Whole clusters are drawn with replacement, as many as there are, and a mean is the drawn sum over the number of
    drawn questions (cluster bootstrap: Davison and Hinkley 1997, section 3.8). The draws depend on the number of
    clusters alone: all that is computed of one set of questions is computed of the same draws. Multiplied in float32:
    sums are of deviations, so that nothing cancels. Scale the rows of ``sums`` to have the deviations scaled.
    """
    columns = np.ascontiguousarray(sums.T, dtype=np.float32)
    for weights in draws(len(sizes), resamples):
        drawn = weights @ sizes.astype(np.float32)
        yield (weights @ columns) / drawn[:, None]


def draws(clusters: int, resamples: int) -> Iterator[Floats]:
    """Yield how often each cluster is in each resample, in blocks (resamples, clusters)."""
    draw = _drawn if clusters * resamples <= REMEMBERED else _drawn.__wrapped__
    for start in range(0, resamples, BLOCK):
        yield draw(clusters, start)[: resamples - start].astype(np.float32)


@lru_cache(maxsize=4 * RESAMPLES // BLOCK)
def _drawn(clusters: int, start: int) -> NDArray[np.uint8]:
    """Draw one block of resamples; each has a seed of its own, so that a longer row of resamples begins the same."""
    generator = np.random.default_rng((SEED, clusters, start))
    chosen = generator.integers(0, clusters, (BLOCK, clusters), dtype=np.int32)
    chosen += (np.arange(BLOCK, dtype=np.int32) * clusters)[:, None]
    return np.bincount(chosen.ravel(), minlength=BLOCK * clusters).reshape(BLOCK, clusters).astype(np.uint8)
