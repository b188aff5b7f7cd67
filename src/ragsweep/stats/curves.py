"""The curve of a metric over a numeric parameter: band, flat region, and the value that cross-validation chooses."""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ragsweep.core.question_results import Flags
from ragsweep.core.results import COMPLETE, Result
from ragsweep.stats.comparable import scoring_parameters
from ragsweep.stats.inference.best import amounts_bias, choices_by_fold
from ragsweep.stats.inference.differences import all_pairs
from ragsweep.stats.inference.matrix import score_matrix, transform_amounts
from ragsweep.stats.inference.resampling import bound, cluster_scores

FEWEST = 3
"""Minimum number of values of a curve."""


@dataclass(frozen=True)
class Point:
    """One value of the parameter: the metric's mean, its simultaneous 95 % band, and how often the value is chosen.

    ``chosen`` is the share of training sets (nine tenths of the questions, in whole clusters) in which this value has
    the best mean; NaN with fewer than ten clusters.
    """

    value: float
    config: str
    mean: float
    low: float
    high: float
    chosen: float


@dataclass(frozen=True)
class Curve:
    """A metric over one parameter, all others being equal, as plain data (``dataclasses.asdict`` gives JSON types).

    ``flat`` is the range around the best value in which no value is shown to be worse than any other. ``may_be_best``
    has one flag per point, because values outside this range may meet the same condition. ``chosen`` is the value that
    cross-validation chooses most often, or ``best`` with fewer than ten clusters. ``held_out`` is ``best_mean`` without
    the optimism of choosing the best value, as expected on unseen questions; it is NaN with fewer than ten clusters.
    """

    parameter: str
    metric: str
    points: tuple[Point, ...]
    best: float  # the value with the best mean
    best_mean: float
    chosen: float
    held_out: float
    flat: tuple[float, float]
    may_be_best: tuple[bool, ...]


def curves(results: Sequence[Result], parameter: str, metric: str) -> list[Curve]:
    """Return one curve for each group of configs that differ only in ``parameter`` and have three or more values of it.

    Only COMPLETE configs that have a score of the metric and a numeric value of the parameter are used. There is no
    curve for a metric without a direction, or for a group in which no question has a score in all configs.
    ``parameter`` is a key of ``Run.parameters``: ``retriever.alpha``, for example.
    """
    return [curve for group in groups_over(results, parameter) if (curve := _curve(parameter, metric, group))]


def curve_of_best(best_first: Sequence[Result], parameter: str, metric: str) -> Curve | None:
    """Return the curve of a parameter through the best config that lies on a curve; None if there is no curve."""
    return next(filter(None, (_curve(parameter, metric, group) for group in groups_over(best_first, parameter))), None)


def groups_over(results: Sequence[Result], parameter: str) -> list[list[Result]]:
    """Group the configs that differ only in ``parameter``; the group of the first config comes first.

    Configs without a finite value of ``parameter``, and groups with fewer than three values, are left out.
    """
    groups: dict[frozenset[tuple[str, str]], list[Result]] = defaultdict(list)
    for one in results:
        if math.isfinite(_number(one.run.parameters.get(parameter, ""))):
            rest = frozenset(item for item in scoring_parameters(one.run).items() if item[0] != parameter)
            groups[rest].append(one)
    return [group for group in groups.values() if len({one.run.parameters[parameter] for one in group}) >= FEWEST]


def _curve(parameter: str, metric: str, configs: Sequence[Result]) -> Curve | None:
    group = {float(one.run.parameters[parameter]): one for one in reversed(configs) if _is_usable(one, metric)}
    values = sorted(group)
    if len(values) < FEWEST:
        return None
    matrix = score_matrix([group[value] for value in values], metric)
    if not matrix.questions:
        return None
    band = bound(cluster_scores(matrix.values, matrix.clusters, matrix.weights))
    unit = group[values[0]].summaries.metrics[metric].unit
    compared, bias = transform_amounts(matrix, unit), amounts_bias(matrix, unit)
    share, alike = choices_by_fold(compared), all_pairs(compared).may_be_best
    chosen = bias.winner if np.isnan(share).all() else int(share.argmax())
    return Curve(
        parameter=parameter,
        metric=metric,
        points=tuple(
            Point(value, group[value].name, *ends)
            for value, *ends in zip(
                values, band.means.tolist(), band.low.tolist(), band.high.tolist(), share.tolist(), strict=True
            )
        ),
        best=values[bias.winner],
        best_mean=bias.observed,
        chosen=values[chosen],
        held_out=bias.crossfitted,
        flat=flat_region(values, alike, bias.winner),
        may_be_best=tuple(alike.tolist()),
    )


def flat_region(values: Sequence[float], alike: Flags, best: int) -> tuple[float, float]:
    """Return the first and the last value of the range around the index ``best`` in which all values are ``alike``."""
    low = high = best
    while low > 0 and alike[low - 1]:
        low -= 1
    while high < len(values) - 1 and alike[high + 1]:
        high += 1
    return values[low], values[high]


def _is_usable(result: Result, metric: str) -> bool:
    known = result.summaries.metrics.get(metric)
    scored = known is not None and known.n_scored > 0 and known.higher_is_better is not None
    return scored and result.run.state == COMPLETE


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
