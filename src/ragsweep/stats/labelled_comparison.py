"""The comparison of a sweep by judged scores, corrected by human labels of some of the answers."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from ragsweep.core.question_results import Doubles, Flags
from ragsweep.core.results import Failure, HumanLabel, Result
from ragsweep.stats.choice import choose
from ragsweep.stats.compare_configs import compare_configs, find_reference
from ragsweep.stats.comparison import Correction, ExcludedConfig, NoComparison, SweepComparison
from ragsweep.stats.context_length import rises_with
from ragsweep.stats.human_labels import (
    MatchedLabels,
    RunLabels,
    correct_difference,
    correct_mean,
    match_labels,
    reason_uncorrected,
)
from ragsweep.stats.inference.best import SelectionBias
from ragsweep.stats.inference.cluster_errors import FEW
from ragsweep.stats.inference.differences import REFERENCE
from ragsweep.stats.inference.estimates import LEVEL, AllPairs, Differences
from ragsweep.stats.inference.matrix import Matrix
from ragsweep.stats.inference.prediction_powered import FEWEST_LABELS, Corrected
from ragsweep.stats.inference.slices import reversals

UNLABELLED = f"with fewer than {FEWEST_LABELS} labels"
_RATIOS = "it is compared by ratios, which labels cannot correct"


class SweepLabels(NamedTuple):
    """Human labels, and the id of each config's MLflow run, by the config's name."""

    given: Sequence[HumanLabel]
    runs: Mapping[str, str]

    def of(self, metric: str, results: Sequence[Result]) -> RunLabels | None:
        """Return the labels of a metric, with the run ids of ``results``; None if the metric has no labels."""
        return RunLabels(self.given, [self.runs.get(result.name, "") for result in results]).of(metric)


@dataclass(frozen=True, eq=False)
class CorrectedMeans:
    """Estimates of the configs' true means: the corrected means, with normal errors and without shrinkage."""

    matrix: Matrix
    matched: MatchedLabels
    corrected: Doubles  # corrected means, in the metric's direction

    @property
    def means(self) -> Doubles:
        """The corrected means; higher is better."""
        return self.matrix.sign * self.corrected

    def probability_better(self, row: int, other: int) -> float:
        """Return the probability that ``row`` has a better true mean than ``other``; NaN with too few labels."""
        gain, error = self._difference(row, other)
        if not error:  # every label shows the same gain
            return 0.5 + 0.5 * float(np.sign(gain))
        return float(NormalDist().cdf(gain / error))

    def expected_loss(self, row: int, other: int) -> float:
        """Return the expected loss of choosing ``row`` over ``other`` (a gain counts as 0); NaN with too few labels."""
        gain, error = self._difference(row, other)
        if math.isnan(error) or not error:
            return max(-gain, 0.0)
        ratio = gain / error
        return error * NormalDist().pdf(ratio) - gain * NormalDist().cdf(-ratio)

    def _difference(self, row: int, other: int) -> tuple[float, float]:
        """Return the corrected gain of ``row`` over ``other``, and its standard error; NaN with too few labels."""
        found = correct_difference(self.matrix, self.matched, (other, row))
        return self.matrix.sign * found.value, (found.high - found.low) / (2 * NormalDist().inv_cdf(0.975))


