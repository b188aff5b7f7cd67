"""The comparison of a sweep by judged scores that people's labels of some answers correct."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.results import Failure, HumanLabel, Result
from ragsweep.stats.comparison import (
    SET_LEVEL,
    Correction,
    ExcludedConfig,
    NoComparison,
    SweepComparison,
    compare_configs,
    find_costs,
)
from ragsweep.stats.human_labels import (
    MARKS,
    MatchedLabels,
    RunLabels,
    are_marks,
    correct_difference,
    correct_gate,
    correct_mean,
    match_labels,
    reason_uncorrected,
)
from ragsweep.stats.inference.best import SelectionBias
from ragsweep.stats.inference.confidence_set import ConfidenceSet
from ragsweep.stats.inference.differences import BASELINE, FEW, Differences
from ragsweep.stats.inference.matrix import Matrix
from ragsweep.stats.inference.noninferiority import Gate
from ragsweep.stats.inference.power import Power
from ragsweep.stats.inference.prediction_powered import FEWEST_LABELS, Corrected
from ragsweep.stats.inference.recommending import Pairs, recommend
from ragsweep.stats.inference.slices import reversals

Doubles = NDArray[np.float64]

UNLABELLED = f"with fewer than {FEWEST_LABELS} labels"
_RATIOS = "it is compared by ratios, which labels do not correct"


class SweepLabels(NamedTuple):
    """People's labels, and the MLflow runs of configs by name, which they may name."""

    given: Sequence[HumanLabel]
    runs: Mapping[str, str]

    def of(self, metric: str, results: Sequence[Result]) -> RunLabels | None:
        """Return the labels of a metric, with the runs of these configs; None where there are none."""
        return RunLabels(self.given, [self.runs.get(result.name, "") for result in results]).of(metric)


@dataclass(frozen=True, eq=False)
class CorrectedPairs(Pairs):
    """Configs compared two by two by corrected differences."""

    matched: MatchedLabels
    corrected: Doubles  # means, in the metric's own direction

    @property
    def means(self) -> Doubles:
        """The corrected means; more is better."""
        return self.corrected if self.matrix.higher_is_better else -self.corrected

    def gate(self, first: int, second: int, margin: float, level: float) -> Gate:
        """Decide by the corrected difference whether the second config is worse by more than ``margin``."""
        found = correct_difference(self.matrix, self.matched, (first, second), 2 * level - 1)
        sign = 1.0 if self.matrix.higher_is_better else -1.0
        return correct_gate(super().gate(first, second, margin, level), found, sign, margin)

    def can_pass(self, row: int, rivals: Sequence[int], margin: float, level: float) -> bool:
        """Leave every rival to the gate."""
        return True


def compare_labelled(
    results: Sequence[Result], labels: SweepLabels, failures: Sequence[Failure] = (),
    set_aside: Sequence[ExcludedConfig] = (),
) -> SweepComparison | NoComparison:  # fmt: skip
    """Compare the configs of a sweep as ``compare_configs`` does, by corrected scores where metrics are labelled.

    Intervals of corrected differences hold together (Bonferroni). Where the objective is labelled, configs with too few
    labels are left out; where too few are left to be compared, or of the first one, the verdict is as judged.

    Raises:
        InputError: A label's run names two configs.
    """
    verdict = compare_configs(results, failures, set_aside)
    if isinstance(verdict, NoComparison):
        return verdict
    named = {result.name: result for result in results}
    compared = [named[name] for name in verdict.matrix.configs]
    found = _correct(verdict.matrix, verdict.differences, compared, labels)
    if isinstance(found, _CorrectedMetric):
        unknown = np.isnan(found.differences.low)
        if unknown.any():
            lacking = {name for name, out in zip(verdict.matrix.configs, unknown, strict=True) if out}
            left = [result for result in results if result.name not in lacking]
            return compare_labelled(left, labels, failures, [*set_aside, *(ExcludedConfig(one, UNLABELLED)
                                                                           for one in sorted(lacking))])  # fmt: skip
        verdict = _decide(verdict, compared, found)
    elif found:
        verdict = replace(verdict, uncorrected={verdict.metric: found})
    for metric, (matrix, differences) in verdict.others.items():
        other = _correct(matrix, differences, compared, labels)
        if isinstance(other, _CorrectedMetric):
            others = {**verdict.others, metric: (matrix, other.differences)}
            verdict = replace(verdict, others=others, corrections={**verdict.corrections, metric: other.correction})
        elif other:
            verdict = replace(verdict, uncorrected={**verdict.uncorrected, metric: other})
    return verdict


