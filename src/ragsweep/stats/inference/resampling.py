"""The bootstrap over clusters of questions, and its intervals, which hold simultaneously for many configs."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.data import Floats
from ragsweep.core.question_results import Doubles, Numbers
from ragsweep.stats.inference.cluster_errors import enough, intraclass_correlation, unequal_clusters
from ragsweep.stats.inference.estimates import LEVEL

RESAMPLES = 10_000
BLOCK = 500
"""Number of resamples per block, small enough for a block's arrays to fit into the processor's cache."""
REMEMBERED = 1 << 26
"""Maximum size, in bytes, of the draws that are cached for one number of clusters; larger draws are recomputed."""
SEED = 20261122
NEGLIGIBLE = 1e-9
"""A spread of less than this share of the largest number is only rounding error and counts as 0."""


@dataclass(frozen=True, eq=False)
class ClusteredScores:
    """Rows of scores (rows, questions), summed by cluster for resampling.

    ``sums`` (rows, clusters) are the sums of deviations from each row's mean. ``errors`` are standard errors of the
    means, with the clusters' ``factors`` (see ``unequal_clusters``); their t statistics have ``degrees`` degrees of
    freedom, NaN without ``enough`` clusters. With one question per cluster, the error is the ordinary standard error. A
    spread that is only rounding error is set to 0. If a row's ``sums`` are all 0 although its scores vary, the error is
    computed as for independent questions.
    """

    means: Doubles
    sums: Doubles
    sizes: Doubles  # (clusters,)
    errors: Doubles
    factors: Doubles  # (clusters,)
    degrees: float

    @property
    def enough(self) -> bool:
        """Whether there are enough clusters to estimate a spread."""
        return enough(self.sizes)

    @property
    def standardised(self) -> Doubles:
        """The sums of rows whose clusters vary, scaled so that their resampled deviations have a variance of 1."""
        varied = self.sums[self.sums.any(axis=1)]
        return np.asarray(varied / np.sqrt(np.square(varied).sum(axis=1, keepdims=True)))


def cluster_scores(
    rows: Doubles, clusters: Numbers, weights: Doubles | None = None, *, compared: bool = False
) -> ClusteredScores:
    """Sum rows (rows, questions) by cluster; ``clusters`` (questions,) has each question's cluster, numbered from 0.

    Without questions, means and errors are NaN. With ``weights`` (questions,), of mean 1, the rows are scores times
    weights: deviations are also weighted, and the size of a cluster is the sum of its weights.

    If the rows are ``compared``, the part of a question's scores that all rows share cancels in differences and is
    excluded from the correlation within clusters.
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
    sums = np.where((errors > 0)[:, None], sums, 0.0)
    cancelled = (errors == 0) & apart.any(axis=1)
    if cancelled.any() and len(sizes) < questions:  # deviations that cancel within clusters do not imply precision
        errors[cancelled] = cluster_scores(rows[cancelled], np.arange(questions), weights).errors
    return ClusteredScores(means, sums, sizes, errors, factors, degrees)


def cluster_sums(rows: Doubles, clusters: Numbers) -> Doubles:
    """Return the sum of each row over each cluster, as (rows, clusters)."""
    order = np.argsort(clusters, kind="stable")
    starts = np.flatnonzero(np.diff(clusters[order], prepend=-1))
    if len(starts) == rows.shape[1]:
        return np.asarray(rows[:, order])
    return np.asarray(np.add.reduceat(rows[:, order], starts, axis=1))


