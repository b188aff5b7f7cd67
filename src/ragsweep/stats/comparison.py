"""Compare the configs of a sweep: which are better, which may be the best, which is recommended.

Results go in, numbers come out; ``report/verdict.py`` puts them into words, tables and a picture.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.errors import InputError
from ragsweep.core.results import COMPLETE, DROPPED, PARTIAL, Failure, Result, objectives
from ragsweep.stats.comparable import differing_parameters, is_mean, labels_of
from ragsweep.stats.inference.best import SelectionBias, probability_of_best, selection_bias
from ragsweep.stats.inference.confidence_set import ConfidenceSet, model_confidence_set
from ragsweep.stats.inference.differences import Differences, compare_with_baseline
from ragsweep.stats.inference.matrix import Matrix, score_matrix
from ragsweep.stats.inference.power import LEVEL, Power, each_level, estimate_power
from ragsweep.stats.inference.recommending import COSTS, MARGIN, ContextLength, Cost, Recommendation, recommend
from ragsweep.stats.inference.slices import Reversal, Slice, by_slice, reversals

SLICED = 20
"""Configs compared by slice: the baseline and those with the best means. More would widen every interval."""

SET_LEVEL = 0.975
"""At which the set of those that may be the best is made; the other 2.5 % are spent on leaving the baseline out."""
LENGTHENING = ("top_k", "context_budget")
"""Keys that lengthen the context and change nothing else."""
RISING = ("context_recall", "context_ndcg", "evidence_coverage")
"""Metrics that a longer context of the same ranking can only raise (by whatever gain: context_ndcg_exponential too)."""

Doubles = NDArray[np.float64]
Flags = NDArray[np.bool_]


class ExcludedConfig(NamedTuple):
    """A config that is compared with nothing."""

    name: str
    why: str


class NoComparison(NamedTuple):
    """The reason why a sweep has no comparison."""

    why: str


@dataclass(frozen=True, eq=False)
class SweepComparison:
    """The comparison of a sweep. Rows of all arrays are the configs of ``matrix``, the first is the baseline."""

    matrix: Matrix
    objective: str  # as configured: the matrix's metric, where that can be compared
    unit: str
    differences: Differences
    confidence_set: ConfidenceSet
    probability: Doubles  # of being the best, by resampling
    selection_bias: SelectionBias
    power: Power
    recommendation: Recommendation
    recommended: Result | None  # the config of the recommendation, with its own figures
    costs: Mapping[str, Doubles]  # one number a config; NaN where unknown
    sliced: tuple[int, ...]  # the configs compared by slice, the baseline first
    slices: tuple[Slice, ...]  # their rows are those of `sliced`
    reversals: tuple[Reversal, ...]  # better on average, worse there; rows of `matrix`
    others: Mapping[str, tuple[Matrix, Differences]] = field(default_factory=dict)  # further metrics
    skipped: Mapping[str, str] = field(default_factory=dict)  # metric -> why it is not compared
    left_out: tuple[ExcludedConfig, ...] = ()

    @property
    def metric(self) -> str:
        """The metric of the comparison."""
        return self.matrix.metric

    @property
    def may_be_best(self) -> Flags:
        """The configs that may be the best: the confidence set, consistent with the differences.

        The set compares all pairs, the differences those with the baseline, which may be the best unless one is shown
        better. That errs in 2.5 % of sweeps, the set (at ``SET_LEVEL``) in as many: together in 5 %.
        """
        found = (
            self.confidence_set.mask.copy() if len(self.confidence_set.mask) > 2 else ~self.differences.worse
        )  # one comparison decides
        found[self.differences.baseline] = not self.differences.better.any()
        return np.asarray(found)

    @property
    def worse(self) -> Flags:
        """The configs that are shown worse than the baseline, and are not among those that may be the best."""
        return np.asarray(self.differences.worse & ~self.may_be_best)

    @property
    def means(self) -> Doubles:
        """The configs' means over the questions that all were scored on."""
        return np.asarray(self.matrix.values.mean(axis=1))


