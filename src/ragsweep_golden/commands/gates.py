"""``ragsweep golden gates``: judge a golden set by its gates."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ragsweep.commands.command_line import add_path, ignore_closed_pipe
from ragsweep.core.errors import ConfigError, nearest
from ragsweep.core.plurals import counted
from ragsweep.core.types import Passage, Request
from ragsweep.report.numbers import number
from ragsweep.report.progress import Lines
from ragsweep.report.terminal import Terminal
from ragsweep.services.session import ServiceSession
from ragsweep.stages.executor import Listener
from ragsweep_golden.building.asking import generate_once
from ragsweep_golden.building.strata import folders
from ragsweep_golden.commands.inputs import Model, evidence_step, read_inputs, words_parser
from ragsweep_golden.gates import judging
from ragsweep_golden.gates.admission import Admission, Ask, admit
from ragsweep_golden.gates.judging import (
    FAILED,
    GATES,
    NOT_MEASURED,
    PASSED,
    GateResult,
    GateRule,
    Profile,
    exit_status,
)
from ragsweep_golden.gates.subject import Subject
from ragsweep_golden.sets.entries import incoherences, relevant_evidence, value
from ragsweep_golden.sets.files import write_report

_ABOUT = """Judge a golden set. Each gate has a measured value, a threshold and a verdict; a gate that could not be
measured has not passed. Exit status: 0 no blocking gate failed, 1 one failed, 3 one was not measured, 2 bad input."""

_FILE = (
    "the golden file, and KEY=VALUE, as in conf/golden.yaml: corpus=FOLDER, embedder=minilm, gates.G5-8.threshold=.5"
)
_GAP, _NARROWEST = 3, 30
MOST_FAULTS, MOST_WARNED = 20, 5
"""Most failed questions printed for a gate that fails or warns; the report has all."""
_WORDS = {FAILED: "FAILED", NOT_MEASURED: "NOT MEASURED"}


def gates(arguments: Sequence[str]) -> int:
    """Run ``ragsweep golden gates``; return the exit status."""
    parser = words_parser("gates", _ABOUT, _FILE)
    parser.add_argument("--json", action="store_true", help="write the report to standard output")
    parser.add_argument("--report", metavar="FILE", help="where the report is written, if not in --path")
    add_path(parser)
    options, inputs = read_inputs(parser, arguments)
    values, rules = inputs.values, read_rules(inputs.values["gates"])
    given = inputs.read_set()
    entries, corpus = given.entries, inputs.given_corpus or given.own_corpus
    if inputs.file is None:  # irrelevant labels of another format are dropped
        entries = [one | {"evidence": relevant_evidence(one)} for one in entries]
    subject = Subject(entries)
    if corpus is not None:
        subject = Subject(entries, corpus, inputs.split(corpus), strata=folders(corpus))
    if inputs.embed:
        subject = subject.with_vectors(inputs.embed)
    profile = judging.choose_profile(str(values["profile"]), values["profiles"], subject.kept)
    results = judging.judge_gates(subject, {gate: rules[gate] for gate in profile.gates})
    terminal = Terminal.current(plain=options.json)
    with ServiceSession() as services:
        listener = Listener() if options.json else Lines(terminal)
        ask = make_ask(values, services, Path(options.path) / "replies", listener) if "llm" in values else None
        admissions = admit(subject, ask)
    report = as_json(subject, results, profile.name, admissions)
    written = None if options.json and not options.report else Path(options.report or Path(options.path) / "gates.json")
    if written:
        write_report(written, report)
    with ignore_closed_pipe():
        if options.json:
            print(json.dumps(report, ensure_ascii=False))
        else:
            show(terminal, subject, results, profile)
            show_admissions(terminal, admissions)
            terminal.block("REPORT", [str(written)])
            terminal.next_steps(evidence_step(entries, inputs.file, values["corpus"]))
            terminal.spent(services.meter)
    return exit_status(results)


def make_ask(values: Mapping[str, Any], services: ServiceSession, folder: Path, listener: Listener) -> Ask:
    """Return a function that answers with the chosen model; its answers are cached in a folder."""
    model = Model(values, services, folder, listener)
    part = model.prompted("answer_prompt")

    def ask(questions: Sequence[tuple[str, tuple[Passage, ...]]]) -> list[str | None]:
        requests = [Request(text, passages) for text, passages in questions]
        answers = generate_once(model.executor, "golden answer", part, requests)
        return [None if one.failed else one.text for one in answers]

    return ask


def read_rules(node: dict[str, Any]) -> dict[str, GateRule]:
    """Read thresholds from the config. Raises ConfigError for an unknown gate, or a non-numeric threshold."""
    rules = {}
    for gate, rule in node.items():
        if gate not in GATES:
            raise ConfigError(f'gates: no gate "{gate}"{nearest(gate, GATES)}')
        for key in ("threshold", "highest"):
            given = rule.get(key, 0)
            if isinstance(given, bool) or not isinstance(given, int | float):
                raise ConfigError(f"gates.{gate}.{key}: must be a number, given {given!r}")
        if not isinstance(rule.get("blocking"), bool):
            raise ConfigError(f"gates.{gate}.blocking: must be true or false, given {rule.get('blocking')!r}")
        rules[gate] = GateRule(float(rule["threshold"]), rule["blocking"], rule.get("highest"))
    return rules


def as_json(
    subject: Subject, results: Sequence[GateResult], profile: str = "", admissions: Sequence[Admission] = ()
) -> dict[str, Any]:
    """Return the validation report in JSON types; ``profile`` names the gates of a whole set's report."""
    broken = Counter(code for one in subject.kept for code, _ in incoherences(one))
    return {
        "verdict": {0: "passed", 1: "failed", 3: "not_measured"}[exit_status(results)],
        **({"profile": profile} if profile else {}),
        "questions": len(subject.kept),
        "rejected": subject.rejected,
        "status": dict(Counter(str(value(one, "audit", "status") or "unstated") for one in subject.kept)),
        "gates": [
            {
                "gate": one.gate,
                "title": one.title,
                "value": None if math.isnan(one.value) else one.value,
                "threshold": one.rule.threshold if one.rule.highest is None else [one.rule.threshold, one.rule.highest],
                "verdict": one.verdict,
                "blocking": one.rule.blocking,
                "note": one.note,
                "questions": [fault._asdict() for fault in one.faults],
            }
            for one in results
        ],
        "admission": [
            {
                "test": one.test,
                "title": one.title,
                "value": None if math.isnan(one.share) else one.share,
                "measured": one.measured,
                "questions": list(one.found),
                "note": one.note,
            }
            for one in admissions
        ],
        "constraints": {f"C{n}": broken.get(f"C{n}", 0) for n in range(1, 9)},
    }


