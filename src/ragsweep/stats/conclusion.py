"""What a sweep shows, as data: the choice, the evidence, the sets of configs, and audits of the choice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from ragsweep.core.results import Result
from ragsweep.stats.comparison import NoComparison, SweepComparison, best_first
from ragsweep.stats.context_effect import refuses_all
from ragsweep.stats.context_length import LENGTHENING, LongerContext, longer_context
from ragsweep.stats.distractor_loss import DistractorLoss, distractor_loss
from ragsweep.stats.fusion_audit import BetterLeg, DegradedSlices, better_leg, degraded_slices
from ragsweep.stats.inference.power import questions_needed
from ragsweep.stats.verdict import EQUAL, SHOWN_BETTER, SHOWN_WORSE, THE_SAME, Kind

BETTER, KEEP, UNDECIDED, CHOICE, NONE = "better", "keep", "open", "choice", "none"
"""Kinds of a result: better than the declared baseline, the baseline itself, neither; no baseline; no choice."""


class SweepEvidence(NamedTuple):
    """The other configs by their verdict, and the questions that would show a lead of the choice that is not shown."""

    by_kind: Mapping[Kind, Sequence[int]] = {}  # rows of the deciding comparison, the best first
    over: int | None = None  # the row that the choice leads over
    needed: int | None = None


class Audits(NamedTuple):
    """Checks of the choice beyond the deciding metric; rows are those of the deciding comparison."""

    refusing: Mapping[int, int] = {}  # row -> the number of answerable questions, all of which it refuses
    worse: tuple[str, int] | None = None  # another metric, and the config shown worse, or better than the choice
    longer: tuple[int, LongerContext] | None = None  # the row whose context is shorter than that of the choice
    leg: BetterLeg | None = None  # a leg of the choice
    slices: DegradedSlices | None = None  # where a leg is better than the choice, or than the best config
    distractors: DistractorLoss | None = None  # where its interval excludes 0


@dataclass(frozen=True)
class SweepConclusion:
    """What a sweep shows, as :func:`conclude` makes it.

    ``comparison`` is of the sweep's own configs: None where nothing was measured, or the sweep was interrupted.
    ``finals``, of a search's finalists on the holdout, decides in its place. ``where``: the deciding questions, if they
    are not the sweep's own.
    """

    comparison: SweepComparison | NoComparison | None = None
    finals: SweepComparison | NoComparison | None = None
    where: str = ""
    evidence: SweepEvidence = field(default_factory=SweepEvidence)
    audits: Audits = field(default_factory=Audits)
    holdout_views: int = 0  # uses of these holdout questions so far
    holdout_configs: int = 0  # evaluated on them by this sweep

    @property
    def deciding(self) -> SweepComparison | NoComparison | None:
        """The comparison that decides."""
        return self.comparison if self.comparison is None or self.finals is None else self.finals

    @property
    def compared(self) -> SweepComparison | None:
        """The comparison of the sweep's own configs, where there is one."""
        return self.comparison if isinstance(self.comparison, SweepComparison) else None

    @property
    def kind(self) -> str:
        """The kind of the result."""
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
        found = self.deciding
        if not isinstance(found, SweepComparison) or found.choice.row is None:
            return None
        return found.matrix.configs[found.choice.row]

    @property
    def best_set(self) -> list[str]:
        """The sweep's own configs that may be the best, with 95 % confidence; empty where nothing was compared."""
        found = self.compared
        return [found.matrix.configs[row] for row in np.flatnonzero(found.may_be_best).tolist()] if found else []


def compared_first(verdict: SweepComparison) -> tuple[str, str]:
    """Name the pair of configs to compare first: the choice, or the best, with the reference, or the runner-up."""
    row = verdict.choice.best if verdict.choice.row is None else verdict.choice.row
    other = verdict.reference
    if other == row:
        second = verdict.choice.runner_up
        other = second.row if second else next(one for one in range(len(verdict.results)) if one != row)
    return verdict.matrix.configs[other], verdict.matrix.configs[row]


