"""Draw the conclusion of a sweep: the comparison, with evidence about the other configs and audits of the choice."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ragsweep.core.results import Result
from ragsweep.stats.audits import Audits, DistractorLoss, LongerContext, distractor_loss
from ragsweep.stats.comparable import differing_parameters
from ragsweep.stats.comparison import NoComparison, SweepComparison, best_first
from ragsweep.stats.conclusion import SweepConclusion, SweepEvidence
from ragsweep.stats.context_effect import refuses_all
from ragsweep.stats.context_length import longer_context
from ragsweep.stats.fusion_audit import better_leg, degraded_slices
from ragsweep.stats.inference.power import questions_needed
from ragsweep.stats.verdict import EQUAL, SHOWN_BETTER, SHOWN_WORSE, THE_SAME, Kind


def conclude(
    comparison: SweepComparison | NoComparison | None,
    results: Sequence[Result] = (),
    finals: SweepComparison | NoComparison | None = None,
    where: str = "",
) -> SweepConclusion:
    """Draw the conclusion of a sweep from the ``comparison`` of its configs.

    ``results`` are the results of these configs. ``finals`` is the comparison of a search's finalists on the holdout;
    if given, the choice and the evidence are from ``finals``. ``where`` is described in :class:`SweepConclusion`.
    """
    found = SweepConclusion(comparison, finals, where)
    own, deciding, evidence, audits = found.compared, found.deciding, SweepEvidence(), Audits()
    if isinstance(deciding, SweepComparison):
        evidence, audits = _evidence(deciding), _audits(deciding)
    if own is not None:
        chosen = deciding.chosen if isinstance(deciding, SweepComparison) else None
        audits = audits._replace(slices=degraded_slices(chosen or own.results[own.selection_bias.winner]))
    audits = audits._replace(distractors=_shown_distractors(results))
    return replace(found, evidence=evidence, audits=audits)


def _evidence(verdict: SweepComparison) -> SweepEvidence:
    by_kind: dict[Kind, list[int]] = {}
    for row in best_first(verdict, range(len(verdict.results))):
        if row != verdict.reference:
            by_kind.setdefault(verdict.verdicts[row].kind, []).append(row)
    return SweepEvidence(by_kind, *_needed(verdict))


def _needed(verdict: SweepComparison) -> tuple[int | None, int | None]:
    """Return the row over which the choice has an unproven lead, and the number of questions needed to prove it.

    This row is the declared baseline. If there is no baseline, or if it is the choice, the row is the runner-up. Both
    results are None if there is no choice or no other config, if the choice's mean is not better, or if the lead is
    already shown. They are also None if the two configs count as equal, if neither is the reference, or if labels
    correct the differences. The number alone is None if the spread of the difference is unknown, or if the number is
    too large (see ``questions_needed``).
    """
    choice = verdict.choice
    lead = choice.baseline or choice.runner_up
    if choice.row is None or lead is None or verdict.reference not in (choice.row, lead.row):
        return None, None
    row = lead.row if verdict.reference == choice.row else choice.row
    if verdict.differences.by_labels or verdict.verdicts[row].kind in (SHOWN_BETTER, SHOWN_WORSE, EQUAL, THE_SAME):
        return None, None
    observed = float(verdict.ranked[choice.row] - verdict.ranked[lead.row])
    if observed <= 0:  # a config that is chosen by its expected mean or its cost can have the lower mean
        return None, None
    return lead.row, questions_needed(observed, float(verdict.power.spread[row]), level=verdict.power.level)


def _audits(verdict: SweepComparison) -> Audits:
    row, chosen = verdict.choice.row, verdict.chosen
    if row is None or chosen is None:
        return Audits()
    refusing = {other: refuses_all(verdict.results[other]) for other in verdict.choice.refusing}
    return Audits(refusing, _worse(verdict, row), _longer(verdict, row), better_leg(chosen))


def _worse(verdict: SweepComparison, row: int) -> tuple[str, int] | None:
    """Return the first metric, other than the deciding one, by which the choice is shown to be worse, and a row.

    If the choice is the reference, the row is the best config that is shown to be better than the choice. Otherwise,
    the row is the choice itself, which is shown to be worse than the reference. Costs and latencies do not count.
    Return None if there is no such metric.
    """
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
    """Find a config with other chunking and a shorter context than the choice; None if there is none.

    Return the config's row and the lengths of both contexts (see ``longer_context``). The declared baseline is
    tried first (the runner-up if there is no baseline, or if it is the choice), then the other configs, best first.
    """
    lead = verdict.choice.baseline or verdict.choice.runner_up
    ordered = [*([lead.row] if lead else []), *best_first(verdict, range(len(verdict.results)))]
    for other in dict.fromkeys(one for one in ordered if one != row):
        before, after = verdict.results[other], verdict.results[row]
        found = longer_context(before, after, verdict.metric)
        if found is not None and any(key.startswith("chunker") for key in differing_parameters(before.run, after.run)):
            return other, found
    return None


def _shown_distractors(results: Sequence[Result]) -> DistractorLoss | None:
    """Return the effect of distractors on the success metric if its interval excludes 0, else None.

    Also return None if the configs have different success metrics.
    """
    metrics = {str((result.run.config.get("success") or {}).get("metric", "")) for result in results}
    if len(metrics) != 1:
        return None
    found = distractor_loss([result.questions for result in results], metrics.pop())
    return found if found and (found.low > 0 or found.high < 0) else None
