"""Conclusions as data: about a whole sweep, and about a pair of configs.

A pair of configs from one sweep is compared together with the sweep's other configs, so that the two conclusions agree.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ragsweep.core.results import Result
from ragsweep.stats.audits import Audits
from ragsweep.stats.choice import find_tolerance
from ragsweep.stats.comparable import Factor, factors, is_mean, is_scored, labels_of, redefined_metrics
from ragsweep.stats.comparison import NoComparison, SweepComparison, list_references
from ragsweep.stats.context_length import length_keys
from ragsweep.stats.human_labels import (
    RunLabels,
    check_corrected,
    correct_difference,
    match_labels,
    reason_uncorrected,
)
from ragsweep.stats.inference.differences import all_pairs, compare_amounts
from ragsweep.stats.inference.estimates import Differences, Slice
from ragsweep.stats.inference.matrix import Matrix, score_matrix, transform_amounts
from ragsweep.stats.inference.paired_tests import holm
from ragsweep.stats.inference.prediction_powered import Corrected
from ragsweep.stats.inference.shrinkage import posterior
from ragsweep.stats.inference.slices import by_slice
from ragsweep.stats.repetition import VarianceShares, variance_shares
from ragsweep.stats.verdict import Beliefs, Kind, PairVerdict, pair_verdict, shown_kind

BETTER, KEEP, UNDECIDED, CHOICE, NONE = "better", "keep", "open", "choice", "none"
"""Kinds of conclusions.

In this order: the choice is better than the declared baseline; the choice is the baseline; the choice is another config
that is not shown to be better; there is a choice but no baseline; there is no choice.
"""


class SweepEvidence(NamedTuple):
    """The configs other than the reference, grouped by verdict, and the number of questions needed to show a lead."""

    by_kind: Mapping[Kind, Sequence[int]] = {}  # rows of `SweepConclusion.deciding`, best first
    over: int | None = None  # the row over which the choice has an unproven lead; None if there is none
    needed: int | None = None  # None if unknown, or if `over` is None


@dataclass(frozen=True)
class SweepConclusion:
    """The conclusion of a sweep, as ``conclude`` returns it.

    ``comparison`` compares the sweep's own configs; it is None if nothing was measured, or if the sweep was
    interrupted. If the finalists of a search were compared on the holdout, ``finals`` is their comparison, from which
    the choice is then made. ``where`` describes the questions on which a search made the choice ("on ..."); it is ""
    for other sweeps.
    """

    comparison: SweepComparison | NoComparison | None = None
    finals: SweepComparison | NoComparison | None = None
    where: str = ""
    evidence: SweepEvidence = field(default_factory=SweepEvidence)
    audits: Audits = field(default_factory=Audits)
    holdout_views: int = 0  # uses of the holdout questions so far
    holdout_configs: int = 0  # number of configs that this sweep evaluated on the holdout
    missing: int = 0  # number of configs that have not been run yet

    @property
    def deciding(self) -> SweepComparison | NoComparison | None:
        """The comparison behind the choice: ``finals``, else ``comparison``; None if ``comparison`` is None."""
        return self.comparison if self.comparison is None or self.finals is None else self.finals

    @property
    def compared(self) -> SweepComparison | None:
        """The comparison of the sweep's own configs; None if there is none."""
        return self.comparison if isinstance(self.comparison, SweepComparison) else None

    @property
    def kind(self) -> str:
        """The kind of the conclusion: ``BETTER``, ``KEEP``, ``UNDECIDED``, ``CHOICE`` or ``NONE``."""
        found = self.deciding
        if not isinstance(found, SweepComparison) or found.choice.row is None:
            return NONE
        if found.baseline is None:
            return CHOICE
        if found.choice.row == found.baseline:
            return KEEP
        return BETTER if found.is_better else UNDECIDED

    @property
    def chosen(self) -> str | None:
        """The name of the choice; None if there is none."""
        chosen = self.deciding.chosen if isinstance(self.deciding, SweepComparison) else None
        return None if chosen is None else chosen.name

    @property
    def best_set(self) -> list[str]:
        """The sweep's own configs that may be the best, with 95 % confidence; [] if nothing was compared."""
        found = self.compared
        return [found.matrix.configs[row] for row in np.flatnonzero(found.may_be_best).tolist()] if found else []


def compared_first(verdict: SweepComparison) -> tuple[str, str]:
    """Return the names of the two configs that a user should compare first: the baseline and the candidate.

    The candidate is the choice, or the best config if there is no choice. The baseline is the reference. If the
    reference is the candidate itself, the baseline is the runner-up or, if there is none, the first other config.
    """
    row = verdict.choice.best if verdict.choice.row is None else verdict.choice.row
    other = verdict.reference
    if other == row:
        second = verdict.choice.runner_up
        other = second.row if second else next(one for one in range(len(verdict.results)) if one != row)
    return verdict.matrix.configs[other], verdict.matrix.configs[row]