def conclude(
    comparison: SweepComparison | NoComparison | None,
    results: Sequence[Result] = (),
    finals: SweepComparison | NoComparison | None = None,
    finalists: Sequence[Result] = (),
    where: str = "",
) -> SweepConclusion:
    """Conclude a sweep from the comparison of its configs.

    Args:
        comparison: Of the sweep's own configs.
        results: Of these configs.
        finals: The comparison of a search's finalists on the holdout, which decides.
        finalists: Their results there.
        where: The deciding questions, if they are not the sweep's own.
    """
    everything = (*finalists, *results)
    found = SweepConclusion(comparison, finals, where)
    own, deciding, evidence, audits = found.compared, found.deciding, SweepEvidence(), Audits()
    if isinstance(deciding, SweepComparison):
        evidence, audits = _evidence(deciding), _audits(deciding)
    if own is not None:
        name = found.chosen or own.matrix.configs[own.selection_bias.winner]
        shown = next((result for result in everything if result.name == name), None)
        audits = audits._replace(slices=degraded_slices(shown) if shown else None)
    audits = audits._replace(distractors=_shown_distractors(results))
    return replace(found, evidence=evidence, audits=audits)


def _evidence(verdict: SweepComparison) -> SweepEvidence:
    by_kind: dict[Kind, list[int]] = {}
    for row in best_first(verdict, range(len(verdict.results))):
        if row != verdict.reference:
            by_kind.setdefault(verdict.verdicts[row].kind, []).append(row)
    return SweepEvidence(by_kind, *_needed(verdict))


def _needed(verdict: SweepComparison) -> tuple[int | None, int | None]:
    """Return the row that the choice leads over, and the questions that would show the lead, if it is not shown."""
    choice = verdict.choice
    lead = choice.baseline or choice.runner_up
    if choice.row is None or lead is None or verdict.differences.by_labels:
        return None, None
    if verdict.reference not in (choice.row, lead.row):
        return None, None
    row = lead.row if verdict.reference == choice.row else choice.row
    if verdict.verdicts[row].kind in (SHOWN_BETTER, SHOWN_WORSE, EQUAL, THE_SAME):
        return None, None
    observed = float(verdict.ranked[choice.row] - verdict.ranked[lead.row])
    return lead.row, questions_needed(observed, float(verdict.power.spread[row]), level=verdict.power.level)


def _audits(verdict: SweepComparison) -> Audits:
    row, chosen = verdict.choice.row, verdict.chosen
    if row is None or chosen is None:
        return Audits()
    refusing = {other: refuses_all(verdict.results[other]) for other in verdict.choice.refusing}
    return Audits(refusing, _worse(verdict, row), _longer(verdict, row), better_leg(chosen))


def _worse(verdict: SweepComparison, row: int) -> tuple[str, int] | None:
    """Return a metric in which the choice is shown worse than the reference or, being it, another shown better."""
    for metric, (matrix, found) in verdict.others.items():
        if metric in verdict.costs.values or metric.startswith(("latency", "cost")):
            continue
        shown, rows = found.worse, [row]
        if row == verdict.reference:
            shown, rows = found.better, np.argsort(-matrix.better.mean(axis=1), kind="stable").tolist()
        if (other := next((one for one in rows if shown[one]), None)) is not None:
            return metric, other
    return None


def _longer(verdict: SweepComparison, row: int) -> tuple[int, LongerContext] | None:
    """Return a config whose context is shorter than that of the choice: first the one that it leads over."""
    lead = verdict.choice.baseline or verdict.choice.runner_up
    ordered = [*([lead.row] if lead else []), *best_first(verdict, range(len(verdict.results)))]
    for other in dict.fromkeys(one for one in ordered if one != row):
        found = longer_context(verdict.results[other], verdict.results[row], verdict.metric)
        if found is not None and not set(found.keys) <= set(LENGTHENING):
            return other, found
    return None


def _shown_distractors(results: Sequence[Result]) -> DistractorLoss | None:
    """Return the effect of a known distractor in the context on the metric of success, if its interval excludes 0."""
    metrics = {str((result.config.get("success") or {}).get("metric", "")) for result in results}
    if len(metrics) != 1:
        return None
    found = distractor_loss([result.outcomes for result in results], metrics.pop())
    return found if found and not found.low <= 0 <= found.high else None
