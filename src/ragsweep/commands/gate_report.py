"""The decision of ``ragsweep gate``, and its document."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ragsweep.core.plurals import counted
from ragsweep.report.document import Document, Section, Statement, Table, lines
from ragsweep.report.numbers import amount, signed
from ragsweep.report.tables import Row, log_table
from ragsweep.stats import comparable
from ragsweep.stats.gate import EACH, GAIN, LEAST, MARGIN, Check
from ragsweep.stats.inference.estimates import LEVEL
from ragsweep.stats.inference.noninferiority import Gate
from ragsweep.sweep.concluding.recorded_runs import RecordedRun

Decision = Literal["pass", "fail", "inconclusive", "refused"]
EXIT_STATUS: Mapping[Decision, int] = {"pass": 0, "fail": 1, "inconclusive": 3, "refused": 3}
FORMAT = "ragsweep.gate/1"
_SAME = ("decision", "reason", "decisions", "sequential", "verdicts", "questions", "notes")
COLUMNS = ("decision", "metric", "questions of", "n", "baseline -> candidate", "difference", "margin", "distance")
_JUDGED = ("decision", "baseline", "candidate", "difference", "slack", "low", "high")
"""Fields of the uncorrected result; null unless human labels correct the judge's scores."""


@dataclass(frozen=True)
class GateDecision:
    """The decision of a gate, and its basis.

    If the runs are not comparable, the decision is "refused", with a reason and without checks.

    With an anchor, ``decisions`` maps "baseline" and "anchor" to the decision against each one. Without an anchor, or
    if the decision is "refused", ``decisions`` is empty.
    """

    decision: Decision
    baseline: RecordedRun | None
    candidate: RecordedRun
    anchor: RecordedRun | None
    sequential: bool
    checks: Sequence[Check] = ()
    factors: Sequence[comparable.Factor] = ()
    notes: Sequence[str] = ()
    reason: str = ""
    questions: int = 0  # number of chosen questions; a metric may apply to fewer
    decisions: Mapping[str, Decision] = field(default_factory=dict)
    verdicts: Mapping[str, str] = field(default_factory=dict)  # metric -> verdict on the candidate against the baseline


def correction(check: Check, judged: Gate) -> str:
    """Describe how human labels correct a check; ``judged`` is the result without the labels."""

    def basis(found: Gate) -> str:
        moved = signed(found.difference, check.unit) if check.condition.paired else amount(found.candidate, check.unit)
        slack, low, high = (signed(one, check.unit) for one in (found.slack, found.low, found.high))
        return f"{moved}, {slack} [{low}, {high}] from the {bound} ({found.decision})"

    bound = "margin" if check.condition.kind == MARGIN else "bound"
    if math.isnan(check.found.low):
        return f"{check.name}: not corrected, so undecided; as judged {basis(judged)}"
    return f"{check.name}: as judged {basis(judged)}; corrected by {check.labels} labels {basis(check.found)}"


def gate_document(decision: GateDecision) -> Document:
    """Build the document of a decision: the pair, the settings that differ, the checks, and notes."""
    against = (f"{decision.baseline}", f"{decision.anchor}") if decision.anchor else (f"{decision.baseline}",)
    pair = f"{decision.candidate}" + (f" against {' and '.join(against)}" if decision.baseline else "")
    asked = f", {counted(decision.questions, 'question')}" if decision.questions else ""
    head = [Statement("gate", f"{decision.decision}: {pair}{asked}", {"questions": decision.questions})]
    head += [Statement("refused", decision.reason)] if decision.reason else []
    head += [
        Statement(name, f"{found} against {getattr(decision, name)}", {"decision": found})
        for name, found in decision.decisions.items()
    ]
    head += [Statement("factor", str(factor), vars(factor)) for factor in decision.factors]
    head += [Statement("verdict", f"{metric}: {verdict}") for metric, verdict in decision.verdicts.items()]
    checks = Table(COLUMNS, [_cells(check) for check in decision.checks], headed=False)
    section = Section([lines(head), checks, lines(Statement("note", note) for note in decision.notes)])
    return Document(f"gate: {decision.decision}", [section], _facts(decision))


def _cells(check: Check) -> list[str]:
    found, unit, condition = check.found, check.unit, check.condition
    before = f"{amount(found.baseline, unit)} -> " if condition.paired else ""
    origin = "from the margin" if condition.kind == MARGIN else "from the bound"
    if math.isnan(found.low):
        distance = found.note or f"the nearest question is {signed(found.slack, unit)} {origin}"
    else:
        distance = f"{signed(found.slack, unit)} [{signed(found.low, unit)}, {signed(found.high, unit)}] {origin}"
        distance += f"; about {check.needed:,} questions would decide" if check.needed else ""
        distance += f", or {check.needed_repetitions:,} repetitions of each answer" if check.needed_repetitions else ""
        distance += f"; {found.note}" if found.note else ""
    return [
        found.decision if check.counts else f"({found.decision})",
        check.name,
        f"{check.label} {check.value}" if check.label else "all",
        f"{counted(found.questions, 'question')}{' (few)' if check.small else ''}",
        f"{before}{amount(found.candidate, unit)}",
        signed(found.difference, unit) if condition.paired else "",
        f"{LEAST if condition.kind == GAIN else condition.kind} {condition.written_size}",
        distance,
    ]


def _row(check: Check) -> Row:
    found, condition = dict(vars(check.found)), check.condition
    return {
        "metric": condition.metric,
        "against": check.against or ("baseline" if condition.paired else ""),
        "label": check.label,
        "value": check.value,
        "decision": found.pop("decision"),
        "counts": check.counts,
        "small": check.small,
        **found,
        "condition": condition.kind,
        "margin": check.found.margin if condition.kind == MARGIN else condition.size,
        "margin_given": str(condition),
        "questions_needed": check.needed,
        "repetitions_needed": check.needed_repetitions,
        "labels": check.labels,
        **{f"judged_{name}": check.judged and getattr(check.judged, name) for name in _JUDGED},
    }


def _facts(decision: GateDecision) -> dict[str, Any]:
    """Return the decision as JSON-compatible values; ``checks`` is a table in the format of MLflow's log_table."""
    facts = decision.candidate.result.run.dataset
    varied = [one for one in decision.checks if one.variance]
    of_anchor = " against the anchor"
    variance = {f"{one.condition}{of_anchor * (one.against == 'anchor')}": vars(one.variance) for one in varied}
    return {
        "format": FORMAT,
        **{name: getattr(decision, name) for name in _SAME},
        "exit_status": EXIT_STATUS[decision.decision],
        "baseline": decision.baseline and decision.baseline.facts,
        "anchor": decision.anchor and decision.anchor.facts,
        "candidate": decision.candidate.facts,
        "golden_set": facts.golden_digest,
        "corpus": facts.corpus_digest,
        "confidence_level": LEVEL if any(check.label != EACH for check in decision.checks) else None,
        "factors": [vars(factor) for factor in decision.factors],
        **({"variance": variance} if variance else {}),
        "checks": log_table([_row(check) for check in decision.checks]),
    }
