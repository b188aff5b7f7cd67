"""Intervals for the mean and for a quantile of per-question scores."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.question_results import Doubles, Flags

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

RESAMPLES = 2000
LEVEL = 0.95
FEWEST = 10
"""Minimum number of scores for a bootstrap; with fewer, its coverage is too low."""
STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306)
"""The 97.5 % quantiles of Student's t with 1 to 8 degrees of freedom."""


def means_with_intervals(
    rows: Doubles, lowest: Doubles, highest: Doubles, weights: Doubles | None = None
) -> tuple[Doubles, Doubles, Doubles]:
    """Return the means of many metrics over their known scores, and the ends of their percentile bootstrap intervals.

    ``rows`` is (metrics, questions), NaN where a question has no score; ``lowest`` and ``highest`` are each metric's
    bounds, NaN where there is none. Calls with the same number of questions use the same resamples (fixed seed). For
    fewer than ten scores, Student's t is used, clipped to the bounds; if these scores are all equal, both ends are NaN,
    because their spread is unknown. There is one exception, for any number of scores: if all n scores equal one of the
    metric's two bounds, the interval is that of n equal Bernoulli draws (Clopper and Pearson 1934), and its width is 1
    - .025 ** (1 / n) of the range. Without scores, the mean and the ends are NaN.

    With ``weights`` (questions,), the means are weighted, also in each resample (a ratio: Davison and Hinkley 1997,
    chapter 2), and n is the effective number of scores, (sum w) ** 2 / sum w ** 2.

    For resampling, scores are rounded to so few bits that every sum over the questions is exact (for 300 questions, 44
    bits below the largest score), so an interval depends on neither the other metrics nor the number of threads.
    """
    rows = np.ascontiguousarray(rows)
    mean, low, high = _bootstrap(rows, weights).T.copy()
    unknown = np.isnan(low)
    low, high = np.fmax(low, lowest), np.fmin(high, highest)  # fmax and fmin ignore a bound of NaN
    low[unknown] = high[unknown] = np.nan
    _open_at_bounds(rows, (lowest, highest), (low, high), weights)
    return mean, low, high


def _bootstrap(rows: Doubles, weights: Doubles | None) -> Doubles:
    """Return the mean and the two ends of the interval of every row (metrics, questions), as (metrics, 3).

    With fewer than ten scores, the ends are Student's t bounds, NaN if all scores are equal. Without scores, all three
    numbers are NaN.
    """
    known = ~np.isnan(rows)
    whole = known.all(axis=1)
    least = np.where(known, rows, np.inf).min(axis=1, initial=np.inf)
    most = np.where(known, rows, -np.inf).max(axis=1, initial=-np.inf)
    intervals = np.where(known.any(axis=1), [least, least, most], np.nan).T
    for chosen in (np.flatnonzero(whole), np.flatnonzero(~whole)):
        if len(chosen):
            intervals[chosen, 0] = _means(rows[chosen], known[chosen], weights)
            varied = chosen[least[chosen] < most[chosen]]
            intervals[varied, 1:] = _resampled_ends(rows[varied], known[varied], weights)
    for row in np.flatnonzero(_effective(known, weights) < FEWEST - 1e-9).tolist():  # weights add up inexactly
        here = known[row]
        intervals[row, 1:] = _student_ends(rows[row][here], None if weights is None else weights[here])
    return intervals


def varying(weights: Doubles | None) -> Doubles | None:
    """Return the weights; None if there are none or all are equal."""
    return None if weights is None or not len(weights) or (weights == weights[0]).all() else weights


def _effective(known: Flags, weights: Doubles | None) -> Doubles:
    """Return the number of scores of every row; with weights, the effective one (Kish, Survey Sampling, 1965)."""
    if weights is None:
        return np.asarray(known.sum(axis=1))
    squares = np.asarray(known @ np.square(weights))
    return np.divide((known @ weights) ** 2, squares, out=np.zeros_like(squares), where=squares > 0)


def _student_ends(scores: Doubles, weights: Doubles | None) -> tuple[float, float]:
    """Bound the mean of a few scores by Student's t; NaN if they are equal, or if their effective number is below 2.

    The bounds are also NaN if a score is infinite.
    """
    if len(scores) < 2 or not np.isfinite(scores).all() or scores.min() == scores.max():
        return math.nan, math.nan
    weights = np.ones(len(scores)) if weights is None else weights
    count = float(_effective(np.ones((1, len(scores)), dtype=np.bool_), weights)[0])
    if count < 2:
        return math.nan, math.nan
    shares = weights / weights.sum()
    mean = float(shares @ scores)
    error = math.sqrt(float(np.square(shares * (scores - mean)).sum()) * count / (count - 1))
    return mean - STUDENT[int(count) - 2] * error, mean + STUDENT[int(count) - 2] * error


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