def compare_configs(
    results: Sequence[Result], failures: Sequence[Failure] = (), set_aside: Sequence[ExcludedConfig] = ()
) -> SweepComparison | NoComparison:
    """Compare the configs of a sweep by its first objective, and by the others and the headline metrics beside it.

    The baseline is the first config that can be compared. A PARTIAL config is compared by the metrics of which enough
    is scored (``coverage``), and left out of the others. Configs that were dropped by a race, failed, or were scored on
    no question are left out; ``set_aside`` are others that are not in ``results``. Where the objective is no mean over
    questions that has a direction (a quantile, say), or fewer than two configs have enough scores of it, the first
    headline metric that can be compared stands in for it.
    """
    left_out = [ExcludedConfig(one.name, "dropped by the race") for one in results if one.state == DROPPED]
    left_out += [*(ExcludedConfig(one.name, "failed") for one in failures), *set_aside]
    known = [one for one in results if one.state in (COMPLETE, PARTIAL)]
    if fault := _incomparable(known):
        return NoComparison(fault)
    named = _named(known)
    skipped = {name: why for name in named if (why := _not_compared(known, name))}
    usable = [name for name in named if name not in skipped]
    for objective in objectives(known[0].config):
        if objective not in named:
            skipped[objective] = "it was not measured of every config"
    if not usable:
        return NoComparison("; ".join(f"{name} is not compared: {why}" for name, why in skipped.items()))
    left_out[:0] = [ExcludedConfig(one.name, PARTIAL) for one in known if not _is_complete(one, usable[0])]
    whole = [one for one in known if _is_complete(one, usable[0])]
    scored = [one for one in whole if one.summaries[usable[0]].n_scored]
    left_out += [ExcludedConfig(one.name, "not measured") for one in whole if not one.summaries[usable[0]].n_scored]
    if len(scored) < 2:
        return NoComparison(f"{usable[0]} was measured of one config: there is nothing to compare it with")
    partly = [name for name in usable if not all(_is_complete(one, name) for one in scored)]
    skipped |= dict.fromkeys(partly, "too few of its questions could be scored in some configs")
    try:
        return _weighed(scored, [name for name in usable if name not in partly], skipped, tuple(left_out))
    except InputError as fault:
        return NoComparison(str(fault))


def _weighed(
    results: Sequence[Result], metrics: Sequence[str], skipped: Mapping[str, str], left_out: tuple[ExcludedConfig, ...],
) -> SweepComparison | NoComparison:  # fmt: skip
    matrix = score_matrix(results, metrics[0])
    if not matrix.questions:
        return NoComparison(f"no question was scored on {metrics[0]} by all {len(results)} configs")
    differences = compare_with_baseline(matrix, 0)
    costs = {name: cost for name in COSTS if not np.isnan((cost := _cost(results, name)).value).all()}
    rows = _sliced(matrix)
    slices = by_slice(matrix.select_configs(rows), labels_of(results[0], matrix.questions))
    constraints = results[0].config.get("constraints") or {}
    lengths = _context_lengths(results, matrix)
    found = recommend(matrix, differences, costs, constraints, _margin(results[0], matrix), lengths)
    return SweepComparison(
        matrix=matrix,
        objective=(*objectives(results[0].config), metrics[0])[0],
        unit=results[0].summaries[metrics[0]].unit,
        differences=differences,
        confidence_set=model_confidence_set(matrix, SET_LEVEL),
        probability=probability_of_best(matrix),
        selection_bias=selection_bias(matrix),
        power=_power(matrix, differences),
        recommendation=found,
        recommended=None if found.config is None else results[found.config],
        costs={name: cost.value for name, cost in costs.items()},
        sliced=rows,
        slices=slices,
        reversals=reversals(differences, sorted(slices, key=lambda one: -one.questions), rows),
        others=_others(results, metrics[1:]),
        skipped=skipped,
        left_out=left_out,
    )


def _incomparable(results: Sequence[Result]) -> str:
    """Return why configs cannot be compared at all; an empty text if nothing prevents it."""
    if not results:
        return "no config was evaluated: there is nothing to compare"
    if len(results) == 1:
        return "one config: there is nothing to compare it with"
    if len({one.dataset.golden_digest for one in results}) > 1:
        return "the configs were asked different questions: nothing is compared; sweep over one golden set"
    return ""


