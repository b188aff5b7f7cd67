"""``ragsweep golden gates``: judge a golden set by its gates."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ragsweep.commands.command_line import add_path, print_document
from ragsweep.core.errors import ConfigError, nearest
from ragsweep.core.types import Passage, Request
from ragsweep.report.document import Document, Section, Statement, Statements, paragraphs
from ragsweep.report.progress import Lines
from ragsweep.report.terminal import Terminal
from ragsweep.services.session import ServiceSession
from ragsweep.stages.executor import Listener
from ragsweep_golden.building.asking import generate_once
from ragsweep_golden.building.strata import folders
from ragsweep_golden.commands.gates_report import admission_statements, gates_blocks, gates_facts
from ragsweep_golden.commands.inputs import Model, evidence_step, read_inputs, words_parser
from ragsweep_golden.gates import judging
from ragsweep_golden.gates.admission import Ask, admit
from ragsweep_golden.gates.judging import GATES, GateRule, exit_status
from ragsweep_golden.gates.subject import Subject
from ragsweep_golden.sets.entries import relevant_evidence
from ragsweep_golden.sets.files import write_report

_ABOUT = """Judge a golden set. Each gate has a measured value, a threshold and a verdict; a gate that could not be
measured has not passed. Exit status: 0 no blocking gate failed, 1 one failed, 3 one was not measured, 2 bad input."""

_FILE = "the golden file; KEY=VALUE as in conf/golden.yaml: corpus=FOLDER, embedder=minilm, gates.G5-8.threshold=.5"


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
    if inputs.file is None:  # other formats may also label irrelevant documents
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
    facts = gates_facts(subject, results, profile.name, admissions)
    blocks = [*gates_blocks(subject, results, profile), admission_statements(admissions)]
    if options.report or not options.json:
        written = Path(options.report or Path(options.path) / "gates.json")
        write_report(written, facts)
        blocks.append(paragraphs("REPORT", Statement("", str(written))))
    blocks.append(Statements([*evidence_step(entries, inputs.file, values["corpus"])], "commands"))
    print_document(Document("Gates", [Section(blocks)], facts), options)
    if not options.json:
        terminal.spent(services.meter)
    return exit_status(results)


def make_ask(values: Mapping[str, Any], services: ServiceSession, folder: Path, listener: Listener) -> Ask:
    """Return a function that answers questions from passages with the config's llm; answers are cached in a folder."""
    model = Model(values, services, folder, listener)
    part = model.prompted("answer_prompt")

    def ask(questions: Sequence[tuple[str, tuple[Passage, ...]]]) -> list[str | None]:
        requests = [Request(text, passages) for text, passages in questions]
        answers = generate_once(model.executor, "golden answer", part, requests)
        return [None if one.failed else one.text for one in answers]

    return ask


def read_rules(node: dict[str, Any]) -> dict[str, GateRule]:
    """Read the rules of the gates from the config. Raises ConfigError for an unknown gate or an invalid value."""
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
            raise ConfigError(f"gates.{gate}: only {ranges}, which have a range, have (and need) highest; got {rule}")
        rules[gate] = GateRule(float(rule["threshold"]), rule["blocking"], rule.get("highest"))
    return rules