@dataclass(frozen=True, eq=False)
class PairComparison:
    """The comparison of a pair within its family; ``rows`` has the rows of the baseline and candidate in ``matrix``."""

    matrix: Matrix
    rows: tuple[int, int]
    found: Differences
    beliefs: Beliefs
    margin: float

    @property
    def verdict(self) -> PairVerdict:
        """The verdict on the second config against the first."""
        return pair_verdict(self.found, self.rows[1], self.beliefs, self.margin)


class PairSlice(NamedTuple):
    """A pair compared in a slice (row 1 is the candidate), and its mean difference, candidate minus baseline."""

    part: Slice
    difference: float


class PairCorrection(NamedTuple):
    """A pair's difference corrected by human labels, the verdict on this difference, and notes on the labels."""

    found: Corrected
    kind: Kind
    notes: Sequence[str]


@dataclass(frozen=True, eq=False)
class PairMetric:
    """The comparison of a pair by one metric: the baseline is row 0 of ``matrix`` and the candidate is row 1.

    ``p_holm`` is the p-value of the randomisation test, with Holm's correction for the number of compared metrics.
    """

    comparison: PairComparison
    matrix: Matrix
    unit: str
    p_holm: float
    slices: Sequence[PairSlice]
    variance: VarianceShares | None  # None if nothing is repeated
    correction: PairCorrection | None  # None if the metric has no labels


@dataclass(frozen=True, eq=False)
class PairConclusion:
    """The conclusion about two configs, as ``conclude_pair`` returns it; differences are candidate minus baseline."""

    baseline: Result
    candidate: Result
    factors: Sequence[Factor]
    redefined: Sequence[str]  # metrics that the two configs define differently
    metrics: Sequence[PairMetric]
    labelled: bool = False  # whether human labels were given

    @property
    def results(self) -> tuple[Result, Result]:
        """The baseline and the candidate."""
        return self.baseline, self.candidate


@dataclass(frozen=True, eq=False)
class Family:
    """The configs among which a pair is compared: the configs of its sweep, or the pair alone.

    ``baseline`` is the sweep's declared baseline. The interval of a pair with the baseline holds simultaneously with
    the intervals of all other configs against the baseline. The interval of any other pair holds simultaneously with
    the intervals of all pairs.
    """

    results: Sequence[Result]
    baseline: str | None = None

    def compare(self, first: Result, second: Result, metric: str) -> PairComparison:
        """Compare the second config with the first by one metric; intervals allow for all comparisons in the family."""
        members = self.members(metric, (first, second))
        matrix, unit = score_matrix(members, metric), first.summaries.metrics[metric].unit
        compared, rows = transform_amounts(matrix, unit), (members.index(first), members.index(second))
        largest: float | None = None
        if self.baseline == second.name:
            largest = compare_amounts(matrix, rows[1], unit).largest
        elif self.baseline != first.name and len(members) > 2:
            largest = all_pairs(compared).largest
        found = compare_amounts(matrix, rows[0], unit, largest)
        margin = find_tolerance(first.run.config, "margin", matrix, unit)
        return PairComparison(matrix, rows, found, posterior(compared), margin)

    def members(self, metric: str, given: Sequence[Result] = ()) -> list[Result]:
        """Return the configs that are compared by a metric, including the ``given`` ones."""
        references = {one.name for one in list_references(self.results)}
        return [
            one
            for one in self.results
            if any(one is run for run in given)
            or (one.name not in references and is_scored(one, metric) and is_mean(one, metric))
        ]


def conclude_pair(
    results: tuple[Result, Result], metrics: Sequence[str], family: Family, people: RunLabels
) -> PairConclusion:
    """Compare the second config with the first within their ``family``; human labels (``people``) correct differences.

    Raises:
        InputError: One of the configs has no usable label for a labelled metric, or the run of a label matches both
        configs.
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
    slices = _slices(matrix, results, unit if pair.found.ratios else "")
    return PairMetric(pair, matrix, unit, p_holm, slices, variance_shares(results, matrix), correction)


def _slices(matrix: Matrix, results: tuple[Result, Result], unit: str) -> list[PairSlice]:
    """Compare the pair in each slice; ignore rare losses if a longer context can only raise the metric.

    ``unit`` is "" unless ratios are compared. Ratios are not compared if any config of the family has a value <= 0.
    """
    labels, safe = labels_of(results[0], matrix.questions), [False, bool(length_keys(*results, matrix))]
    found = []
    for part in by_slice(transform_amounts(matrix, unit), labels, rising=np.array(safe)):
        chosen = np.array([value == part.value for value in labels[part.label]])
        baseline, candidate = matrix.select_questions(chosen).values.mean(axis=1).tolist()
        found.append(PairSlice(part, candidate - baseline))
    return found


def _correct(matrix: Matrix, results: tuple[Result, Result], people: RunLabels) -> PairCorrection:
    matched = match_labels(people, results, matrix)
    found = correct_difference(matrix, matched, (0, 1))
    check_corrected(matched, found)
    above, below = bool(found.low > 0), bool(found.high < 0)
    up, down = (above, below) if matrix.higher_is_better else (below, above)
    notes = [reason_uncorrected(matched, found) or matched.why_unused(), matched.marks]
    return PairCorrection(found, shown_kind(up, down, found.low == found.high == 0), notes)
