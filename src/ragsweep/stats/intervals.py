"""Intervals for the mean and for a quantile of per-question scores."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.question_results import Doubles, Flags, Numbers
from ragsweep.stats.inference.cluster_errors import effective_clusters
from ragsweep.stats.inference.resampling import NEGLIGIBLE, cluster_sums, student_quantile

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

RESAMPLES = 2000
LEVEL = 0.95
FEWEST = 10
"""Minimum effective number of clusters for a bootstrap; with fewer, its coverage is too low."""


def means_with_intervals(
    rows: Doubles,
    lowest: Doubles,
    highest: Doubles,
    weights: Doubles | None = None,
    clusters: Numbers | None = None,
) -> tuple[Doubles, Doubles, Doubles]:
    """Return the means of many metrics over their known scores, and the ends of their bootstrap intervals.

    ``rows`` is (metrics, questions), NaN where a question has no score; ``lowest`` and ``highest`` are each metric's
    bounds, NaN where there is none. ``clusters`` (questions,) has the number of each question's cluster; None means
    that all questions are independent. With ``weights`` (questions,), the means are weighted.

    Each resample draws whole clusters, and its mean is a ratio of sums (Davison and Hinkley 1997, chapter 2). The ends
    are expanded percentiles (Hesterberg, The American Statistician 69, 2015): their tails are those of a normal
    interval that is as wide as Student's, because plain percentiles of ten clusters cover the mean in 90 % of cases.
    The number n of clusters is the effective one: (sum of s) ** 2 / sum of s ** 2, for clusters with s scores each, or
    with scores of the total weight s. Calls with the same number of clusters use the same resamples (fixed seed).

    If n is below ten, Student's t is used, clipped to the bounds. Both ends are then NaN if n is below two, or if the
    scores are all equal, because their spread is unknown. If a metric has two bounds, n scores at the lower bound have
    the interval of n equal Bernoulli draws (Clopper and Pearson 1934), whose width is 1 - .025 ** (1 / n) of the range.
    No upper end is below this interval's, because higher scores cannot have a lower upper end; the same holds for the
    upper bound and lower ends. Without scores, the mean and the ends are NaN.

    For resampling, scores are rounded to so few bits that every sum over the questions is exact (for 300 questions, 44
    bits below the largest score), so an interval depends on neither the other metrics nor the number of threads.
    """
    rows = np.ascontiguousarray(rows)
    clusters = None if clusters is None or len(np.unique(clusters)) == len(clusters) else clusters
    mean, low, high = _bootstrap(rows, weights, clusters).T.copy()
    unknown = np.isnan(low)
    low, high = np.fmax(low, lowest), np.fmin(high, highest)  # fmax and fmin ignore a bound of NaN
    low[unknown] = high[unknown] = np.nan
    return mean, *_widen(rows, (lowest, highest), (low, high), _effective(~np.isnan(rows), weights, clusters))


def _bootstrap(rows: Doubles, weights: Doubles | None, clusters: Numbers | None) -> Doubles:
    """Return the mean and the two ends of the interval of every row (metrics, questions), as (metrics, 3).

    With fewer than ten effective clusters, the ends are Student's t bounds, NaN if all scores are equal. Without
    scores, all three numbers are NaN.
    """
    known = ~np.isnan(rows)
    whole = known.all(axis=1)
    least = np.where(known, rows, np.inf).min(axis=1, initial=np.inf)
    most = np.where(known, rows, -np.inf).max(axis=1, initial=-np.inf)
    intervals = np.where(known.any(axis=1), [least, least, most], np.nan).T
    effective = _effective(known, weights, clusters)
    enough = effective >= FEWEST - 1e-9  # weights add up inexactly
    for chosen in (np.flatnonzero(whole), np.flatnonzero(~whole)):
        if len(chosen):
            intervals[chosen, 0] = _means(rows[chosen], known[chosen], weights)
            varied = chosen[(least[chosen] < most[chosen]) & enough[chosen]]
            tails = _tails(effective[varied])
            intervals[varied, 1:] = _resampled_ends(rows[varied], known[varied], tails, weights, clusters)
    for row in np.flatnonzero(~enough).tolist():
        here = known[row]
        sizes, groups = (None if one is None else one[here] for one in (weights, clusters))
        intervals[row, 1:] = _student_ends(rows[row][here], float(effective[row]), sizes, groups)
    if clusters is not None:
        cancelled = intervals[:, 2] - intervals[:, 1] <= NEGLIGIBLE * (most - least)
        cancelled &= least < most  # equal means of all clusters do not mean precision
        if cancelled.any():
            intervals[cancelled] = _bootstrap(rows[cancelled], weights, None)
    return intervals


def _effective(known: Flags, weights: Doubles | None, clusters: Numbers | None) -> Doubles:
    """Return the effective number of clusters with scores in every row (Kish, Survey Sampling, 1965)."""
    sizes = known.astype(np.float64) if weights is None else known * weights
    sizes = sizes if clusters is None else cluster_sums(sizes, clusters)
    squares = np.asarray(np.square(sizes).sum(axis=1))
    return np.asarray(np.divide(sizes.sum(axis=1) ** 2, squares, out=np.zeros_like(squares), where=squares > 0))


def _tails(effective: Doubles) -> Doubles:
    """Return the share of resampled means beyond each end of an interval, for each effective number of clusters."""
    from scipy.special import ndtr, stdtrit

    student = stdtrit(effective - 1, (1 + LEVEL) / 2)
    return np.asarray(ndtr(-student * np.sqrt(effective / (effective - 1))))


def _student_ends(
    scores: Doubles, effective: float, weights: Doubles | None, clusters: Numbers | None
) -> tuple[float, float]:
    """Bound the mean of a few scores by Student's t; NaN if they are equal, or if their effective number is below 2.

    The bounds are also NaN if a score is infinite.
    """
    if effective < 2 - 1e-9 or not np.isfinite(scores).all() or scores.min() == scores.max():
        return math.nan, math.nan
    weights = np.ones(len(scores)) if weights is None else weights
    shares = weights / weights.sum()
    mean = float(shares @ scores)
    deviations = shares * (scores - mean)
    sums = deviations if clusters is None else np.bincount(clusters, deviations)
    error = math.sqrt(float(np.square(sums).sum()) * effective / (effective - 1))
    half = student_quantile((1 + LEVEL) / 2, effective - 1) * error
    return mean - half, mean + half


def _means(rows: Doubles, known: Flags, weights: Doubles | None) -> Doubles:
    """Return each row's mean of known scores (NaN without any); rows lacking the same scores are computed together."""
    if known.all() and known.size and weights is None:
        return np.asarray(rows.mean(axis=1))
    middle = np.full(len(rows), np.nan)
    alike: dict[bytes, list[int]] = {}
    for n, row in enumerate(known):
        alike.setdefault(row.tobytes(), []).append(n)
    for chosen in alike.values():
        columns = known[chosen[0]]
        if columns.any():
            scores = np.ascontiguousarray(rows[chosen][:, columns])
            if weights is None:
                middle[chosen] = scores.mean(axis=1)
            else:  # clipped, so that the mean of equal scores is exactly that score
                means = (scores * weights[columns]).sum(axis=1) / weights[columns].sum()
                middle[chosen] = np.clip(means, scores.min(axis=1), scores.max(axis=1))
    return middle


