"""The differences that an existing or a planned golden set can show, as rows of plain data."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ragsweep.core.results import COMPLETE, Result
from ragsweep.stats.inference.differences import compare_amounts
from ragsweep.stats.inference.estimates import LEVEL
from ragsweep.stats.inference.matrix import Matrix, has_ratios, transform_amounts
from ragsweep.stats.inference.planning import Design, Variation, detectable, questions_for
from ragsweep.stats.inference.power import each_level, estimate_power, shared_level, typical_questions_needed
from ragsweep.stats.inference.score_matrix import score_matrix

EFFECT = 0.02
"""The default effect size; for a metric with a unit it is a share of the mean."""
CORRELATION = 0.8
"""The assumed correlation of a config's scores with those of a second one, of equal variance, if only one is given."""
Row = Mapping[str, Any]


class Planned(NamedTuple):
    """A metric to plan for: the variation of its differences, and the difference to detect (``effect``)."""

    metric: str
    variation: Variation
    effect: float
    unit: str = ""


def comparison_level(siblings: Sequence[Result], metric: str, configs: int) -> float:
    """Return the level of a single comparison at which several comparisons with one baseline hold together.

    ``configs`` is the number of comparisons. If at least two ``siblings`` (the configs of the same sweep) are complete,
    the level follows from the critical value of their comparison instead, and ``configs`` has no effect.
    """
    whole = [result for result in siblings if result.run.state == COMPLETE and metric in result.summaries.metrics]
    if len(whole) < 2:
        return shared_level(configs, LEVEL)
    return each_level(compare_amounts(score_matrix(whole, metric), 0, whole[0].summaries.metrics[metric].unit))


def detectable_row(results: Sequence[Result], metric: str, effect: float | None, level: float) -> Row:
    """Return a row with the differences that a metric can show; None as ``effect`` stands for ``worth_finding``."""
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
    """Return the default effect size: ``EFFECT`` or, for a metric with a unit, this share of the first row's mean."""
    mean = float(matrix.values[0].mean()) if matrix.questions else math.nan
    return EFFECT * abs(mean) if unit else EFFECT


def paired(matrix: Matrix) -> Matrix:
    """Return the matrix; a single row is joined by a second one that differs from it as ``CORRELATION`` implies."""
    if len(matrix.values) > 1:
        return matrix
    scores = matrix.values[0]
    apart = (scores - scores.mean()) * math.sqrt(2 * (1 - CORRELATION))
    return replace(matrix, values=np.stack([scores, scores + apart]), configs=("", ""))


def plan_rows(one: Planned, design: Design, price: float | None) -> Iterator[Row]:
    """Yield one row per kind of change: the detectable difference, and the size of a set that detects the effect.

    ``price`` is the cost of annotating one question; without it, the costs in the rows are None.
    """
    for kind, spread in one.variation.spreads.items():
        correlation = one.variation.correlation
        needed = questions_for(one.effect, spread, correlation, design)
        yield {
            "metric": one.metric,
            "change": kind,
            "detectable": detectable(spread, correlation, design),
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
