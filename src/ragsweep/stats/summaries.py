"""Sum up the scores of many questions: value, interval, and how many could not be scored and why."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.missing import SKIPPED, ReasonCodes, failed, number_reasons
from ragsweep.core.results import Summary
from ragsweep.core.types import Metric, Scores
from ragsweep.stats.intervals import means_with_intervals, quantile, quantile_interval

Numbers = NDArray[np.int64]
Doubles = NDArray[np.float64]
Amount = tuple[float, float, float]
"""A value and the ends of its interval."""


class ReasonCounts(NamedTuple):
    """Counts of each reason, of questions that lack something, and of failures.

    ``broken`` of the failed ones went wrong, and could have been scored.
    """

    counts: Mapping[str, int]
    skipped: int
    failed: int
    broken: int


@dataclass(frozen=True, eq=False)
class ScoreTable:
    """All scores of one config: one row a metric."""

    metrics: Sequence[Metric]
    values: Doubles  # (metrics, questions)
    reasons: Sequence[ReasonCodes]

    def summarise(self, chosen: Numbers | None = None) -> dict[str, Summary]:
        """Sum up the chosen questions; None for all of them."""
        values = self.values if chosen is None else np.ascontiguousarray(self.values[:, chosen])
        known = ~np.isnan(values)
        amounts = self._amounts(values, known)
        scored, counts = np.count_nonzero(known, axis=1).tolist(), self._counts(chosen)
        return {
            metric.name: _summary(metric, amounts[n], (values.shape[1], scored[n]), counts[id(self.reasons[n])])
            for n, metric in enumerate(self.metrics)
        }

    def _amounts(self, values: Doubles, known: NDArray[np.bool_]) -> dict[int, Amount]:
        means, lowest, highest = self._averaged
        found = means_with_intervals(values[means], lowest, highest)
        amounts: dict[int, Amount] = dict(
            zip(means, zip(*(column.tolist() for column in found), strict=True), strict=True)
        )
        for n, metric in enumerate(self.metrics):
            if metric.quantile is not None:
                ordered = np.sort(values[n][known[n]])
                amounts[n] = (quantile(ordered, metric.quantile), *quantile_interval(ordered, metric.quantile))
        return amounts

    @cached_property
    def _averaged(self) -> tuple[list[int], Doubles, Doubles]:
        """List the metrics of which the mean is shown, and the bounds of their values."""
        means = [n for n, metric in enumerate(self.metrics) if metric.quantile is None]
        lowest, highest = (
            np.array([_bound(self.metrics[n].bounds[end]) for n in means], dtype=np.float64) for end in (0, 1)
        )
        return means, lowest, highest

    def _counts(self, chosen: Numbers | None) -> dict[int, ReasonCounts]:
        """Count the reasons, once for metrics that have the very same ones."""
        counts = {}
        for one in {id(one): one for one in self.reasons}.values():
            numbers = one.numbers if chosen is None else one.numbers[chosen]
            found = np.bincount(numbers, minlength=len(one.names)).tolist()
            said = {name: count for name, count in zip(one.names, found, strict=True) if name and count}
            skipped = sum(count for name, count in said.items() if name in SKIPPED)
            broken = sum(count for name, count in said.items() if failed(name))
            counts[id(one)] = ReasonCounts(said, skipped, sum(said.values()) - skipped, broken)
        return counts


def collect_scores(metrics: Sequence[Metric], scores: Mapping[str, Scores]) -> ScoreTable:
    """Collect the scores of the metrics."""
    rows = [scores[metric.name] for metric in metrics]
    return ScoreTable(metrics, np.stack([row.values for row in rows]), number_reasons([row.reasons for row in rows]))


def _bound(bound: float | None) -> float:
    return float("nan") if bound is None else bound


def _summary(metric: Metric, amount: Amount, numbers: tuple[int, int], reasons: ReasonCounts) -> Summary:
    could = numbers[1] + reasons.broken
    return Summary(
        metric.name, *amount, *numbers, reasons.skipped, reasons.failed, metric.unit, metric.higher_is_better,
        dict(reasons.counts), *_bounds(metric, amount[0], numbers[1], reasons.broken),
        numbers[1] / could if could else 1.0,
    )  # fmt: skip


def _bounds(metric: Metric, value: float, scored: int, broken: int) -> tuple[float, float]:
    """Return the value had all that went wrong the lowest, or the highest, score; NaN where that is not bounded."""
    if not broken:
        return value, value
    if metric.quantile is not None:
        return math.nan, math.nan
    total = value * scored if scored else 0.0
    low, high = ((total + broken * _bound(bound)) / (scored + broken) for bound in metric.bounds)
    return low, high
