"""Simultaneous intervals: the max-T bootstrap, and critical values of Student's t."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ragsweep.stats.inference.resampling import RESAMPLES, ClusteredScores, cluster_scores, deviations

Doubles = NDArray[np.float64]
Numbers = NDArray[np.int64]

LARGEST = 1e6
"""Maximum distance in standard errors: keeps all numbers finite."""
ROUNDING = 1e-5
"""Relative widening of intervals, so that float32 rounding does not exclude 0."""


@dataclass(frozen=True, eq=False)
class SimultaneousIntervals:
    """Means of rows with simultaneous intervals, in the rows' own unit.

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


def max_t_intervals(
    rows: Doubles,
    clusters: Numbers,
    level: float = 0.95,
    resamples: int = RESAMPLES,
    weights: Doubles | None = None,
) -> SimultaneousIntervals:
    """Bound the means of rows (rows, questions) so that all intervals hold together at ``level`` (see :func:`bound`).

    With ``weights`` the rows are scores times weights (see ``cluster_scores``).
    """
    return bound(cluster_scores(rows, clusters, weights), level, resamples)


def bound(
    data: ClusteredScores, level: float = 0.95, resamples: int = RESAMPLES, largest: float | None = None
) -> SimultaneousIntervals:
    """Bound the means of rows of clustered scores so that all intervals hold together at ``level``.

    In each resample the largest deviation of any row is taken, in standard errors; its quantile serves all rows (Romano
    and Wolf, Econometrica 73, 2005, the single-step version). The standard errors are those of the sample, because a
    resample whose scores all tie has none. The quantile is then converted from the normal distribution to Student's t
    (:func:`as_student`). ``largest`` is the quantile of a larger family that includes the rows; None computes the
    quantile of the rows alone.
    """
    furthest = largest_deviation(data.standardised, level, resamples) if largest is None else largest
    critical = critical_value(furthest, data.degrees)
    half = np.where(data.errors > 0, critical * data.errors, 0.0 if data.enough else np.nan)
    return SimultaneousIntervals(
        data.means, data.errors, data.means - half, data.means + half, critical, data.degrees, furthest
    )


def largest_deviation(standardised: Doubles, level: float, resamples: int) -> float:
    """Return the ``level`` quantile of the largest resampled deviation of any row; 0 without rows.

    ``standardised`` is (rows, clusters). The deviations are in standard errors that are treated as known;
    :func:`critical_value` allows for the fact that they are estimated.
    """
    if not len(standardised):
        return 0.0
    largest = np.sort(np.concatenate([_furthest(block) for block in deviations(standardised, resamples)]))
    place = min(math.ceil((resamples + 1) * level), resamples) - 1
    return float(largest[place])


def critical_value(largest: float, degrees: float) -> float:
    """Convert ``largest_deviation`` to a half-width in estimated standard errors; NaN below one degree of freedom."""
    return as_student(largest, degrees) * (1 + ROUNDING)


def _furthest(block: NDArray[np.float32]) -> NDArray[np.float32]:
    np.abs(block, out=block)
    return np.asarray(block.max(axis=1))


def as_student(normal: float, degrees: float) -> float:
    """Return the t value that has the same tail probability as a normal value.

    The function inverts Wallace's second approximation (Annals of Mathematical Statistics 30, 1959), which stays finite
    and increasing far out in the tails, where probabilities are 0 in double precision. NaN with less than one degree of
    freedom.
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


def needed_p_value(critical: float, degrees: float, level: float) -> float:
    """Return the one-sided p-value of a critical value, but at most that of an unadjusted interval.

    The limit is needed because the resampled critical value can be much too small if differences have few distinct
    values.
    """
    from scipy.special import stdtr

    return min(1 - float(stdtr(degrees, critical)), (1 - level) / 2)
