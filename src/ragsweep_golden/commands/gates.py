"""``ragsweep golden gates``: judge a golden set by its gates, and report the verdicts."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ragsweep.commands.command_line import add_path, output_file, print_document
from ragsweep.core.errors import ConfigError, nearest
from ragsweep.core.plurals import counted
from ragsweep.core.types import Passage, Request
from ragsweep.report.document import Block, Document, Section, Statement, Statements, Table, paragraphs
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
from ragsweep_golden.gates.judging import FAILED, GATES, NOT_MEASURED, GateResult, GateRule, Profile, exit_status
from ragsweep_golden.gates.subject import Subject
from ragsweep_golden.sets.entries import incoherences, relevant_evidence, value
from ragsweep_golden.sets.files import write_report

_ABOUT = """Judge a golden set. Each gate has a measured value, a threshold and a verdict; a gate that could not be
measured has not passed. Exit status: 0 no blocking gate failed, 1 one failed, 3 one was not measured, 2 bad input."""

_FILE = "the golden file; KEY=VALUE as in conf/golden.yaml: corpus=FOLDER, embedder=minilm, gates.G5-8.threshold=.5"


def gates(arguments: Sequence[str]) -> int:
    """Run ``ragsweep golden gates``; return the exit status of the gates. Raises RagsweepError for bad input."""
    parser = words_parser("gates", _ABOUT, _FILE)
    parser.add_argument("--json", action="store_true", help="write the report to standard output as JSON")
    report = "file of the report; default: gates.json in --path, or none with --json"
    parser.add_argument("--report", type=output_file, metavar="FILE", help=report)
    add_path(parser)
    options, inputs = read_inputs(parser, arguments)
    values, given = inputs.values, inputs.read_set()
    entries, corpus = given.entries, inputs.given_corpus or given.own_corpus
    if inputs.file is None:  # sets in other formats may also have labels of irrelevant documents
        entries = [one | {"evidence": relevant_evidence(one)} for one in entries]
    subject = Subject(entries)
    profile = judging.choose_profile(str(values["profile"]), values["profiles"], subject.kept)
    rules = read_rules(values["gates"], profile)
    if corpus is not None:
        subject = Subject(entries, corpus, inputs.split(corpus), strata=folders(corpus))
    if inputs.embed:
        subject = subject.with_vectors(inputs.embed)
    results = judging.judge_gates(subject, rules)
    terminal = Terminal.current(plain=options.json)
    with ServiceSession() as services:
        listener = Listener() if options.json else Lines(terminal)
        ask = make_ask(values, services, Path(options.path) / "replies", listener) if "llm" in values else None
        try:
            admissions = admit(subject, ask)
        finally:  # failed or interrupted checks have their cost, too
            if not options.json:
                terminal.spent(services.meter)
    facts = gates_facts(subject, results, profile.name, admissions)
    blocks = [*gates_blocks(subject, results, profile), admission_statements(admissions)]
    if options.report or not options.json:
        written = options.report or Path(options.path) / "gates.json"
        write_report(written, facts)
        blocks.append(paragraphs("REPORT", Statement("", str(written))))
    blocks.append(Statements([*evidence_step(entries, inputs.file, values["corpus"])], "commands"))
    print_document(Document("Gates", [Section(blocks)], facts), options)
    return exit_status(results)


def make_ask(values: Mapping[str, Any], services: ServiceSession, folder: Path, listener: Listener) -> Ask:
    """Return a function that answers questions from passages with the config's llm, caching replies in ``folder``."""
    model = Model(values, services, folder, listener)
    part = model.prompted("answer_prompt")

    def ask(questions: Sequence[tuple[str, tuple[Passage, ...]]]) -> list[str | None]:
        requests = [Request(text, passages) for text, passages in questions]
        answers = generate_once(model.executor, "golden answer", part, requests)
        return [None if one.failed else one.text for one in answers]

    return ask


def read_rules(node: Mapping[str, Any], profile: Profile) -> dict[str, GateRule]:
    """Return the rule of each gate of a profile.

    ``node`` is the config of all gates. Raises ConfigError for unknown and invalid gates, and for missing gates of the
    profile.
    """
    rules = {}
    for gate, rule in node.items():
        if gate not in GATES:
            raise ConfigError(f'gates: no gate "{gate}"{nearest(gate, GATES)}')
        if not isinstance(rule, Mapping) or "threshold" not in rule:
            raise ConfigError(f"gates.{gate}: must have a threshold, such as gates.{gate}.threshold=.5, got {rule!r}")
        for key in ("threshold", "highest"):
            given = rule.get(key, 0)
            if isinstance(given, bool) or not isinstance(given, int | float):
                raise ConfigError(f"gates.{gate}.{key}: must be a number, got {given!r}")
        if not isinstance(rule.get("blocking"), bool):
            raise ConfigError(f"gates.{gate}.blocking: must be true or false, got {rule.get('blocking')!r}")
        if ("highest" in rule) != (GATES[gate][1] == "in"):
            ranges = " and ".join(name for name, (_, comparison, _) in GATES.items() if comparison == "in")
            raise ConfigError(
                f"gates.{gate}: gates with a range ({ranges}) must have the key highest, others must not; got {rule}"
            )
        rules[gate] = GateRule(float(rule["threshold"]), rule["blocking"], rule.get("highest"))
    if missing := set(profile.gates) - rules.keys():
        way = "add it, or list only the other gates in a profile: +profiles.mine=[...] profile=mine"
        raise ConfigError(f"gates.{min(missing)} is missing; {way}")
    return {gate: rules[gate] for gate in profile.gates}


MOST_FAULTS, MOST_WARNED = 20, 5  # maximum numbers of questions printed for gates that fail, and for gates that warn
WIDE = 110  # minimum number of columns of a terminal in which notes are shown beside the gates
_WORDS = {FAILED: "FAILED", NOT_MEASURED: "NOT MEASURED"}


def gates_facts(
    subject: Subject, results: Sequence[GateResult], profile: str = "", admissions: Sequence[Admission] = ()
) -> dict[str, Any]:
    """Return the gates report as a dict for JSON; ``profile`` is the name of the profile, or "" for a build's phase."""
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
    """Yield a table with a row per gate, the questions that fail each gate, the profile, and the verdict on the set."""
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
    """Return a line of text for the result of each admission test."""
    shown = []
    for one in admissions:
        count = f"{len(one.found):,} of {one.measured:,}" if one.measured else "not measured"
        text = f"{one.title}: {count}{f' ({one.note})' if one.note else ''}"
        shown.append(Statement("", text, {"found": len(one.found), "measured": one.measured}))
    return paragraphs("ADMISSION", shown)


def comparison(one: GateResult) -> str:
    """Return the condition of a gate as text: ">= 0.8" or, for a range, "0.1 to 0.3"."""
    sign, threshold = judging.GATES[one.gate][1], f"{one.rule.threshold:g}"
    return f"{threshold} to {one.rule.highest:g}" if one.rule.highest is not None else f"{sign} {threshold}"
