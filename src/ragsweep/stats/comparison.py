"""Compare the configs of a sweep: which are better, which may be the best, which is recommended.

``report/verdict.py`` turns the numbers into sentences, tables and a picture.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.errors import InputError
from ragsweep.core.results import COMPLETE, DROPPED, PARTIAL, Failure, Result, judged_metrics, objectives, shown_metrics
from ragsweep.stats.comparable import differing_parameters, is_mean, labels_of
from ragsweep.stats.inference.best import SelectionBias, probability_of_best, selection_bias
from ragsweep.stats.inference.confidence_set import ConfidenceSet, are_losses_unseen, model_confidence_set
from ragsweep.stats.inference.differences import Differences, compare_amounts, has_ratios, transform_amounts
from ragsweep.stats.inference.matrix import Matrix, score_matrix
from ragsweep.stats.inference.max_t import needed_p_value
from ragsweep.stats.inference.power import Power, each_level, estimate_power
from ragsweep.stats.inference.recommending import (
    COSTS,
    MARGIN,
    ConfigCost,
    ContextLength,
    Pairs,
    Recommendation,
    recommend,
)
from ragsweep.stats.inference.slices import Reversal, Slice, by_slice, reversals
from ragsweep.stats.repetition import VarianceShares, variance_shares

SLICED = 20
"""Configs compared by slice: the baseline and those with the best means; more would widen every interval."""

SET_LEVEL = 0.975
"""Level of the set of configs that may be the best; the other 2.5 % are the error of excluding the baseline."""
LENGTHENING = ("top_k", "context_budget")
"""Keys that lengthen the context and change nothing else."""
RISING = ("context_recall", "context_ndcg", "evidence_coverage")
"""Metrics that a longer context of the same ranking can only raise; prefixes (context_ndcg_exponential, too)."""

Doubles = NDArray[np.float64]
Flags = NDArray[np.bool_]


BASELINE = "ragsweep.parts.generators.Baseline"
"""The generator of baselines, as configs name it."""


class ExcludedConfig(NamedTuple):
    """A config that is left out of the comparison."""

    name: str
    why: str


def list_baselines(results: Sequence[Result]) -> list[ExcludedConfig]:
    """List the configs that answer with fields of the case: they stand in the table, and nobody ships them."""
    found = [one.name for one in results if (one.config.get("llm") or {}).get("_target_") == BASELINE]
    return [ExcludedConfig(name, "for reference") for name in found if len(found) < len(results)]


class NoComparison(NamedTuple):
    """The reason why a sweep has no comparison."""

    why: str


@dataclass(frozen=True, eq=False)
class Correction:
    """What people's labels changed of one metric: its corrected means, and the differences as judged."""

    means: Doubles
    judged: Differences
    labels: int  # of the config that has fewest
    note: str = ""