def deviations(sums: Doubles, resamples: int) -> Iterator[Floats]:
    """Yield resampled sums of deviations, in blocks (resamples, rows), from sums by cluster (rows, clusters).

    Each resample draws the observed number of clusters, whole and with replacement (cluster bootstrap: Davison and
    Hinkley 1997, section 3.8). A sum divided by the number of questions is the linearised deviation of a resampled mean
    from the observed mean. Division by the number of drawn questions would reduce the weight of a large cluster that is
    drawn often. The draws depend only on the number of clusters, so all statistics of one set of questions use the same
    draws. Float32 is precise enough, because no large numbers cancel in sums of deviations.
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


LARGEST = 1e6
"""Maximum distance in standard errors, so that all numbers remain finite."""
ROUNDING = 1e-5
"""Relative widening of intervals, so that float32 rounding does not exclude 0."""


@dataclass(frozen=True, eq=False)
class SimultaneousIntervals:
    """Means of rows with simultaneous intervals, in the unit of the rows.

    ``critical`` is the half-width of each interval in standard errors, for t statistics with ``degrees`` degrees of
    freedom. Ends are NaN with too few clusters; a row without spread has ends equal to its mean.
    """

    means: Doubles
    errors: Doubles
    low: Doubles
    high: Doubles
    critical: float
    degrees: float
    largest: float  # the quantile of the largest resampled deviation, in standard errors that are treated as known


def bound(data: ClusteredScores, resamples: int = RESAMPLES, largest: float | None = None) -> SimultaneousIntervals:
    """Bound the means of rows of clustered scores so that all intervals hold simultaneously at ``LEVEL``.

    In each resample, the largest deviation of any row is taken, in standard errors; its quantile applies to all rows
    (Romano and Wolf, Econometrica 73, 2005, the single-step version). The standard errors are computed from the sample,
    because a resample with equal scores has a standard error of 0. The quantile is then converted from the normal
    distribution to Student's t (:func:`as_student`). ``largest`` is the quantile of a larger family that includes the
    rows; if None, the quantile of the rows alone is computed. Rows that vary only within clusters cannot be resampled
    by cluster; the quantile is then at least the normal quantile, corrected for the number of these rows (Bonferroni).
    """
    furthest = largest_deviation(data.standardised, resamples) if largest is None else largest
    if within := np.count_nonzero((data.errors > 0) & ~data.sums.any(axis=1)):
        furthest = max(furthest, NormalDist().inv_cdf(1 - (1 - LEVEL) / 2 / within))
    critical = as_student(furthest, data.degrees) * (1 + ROUNDING)
    half = np.where(data.errors > 0, critical * data.errors, 0.0 if data.enough else np.nan)
    return SimultaneousIntervals(
        data.means, data.errors, data.means - half, data.means + half, critical, data.degrees, furthest
    )


def largest_deviation(standardised: Doubles, resamples: int) -> float:
    """Return the ``LEVEL`` quantile of the largest resampled deviation of any row; 0 if there are no rows.

    ``standardised`` is (rows, clusters). The deviations are in standard errors that are treated as known;
    :func:`as_student` allows for the fact that they are estimated.
    """
    if not len(standardised):
        return 0.0
    largest = np.sort(np.concatenate([np.abs(block).max(axis=1) for block in deviations(standardised, resamples)]))
    place = min(math.ceil((resamples + 1) * LEVEL), resamples) - 1
    return float(largest[place])


def as_student(normal: float, degrees: float) -> float:
    """Return the t value that has the same tail probability as a normal value.

    The function inverts Wallace's second approximation (Annals of Mathematical Statistics 30, 1959). The approximation
    stays finite and increasing even where tail probabilities are 0 in double precision. Return NaN for less than one
    degree of freedom.
    """
    if not degrees >= 1 or math.isnan(normal):
        return math.nan
    stretched = normal * (8 * degrees + 3) / (8 * degrees + 1)
    root = math.sqrt(degrees * math.expm1(min(stretched * stretched / degrees, 60.0)))
    return math.copysign(min(root, LARGEST), normal)


def as_normal(student: Doubles, degrees: float) -> Doubles:
    """Return the normal value that has the same tail probability as a t value; the inverse of :func:`as_student`."""
    root = np.sqrt(degrees * np.log1p(np.square(student) / degrees))
    return np.asarray(np.sign(student) * root * (8 * degrees + 1) / (8 * degrees + 3))


def student_quantile(share: float, degrees: float) -> float:
    """Return the quantile of Student's t at the probability ``share``."""
    from scipy.special import stdtrit

    return float(stdtrit(degrees, share))


def needed_p_value(critical: float, degrees: float) -> float:
    """Return the one-sided p-value of a critical value or of a single interval at ``LEVEL``, whichever is smaller.

    The resampled critical value can be much too small if differences have few distinct values.
    """
    from scipy.special import stdtr

    return min(1 - float(stdtr(degrees, critical)), (1 - LEVEL) / 2)
