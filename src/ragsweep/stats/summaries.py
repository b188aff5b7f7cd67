"""Summarise the scores of many questions by a value, its interval, and the reasons for missing scores."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ragsweep.core.missing import INAPPLICABLE, SKIPPED, ReasonCodes, failed, number_reasons
from ragsweep.core.question_results import Doubles, Flags, Numbers
from ragsweep.core.results import Summary
from ragsweep.core.types import Metric, Scores
from ragsweep.stats.inference.cluster_errors import varying
from ragsweep.stats.intervals import means_with_intervals, quantile_interval

Amount = tuple[float, float, float]
"""A value and the ends of its interval."""


class ReasonCounts(NamedTuple):
    """Counts of the questions without a score; ``counts`` maps each reason to its count.

    ``skipped`` counts the questions where a requirement of the metric is missing. ``failed`` counts all other questions
    without a score. ``broken`` counts the questions whose measurement failed. ``unanswered`` counts the broken
    questions without an answer, to which the metric might not have applied. ``settled`` counts the questions to which
    the metric applies, but which would have no score even if the measurement were repeated, for example because of a
    refusal, an empty retrieval, or an unknown price.
    """

    counts: Mapping[str, int]
    skipped: int
    failed: int
    broken: int
    broken_weight: float  # sum of the weights of the broken questions
    unanswered: int
    settled: int


@dataclass(frozen=True, eq=False)
class ScoreTable:
    """All scores of one config: one row per metric.

    ``weights`` has the questions' weights; None means equal weights. ``unanswered`` marks the questions without an
    answer; None means that there are none. ``clusters`` has the number of each question's cluster; None means that all
    questions are independent.
    """

    metrics: Sequence[Metric]
    values: Doubles  # (metrics, questions)
    reasons: Sequence[ReasonCodes]
    weights: Doubles | None
    unanswered: Flags | None
    clusters: Numbers | None

    def summarise(self, chosen: Numbers | None = None) -> dict[str, Summary]:
        """Return each metric's summary, by name, over the questions with the indices ``chosen`` (None means all)."""
        values = self.values if chosen is None else np.ascontiguousarray(self.values[:, chosen])
        known = ~np.isnan(values)
        weights = varying(self.weights if chosen is None or self.weights is None else self.weights[chosen])
        clusters = self.clusters if chosen is None or self.clusters is None else self.clusters[chosen]
        amounts = self._amounts(values, known, weights, clusters)
        scored, counts = np.count_nonzero(known, axis=1).tolist(), self._counts(chosen, weights)
        masses = scored if weights is None else (known @ weights).tolist()
        return {
            metric.name: _summary(
                metric, amounts[n], (values.shape[1], scored[n], masses[n]), counts[id(self.reasons[n])]
            )
            for n, metric in enumerate(self.metrics)
        }

    def _amounts(
        self, values: Doubles, known: Flags, weights: Doubles | None, clusters: Numbers | None
    ) -> dict[int, Amount]:
        means = [n for n, metric in enumerate(self.metrics) if metric.quantile is None]
        bounds = np.array([self.metrics[n].bounds for n in means], dtype=np.float64).reshape(-1, 2)  # None becomes NaN
        intervals = means_with_intervals(values[means], bounds[:, 0], bounds[:, 1], weights, clusters)
        amounts: dict[int, Amount] = dict(zip(means, map(tuple, np.stack(intervals, axis=1).tolist()), strict=True))
        for n, metric in enumerate(self.metrics):
            if metric.quantile is not None:
                here = known[n]
                own = None if weights is None else weights[here]
                amounts[n] = quantile_interval(values[n][here], metric.quantile, own)
        return amounts

    def _counts(self, chosen: Numbers | None, weights: Doubles | None) -> dict[int, ReasonCounts]:
        """Count the reasons in each distinct ``ReasonCodes`` (metrics may share one), keyed by the object's id."""
        counts = {}
        unanswered = self.unanswered if chosen is None or self.unanswered is None else self.unanswered[chosen]
        for codes in {id(codes): codes for codes in self.reasons}.values():
            numbers = codes.numbers if chosen is None else codes.numbers[chosen]
            totals = np.bincount(numbers, minlength=len(codes.names)).tolist()
            by_reason = {name: total for name, total in zip(codes.names, totals, strict=True) if name and total}
            skipped = sum(total for name, total in by_reason.items() if name in SKIPPED)
            is_broken = np.array([failed(name) for name in codes.names], dtype=bool)[numbers]
            broken = int(np.count_nonzero(is_broken))
            counts[id(codes)] = ReasonCounts(
                counts=by_reason,
                skipped=skipped,
                failed=sum(by_reason.values()) - skipped,
                broken=broken,
                broken_weight=float(broken if weights is None else weights[is_broken].sum()),
                unanswered=0 if unanswered is None else int(np.count_nonzero(is_broken & unanswered)),
                settled=sum(n for name, n in by_reason.items() if not failed(name) and name not in INAPPLICABLE),
            )
        return counts


def collect_scores(
    metrics: Sequence[Metric],
    scores: Mapping[str, Scores],
    weights: Doubles | None = None,
    unanswered: Flags | None = None,
    clusters: Numbers | None = None,
) -> ScoreTable:
    """Collect the scores of the metrics in one table; the other arguments are as in ``ScoreTable``."""
    rows = [scores[metric.name] for metric in metrics]
    values, reasons = np.stack([row.values for row in rows]), number_reasons([row.reasons for row in rows])
    return ScoreTable(metrics, values, reasons, weights, unanswered, clusters)


def _share_scored(scored: int, reasons: ReasonCounts) -> float:
    """Return the share of the scorable questions that have a score; 1 if no question is scorable.

    Scorable questions are those that have a score or whose measurement failed. The metric is assumed to apply to the
    same share of the unanswered questions as of all others.
    """
    applies = scored + reasons.broken - reasons.unanswered
    others = applies + reasons.settled
    scorable = applies + reasons.unanswered * (applies / others if others else 1.0)
    return scored / scorable if scorable else 1.0


def _summary(metric: Metric, amount: Amount, numbers: tuple[int, int, float], reasons: ReasonCounts) -> Summary:
    value, low, high = amount
    asked, scored, mass = numbers
    bounds = [value, value]
    if reasons.broken:  # the value if every broken question had the lowest, or the highest, score
        total = value * mass if scored else 0.0
        ends = (math.nan if bound is None or metric.quantile is not None else bound for bound in metric.bounds)
        bounds = [(total + reasons.broken_weight * end) / (mass + reasons.broken_weight) for end in ends]
    return Summary(
        name=metric.name,
        value=value,
        low=low,
        high=high,
        n_total=asked,
        n_scored=scored,
        n_skipped=reasons.skipped,
        n_failed=reasons.failed,
        unit=metric.unit,
        higher_is_better=metric.higher_is_better,
        reasons=dict(reasons.counts),
        low_bound=bounds[0],
        high_bound=bounds[1],
        coverage=_share_scored(scored, reasons),
    )