def compare_labelled(
    results: Sequence[Result],
    labels: SweepLabels,
    failures: Sequence[Failure] = (),
    set_aside: Sequence[ExcludedConfig] = (),
    baseline: str | None = None,
    references: Sequence[str] = (),
) -> SweepComparison | NoComparison:
    """Compare a sweep's configs as ``compare_configs`` does, but by corrected scores for metrics with labels.

    Intervals of corrected differences are simultaneous (Bonferroni). If the deciding metric has labels, configs with
    too few labels are excluded. This metric is not corrected if the reference or every other config has too few labels,
    if ratios are compared, or if there are too few independent questions; ``uncorrected`` then has the reason.

    Without a baseline, differences are relative to the config that is chosen by corrected means. A corrected mean is
    the reference's mean plus the corrected difference, so the choice can depend on the reference. ``references`` lists
    the references of earlier, recursive calls; if the choice is one of these, the last one stays the reference.

    Raises:
        InputError: The run of a label matches more than one config.
    """
    verdict = compare_configs(results, failures, set_aside, baseline, references[-1] if references else None)
    if isinstance(verdict, NoComparison):
        return verdict
    compared = verdict.results
    found = _correct(verdict.matrix, verdict.differences, compared, labels)
    if isinstance(found, _CorrectedMetric):
        unknown = np.isnan(found.differences.low)
        if unknown.any():
            lacking = {name for name, out in zip(verdict.matrix.configs, unknown, strict=True) if out}
            left = [result for result in results if result.name not in lacking]
            unlabelled = [ExcludedConfig(one, UNLABELLED) for one in sorted(lacking)]
            return compare_labelled(left, labels, failures, [*set_aside, *unlabelled], baseline, references)
        verdict = _decide(verdict, found)
        wanted = verdict.matrix.configs[find_reference(verdict.choice, verdict.baseline)]
        if wanted not in (verdict.matrix.configs[verdict.reference], *references):
            return compare_labelled(results, labels, failures, set_aside, baseline, [*references, wanted])
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
    """Return the corrected differences of a metric, or why they are not corrected ("" without labels)."""
    people = labels.of(matrix.metric, results)
    if people is None:
        return ""
    if judged.ratios or math.isnan(judged.critical):
        return _RATIOS if judged.ratios else FEW
    matched, base = match_labels(people, results, matrix), judged.baseline
    level = 1 - (1 - LEVEL) / (len(results) - 1)
    found = {row: correct_difference(matrix, matched, (base, row), level) for row in range(len(results)) if row != base}
    known = [one for one in found.values() if not math.isnan(one.low)]
    if not known:
        return reason_uncorrected(matched, max(found.values(), key=lambda one: one.labels))
    first = correct_mean(matrix, matched, base).value
    estimates = np.array([found[row].value if row in found else 0.0 for row in range(len(results))])
    means = estimates + (float(matrix.values[base].mean()) if math.isnan(first) else first)
    fewest = min((one.labels for one in known if one.labels), default=0)  # 0 labels: the pair's answers are identical
    correction = Correction(means, judged, fewest, "; ".join(filter(None, [matched.why_unused(), matched.marks])))
    return _CorrectedMetric(_differences(judged, found, matched), correction, matched)


def _differences(judged: Differences, found: Mapping[int, Corrected], matched: MatchedLabels) -> Differences:
    """Replace the judged estimates and intervals by corrected ones; errors, tests and effects become unknown (NaN)."""
    unknown, rows = np.full(len(judged.estimate), math.nan), np.arange(len(judged.estimate))
    own = [found.get(row) for row in rows.tolist()]
    value, low, high = (
        np.array([0.0 if one is None else getattr(one, end) for one in own]) for end in ("value", "low", "high")
    )
    notes = [
        REFERENCE if one is None else UNLABELLED if math.isnan(one.low) else f"corrected by {one.labels} labels"
        for one in own
    ]
    apart = np.array([int((matched.cases[row] != matched.cases[judged.baseline]).sum()) for row in rows])
    tests = ("standard_error", "wilcoxon", "wilcoxon_holm", "randomisation", "randomisation_holm", "effect")
    untested: dict[str, Any] = dict.fromkeys(tests, unknown)
    estimates: dict[str, Any] = {"estimate": value, "low": low, "high": high, "notes": tuple(notes)}
    return replace(judged, **untested, **estimates, by_labels=True, apart=apart)


def _decide(verdict: SweepComparison, found: _CorrectedMetric) -> SweepComparison:
    """Choose by corrected means; statistics that would need labels of all questions become unknown (NaN)."""
    beliefs = CorrectedMeans(verdict.matrix, found.matched, found.correction.means)
    constraints = verdict.results[0].run.config.get("constraints") or {}
    choice = choose(beliefs, verdict.costs, constraints, verdict.choice.loss, verdict.choice.refusing, verdict.baseline)
    unknown, best = np.full(len(verdict.results), math.nan), int(beliefs.means.argmax())
    results, row = verdict.results, choice.row
    keys = () if row is None else rises_with(results[row], results, verdict.matrix)
    return replace(
        verdict,
        differences=found.differences,
        beliefs=beliefs,
        choice=choice,
        rises_with=keys,
        pairs=AllPairs(math.nan, _undominated(beliefs)),
        selection_bias=SelectionBias(best, float(found.correction.means[best]), math.nan, math.nan),
        power=replace(verdict.power, spread=unknown, typical=math.nan, alone=math.nan, note="corrected by labels"),
        variance={},
        reversals=reversals(found.differences, verdict.slices, verdict.sliced),
        corrections={verdict.metric: found.correction},
    )


def _undominated(beliefs: CorrectedMeans) -> Flags:
    """Flag the configs that are not shown to be worse than another, by simultaneous 95 % intervals of all pairs."""
    count = len(beliefs.means)
    kept, level = np.ones(count, dtype=bool), 1 - 0.05 / math.comb(count, 2)
    for first, second in combinations(range(count), 2):
        found = correct_difference(beliefs.matrix, beliefs.matched, (first, second), level)
        up, down = (second, first) if beliefs.matrix.higher_is_better else (first, second)
        kept[down] &= not found.low > 0
        kept[up] &= not found.high < 0
    return kept
