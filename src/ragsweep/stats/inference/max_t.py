"""Intervals that all hold together: the max-T bootstrap."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ragsweep.stats.inference.resampling import RESAMPLES, Clustered, clustered, deviations
from ragsweep.stats.inference.student import as_student

Doubles = NDArray[np.float64]
Numbers = NDArray[np.int64]

ROUNDING = 1e-5
"""Intervals are wider by this part: an end that is 0 but for rounding in float32 must not exclude it."""


@dataclass(frozen=True, eq=False)
class Bounded:
    """Means of rows with simultaneous intervals, in the rows' own unit.

    ``critical`` is by how many standard errors each interval reaches out. Ends are NaN where the clusters are too few;
    a row without any spread has ends equal to its mean.
    """

    means: Doubles
    errors: Doubles
    low: Doubles
    high: Doubles
    critical: float


def max_t_intervals(rows: Doubles, clusters: Numbers, level: float = 0.95, resamples: int = RESAMPLES) -> Bounded:
    """Bound the means of rows (rows, questions) so that all intervals hold together at ``level``.

    The largest deviation in standard errors over all rows, in each resample; its quantile serves all rows (Romano and
    Wolf, Econometrica 73, 2005, the single-step version). Standard errors are fixed, those of the sample: those of a
    resample are 0 where all its scores tie. The quantile is stretched as Student's t is against the normal.
    """
    return bounded(clustered(rows, clusters), level, resamples)


def bounded(data: Clustered, level: float = 0.95, resamples: int = RESAMPLES) -> Bounded:
    """Bound the means of sums by cluster, as :func:`max_t_intervals`."""
    critical = largest_deviation(data, level, resamples) if data.enough else math.nan
    half = np.where(data.errors > 0, critical * data.errors, 0.0 if data.enough else np.nan)
    return Bounded(data.means, data.errors, data.means - half, data.means + half, critical)


def largest_deviation(data: Clustered, level: float, resamples: int) -> float:
    """Return the quantile of the largest deviation of any row, in standard errors; 0 where no row has a spread."""
    spread = data.errors > 0
    if not spread.any():
        return 0.0
    scaled = data.sums[spread] / data.errors[spread, None]
    largest = np.sort(np.concatenate([_furthest(block) for block in deviations(scaled, data.sizes, resamples)]))
    place = min(math.ceil((resamples + 1) * level), resamples) - 1
    unbiased = math.sqrt(data.clusters / (data.clusters - 1))
    return as_student(float(largest[place]) * unbiased, data.clusters - 1) * (1 + ROUNDING)


def _furthest(block: NDArray[np.float32]) -> NDArray[np.float32]:
    np.abs(block, out=block)
    return np.asarray(block.max(axis=1))
