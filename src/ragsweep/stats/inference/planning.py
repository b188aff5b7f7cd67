"""The differences that an existing or planned golden set can show, and the size it needs to show a given difference."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ragsweep.core.errors import ConfigError, nearest
from ragsweep.core.results import Result
from ragsweep.stats.inference.cluster_errors import FEWEST, intraclass_correlation
from ragsweep.stats.inference.differences import all_pairs, compare_amounts
from ragsweep.stats.inference.estimates import LEVEL, POWER
from ragsweep.stats.inference.matrix import Matrix, has_ratios, score_matrix, transform_amounts
from ragsweep.stats.inference.power import (
    each_level,
    estimate_power,
    questions_needed,
    shared_level,
    typical_questions_needed,
)
from ragsweep.stats.inference.resampling import NEGLIGIBLE, cluster_sums, student_quantile

PARAMETER, METHOD = "a parameter", "another retriever"
"""The kinds of changes for which the variation of the differences was measured."""


class Variation(NamedTuple):
    """The variation, between questions, of the difference between two configs.

    ``spreads`` maps each kind of change to the standard deviation of the differences; ``correlation`` is the intraclass
    correlation of the differences within a source document.
    """

    spreads: Mapping[str, float]
    correlation: float


class Design(NamedTuple):
    """A planned golden set: the numbers of questions, of source documents, and of comparisons with one baseline."""

    questions: int
    clusters: int
    comparisons: int = 1

    @property
    def size(self) -> float:
        """The number of questions per source document."""
        return self.questions / self.clusters

    def inflation(self, correlation: float) -> float:
        """Return the factor by which clusters multiply the variance of a mean (Kish, Survey Sampling, 1965)."""
        return 1 + (self.size - 1) * correlation

    def cluster_spread(self, spread: float, correlation: float) -> float:
        """Return the standard deviation of the mean difference of one cluster."""
        return spread * math.sqrt(self.inflation(correlation) / self.size)


def find_variation(metric: str) -> tuple[str, Variation]:
    """Return the name and variation of the measured metric: ``metric`` itself, or the same metric at another cutoff.

    Raises:
        ConfigError: The variation of this metric was not measured.
    """
    family = metric.partition("_at_")[0]
    for name, variation in MEASURED.items():
        if name == metric or name.partition("_at_")[0] == family:
            return name, variation
    raise ConfigError(
        f'--metric: the variance of "{metric}" was not measured{nearest(metric, MEASURED)}; name a pilot RUN instead'
    )


def pilot_variation(matrix: Matrix, kind: str) -> Variation:
    """Return the (weighted) variation of the difference, second minus first row; ``kind`` names the kind of change.

    Variation within rounding error is 0.
    """
    differences = matrix.values[1] - matrix.values[0]
    deviations = (differences - matrix.weights_or_ones * differences.mean())[None, :]
    sizes = np.bincount(matrix.clusters).astype(np.float64)
    correlation = intraclass_correlation(deviations, cluster_sums(deviations, matrix.clusters), sizes)
    spread = float(np.sqrt(np.square(deviations).sum() / (len(differences) - 1)))
    return Variation({kind: spread if spread > NEGLIGIBLE * np.abs(matrix.values).max() else 0.0}, correlation)


def check_design(design: Design) -> None:
    """Raise ConfigError if there are more source documents than questions, or fewer than ``FEWEST`` documents."""
    if design.clusters > design.questions:
        raise ConfigError(
            f"--clusters: must be at most {design.questions:,} (the number of questions), got {design.clusters:,}"
        )
    if design.clusters < FEWEST:
        option = "--clusters" if design.clusters < design.questions else "--questions"
        raise ConfigError(
            f"{option}: must be at least {FEWEST}, got {design.clusters:,}: fewer source documents, with at least one"
            " question each, cannot show any difference"
        )


def detectable(spread: float, correlation: float, design: Design) -> float:
    """Return the smallest true difference that a golden set shows in four of five cases, at 95 % confidence.

    The difference is (t_{1 - alpha/2} + t_power) standard errors (Bloom, Evaluation Review 19, 1995), with alpha shared
    among the comparisons (``shared_level``).
    """
    factor = sum(
        student_quantile(share, design.clusters - 1) for share in ((1 + shared_level(design.comparisons)) / 2, POWER)
    )
    return factor * design.cluster_spread(spread, correlation) / math.sqrt(design.clusters)


def questions_for(effect: float, spread: float, correlation: float, design: Design) -> Design | None:
    """Return the design that has enough clusters, of unchanged mean size, to show a difference of ``effect``.

    Return None if that takes too many clusters (see ``questions_needed``), if the effect is 0, or if there is no
    spread.
    """
    one = design.cluster_spread(spread, correlation)
    clusters = questions_needed(effect, one, level=shared_level(design.comparisons)) if one > 0 else None
    if clusters is None:
        return None
    return design._replace(questions=math.ceil(clusters * design.size), clusters=clusters)


def independent_questions(correlation: float, design: Design) -> float:
    """Return the number of independent questions that would give an equally precise mean."""
    return design.questions / design.inflation(correlation)


MEASURED: Mapping[str, Variation] = {
    metric: Variation({PARAMETER: parameter, METHOD: method}, correlation)
    for metric, parameter, method, correlation in (
        ("ndcg_at_10", 0.13, 0.22, 0.41),
        ("recall_at_10", 0.17, 0.28, 0.29),
        ("precision_at_5", 0.05, 0.07, 0.19),
        ("hit_rate_at_5", 0.20, 0.29, 0.19),
        ("mrr", 0.15, 0.26, 0.26),
        ("map", 0.15, 0.25, 0.26),
        ("context_recall", 0.23, 0.30, 0.35),
        ("context_ndcg", 0.09, 0.25, 0.29),
    )
}
"""Variation by metric: medians over five collections, from ``benchmarks/variances.py`` (see docs/measurements.md)."""


EFFECT = 0.02
"""The default effect size; for a metric with a unit, a share of the mean."""
CORRELATION = 0.8
"""Correlation of a single given config with an assumed second config of equal variance."""
Row = Mapping[str, Any]


class Planned(NamedTuple):
    """A metric to plan for: the variation of its differences, and the difference to detect (``effect``).

    If amounts are compared by ratios, ``variation`` refers to their logarithms, and ``mean`` is the pilot's mean.
    """

    metric: str
    variation: Variation
    effect: float
    unit: str = ""
    mean: float | None = None

    def detectable(self, spread: float, design: Design) -> float:
        """Return the smallest difference that a golden set shows (see `detectable`); for ratios, as a share.

        Return NaN without a positive spread.
        """
        least = detectable(spread, self.variation.correlation, design) if spread > 0 else math.nan
        return least if self.mean is None else math.expm1(least)


def comparison_level(siblings: Sequence[Result], metric: str, configs: int, baseline: str) -> float:
    """Return the level of a single comparison at which several comparisons with one baseline hold simultaneously.

    ``configs`` is the number of comparisons. If there are at least two ``siblings`` (the configs that the sweep
    compares by the metric), the level follows from the critical value of their comparison instead, and ``configs`` has
    no effect. Without a declared ``baseline`` among them, the critical value applies to all pairs, as in the sweep.
    """
    if len(siblings) < 2:
        return shared_level(configs, LEVEL)
    matrix, unit = score_matrix(siblings, metric), siblings[0].summaries.metrics[metric].unit
    if baseline in matrix.configs:
        return each_level(compare_amounts(matrix, matrix.configs.index(baseline), unit))
    return each_level(compare_amounts(matrix, 0, unit, all_pairs(transform_amounts(matrix, unit)).largest))


def detectable_row(results: Sequence[Result], metric: str, effect: float | None, level: float) -> Row:
    """Return a row with the differences that a metric can show; for the default ``effect``, see ``worth_finding``."""
    matrix, unit = score_matrix(results, metric), results[0].summaries.metrics[metric].unit
    effect = worth_finding(matrix, unit) if effect is None else effect
    ratios, compared = has_ratios(matrix, unit), paired(transform_amounts(matrix, unit))
    found = estimate_power(compared, level=level)
    needed = typical_questions_needed(found, math.log1p(effect / float(matrix.values[0].mean())) if ratios else effect)
    return {
        "metric": metric,
        "detectable": math.expm1(found.typical) if ratios else found.typical,  # a share of an amount
        "detectable_alone": math.expm1(found.alone) if ratios else found.alone,
        "ratios": ratios,
        "effect": effect,
        "questions_needed": needed,
        "questions": found.questions,
        "clusters": found.clusters,
        "spread": float(found.spread[1]),
        "note": found.note,
        "unit": unit,
    }


def worth_finding(matrix: Matrix, unit: str) -> float:
    """Return the default effect size: ``EFFECT``, times the first row's mean if the metric has a unit."""
    mean = float(matrix.values[0].mean()) if matrix.questions else math.nan
    return EFFECT * abs(mean) if unit else EFFECT


