"""One end of a mean's interval by the studentised bootstrap, which accounts for skewness, unlike Student's t."""

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ragsweep.stats.inference.resampling import cluster_scores

Doubles = NDArray[np.float64]
Floats = NDArray[np.float32]
Numbers = NDArray[np.int64]

DRAWS = 4_000
SEED = 20261126


def studentised_low(values: Doubles, clusters: Numbers, weights: Doubles | None, level: float) -> float:
    """Return a mean's lower bound, one-sided at ``level`` (Efron 1979; Hall, Annals of Statistics 16, 1988).

    Whole clusters are drawn; each draw's deviation is divided by its own standard error, which is small if rare large
    losses were not drawn. NaN if the values do not vary.

    Args:
        values: Value of each question, times its weight (questions,).
        clusters: Cluster of each question, numbered from 0.
        weights: Weight of each question, with a mean of 1; None: equal weights.
        level: Level of the bound.
    """
    data = cluster_scores(values[None, :], clusters, weights)
    sums, sizes, error = data.sums[0], data.sizes, float(data.errors[0])
    if error == 0:
        return math.nan
    columns = np.stack([sums, sizes, sums**2, sums * sizes, sizes**2], axis=1).astype(np.float32)
    total, size, squares, products, of_sizes = (_counts(len(sizes)) @ columns).T.astype(np.float64)
    moved = total / size
    errors = np.sqrt(np.maximum(squares - 2 * moved * products + moved**2 * of_sizes, 0.0)) / size
    with np.errstate(divide="ignore", invalid="ignore"):
        statistics = np.where(errors > 0, moved / errors, math.inf)
    return float(data.means[0]) - float(np.quantile(statistics, level)) * error


@lru_cache(maxsize=4)
def _counts(clusters: int) -> Floats:
    """Draw the count of each cluster in each resample, as (draws, clusters)."""
    shares = np.full(clusters, 1 / clusters)
    return np.random.default_rng((SEED, clusters)).multinomial(clusters, shares, size=DRAWS).astype(np.float32)