def _resampled_ends(rows: Doubles, known: Flags, weights: Doubles | None) -> Doubles:
    """Return the ends of each row's interval, which are quantiles of its means over the resamples, as (rows, 2).

    Scores are scaled by a power of two to whole numbers, small enough that no sum over the questions exceeds 2 ** 53,
    so all sums are exact.
    """
    if not len(rows):
        return np.empty((0, 2))
    filled = np.where(known, rows, 0.0) * (1.0 if weights is None else weights)
    whole, shift = _whole_numbers(filled)
    draws = _draws(rows.shape[1])
    # On one thread, because idle threads would occupy the processor for 25 ms after a small product.
    with np.errstate(invalid="ignore", divide="ignore"), _thread_pools().limit(limits=1, user_api="blas"):
        sums = whole @ draws
        if weights is not None:
            of, less = _whole_numbers(known * weights)
            ends, shift = _percentiles(sums / (of @ draws)), shift - less
        elif known.all():
            ends = _percentiles(sums) / rows.shape[1]  # resamples have equal sizes: sums are ordered as the means are
        else:
            ends = _percentiles(sums / (known.astype(np.float64) @ draws))
        return np.asarray(np.ldexp(ends, -shift))


def _whole_numbers(rows: Doubles) -> tuple[Doubles, NDArray[np.int_]]:
    """Scale rows by powers of two to whole numbers whose sums are exact; return them and the exponents (rows, 1)."""
    largest = np.abs(rows).max(axis=1)
    exponent = np.frexp(np.where(np.isfinite(largest), largest, 1.0))[1]
    shift = (53 - rows.shape[1].bit_length() - exponent)[:, None]
    with np.errstate(invalid="ignore"):
        return np.rint(np.ldexp(rows, shift)), shift


def _percentiles(means: Doubles) -> Doubles:
    """Return the interval of every row (rows, 2), ignoring resamples without a scored question, whose mean is NaN."""
    ordered = np.sort(means, axis=1)
    last = np.full(len(means), means.shape[1] - 1)
    if np.isnan(ordered[:, -1]).any():
        last = np.maximum((~np.isnan(means)).sum(axis=1) - 1, 0)
    tail = (1 - LEVEL) / 2 * last
    row = np.arange(len(means))
    return np.stack([ordered[row, np.floor(tail).astype(int)], ordered[row, np.ceil(last - tail).astype(int)]], axis=1)


def _open_at_bounds(
    rows: Doubles, bounds: tuple[Doubles, Doubles], ends: tuple[Doubles, Doubles], weights: Doubles | None
) -> None:
    (lowest, highest), (low, high) = bounds, ends
    unknown = np.isnan(rows)
    at_top = (unknown | (rows == highest[:, None])).all(axis=1)
    at_bottom = (unknown | (rows == lowest[:, None])).all(axis=1)
    bounded = ~(np.isnan(lowest) | np.isnan(highest) | unknown.all(axis=1))
    for n in np.flatnonzero(bounded & (at_top | at_bottom)).tolist():
        scored = float(_effective(~unknown[n : n + 1], weights)[0])
        width = (highest[n] - lowest[n]) * (1 - ((1 - LEVEL) / 2) ** (1 / scored))
        if at_top[n]:
            low[n], high[n] = highest[n] - width, highest[n]
        if at_bottom[n]:
            low[n], high[n] = lowest[n], lowest[n] + width


@lru_cache
def _thread_pools() -> ThreadpoolController:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


@lru_cache(maxsize=64)
def _draws(questions: int) -> Doubles:
    """Draw the count of each question in each resample, as (questions, resamples)."""
    generator = np.random.default_rng(20260101)
    counts = generator.multinomial(questions, np.full(questions, 1 / questions), size=RESAMPLES)
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
    count = float(_effective(np.ones((1, len(ordered)), dtype=np.bool_), weights)[0])
    half = 1.959964 * math.sqrt(share * (1 - share) / count)
    shares = np.array([share, max(share - half, 0.0), min(share + half, 1.0)])
    places = np.minimum(np.searchsorted(reached, shares - 1e-12), len(ordered) - 1)
    value, low, high = ordered[places].tolist()
    return (value, math.nan, math.nan) if _too_few(count, share) else (value, low, high)