def _named(results: Sequence[Result]) -> list[str]:
    """List the metrics to compare by: the objective, then the headline."""
    config = results[0].config
    names = [*objectives(config), *config.get("headline", ()), *config.get("answer_headline", ())]
    return [name for name in dict.fromkeys(names) if name and all(name in one.summaries for one in results)]


def _not_compared(results: Sequence[Result], metric: str) -> str:
    if results[0].summaries[metric].higher_is_better is None:
        return "neither more nor less of it is better"
    if not all(is_mean(one, metric) for one in results):
        return "it is no mean over questions"
    if sum(_is_complete(one, metric) for one in results) < 2:
        return "too few of its questions could be scored in all configs but one at most"
    return ""


def _is_complete(result: Result, metric: str) -> bool:
    """Return whether enough of a metric's questions could be scored, whatever else a PARTIAL config lacks."""
    limit = float(result.config.get("coverage", 1.0))
    return result.state != PARTIAL or (metric in result.summaries and result.summaries[metric].coverage >= limit)


LEAST_MS = 1.0
"""Milliseconds; a smaller saving is within the noise of measuring the same config twice."""


def _cost(results: Sequence[Result], name: str) -> Cost:
    """Return the configs' cost; only latency is measured anew by each and has an interval."""
    found = [one.summaries.get(name) if _is_complete(one, name) else None for one in results]
    value = np.array([math.nan if one is None else one.value for one in found], dtype=np.float64)
    if not name.startswith("latency"):
        return Cost(value, value, value)
    ends = [(math.nan, math.nan) if one is None else (one.low, one.high) for one in found]
    low, high = np.array(ends, dtype=np.float64).T
    return Cost(value, low, high, LEAST_MS)


def _power(matrix: Matrix, differences: Differences) -> Power:
    """Return what this sweep can show: with the critical value by which it is decided."""
    critical, clusters = differences.critical, len(np.unique(matrix.clusters))
    return estimate_power(matrix, level=each_level(critical, clusters) if critical > 0 else LEVEL)


def _margin(first: Result, matrix: Matrix) -> float:
    """Return the margin in the metric's unit: as configured, else the default."""
    given = (first.config.get("recommend") or {}).get("margin")
    if given is not None:
        return float(given)
    return MARGIN * abs(float(matrix.values[0].mean())) if first.summaries[matrix.metric].unit else MARGIN


def _context_lengths(results: Sequence[Result], matrix: Matrix) -> ContextLength | None:
    """Compare the lengths of contexts, where the metric can only rise with them; None where that is no question.

    It can if it is one of ``RISING`` and no config that differs by nothing else lost a question.
    """
    if not matrix.metric.startswith(RISING):
        return None
    reach = [tuple(_reach(one.config, key) for key in LENGTHENING) for one in results]
    longer = np.array([one != reach[0] and all(map(operator.ge, one, reach[0])) for one in reach])
    if not longer.any():
        return None
    alone = np.array([bool(is_longer) and set(differing_parameters(results[0], one)) <= set(LENGTHENING)
                      for is_longer, one in zip(longer, results, strict=True)])  # fmt: skip
    if (matrix.values[alone] < matrix.values[0]).any():
        return None
    keys = tuple(key for n, key in enumerate(LENGTHENING) if any(one[n] != reach[0][n] for one in reach))
    return ContextLength(keys, longer, alone)


def _reach(config: Mapping[str, Any], key: str) -> float:
    value = config.get(key)
    return math.inf if value is None else float(value)


def _sliced(matrix: Matrix) -> tuple[int, ...]:
    best = np.argsort(-matrix.better.mean(axis=1), kind="stable").tolist()
    return (0, *[row for row in best if row][: SLICED - 1])


def _others(results: Sequence[Result], metrics: Sequence[str]) -> dict[str, tuple[Matrix, Differences]]:
    """Compare by further metrics; one that was not measured of every config, or of no question of all, is left out."""
    compared = {}
    for name in metrics:
        matrix = score_matrix(results, name)
        if matrix.questions:
            compared[name] = matrix, compare_with_baseline(matrix, 0)
    return compared
