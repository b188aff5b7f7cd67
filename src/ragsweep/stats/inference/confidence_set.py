"""The configs that may be the best, by a simultaneous comparison of all pairs."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragsweep.stats.inference.estimates import AllPairs
from ragsweep.stats.inference.matrix import Matrix
from ragsweep.stats.inference.max_t import LARGEST, as_normal
from ragsweep.stats.inference.resampling import RESAMPLES, ClusteredScores, cluster_scores, deviations

Doubles = NDArray[np.float64]
Floats = NDArray[np.float32]
Flags = NDArray[np.bool_]

WORK = 500_000_000
"""Maximum of pairs times resamples. With more than about 300 configs there are fewer resamples, but at least 1,000."""
AT_ONCE = 250
"""Resamples per block of the pairwise comparison."""
SAME = 1e-5
"""Relative spread of a difference below which two configs differ only by rounding or a constant."""


class PairErrors(NamedTuple):
    """The comparison of every config (row) with every other (column)."""

    worse: Doubles  # (configs, configs): deficit of the row in standard errors
    scale: Floats  # (configs, configs): 1 / the spread of the resampled difference; 0 where it has no spread


def all_pairs(matrix: Matrix, level: float = 0.95, resamples: int = RESAMPLES) -> AllPairs:
    """Compare all pairs of configs simultaneously (single-step max-T over pairs, clusters resampled).

    This is like Tukey's method for means, but with the observed dependence between configs. Configs with equal scores
    count as one. If only one config is left, or with too few clusters, ``largest`` is 0 and every config may be the
    best.
    """
    rows, place = np.unique(matrix.better, axis=0, return_inverse=True)
    place = place.reshape(-1)
    data = cluster_scores(rows, matrix.clusters, matrix.weights, compared=True)
    if len(rows) < 2 or not data.enough:
        return AllPairs(0.0, np.ones(len(place), dtype=bool))
    compared = pairs(data)
    widest = [_range(block, compared.scale) for block in deviations(data.sums, affordable(len(rows), resamples))]
    drawn = np.sort(np.concatenate(widest))
    largest = float(drawn[min(math.ceil((len(drawn) + 1) * level), len(drawn)) - 1])
    return AllPairs(largest, np.asarray(compared.worse.max(axis=1) <= largest)[place])


def _range(block: Floats, scale: Floats) -> Floats:
    """Return each resample's largest deviation of any pair, in standard errors; ``block`` is (resamples, configs)."""
    widest = np.zeros(len(block), dtype=np.float32)
    for start in range(0, len(block), AT_ONCE):
        rows, part = np.ascontiguousarray(block[start : start + AT_ONCE].T), widest[start : start + AT_ONCE]
        for step in range(len(rows) - 1):
            np.maximum(part, _widest(rows, step, scale[step]), out=part)
    return widest


def affordable(configs: int, resamples: int) -> int:
    """Return ``resamples``, or fewer for many configs (``WORK``)."""
    return max(min(resamples, 1000), min(resamples, WORK // max(configs * configs // 2, 1)))


def pairs(data: ClusteredScores) -> PairErrors:
    """Compare all rows with each other; a constant difference counts as a large, finite number of standard errors."""
    variance = _squared_distances((data.sums * data.factors) @ data.sums.T) / data.sizes.sum() ** 2
    drawn = _squared_distances(data.sums @ data.sums.T)
    own = np.square(data.errors)
    scale = np.sqrt(own[:, None] + own[None, :]) + 1e-9 * np.abs(data.means).max()
    spread = variance > np.square(SAME * scale)
    gap = data.means[None, :] - data.means[:, None]
    errors = np.sqrt(np.where(spread, variance, 1.0))
    constant = np.where(np.abs(gap) > SAME * scale, np.sign(gap) * LARGEST, 0.0)
    worse = np.where(spread, as_normal(gap / errors, data.degrees), constant)
    with np.errstate(divide="ignore", invalid="ignore"):
        return PairErrors(worse, np.where(spread, 1 / np.sqrt(drawn), 0.0).astype(np.float32))


def _squared_distances(products: Doubles) -> Doubles:
    """Return the squared distances between all rows, given their inner products (rows, rows)."""
    own = np.diag(products)
    return np.asarray(own[:, None] + own[None, :] - 2 * products)


def _widest(rows: Floats, step: int, scale: Floats) -> Floats:
    """Return the distance of the row ``step`` from the furthest row after it, in standard errors, per resample."""
    apart = rows[step + 1 :] - rows[step]
    apart *= scale[step + 1 :, None]
    return np.asarray(np.maximum(apart.max(axis=0), -apart.min(axis=0)))