def _resampled_ends(
    rows: Doubles, known: Flags, tails: Doubles, weights: Doubles | None, clusters: Numbers | None
) -> Doubles:
    """Return the ends of each row's interval, which are quantiles of its means over the resamples, as (rows, 2).

    Scores are scaled by a power of two to whole numbers, small enough that no sum over the questions of a resample
    exceeds 2 ** 53, so all sums are exact.
    """
    if not len(rows):
        return np.empty((0, 2))
    filled = np.where(known, rows, 0.0)
    filled = filled if weights is None else filled * weights
    whole, shift = _whole_numbers(filled, clusters)
    draws = _draws(whole.shape[1])
    # On one thread, because idle threads would occupy the processor for 25 ms after a small product.
    with np.errstate(invalid="ignore", divide="ignore"), _thread_pools().limit(limits=1, user_api="blas"):
        sums = whole @ draws
        if weights is None and clusters is None and known.all():
            ends = _percentiles(sums, tails) / rows.shape[1]  # resamples have equal sizes: sums are ordered as means
        else:
            of, less = _whole_numbers(known * (np.ones(rows.shape[1]) if weights is None else weights), clusters)
            ends, shift = _percentiles(sums / (of @ draws), tails), shift - less
        return np.asarray(np.ldexp(ends, -shift))


