"""Intervals for the mean and for a quantile of per-question scores."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 2000
LEVEL = 0.95


def mean_intervals(
    scores: NDArray[np.float64], lowest: NDArray[np.float64], highest: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Bound the means of many metrics at once by the percentile bootstrap over questions.

    ``scores`` is (questions, metrics), NaN where a question has no score; ``lowest`` and ``highest`` are each metric's
    bounds, NaN where there is none. Resamples are the same for every call with as many questions (fixed seed). Where
    all scores stand on a bound the bootstrap would claim certainty; there the interval is opened to what n equal
    Bernoulli draws allow (Clopper and Pearson 1934: 1 - (alpha / 2) ** (1 / n)). Without scores both ends are NaN.
    """
    known = ~np.isnan(scores)
    weights = _weights(len(scores))
    with np.errstate(invalid="ignore", divide="ignore"):
        means = (weights @ np.where(known, scores, 0.0)) / (weights @ known.astype(np.float64))
    low, high = _percentiles(means)
    _open_at_bounds(scores, lowest, highest, low, high)
    return low, high


def _percentiles(means: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Cut off the tails, column by column; a resample without any scored question has no mean (sorted last)."""
    ordered = np.sort(means, axis=0)
    known = (~np.isnan(means)).sum(axis=0)
    tail = (1 - LEVEL) / 2 * np.maximum(known - 1, 0)
    columns = np.arange(means.shape[1])
    low = ordered[np.floor(tail).astype(np.int64), columns]
    high = ordered[np.ceil(np.maximum(known - 1, 0) - tail).astype(np.int64), columns]
    return low, high


def _open_at_bounds(
    scores: NDArray[np.float64],
    lowest: NDArray[np.float64],
    highest: NDArray[np.float64],
    low: NDArray[np.float64],
    high: NDArray[np.float64],
) -> None:
    for column in np.flatnonzero(~(np.isnan(lowest) | np.isnan(highest))):
        values = scores[:, column]
        values = values[~np.isnan(values)]
        if not len(values):
            continue
        width = (highest[column] - lowest[column]) * (1 - ((1 - LEVEL) / 2) ** (1 / len(values)))
        if (values == highest[column]).all():
            low[column] = highest[column] - width
        if (values == lowest[column]).all():
            high[column] = lowest[column] + width


@lru_cache(maxsize=64)
def _weights(questions: int) -> NDArray[np.float64]:
    generator = np.random.default_rng(20260101)
    counts = generator.multinomial(questions, np.full(questions, 1 / questions), size=RESAMPLES)
    return np.asarray(counts, dtype=np.float64)


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