@dataclass(frozen=True, eq=False)
class SweepComparison:
    """The comparison of a sweep. Rows of all arrays are the configs of ``matrix``, the first is the baseline."""

    matrix: Matrix
    compared: Matrix  # by what they are compared: logarithms of amounts, else the matrix itself
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
    spending: Mapping[str, Differences]  # of the costs by question, which a quantile such as latency_p95_ms is not
    sliced: tuple[int, ...]  # the configs compared by slice, the baseline first
    slices: tuple[Slice, ...]  # their rows are those of `sliced`
    reversals: tuple[Reversal, ...]  # better on average, worse there; rows of `matrix`
    others: Mapping[str, tuple[Matrix, Differences]] = field(default_factory=dict)  # of further metrics
    skipped: Mapping[str, str] = field(default_factory=dict)  # metric -> why it is not compared
    left_out: tuple[ExcludedConfig, ...] = ()
    adaptive: bool = False  # a search chose configs by the scores of others: the selection bias is a lower bound
    variance: Mapping[int, VarianceShares] = field(default_factory=dict)  # of a row's difference; repeated answers only
    corrections: Mapping[str, Correction] = field(default_factory=dict)  # of metrics that people's labels correct
    uncorrected: Mapping[str, str] = field(default_factory=dict)  # labelled metric -> why it is as judged

    @property
    def metric(self) -> str:
        """The metric of the comparison."""
        return self.matrix.metric

    @property
    def may_be_best(self) -> Flags:
        """The configs that may be the best: the confidence set, consistent with the differences.

        The set compares all pairs, the differences are those from the baseline, which may be the best unless another is
        shown better. That errs in 2.5 % of sweeps, the set (at ``SET_LEVEL``) in as many: together in 5 %. Of two
        configs their one comparison decides.
        """
        mask = self.confidence_set.mask.copy() if len(self.confidence_set.mask) > 2 else ~self.differences.worse
        mask[self.differences.baseline] = not self.differences.better.any()
        return np.asarray(mask)

    @property
    def losses_unseen(self) -> bool:
        """Whether rare losses may be unseen, so that a config which is left out of those may be as good."""
        return self.confidence_set.exposed or bool(self.differences.exposed.any())

    @property
    def worse(self) -> Flags:
        """The configs that are shown worse than the baseline and cannot be the best."""
        return np.asarray(self.differences.worse & ~self.may_be_best)

    @property
    def means(self) -> Doubles:
        """The configs' means over the questions on which all have a score, corrected where there are labels."""
        found = self.corrections.get(self.metric)
        return np.asarray(self.matrix.values.mean(axis=1)) if found is None else found.means

    @property
    def ranked(self) -> Doubles:
        """The numbers by which configs rank, more is better: corrected means, else those of what is compared."""
        if self.metric not in self.corrections:
            return np.asarray(self.compared.better.mean(axis=1))
        return self.means if self.matrix.higher_is_better else -self.means


def compare_configs(
    results: Sequence[Result], failures: Sequence[Failure] = (), set_aside: Sequence[ExcludedConfig] = ()
) -> SweepComparison | NoComparison:
    """Compare the configs of a sweep by its first objective, and by the others and the headline metrics beside it.

    The baseline is the first config that can be compared. A PARTIAL config is compared by the metrics of which enough
    is scored (``coverage``), and left out of the others. Configs that a race dropped, that failed, or that have no
    scored question are left out; ``set_aside`` are others that are not in ``results``. The objective is replaced by the
    first headline metric that can be compared where it is no mean with a direction (a quantile, say), or fewer than two
    configs have enough scores of it.
    """
    left_out = [ExcludedConfig(result.name, "dropped by the race") for result in results if result.state == DROPPED]
    left_out += [*(ExcludedConfig(failure.name, "failed") for failure in failures), *set_aside]
    results = [result for result in results if result.state in (COMPLETE, PARTIAL)]
    if reason := _reason_incomparable(results):
        return NoComparison(reason)
    config = results[0].config
    names = dict.fromkeys([*shown_metrics(config), *judged_metrics(results[0])])
    measured = [name for name in names if name and all(name in result.summaries for result in results)]
    skipped = {name: why for name in measured if (why := _reason_not_compared(results, name))}
    usable = [name for name in measured if name not in skipped]
    for objective in objectives(config):
        if objective not in measured:
            skipped[objective] = "it was not measured of every config"
    if not usable:
        return NoComparison("; ".join(f"{name} is not compared: {why}" for name, why in skipped.items()))
    metric = usable[0]
    complete = [result for result in results if _is_complete(result, metric)]
    scored = [result for result in complete if result.summaries[metric].n_scored]
    left_out[:0] = [ExcludedConfig(result.name, PARTIAL) for result in results if not _is_complete(result, metric)]
    left_out += [
        ExcludedConfig(result.name, "not measured") for result in complete if not result.summaries[metric].n_scored
    ]
    if len(scored) < 2:
        return NoComparison(f"{metric} was measured of one config: there is nothing to compare it with")
    partial = [name for name in usable if not all(_is_complete(result, name) for result in scored)]
    skipped |= dict.fromkeys(partial, "too few of its questions could be scored in some configs")
    try:
        return _compare(scored, [name for name in usable if name not in partial], skipped, tuple(left_out))
    except InputError as fault:
        return NoComparison(str(fault))