def _whole_numbers(rows: Doubles, clusters: Numbers | None) -> tuple[Doubles, NDArray[np.int_]]:
    """Scale rows by powers of two to whole numbers whose sums are exact, and sum them by cluster.

    Return the sums (rows, clusters) and the exponents (rows, 1).
    """
    largest = np.abs(rows).max(axis=1)
    exponent = np.frexp(np.where(np.isfinite(largest), largest, 1.0))[1]
    sizes = np.ones(rows.shape[1]) if clusters is None else np.unique(clusters, return_counts=True)[1]
    drawn = int(len(sizes) * sizes.max())  # maximum number of questions in a resample
    shift = (53 - drawn.bit_length() - exponent)[:, None]
    with np.errstate(invalid="ignore"):
        whole = np.rint(np.ldexp(rows, shift))
    return (whole if clusters is None else cluster_sums(whole, clusters)), shift


def _percentiles(means: Doubles, tails: Doubles) -> Doubles:
    """Return the interval of every row (rows, 2), ignoring resamples without a scored question, whose mean is NaN."""
    ordered = np.sort(means, axis=1)
    last = np.full(len(means), means.shape[1] - 1)
    if np.isnan(ordered[:, -1]).any():
        last = np.maximum((~np.isnan(means)).sum(axis=1) - 1, 0)
    tail = tails * last
    row = np.arange(len(means))
    return np.stack([ordered[row, np.floor(tail).astype(int)], ordered[row, np.ceil(last - tail).astype(int)]], axis=1)


def _widen(
    rows: Doubles, bounds: tuple[Doubles, Doubles], ends: tuple[Doubles, Doubles], effective: Doubles
) -> tuple[Doubles, Doubles]:
    """Lower each low end to at most that of scores all at the upper bound; raise high ends likewise (lower bound)."""
    (lowest, highest), (low, high) = bounds, ends
    unknown = np.isnan(rows)
    with np.errstate(divide="ignore"):
        width = np.where(effective > 0, (highest - lowest) * (1 - ((1 - LEVEL) / 2) ** (1 / effective)), np.nan)
    for bound in bounds:
        equal = (unknown | (rows == bound[:, None])).all(axis=1) & ~np.isnan(width)
        low, high = np.where(equal, bound, low), np.where(equal, bound, high)
    widened = ~(np.isnan(low) | np.isnan(width))
    return np.where(widened, np.fmin(low, highest - width), low), np.where(widened, np.fmax(high, lowest + width), high)


@lru_cache
def _thread_pools() -> ThreadpoolController:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


@lru_cache(maxsize=64)
def _draws(clusters: int) -> Doubles:
    """Draw the count of each cluster in each resample, as (clusters, resamples)."""
    generator = np.random.default_rng(20260101)
    counts = generator.multinomial(clusters, np.full(clusters, 1 / clusters), size=RESAMPLES)
    return np.ascontiguousarray(counts.T, dtype=np.float64)


