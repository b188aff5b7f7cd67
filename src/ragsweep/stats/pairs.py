"""Compare two configs by each metric, consistently with the comparison of their sweep."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ragsweep.core.results import Result
from ragsweep.stats.choice import find_margin
from ragsweep.stats.comparable import factors, is_mean, is_scored, labels_of, redefined_metrics
from ragsweep.stats.comparison import list_references
from ragsweep.stats.conclusion import PairComparison, PairConclusion, PairCorrection, PairMetric, PairSlice
from ragsweep.stats.context_length import length_keys
from ragsweep.stats.human_labels import (
    MARKS,
    RunLabels,
    are_marks,
    check_corrected,
    correct_difference,
    match_labels,
    reason_uncorrected,
)
from ragsweep.stats.inference.confidence_set import all_pairs
from ragsweep.stats.inference.differences import compare_amounts
from ragsweep.stats.inference.matrix import Matrix, transform_amounts
from ragsweep.stats.inference.paired_tests import holm
from ragsweep.stats.inference.score_matrix import score_matrix
from ragsweep.stats.inference.shrinkage import posterior
from ragsweep.stats.inference.slices import by_slice
from ragsweep.stats.repetition import variance_shares
from ragsweep.stats.verdict import shown_kind


@dataclass(frozen=True, eq=False)
class Family:
    """The configs among which a pair is compared: the configs of its sweep, or the pair alone.

    ``baseline`` is the sweep's declared baseline: intervals of differences from it hold together. Intervals of other
    pairs hold together with all pairs of the sweep.
    """

    results: Sequence[Result]
    baseline: str | None = None

    def compare(self, first: Result, second: Result, metric: str) -> PairComparison:
        """Compare the second config with the first by one metric, corrected for the comparisons in the family."""
        members = [one for one in self.results if one is first or one is second or self._is_member(one, metric)]
        matrix, unit = score_matrix(members, metric), first.summaries.metrics[metric].unit
        compared, rows = transform_amounts(matrix, unit), (members.index(first), members.index(second))
        largest: float | None = None
        if self.baseline == second.name:
            largest = compare_amounts(matrix, rows[1], unit).largest
        elif self.baseline != first.name and len(members) > 2:
            largest = all_pairs(compared).largest
        found, margin = compare_amounts(matrix, rows[0], unit, largest), find_margin(first.run.config, matrix, unit)
        return PairComparison(matrix, rows, found, posterior(compared), margin)

    def _is_member(self, result: Result, metric: str) -> bool:
        references = {one.name for one in list_references(self.results)}
        return result.name not in references and is_scored(result, metric) and is_mean(result, metric)


def conclude_pair(
    results: tuple[Result, Result], metrics: Sequence[str], family: Family, people: RunLabels
) -> PairConclusion:
    """Compare the second config with the first, corrected for their ``family``, and by human labels where given.

    Raises:
        InputError: One of the configs has no label that counts for a labelled metric.
    """
    pairs = [family.compare(*results, metric) for metric in metrics]
    corrected = holm(np.array([pair.found.randomisation[pair.rows[1]] for pair in pairs]))
    shown = [_pair_metric(pair, float(p), results, people) for pair, p in zip(pairs, corrected, strict=True)]
    redefined = redefined_metrics(*results, metrics)
    return PairConclusion(*results, factors(*results), redefined, shown, labelled=bool(people.given))


def _pair_metric(pair: PairComparison, p_holm: float, results: tuple[Result, Result], people: RunLabels) -> PairMetric:
    matrix = pair.matrix.select_configs(pair.rows)
    unit, labelled = results[0].summaries.metrics[matrix.metric].unit, people.of(matrix.metric)
    correction = None if labelled is None else _correct(matrix, results, labelled)
    return PairMetric(
        pair, matrix, unit, p_holm, _slices(matrix, results, unit), variance_shares(results, matrix), correction
    )


def _slices(matrix: Matrix, results: tuple[Result, Result], unit: str) -> list[PairSlice]:
    """Compare the pair in each slice; rare losses are ruled out if a longer context can only raise the metric."""
    labels, safe = labels_of(results[0], matrix.questions), [False, bool(length_keys(*results, matrix))]
    found = []
    for part in by_slice(transform_amounts(matrix, unit), labels, rising=np.array(safe)):
        chosen = np.array([value == part.value for value in labels[part.label]])
        baseline, candidate = matrix.select_questions(chosen).values.mean(axis=1).tolist()
        found.append(PairSlice(part, candidate - baseline))
    return found


def _correct(matrix: Matrix, results: tuple[Result, Result], people: RunLabels) -> PairCorrection:
    """Correct a metric's difference by its labels; the result is NaN if too few of them count."""
    matched = match_labels(people.given, matrix.metric, results, people.runs, matrix)
    found = correct_difference(matrix, matched, (0, 1))
    check_corrected(matched, found, matrix.metric)
    above, below = bool(found.low > 0), bool(found.high < 0)
    up, down = (above, below) if matrix.higher_is_better else (below, above)
    notes = [reason_uncorrected(matched, found, matrix.metric)]
    notes += [matched.why_unused()] if found.value == found.value else []
    notes += [MARKS] if are_marks(people.given, matrix.metric, matrix) else []
    return PairCorrection(found, shown_kind(up, down, found.low == found.high == 0), notes)