def show(terminal: Terminal, subject: Subject, results: Sequence[GateResult], profile: Profile) -> None:
    """Print one row per gate, the failed questions, and the verdict."""
    rows = [
        [one.gate, one.title, _amount(one), comparison(one), _WORDS.get(one.verdict, one.verdict)] for one in results
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    room = terminal.width - sum(widths) - _GAP * len(widths)
    notes = [[f"{one.note[: room - 1]}…" if len(one.note) > room else one.note] for one in results]
    beside = room >= _NARROWEST
    header = ["gate", "", ">value", ">threshold", "verdict", *([""] if beside else [])]
    terminal.table(header, [row + note if beside else row for row, note in zip(rows, notes, strict=True)], gap=_GAP)
    rejected = f", {subject.rejected:,} rejected and left out" if subject.rejected else ""
    decisive = [one for one in results if one.rule.blocking and one.verdict in (FAILED, NOT_MEASURED)]
    verdict = "not accepted" if decisive else "accepted, no blocking gate failed"
    reasons = [f"{one.gate} {_reason(one)}" for one in decisive]
    for one in results:
        terminal.block(one.gate, _faults(one))
    others = ", ".join(f"profile={name}" for name in judging.PROFILES if name != profile.name)
    terminal.block("PROFILE", [f"{profile.name} ({profile.reason}); other gates: {others}"])
    terminal.block("RESULT", [f"{counted(len(subject.kept), 'question')}{rejected}: {verdict}.", *reasons])


def _faults(one: GateResult) -> list[str]:
    """List the questions that fail a gate that has not passed."""
    if one.verdict == PASSED:
        return []
    shown = one.faults[: MOST_FAULTS if one.verdict == FAILED else MOST_WARNED]
    lines = [f'{fault.id} "{fault.question}": {fault.why}' for fault in shown]
    more = len(one.faults) - len(lines)
    return [*lines, *([f"and {more:,} more, in the report"] if more else [])]


def _reason(one: GateResult) -> str:
    if one.verdict == NOT_MEASURED:
        return f"was not measured: {one.note}."
    return f"failed: {one.title} {_amount(one)}, must be {comparison(one)}{f' ({one.note})' if one.note else ''}."


def _amount(one: GateResult) -> str:
    if math.isnan(one.value):
        return "-"
    return number(one.value) if one.value != round(one.value) else f"{one.value:g}"


def show_admissions(terminal: Terminal, admissions: Sequence[Admission]) -> None:
    """Print the results of the admission tests."""
    lines = [
        f"{one.title}: {f'{len(one.found):,} of {one.measured:,}' if one.measured else 'not measured'}"
        f"{f' ({one.note})' if one.note else ''}"
        for one in admissions
    ]
    terminal.block("ADMISSION", lines)


def comparison(one: GateResult) -> str:
    """Format a gate's threshold: ``>= .8``."""
    sign, threshold = GATES[one.gate][1], f"{one.rule.threshold:g}"
    return f"{threshold} to {one.rule.highest:g}" if one.rule.highest is not None else f"{sign} {threshold}"
