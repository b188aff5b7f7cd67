"""Standard errors of means over clusters of unequal size, and the degrees of freedom of their t statistics.

Sums over large clusters vary more and dominate the mean from which deviations are taken. The plain cluster estimator is
then too small, and its t statistic has fewer degrees of freedom than there are clusters.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ragsweep.core.question_results import Doubles, Numbers

FEWEST = 10
"""Minimum effective number of clusters for an estimate of the spread."""
FEW = f"fewer than {FEWEST} independent questions"
TAIL = 0.02
"""Two-sided tail at which degrees of freedom are fitted: below 5 %, because most intervals are simultaneous."""
PRECISION, STEPS = 1e-9, 40
"""Relative precision of a root (the integral is less accurate), and maximum number of steps."""
NODES = 768
"""Number of nodes of the integral; its error is below 1e-6 for the cluster sizes in the tests."""
ROUNDED = 2
"""Decimals to which a correlation is rounded: finer than its accuracy, but coarse enough to cache derived values."""
KINDS = 40
"""Maximum number of cluster kinds (size, sum of squared weights) from which degrees of freedom are computed."""


def varying(weights: Doubles | None) -> Doubles | None:
    """Return the weights; None if there are none or all are equal."""
    return None if weights is None or not len(weights) or (weights == weights[0]).all() else weights


def effective_clusters(sizes: Doubles) -> float:
    """Return the effective number of clusters: (sum of sizes)² / sum of squared sizes; 0 if there are no clusters."""
    return float(sizes.sum() ** 2 / np.square(sizes).sum()) if len(sizes) else 0.0


def enough_clusters(clusters: Numbers, weights: Doubles | None = None) -> bool:
    """Return whether there are enough clusters to estimate a spread; ``clusters`` has the cluster of each question."""
    return enough(np.bincount(clusters, weights).astype(np.float64))


def enough(sizes: Doubles) -> bool:
    """Return whether clusters of these sizes estimate a spread at least as well as ten clusters of equal size."""
    return effective_clusters(sizes) >= FEWEST - 1e-9


def intraclass_correlation(deviations: Doubles, sums: Doubles, sizes: Doubles) -> float:
    """Estimate the correlation of scores within a cluster, from 0 to 1: one number for all rows.

    The method is the analysis-of-variance estimator for unequal clusters (Donner, International Statistical Review 54,
    1986, section 2). The mean squares of each row are divided by the row's variance, then averaged over the rows that
    vary. The correlation is 0 where undefined: if there is one cluster, if every cluster is a single question, or if no
    row varies.

    Args:
        deviations: Deviation of each score from its row's mean (rows, questions).
        sums: Sums of the deviations by cluster (rows, clusters).
        sizes: Number of questions of each cluster.
    """
    questions, clusters = deviations.shape[1], len(sizes)
    total = np.square(deviations).sum(axis=1)
    varied = total > 0
    if not 1 < clusters < questions or not varied.any():
        return 0.0
    between = float((np.square(sums[varied]) / sizes).sum(axis=1) @ (1 / total[varied])) / varied.sum()
    among, within = between / (clusters - 1), (1 - between) / (questions - clusters)
    typical = (questions - np.square(sizes).sum() / questions) / (clusters - 1)
    spread = among + (typical - 1) * within
    return min(max((among - within) / spread, 0.0), 1.0) if spread > 0 else 0.0


class VarianceCorrection(NamedTuple):
    """The correction of squared cluster sums to an unbiased variance: a factor per cluster, and degrees of freedom."""

    factors: Doubles
    degrees: float


def unequal_clusters(sizes: Doubles, correlation: float, squares: Doubles | None = None) -> VarianceCorrection:
    """Correct for clusters of unequal size, as if scores were normal, with the same correlation in every cluster.

    For weighted questions, a cluster's size is the sum of its weights, and ``squares`` has the sum of the squared
    weights.

    A cluster's factor is the variance of its sum, divided by the expected square of its sum of deviations. This is CR2
    for a mean (Bell and McCaffrey, Survey Methodology 28, 2002), with correlated scores as the working model. The
    degrees of freedom are chosen so that Student's t has the same 99 % quantile as the t statistic, and capped at
    Satterthwaite's value for independent scores. They are NaN if the clusters are not :func:`enough`. With G clusters
    of one size, the factors are G / (G - 1) and the degrees are G - 1; with a single cluster, both are NaN.
    """
    count = len(sizes)
    squares = sizes if squares is None else squares
    if count < 2:
        return VarianceCorrection(np.full(count, math.nan), math.nan)
    if (sizes == sizes[0]).all() and (squares == squares[0]).all():
        return VarianceCorrection(np.full(count, count / (count - 1)), count - 1.0 if enough(sizes) else math.nan)
    kinds = np.stack([sizes, squares], axis=1)
    distinct, place, counts = np.unique(kinds, axis=0, return_inverse=True, return_counts=True)
    known, rounded = enough(sizes), round(correlation, ROUNDED)
    few, times = _merge_kinds(distinct, counts)
    degrees = _degrees(tuple(map(tuple, few.tolist())), tuple(times.tolist()), rounded) if known else math.nan
    return VarianceCorrection(_Model.of(distinct, counts, rounded).factors[place.reshape(-1)], degrees)


def _merge_kinds(kinds: Doubles, counts: Numbers) -> tuple[Doubles, Numbers]:
    """Reduce the kinds of clusters to at most ``KINDS`` by averaging adjacent small kinds, weighted by their counts.

    ``kinds`` must be sorted by size. Totals over all clusters do not change.
    """
    kept = KINDS // 2
    if (rest := len(kinds) - kept) <= kept:
        return kinds, counts
    group = np.append(np.arange(rest) * kept // rest, np.arange(kept, KINDS))
    merged = np.bincount(group, counts)
    averages = [np.bincount(group, counts * column) / merged for column in kinds.T]
    return np.stack(averages, axis=1), merged.astype(np.int64)


class _Model(NamedTuple):
    """Kinds of clusters, each with its size, number of clusters, variance of a cluster's sum, and factor."""

    sizes: Doubles
    counts: Doubles
    variances: Doubles
    factors: Doubles

    @classmethod
    def of(cls, kinds: Doubles, counts: Numbers, correlation: float) -> _Model:
        sizes, squares = kinds.T
        questions = float(counts @ sizes)
        variances = squares * (1 - correlation) + correlation * np.square(sizes)
        of_mean = float(counts @ variances) / questions**2
        left = variances - 2 * sizes * variances / questions + np.square(sizes) * of_mean
        return cls(sizes, counts.astype(np.float64), variances, variances / left)

    def mean_and_variance(self) -> tuple[Doubles, Doubles, Doubles]:
        """Express the mean and its estimated variance in terms of independent standard normal numbers.

        For each kind of cluster, one number represents the sum over the clusters, and the rest represent the
        differences between them. Return the weights of the sums in the mean, the quadratic form of the sums in the
        variance, and for each kind the weight of a squared difference in the variance.
        """
        questions = self.counts @ self.sizes
        mean = np.sqrt(self.variances * self.counts) / questions
        rows = np.diag(np.sqrt(self.variances)) - np.outer(np.sqrt(self.counts) * self.sizes, mean)
        weights = self.factors / questions**2
        return mean, rows.T @ (weights[:, None] * rows), weights * self.variances


