"""Intervals for the mean and for a quantile of per-question scores."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

RESAMPLES = 2000
LEVEL = 0.95
FEWEST = 10
"""Fewest scores of a bootstrap; with fewer its coverage is too low."""
STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306)
"""The 97.5 % quantiles of Student's t with 1 to 8 degrees of freedom."""

Doubles = NDArray[np.float64]


def means_with_intervals(rows: Doubles, lowest: Doubles, highest: Doubles) -> tuple[Doubles, Doubles, Doubles]:
    """Average many metrics at once over their known scores, and bound the means by the percentile bootstrap.

    ``rows`` is (metrics, questions), NaN where a question has no score; ``lowest`` and ``highest`` are each metric's
    bounds, NaN where there is none. Resamples are the same in every call with as many questions (fixed seed). For fewer
    than ten scores Student's t is used, within the bounds; where these are all equal their spread is unknown, and both
    ends are NaN. Where all scores are at a bound the bootstrap would have no width; there the interval is that of n
    equal Bernoulli draws (Clopper and Pearson 1934: 1 - (alpha / 2) ** (1 / n)). Without scores both ends are NaN.

    Scores are rounded to as many bits as leave every sum over the questions exact (of 300 questions: 44 bits below
    the largest score). So an interval is the same to the last bit whatever the other metrics and the number of threads.
    """
    rows = np.ascontiguousarray(rows)
    mean, low, high = _bootstrap(rows).T.copy()
    unknown = np.isnan(low)
    low, high = np.fmax(low, lowest), np.fmin(high, highest)  # these ignore bounds that are NaN
    low[unknown] = high[unknown] = np.nan
    _open_at_bounds(rows, (lowest, highest), low, high)
    return mean, low, high


def _bootstrap(rows: Doubles) -> Doubles:
    """Return the mean of every row (metrics, questions) and its interval: (metrics, 3).

    Where all scores are equal, so are the ends.
    """
    known = ~np.isnan(rows)
    whole = known.all(axis=1)
    least = np.where(known, rows, np.inf).min(axis=1, initial=np.inf)
    most = np.where(known, rows, -np.inf).max(axis=1, initial=-np.inf)
    intervals = np.where(known.any(axis=1), [least, least, most], np.nan).T
    for chosen in (np.flatnonzero(whole), np.flatnonzero(~whole)):
        if len(chosen):
            intervals[chosen, 0] = _means(rows[chosen], known[chosen])
            varied = chosen[least[chosen] < most[chosen]]
            intervals[varied, 1:] = _resampled_ends(rows[varied], known[varied])
    for row in np.flatnonzero(known.sum(axis=1) < FEWEST).tolist():
        intervals[row, 1:] = _student_ends(rows[row][known[row]])
    return intervals


def _student_ends(scores: Doubles) -> tuple[float, float]:
    """Bound the mean of a few scores by Student's t; NaN where they do not vary."""
    if len(scores) < 2 or not np.isfinite(scores).all() or scores.min() == scores.max():
        return math.nan, math.nan
    half = STUDENT[len(scores) - 2] * float(scores.std(ddof=1)) / math.sqrt(len(scores))
    return float(scores.mean()) - half, float(scores.mean()) + half


def _means(rows: Doubles, known: NDArray[np.bool_]) -> Doubles:
    """Average the known scores of every row; rows with the same known places are averaged together."""
    if known.all() and known.size:
        return np.asarray(rows.mean(axis=1))
    middle = np.full(len(rows), np.nan)
    alike: dict[bytes, list[int]] = {}
    for n, row in enumerate(known):
        alike.setdefault(row.tobytes(), []).append(n)
    for chosen in alike.values():
        columns = known[chosen[0]]
        if columns.any():
            middle[chosen] = np.ascontiguousarray(rows[chosen][:, columns]).mean(axis=1)
    return middle


