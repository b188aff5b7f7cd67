"""Show a gate's decision: on the terminal, as JSON, as markdown."""

from __future__ import annotations

import json
import math
from typing import Any

from ragsweep.commands.gate.arguments import MARGIN
from ragsweep.commands.gate.deciding import EXIT_STATUS, Check, Decided
from ragsweep.report.changes import aligned, markdown, null, table
from ragsweep.report.numbers import amount, signed
from ragsweep.report.terminal import Terminal

FORMAT = "ragsweep.gate/1"


def show(found: Decided, terminal: Terminal) -> None:
    """Print it in lines for people."""
    terminal.line("gate", f"{found.decision}: {_pair(found)}")
    if found.reason:
        terminal.line("refused", found.reason)
    for factor in found.factors:
        terminal.line("factor", str(factor))
    for line in aligned([_cells(check) for check in found.checks]):
        terminal.line("", line)
    for said in found.notes:
        terminal.line("note", said)


def _pair(found: Decided) -> str:
    named = [f"{one.result.name} ({one.run[:8]})" for one in (found.candidate, found.baseline) if one]
    asked = f", {found.questions:,} questions" if found.questions else ""
    return f"{' against '.join(named)}{asked}"


def _cells(check: Check) -> list[str]:
    """Return one check's cells: decision, questions, means, difference, and distance from the margin."""
    found, unit = check.found, check.unit
    return [
        found.decision if check.counts else f"({found.decision})",
        check.margin.metric,
        check.where,
        f"{found.questions} questions{' (few)' if check.small else ''}",
        f"{amount(found.baseline, unit)} -> {amount(found.candidate, unit)}"
        if check.margin.paired
        else amount(found.candidate, unit),
        signed(found.difference, unit) if check.margin.paired else "",
        check.margin.said,
        _distance(check),
    ]


def _distance(check: Check) -> str:
    """Describe the distance to the margin, and, where undecided, how many questions would decide."""
    found, unit = check.found, check.unit
    if found.note and math.isnan(found.low):
        return found.note
    if math.isnan(found.low):
        return f"the nearest {signed(found.slack, unit)} from it"
    said = f"{signed(found.slack, unit)} [{signed(found.low, unit)}, {signed(found.high, unit)}] from it"
    return f"{said}; some {check.needed:,} questions would decide" if check.needed else said


def _row(check: Check) -> dict[str, Any]:
    found = check.found
    return {
        "metric": check.margin.metric,
        "label": check.label,
        "value": check.value,
        "decision": found.decision,
        "counts": check.counts,
        "questions": found.questions,
        "small": check.small,
        "baseline": found.baseline,
        "candidate": found.candidate,
        "difference": found.difference,
        "condition": check.margin.kind,
        "margin": found.margin if check.margin.kind == MARGIN else check.margin.size,
        "margin_given": str(check.margin),
        "slack": found.slack,
        "low": found.low,
        "high": found.high,
        "questions_needed": check.needed,
        "note": found.note,
    }


def as_json(found: Decided) -> str:
    """Write all of it; ``checks`` is a table as MLflow's log_table writes it."""
    document = {
        "format": FORMAT,
        "decision": found.decision,
        "exit_status": EXIT_STATUS[found.decision],
        "reason": found.reason,
        "baseline": found.baseline and {"run_id": found.baseline.run, "name": found.baseline.result.name},
        "candidate": {"run_id": found.candidate.run, "name": found.candidate.result.name},
        "golden_set": found.candidate.result.dataset.golden_digest,
        "corpus": found.candidate.result.dataset.corpus_digest,
        "questions": found.questions,
        "confidence_level": null(found.checks[0].found.level) if found.checks else None,
        "factors": [vars(factor) for factor in found.factors],
        "notes": list(found.notes),
        "checks": table(_row(check) for check in found.checks),
    }
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def as_markdown(found: Decided) -> str:
    """Write it for a comment on a change, or the summary of a job."""
    columns = ("decision", "metric", "questions of", "n", "baseline -> candidate", "difference", "margin", "distance")
    rows = [dict(zip(columns, _cells(check), strict=True)) for check in found.checks]
    said = [found.reason, *(f"changed: {factor}" for factor in found.factors), *found.notes]
    listed = "".join(f"- {one}\n" for one in said if one)
    return "\n".join(
        part for part in (f"### gate: {found.decision}\n", f"{_pair(found)}\n", markdown(rows), listed) if part
    )