@lru_cache(maxsize=1024)
def _degrees(kinds: tuple[tuple[float, ...], ...], counts: tuple[int, ...], correlation: float) -> float:
    from scipy.special import stdtrit

    independent = _Model.of(np.array(kinds), np.array(counts), 0.0)
    _, form, apart = independent.mean_and_variance()
    others = independent.counts - 1  # below: 2 x squared mean / variance of the estimated variance (Satterthwaite 1946)
    most = float((np.trace(form) + apart @ others) ** 2 / (np.square(form).sum() + np.square(apart) @ others))
    model = _Model.of(np.array(kinds), np.array(counts), correlation)
    end = 1.0
    while _exceeds(model, end) > TAIL:
        end *= 2
    critical = _root(lambda value: _exceeds(model, value) - TAIL, end / 2, end)
    if critical <= stdtrit(most, 1 - TAIL / 2):
        return most
    return _root(lambda degrees: float(stdtrit(degrees, 1 - TAIL / 2)) - critical, 0.5, most)


def _root(decreasing: Callable[[float], float], low: float, high: float) -> float:
    """Return the zero of a decreasing function between ``low`` and ``high``.

    The method is by Ridders (IEEE Transactions on Circuits and Systems 26, 1979). It replaces scipy.optimize, whose
    import takes a second.
    """
    above, below, root = decreasing(low), decreasing(high), low
    for _ in range(STEPS):
        middle, before = (low + high) / 2, root
        value = decreasing(middle)
        root = middle + (middle - low) * value / math.sqrt(value**2 - above * below)
        if abs(root - before) <= PRECISION * high:
            break
        for place, height in ((middle, value), (root, decreasing(root))):
            if height > 0 and place >= low:
                low, above = place, height
            elif height <= 0 and place <= high:
                high, below = place, height
    return root


def _exceeds(model: _Model, value: float) -> float:
    """Return the probability that a t statistic is beyond ``value`` on either side of 0.

    The mean and the estimated variance may be dependent. The statistic is beyond ``value`` if the squared mean minus
    value² times the estimated variance is above 0. The distribution of this quadratic form in normal numbers is a
    single integral (Imhof, Biometrika 48, 1961).
    """
    mean, form, apart = model.mean_and_variance()
    single = np.linalg.eigvalsh(np.outer(mean, mean) - value**2 * form)
    eigenvalues = np.append(single, -(value**2) * apart) / np.abs(single).max()
    times = np.append(np.ones(len(single)), model.counts - 1)
    nodes, weights = _nodes()
    turned = eigenvalues[:, None] * nodes
    shrunk = np.exp(-0.25 * (times @ np.log1p(np.square(turned))))
    height = np.sin(0.5 * (times @ np.arctan(turned))) * shrunk / nodes
    return 0.5 + float(weights @ height) / math.pi


@lru_cache(maxsize=1)
def _nodes() -> tuple[Doubles, Doubles]:
    """Return quadrature nodes and weights for u from 0 to infinity, by the substitution u = t / (1 - t).

    Fejér's first rule (Waldvogel, BIT 46, 2006) has a closed form. The eigenvalues for Gauss-Legendre nodes would take
    a third of a second to compute.
    """
    angles = (np.arange(NODES) + 0.5) * (math.pi / NODES)
    orders = np.arange(1, NODES // 2 + 1)
    weights = 2 / NODES * (1 - 2 * np.cos(2 * np.outer(angles, orders)) @ (1 / (4 * np.square(orders) - 1.0)))
    share = (np.cos(angles) + 1) / 2
    return share / (1 - share), weights / 2 / np.square(1 - share)
