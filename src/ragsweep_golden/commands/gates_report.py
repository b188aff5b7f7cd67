"""The report of ``ragsweep golden gates``, for programs and for the terminal."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from ragsweep.core.plurals import counted
from ragsweep.report.document import Block, Statement, Statements, Table, paragraphs
from ragsweep.report.numbers import number
from ragsweep.report.terminal import Terminal
from ragsweep_golden.gates import judging
from ragsweep_golden.gates.admission import Admission
from ragsweep_golden.gates.judging import FAILED, NOT_MEASURED, GateResult, Profile
from ragsweep_golden.gates.subject import Subject
from ragsweep_golden.sets.entries import incoherences, value

MOST_FAULTS, MOST_WARNED = 20, 5  # maximum failed questions printed for a gate that fails or warns; the report has all
WIDE = 110  # minimum width of a terminal for the notes beside the gates
_WORDS = {FAILED: "FAILED", NOT_MEASURED: "NOT MEASURED"}


def gates_facts(
    subject: Subject, results: Sequence[GateResult], profile: str = "", admissions: Sequence[Admission] = ()
) -> dict[str, Any]:
    """Return the validation report in JSON types; ``profile`` is the profile's name, "" for one phase of a build."""
    broken = Counter(code for one in subject.kept for code, _ in incoherences(one))
    return {
        "verdict": {0: "passed", 1: "failed", 3: "not_measured"}[judging.exit_status(results)],
        **({"profile": profile} if profile else {}),
        "questions": len(subject.kept),
        "rejected": subject.rejected,
        "status": dict(Counter(str(value(one, "audit", "status") or "unstated") for one in subject.kept)),
        "gates": [_gate_facts(one) for one in results],
        "admission": [_admission_facts(one) for one in admissions],
        "constraints": {f"C{n}": broken.get(f"C{n}", 0) for n in range(1, 9)},
    }


def _gate_facts(one: GateResult) -> dict[str, Any]:
    facts, rule = one._asdict(), one.rule
    threshold = rule.threshold if rule.highest is None else [rule.threshold, rule.highest]
    facts |= {"threshold": threshold, "blocking": rule.blocking, "questions": [each._asdict() for each in one.faults]}
    return {name: fact for name, fact in facts.items() if name not in ("rule", "faults")}


def _admission_facts(one: Admission) -> dict[str, Any]:
    facts = one._asdict()
    return {"questions": facts.pop("found"), "value": one.share, **facts}


def gates_blocks(subject: Subject, results: Sequence[GateResult], profile: Profile) -> Iterator[Block]:
    """Yield a row per gate, the failed questions, the profile, and the verdict."""
    words = [_WORDS.get(one.verdict, one.verdict) for one in results]
    pairs = zip(results, words, strict=True)
    rows = [[one.gate, one.title, _amount(one), comparison(one), word, one.note] for one, word in pairs]
    shown = 6 if Terminal.current().width >= WIDE else 5
    yield Table(["gate", "", ">value", ">threshold", "verdict", ""][:shown], [row[:shown] for row in rows], fitted=True)
    for one in results:
        yield paragraphs(one.gate, (Statement("", text) for text in _faults(one)))
    others = ", ".join(f"profile={name}" for name in judging.PROFILES if name != profile.name)
    yield paragraphs("PROFILE", Statement("", f"{profile.name} ({profile.reason}); for other gates: {others}"))
    rejected = f", {subject.rejected:,} rejected and left out" if subject.rejected else ""
    decisive = [one for one in results if one.rule.blocking and one.verdict in (FAILED, NOT_MEASURED)]
    verdict = "not accepted" if decisive else "accepted, no blocking gate failed"
    data = {"questions": len(subject.kept), "rejected": subject.rejected, "decisive": [one.gate for one in decisive]}
    text = f"{counted(len(subject.kept), 'question')}{rejected}: {verdict}."
    yield paragraphs("RESULT", Statement("", text, data), (Statement("", _reason(one)) for one in decisive))


def _faults(one: GateResult) -> list[str]:
    """List the first questions that fail a gate, and the number of the rest; empty if the gate passed."""
    if one.verdict == judging.PASSED:
        return []
    shown = one.faults[: MOST_FAULTS if one.verdict == FAILED else MOST_WARNED]
    lines = [f'{fault.id} "{fault.question}": {fault.why}' for fault in shown]
    more = len(one.faults) - len(lines)
    return [*lines, *([f"and {more:,} more, in the report"] if more else [])]


def _reason(one: GateResult) -> str:
    if one.verdict == NOT_MEASURED:
        return f"{one.gate} was not measured: {one.note}."
    note = f" ({one.note})" if one.note else ""
    return f"{one.gate} failed: {one.title} {_amount(one)}, must be {comparison(one)}{note}."


def _amount(one: GateResult) -> str:
    if math.isnan(one.value):
        return "-"
    return number(one.value) if one.value != round(one.value) else f"{one.value:g}"


def admission_statements(admissions: Sequence[Admission]) -> Statements:
    """State the results of the admission tests."""
    shown = []
    for one in admissions:
        count = f"{len(one.found):,} of {one.measured:,}" if one.measured else "not measured"
        text = f"{one.title}: {count}{f' ({one.note})' if one.note else ''}"
        shown.append(Statement("", text, {"found": len(one.found), "measured": one.measured}))
    return paragraphs("ADMISSION", shown)


def comparison(one: GateResult) -> str:
    """Format the condition of a gate: ``>= 0.8``, or ``0.1 to 0.3`` for a range."""
    sign, threshold = judging.GATES[one.gate][1], f"{one.rule.threshold:g}"
    return f"{threshold} to {one.rule.highest:g}" if one.rule.highest is not None else f"{sign} {threshold}"