def _resampled_ends(rows: Doubles, known: NDArray[np.bool_]) -> Doubles:
    """Average each row over every resample and cut off the tails: (rows, 2).

    Scores are scaled by a power of two to whole numbers, small enough that no sum over the questions exceeds 2 ** 53:
    all sums are exact.
    """
    if not len(rows):
        return np.empty((0, 2))
    filled = np.where(known, rows, 0.0)
    largest = np.abs(filled).max(axis=1)
    exponent = np.frexp(np.where(np.isfinite(largest), largest, 1.0))[1]
    shift = (53 - rows.shape[1].bit_length() - exponent)[:, None]
    weights = _weights(rows.shape[1])
    with np.errstate(invalid="ignore", divide="ignore"), _one_thread():
        sums = np.rint(np.ldexp(filled, shift)) @ weights
        if known.all():
            ends = _percentiles(sums) / rows.shape[1]  # every resample has as many scores: their sums order the means
        else:
            ends = _percentiles(sums / (known.astype(np.float64) @ weights))
        return np.asarray(np.ldexp(ends, -shift))


def _percentiles(means: Doubles) -> Doubles:
    """Cut off the tails of every row: (rows, 2); a resample without any scored question has no mean (sorted last)."""
    ordered = np.sort(means, axis=1)
    last = np.full(len(means), means.shape[1] - 1)
    if np.isnan(ordered[:, -1]).any():
        last = np.maximum((~np.isnan(means)).sum(axis=1) - 1, 0)
    tail = (1 - LEVEL) / 2 * last
    row = np.arange(len(means))
    return np.stack([ordered[row, np.floor(tail).astype(int)], ordered[row, np.ceil(last - tail).astype(int)]], axis=1)


def _open_at_bounds(rows: Doubles, bounds: tuple[Doubles, Doubles], low: Doubles, high: Doubles) -> None:
    lowest, highest = bounds
    unknown = np.isnan(rows)
    at_top = (unknown | (rows == highest[:, None])).all(axis=1)
    at_bottom = (unknown | (rows == lowest[:, None])).all(axis=1)
    bounded = ~(np.isnan(lowest) | np.isnan(highest) | unknown.all(axis=1))
    for n in np.flatnonzero(bounded & (at_top | at_bottom)).tolist():
        scored = int((~unknown[n]).sum())
        width = (highest[n] - lowest[n]) * (1 - ((1 - LEVEL) / 2) ** (1 / scored))
        if at_top[n]:
            low[n], high[n] = highest[n] - width, highest[n]
        if at_bottom[n]:
            low[n], high[n] = lowest[n], lowest[n] + width


def _one_thread() -> AbstractContextManager[object]:
    """Multiply on one thread: after so small a product idle threads spin for 25 ms, time that other processes need."""
    limits: AbstractContextManager[object] = _thread_pools().limit(limits=1, user_api="blas")
    return limits


@lru_cache
def _thread_pools() -> ThreadpoolController:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


@lru_cache(maxsize=64)
def _weights(questions: int) -> Doubles:
    """Draw how often each question is in each resample: (questions, resamples)."""
    generator = np.random.default_rng(20260101)
    counts = generator.multinomial(questions, np.full(questions, 1 / questions), size=RESAMPLES)
    return np.ascontiguousarray(counts.T, dtype=np.float64)


def quantile(ordered: Doubles, share: float) -> float:
    """Return a quantile of sorted scores by linear interpolation: numpy's, without its overhead."""
    if not len(ordered):
        return math.nan
    position = (len(ordered) - 1) * share
    first = min(int(position), len(ordered) - 1)
    low, high = float(ordered[first]), float(ordered[min(first + 1, len(ordered) - 1)])
    part = position - first
    return high - (high - low) * (1 - part) if part >= 0.5 else low + (high - low) * part


def quantile_interval(scores: NDArray[np.float64], quantile: float) -> tuple[float, float]:
    """Bound a quantile by order statistics, whatever the distribution (Conover 1999, section 3.2).

    With few scores the upper end is the largest score; NaN without scores.
    """
    ordered = np.sort(scores[~np.isnan(scores)])
    n = len(ordered)
    if not n:
        return float("nan"), float("nan")
    spread = 1.959964 * np.sqrt(n * quantile * (1 - quantile))
    first = int(np.clip(np.floor(n * quantile - spread), 0, n - 1))
    last = int(np.clip(np.ceil(n * quantile + spread), 0, n - 1))
    return float(ordered[first]), float(ordered[last])