def _compare(
    results: Sequence[Result], metrics: Sequence[str], skipped: Mapping[str, str], left_out: tuple[ExcludedConfig, ...],
) -> SweepComparison | NoComparison:  # fmt: skip
    matrix = score_matrix(results, metrics[0])
    if not matrix.questions:
        return NoComparison(f"no question was scored on {metrics[0]} by all {len(results)} configs")
    lengths = context_lengths(results, matrix)
    units = {metric: results[0].summaries[metric].unit for metric in metrics}
    rising = rising_configs(results, matrix)
    differences = compare_amounts(matrix, 0, units[metrics[0]], rising)
    compared = transform_amounts(matrix, units[metrics[0]])
    spending = {name: found for name in COSTS if (found := _spending(results, name))}
    by_mean = np.argsort(-compared.better.mean(axis=1), kind="stable").tolist()
    rows = (0, *[row for row in by_mean if row][: SLICED - 1])
    labels = labels_of(results[0], matrix.questions)
    slices = by_slice(compared.select_configs(rows), labels, rising=None if rising is None else rising[list(rows)])
    margin, costs = _margin(results[0], matrix), find_costs(results, spending)
    recommendation = recommend(
        Pairs(compared), differences, costs, results[0].config.get("constraints") or {}, margin, lengths
    )
    others = {name: other for name in metrics[1:] if (other := score_matrix(results, name)).questions}
    return SweepComparison(
        matrix=matrix,
        compared=compared,
        objective=(*objectives(results[0].config), metrics[0])[0],
        unit=units[metrics[0]],
        differences=differences,
        confidence_set=_find_set(results, compared, differences),
        probability=probability_of_best(compared),
        selection_bias=_in_the_unit(selection_bias(compared), matrix) if differences.ratios else selection_bias(matrix),
        power=estimate_power(compared, level=each_level(differences), guarded=guarded_configs(results, matrix)),
        recommendation=recommendation,
        recommended=None if recommendation.config is None else results[recommendation.config],
        costs={name: cost.value for name, cost in costs.items()},
        spending=spending,
        sliced=rows,
        slices=slices,
        reversals=reversals(differences, sorted(slices, key=lambda part: -part.questions), rows),
        others={
            name: (other, compare_amounts(other, 0, units[name], rising_configs(results, other)))
            for name, other in others.items()
        },
        skipped=skipped,
        left_out=left_out,
        variance=_variances(results, matrix),
    )


def _find_set(results: Sequence[Result], compared: Matrix, differences: Differences) -> ConfidenceSet:
    """Find the configs that may be the best, and whether one of the others may be as good, for all that was seen."""
    found = model_confidence_set(compared, SET_LEVEL)
    best = int(compared.better.mean(axis=1).argmax())
    guarded = np.array([bool(guarded_configs([one, results[best]], compared.select_configs((row, best)))[1])
                        for row, one in enumerate(results)])  # fmt: skip
    allowed = needed_p_value(differences.critical, differences.degrees, differences.level)
    return replace(found, exposed=are_losses_unseen(compared, ~found.mask & guarded, allowed))


def find_costs(results: Sequence[Result], spending: Mapping[str, Differences]) -> dict[str, ConfigCost]:
    """Return what configs cost, by the name of the cost; ``spending``: their differences by question."""
    costs = {name: _cost(results, name, spending.get(name)) for name in COSTS}
    return {name: cost for name, cost in costs.items() if not np.isnan(cost.value).all()}


def _variances(results: Sequence[Result], matrix: Matrix) -> dict[int, VarianceShares]:
    """Divide the variance of each config's difference from the baseline, where answers are repeated."""
    found = {row: variance_shares([results[0], results[row]], matrix.select_configs((0, row)))
             for row in range(1, len(results))}  # fmt: skip
    return {row: shares for row, shares in found.items() if shares}


def _reason_incomparable(results: Sequence[Result]) -> str:
    """Return why configs cannot be compared at all; empty where they can."""
    if not results:
        return "no config was evaluated: there is nothing to compare"
    if len(results) == 1:
        return "one config: there is nothing to compare it with"
    if len({result.dataset.golden_digest for result in results}) > 1:
        return "the configs were asked different questions: nothing is compared; sweep over one golden set"
    return ""


def _reason_not_compared(results: Sequence[Result], metric: str) -> str:
    """Return why configs cannot be compared by a metric; empty where they can."""
    if results[0].summaries[metric].higher_is_better is None:
        return "neither more nor less of it is better"
    if not all(is_mean(result, metric) for result in results):
        return "it is no mean over questions"
    if sum(_is_complete(result, metric) for result in results) < 2:
        return "too few of its questions could be scored in all configs but one at most"
    return ""


