"""Two common intervals of a mean difference between two configs, for comparison with the intervals of this package."""

import math

import numpy as np

from ragsweep.stats.inference.matrix import Matrix
from ragsweep.stats.intervals import RESAMPLES


def student_interval(matrix: Matrix) -> tuple[float, float]:
    """Bound the mean difference (second minus first config) by Student's t over questions, at 95 %.

    Questions count as independent, although questions on one document are not; NaN with fewer than two questions.
    """
    from scipy import stats

    differences = matrix.values[1] - matrix.values[0]
    if len(differences) < 2:
        return math.nan, math.nan
    half = float(stats.t.ppf(0.975, len(differences) - 1) * differences.std(ddof=1) / math.sqrt(len(differences)))
    middle = float(differences.mean())
    return middle - half, middle + half


def bootstrap_interval(matrix: Matrix) -> tuple[float, float]:
    """Bound the mean difference by the percentile bootstrap over whole clusters, at 95 %, with a fixed seed.

    NaN with fewer than two clusters.
    """
    differences = matrix.values[1] - matrix.values[0]
    sums, sizes = np.bincount(matrix.clusters, differences), np.bincount(matrix.clusters, matrix.weights)
    if len(sums) < 2:
        return math.nan, math.nan
    drawn = np.random.default_rng(0).integers(0, len(sums), (RESAMPLES, len(sums)))
    low, high = np.quantile(sums[drawn].sum(axis=1) / sizes[drawn].sum(axis=1), [0.025, 0.975])
    return float(low), float(high)