class _CorrectedMetric(NamedTuple):
    differences: Differences
    correction: Correction
    matched: MatchedLabels


def _correct(
    matrix: Matrix, judged: Differences, results: Sequence[Result], labels: SweepLabels
) -> _CorrectedMetric | str:
    """Correct the differences of a metric, or return why it is as judged; "" where nobody labelled it."""
    people = labels.of(matrix.metric, results)
    if people is None:
        return ""
    if judged.ratios or math.isnan(judged.critical):
        return _RATIOS if judged.ratios else FEW
    matched, others = match_labels(people.given, matrix.metric, results, people.runs, matrix), range(1, len(results))
    level = 1 - (1 - judged.level) / len(others)
    found = [correct_difference(matrix, matched, (0, row), level) for row in others]
    known = [one for one in found if not math.isnan(one.low)]
    if not known:
        return reason_uncorrected(matched, max(found, key=lambda one: one.labels), matrix.metric)
    first = correct_mean(matrix, matched, 0).value
    estimates = np.array([0.0, *(one.value for one in found)])
    means = estimates + (float(matrix.values[0].mean()) if math.isnan(first) else first)
    notes = [matched.why_unused(), MARKS if are_marks(people.given, matrix.metric, matrix) else ""]
    correction = Correction(means, judged, _fewest(known), "; ".join(filter(None, notes)))
    return _CorrectedMetric(_differences(judged, found, matched), correction, matched)


def _fewest(found: Sequence[Corrected]) -> int:
    """Return how many labels the config with fewest has; pairs with the same answers throughout need none."""
    return min((one.labels for one in found if one.labels), default=0)


def _differences(judged: Differences, found: Sequence[Corrected], matched: MatchedLabels) -> Differences:
    """Replace the estimates and intervals; tests and effects of judged scores are unknown of corrected ones."""
    unknown, rows = np.full(len(judged.estimate), math.nan), np.arange(len(judged.estimate))
    value, low, high = (np.array([0.0, *(getattr(one, end) for one in found)]) for end in ("value", "low", "high"))
    notes = [f"corrected by {one.labels} labels" if one.low == one.low else UNLABELLED for one in found]
    return replace(
        judged, estimate=value, low=low, high=high, standard_error=unknown, wilcoxon=unknown, wilcoxon_holm=unknown,
        randomisation=unknown, randomisation_holm=unknown, effect=unknown, notes=(BASELINE, *notes), by_labels=True,
        apart=np.array([int((matched.cases[row] != matched.cases[0]).sum()) for row in rows]),
    )  # fmt: skip


def _decide(verdict: SweepComparison, results: Sequence[Result], found: _CorrectedMetric) -> SweepComparison:
    """Let corrected differences decide; what only scores of all questions could give is unknown."""
    pairs = CorrectedPairs(verdict.matrix, found.matched, found.correction.means)
    constraints, costs = results[0].config.get("constraints") or {}, find_costs(results, verdict.spending)
    recommendation = recommend(pairs, found.differences, costs, constraints, verdict.recommendation.margin)
    unknown, best = np.full(len(results), math.nan), int(pairs.means.argmax())
    return replace(
        verdict, differences=found.differences, confidence_set=_best_set(pairs), probability=unknown,
        selection_bias=SelectionBias(best, float(found.correction.means[best]), math.nan, math.nan),
        power=Power(unknown, unknown, math.nan, math.nan, verdict.power.questions, verdict.power.clusters),
        recommendation=recommendation, variance={},
        recommended=None if recommendation.config is None else results[recommendation.config],
        reversals=reversals(found.differences, verdict.slices, verdict.sliced),
        corrections={verdict.metric: found.correction},
    )  # fmt: skip


def _best_set(pairs: CorrectedPairs) -> ConfidenceSet:
    """Keep the configs that no other one is shown better than, all pairs together at ``SET_LEVEL``."""
    count = len(pairs.means)
    kept, level = np.ones(count, dtype=bool), 1 - (1 - SET_LEVEL) / math.comb(count, 2)
    for first, second in combinations(range(count), 2):
        found = correct_difference(pairs.matrix, pairs.matched, (first, second), level)
        up, down = (second, first) if pairs.matrix.higher_is_better else (first, second)
        kept[down] &= not found.low > 0
        kept[up] &= not found.high < 0
    return ConfidenceSet(kept, np.full(count, math.nan))