def _is_complete(result: Result, metric: str) -> bool:
    """Return whether enough of a metric's questions could be scored, also in a PARTIAL config."""
    limit = float(result.config.get("coverage", 1.0))
    return result.state != PARTIAL or (metric in result.summaries and result.summaries[metric].coverage >= limit)


LEAST_MS = 1.0
"""Milliseconds; a smaller saving is within the noise of measuring the same config twice."""


def _spending(results: Sequence[Result], name: str) -> Differences | None:
    """Compare a cost by question; None of one that not all configs have, and of a quantile."""
    if not all(name in result.summaries and _is_complete(result, name) for result in results):
        return None
    if _reason_not_compared(results, name):
        return None
    matrix = score_matrix(results, name)
    return compare_amounts(matrix, 0, results[0].summaries[name].unit) if matrix.questions else None


def _cost(results: Sequence[Result], name: str, spending: Differences | None) -> ConfigCost:
    """Return the configs' cost: shown lower where its differences by question are, or the intervals of quantiles."""
    rows = [
        (summary.value, summary.low, summary.high) if summary and _is_complete(result, name) else (math.nan,) * 3
        for result in results
        for summary in [result.summaries.get(name)]
    ]
    value, low, high = np.array(rows, dtype=np.float64).T
    if spending is None:
        return ConfigCost(value, high < low[0], low > high[0], LEAST_MS if name.startswith("latency") else 0.0)
    return ConfigCost(value, spending.better, spending.worse)


def _in_the_unit(bias: SelectionBias, matrix: Matrix) -> SelectionBias:
    """Return a selection bias of logarithms as one of the winner's mean."""
    mean, sign = float(matrix.values[bias.winner].mean()), 1.0 if matrix.higher_is_better else -1.0
    expected = mean * math.exp(-sign * bias.optimism)
    return SelectionBias(bias.winner, mean, sign * (mean - expected), expected)


def _margin(first: Result, matrix: Matrix) -> float:
    """Return the margin in the metric's unit, as configured, else the default; of amounts in logarithms."""
    margin, unit = (first.config.get("recommend") or {}).get("margin"), first.summaries[matrix.metric].unit
    mean = float(matrix.values[0].mean())
    if has_ratios(matrix, unit):
        return math.log1p(MARGIN if margin is None else float(margin) / mean)
    if margin is not None:
        return float(margin)
    return MARGIN * abs(mean) if unit else MARGIN


def rising_configs(results: Sequence[Result], matrix: Matrix) -> Flags | None:
    """Flag the configs that can lose no question to the first one: the same rankings, a longer context."""
    lengths = context_lengths(results, matrix)
    return None if lengths is None else lengths.alone


def guarded_configs(results: Sequence[Result], matrix: Matrix) -> Flags:
    """Flag the configs whose lead over the first one a loss that was not seen could undo."""
    rising = rising_configs(results, matrix)
    return np.ones(len(matrix.values), dtype=bool) if rising is None else ~rising


def context_lengths(results: Sequence[Result], matrix: Matrix) -> ContextLength | None:
    """Compare the lengths of contexts, where the metric can only rise with them; else None.

    It can if it is one of ``RISING`` and no config that differs by nothing else lost a question.
    """
    if not matrix.metric.startswith(RISING):
        return None
    limits = [[result.config.get(key) for key in LENGTHENING] for result in results]
    lengths = [tuple(math.inf if limit is None else float(limit) for limit in row) for row in limits]
    longer = np.array([row != lengths[0] and all(map(operator.ge, row, lengths[0])) for row in lengths])
    if not longer.any():
        return None
    alone = np.array([bool(is_longer) and set(differing_parameters(results[0], result)) <= set(LENGTHENING)
                      for is_longer, result in zip(longer, results, strict=True)])  # fmt: skip
    if (matrix.values[alone] < matrix.values[0]).any():
        return None
    keys = tuple(key for n, key in enumerate(LENGTHENING) if any(row[n] != lengths[0][n] for row in lengths))
    return ContextLength(keys, longer, alone)