def quantile(ordered: Doubles, share: float) -> float:
    """Return a quantile of one or more sorted scores by linear interpolation, as numpy does but faster."""
    position = (len(ordered) - 1) * share
    first = min(int(position), len(ordered) - 1)
    low, high = float(ordered[first]), float(ordered[min(first + 1, len(ordered) - 1)])
    part = position - first
    return high - (high - low) * (1 - part) if part >= 0.5 else low + (high - low) * part


def quantile_interval(scores: Doubles, share: float, weights: Doubles | None = None) -> tuple[float, float, float]:
    """Return a quantile of scores, none of which is NaN, and its 95 % interval; all NaN if there are no scores.

    The ends are order statistics (Conover 1999, section 3.2), a method that is exact for any distribution. With few
    scores, the smallest or the largest score is an end, provided that the interval still reaches ``LEVEL``. An end
    beyond all scores is NaN: the upper end needs 59 scores for a 95th percentile, and 299 scores for a 99th percentile;
    both ends need 6 scores for a median.

    With ``weights``, the quantile is the smallest score up to which the weights reach the share, without interpolation.
    The ends are the quantiles at the share minus and plus 1.96 standard errors, for the effective number of questions
    (Woodruff, JASA 47, 1952); both are NaN if that number is too small for two ends.
    """
    if not len(scores):
        return math.nan, math.nan, math.nan
    order = np.argsort(scores, kind="stable")
    ordered = scores[order]
    if weights is not None:
        return _weighted_quantile(ordered, share, weights[order])
    low, high = (math.nan if rank is None else float(ordered[rank]) for rank in _quantile_ranks(len(ordered), share))
    value = quantile(ordered, share)  # interpolated: with two scores, it may be below the lower order statistic
    return value, min(low, value), max(high, value)  # min and max return a first argument of NaN


@lru_cache(maxsize=256)
def _quantile_ranks(count: int, share: float) -> tuple[int | None, int | None]:
    """Return the positions, from 0, of the sorted scores that bound a quantile; None for an end beyond all scores.

    The number B of scores below the quantile is binomial: the score of rank r, counted from 1, exceeds the quantile
    with the probability P(B < r).
    """
    ranks = np.arange(1, count + 1)
    logarithms = np.cumsum(np.log((count + 1 - ranks) / ranks)) + ranks * math.log(share)
    logarithms += (count - ranks) * math.log1p(-share)
    none = (1 - share) ** count
    chances = np.append(none, np.exp(logarithms))
    exceeding, short = np.cumsum(chances)[:-1], np.cumsum(chances[::-1])[:-1][::-1]  # P(B < r), P(B >= r)
    tail = (1 - LEVEL) / 2
    if _too_few(count, share):
        least, most = int(np.count_nonzero(exceeding <= tail)), int(np.count_nonzero(short > tail))
        return (least - 1 if least else None), (most if most < count else None)
    # If the extreme score at one end takes more than half of the error probability, less is left for the other end.
    low = np.count_nonzero(exceeding <= min(tail, 1 - LEVEL - share**count)) if none <= tail else 1
    high = np.count_nonzero(short > min(tail, 1 - LEVEL - none)) if share**count <= tail else count - 1
    return max(int(low), 1) - 1, min(int(high), count - 1)


def _too_few(count: float, share: float) -> bool:
    """Return whether even the whole range of ``count`` scores covers a quantile with a probability below ``LEVEL``."""
    return bool(share**count + (1 - share) ** count > 1 - LEVEL)


def _weighted_quantile(ordered: Doubles, share: float, weights: Doubles) -> tuple[float, float, float]:
    reached = np.cumsum(weights) / weights.sum()
    count = effective_clusters(weights)
    half = 1.959964 * math.sqrt(share * (1 - share) / count)
    shares = np.array([share, max(share - half, 0.0), min(share + half, 1.0)])
    places = np.minimum(np.searchsorted(reached, shares - 1e-12), len(ordered) - 1)
    value, low, high = ordered[places].tolist()
    return (value, math.nan, math.nan) if _too_few(count, share) else (value, low, high)