def paired(matrix: Matrix) -> Matrix:
    """Return ``matrix``; if it has a single row, add a row whose differences vary as ``CORRELATION`` implies."""
    if len(matrix.values) > 1:
        return matrix
    scores = matrix.values[0]
    apart = (scores - matrix.weights_or_ones * scores.mean()) * math.sqrt(2 * (1 - CORRELATION))
    return replace(matrix, values=np.stack([scores, scores + apart]), configs=("", ""))


def plan_rows(one: Planned, design: Design, price: float | None) -> Iterator[Row]:
    """Yield one row per kind of change: the detectable difference, and the size of a set that detects the effect.

    ``price`` is the cost of annotating one question; without it, the costs in the rows are None.
    """
    for kind, spread in one.variation.spreads.items():
        correlation = one.variation.correlation
        effect = one.effect if one.mean is None else math.log1p(one.effect / one.mean)
        needed = questions_for(effect, spread, correlation, design)
        yield {
            "metric": one.metric,
            "change": kind,
            "detectable": one.detectable(spread, design),
            "ratios": one.mean is not None,
            "effect": one.effect,
            "questions": design.questions,
            "clusters": design.clusters,
            "cost": None if price is None else price * design.questions,
            "questions_needed": needed and needed.questions,
            "clusters_needed": needed and needed.clusters,
            "cost_needed": None if price is None or needed is None else price * needed.questions,
            "spread": spread,
            "correlation": correlation,
            "unit": one.unit,
        }
