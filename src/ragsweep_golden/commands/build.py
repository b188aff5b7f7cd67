"""``ragsweep golden build``: build a golden set from a corpus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ragsweep.commands.command_line import Parser, ignore_closed_pipe
from ragsweep.core.errors import ConfigError
from ragsweep.core.identity import content_hash
from ragsweep.core.types import Corpus, Spans
from ragsweep.report.progress import Lines
from ragsweep.report.terminal import Terminal
from ragsweep.services.session import ServiceSession
from ragsweep_golden.building.asking import ModelAsker
from ragsweep_golden.building.phases import PHASES, VERSION, Built, PhaseDone, PhaseFiles, build_set
from ragsweep_golden.building.selection import FAILS
from ragsweep_golden.building.settings import BuildSettings, read_settings
from ragsweep_golden.commands.gates import as_json, read_rules, show
from ragsweep_golden.commands.inputs import Inputs, Model, user_name
from ragsweep_golden.gates import judging
from ragsweep_golden.gates.judging import FAILED, GateResult, GateRule
from ragsweep_golden.gates.mix import UNANSWERABLE, compare_mix
from ragsweep_golden.gates.subject import Embed, Subject
from ragsweep_golden.sets.changelog import record_change
from ragsweep_golden.sets.files import write_report, write_rows

_ABOUT = """Build a golden set from a corpus in six phases; an interrupted command resumes at its last phase.
Exit status: that of the gates (0 no blocking gate failed, 1 one failed, 3 one was not measured), 2 bad input."""
_OVERRIDES = "as in conf/golden.yaml: corpus=FOLDER or FILE, out=FOLDER or FILE.jsonl, language=fr, questions=200"
_EMBEDDER = "embedder=minilm"
_NOT_MADE_FROM = ("out", "corpus", "gates", "profile", "profiles", "quotas", "metrics")
MOST_SHOWN = 20
"""Most dropped questions printed; the file of the last phase has all."""


def build(arguments: Sequence[str]) -> int:
    """Run ``ragsweep golden build``; return the exit status."""
    parser = Parser("ragsweep golden build", description=_ABOUT, allow_abbrev=False)
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help=_OVERRIDES)
    inputs = Inputs("build", _with_embedder(parser.parse_intermixed_args(arguments).overrides))
    values, settings = inputs.values, read_settings(inputs.values)
    golden, folder = read_places(values)
    name = judging.GENERATED if values["profile"] == judging.AUTO else values["profile"]
    profile = judging.choose_profile(name, values["profiles"], ())
    of_gate = read_rules(values["gates"])
    rules = {gate: of_gate[gate] for gate in profile.gates}
    services, corpus, embed = ServiceSession(), inputs.given_corpus, inputs.embed
    if corpus is None:
        raise ConfigError("golden build: give the documents: corpus=FOLDER or FILE")
    if settings.clusters and embed is None:
        raise ConfigError(f"strata.by=clusters: needs an embedder, such as {_EMBEDDER}")
    spans, terminal = inputs.split(corpus), Terminal.current()
    asked = {name: given for name, given in values.items() if name not in _NOT_MADE_FROM}
    judge = PhaseJudge(corpus, spans, rules, folder, embed, terminal)
    asker = None
    if "llm" in values:
        model = Model(values, services, folder / "replies", Lines(terminal))
        prompted = (model.prompted("prompt"), model.prompted("unanswerable_prompt"))
        asker = ModelAsker(*prompted, model.executor, settings.languages)
    made_from = content_hash([VERSION, corpus.digest, asked])
    files = PhaseFiles(folder, made_from, judge, lambda: asker is None or not asker.failures)
    with ignore_closed_pipe(), services:
        built = build_set(corpus, spans, settings, files, embed, asker)
        with record_change(golden, "build", user_name()):
            write_rows(golden, built.entries)
        write_rows(folder / "rejected.jsonl", built.rejected)
        subject = judge.subject([*built.entries, *built.rejected], has_vectors=True)
        results = judging.judge_gates(subject, rules)
        write_report(folder / "gates.json", as_json(subject, results, profile.name))
        show(terminal, subject, results, profile)
        _show_left_out(terminal, built, settings)
        if asker:
            terminal.spent(services.meter)
            faults = [f"{count:,} times: {fault}" for fault, count in asker.faults.items() if count]
            again = ["The calls that failed are made again by the same command."] if asker.failures else []
            terminal.block("MODEL", [*faults, *again])
        terminal.block("WRITTEN", [f"{golden}, and the phases' results and reports in {folder}"])
        terminal.block("FIX", _advice(built, results, settings))
        given = [str(golden), f"corpus={values['corpus']}"]
        steps = [
            (["ragsweep", "golden", "review", *given], "confirm or correct the questions: silver becomes gold"),
            (["ragsweep", "golden", "gates", *given, _EMBEDDER], "judge the set again"),
        ]
        terminal.next_steps(steps if built.entries else [])
    return judging.exit_status(results)


def _with_embedder(given: Sequence[str]) -> list[str]:
    """Return the overrides with the usual embedder if none is given, and without ``embedder=null``."""
    if not any(one.partition("=")[0].lstrip("+~") == "embedder" for one in given):
        return [_EMBEDDER, *given]
    is_without = "embedder=null" in given and any(one.startswith("llm=") for one in given)
    others = ["~metrics.semantic_similarity"] if is_without else []  # every llm sets it for evaluations
    return [*(one for one in given if one != "embedder=null"), *others]


def _show_left_out(terminal: Terminal, built: Built, settings: BuildSettings) -> None:
    """Print the types of the set beside the wanted ones, and the dropped questions, with ids if they fail a gate."""
    wanted = dict(settings.mix) | {UNANSWERABLE: settings.unanswerable}
    terminal.block("MIX", [row.as_text() for row in compare_mix(built.entries, wanted)])
    left = Counter(row["reason"].partition(" (")[0] for row in built.left_out)
    terminal.block("LEFT OUT", [f"{count:,}: {reason}" for reason, count in left.most_common()])
    failed = [f'"{row["question"]}" {row["reason"]}' for row in built.left_out if row["reason"].startswith(FAILS)]
    terminal.block("DROPPED", failed[:MOST_SHOWN])


def _advice(built: Built, results: Sequence[GateResult], settings: BuildSettings) -> Iterator[str]:
    """Yield remedies for a set with too few questions, or with a failed gate that a setting decides."""
    if not any(one["answerable"] for one in built.entries):
        yield "No sentence could be asked about by rule: that takes whole sentences in English or French."
        yield "llm=openai llm.model=NAME has a model write the questions."
    if len(built.entries) < settings.questions:
        yield f"{len(built.entries):,} of {settings.questions:,} questions: the rules found no more that are specific."
        yield "llm=openai llm.model=NAME has a model write more."
    failed = {one.gate for one in results if one.verdict == FAILED}
    if "G0-1" in failed and not settings.clusters:
        yield "Documents without folders are divided by similarity with strata.by=clusters."
    if "G5-4" in failed:
        yield "Hard questions come from many pages or a model; gates.G5-4.blocking=false only warns."


@dataclass
class PhaseJudge:
    """Judge the result of each phase by its gates, write the report, and print a line."""

    corpus: Corpus
    spans: Spans
    rules: Mapping[str, GateRule]
    folder: Path
    embed: Embed | None
    terminal: Terminal
    strata: dict[str, str] = field(default_factory=dict)

    def subject(self, entries: Sequence[Any], has_vectors: bool) -> Subject:
        """Return a set as the input of the gates."""
        subject = Subject(entries, self.corpus, self.spans, strata=self.strata)
        return subject.with_vectors(self.embed) if self.embed and has_vectors else subject

    def __call__(self, done: PhaseDone) -> None:
        """Judge a phase's result."""
        if done.number == 0:
            self.strata = {name: row["stratum"] for row in done.result for name in row["documents"]}
        rules = {gate: rule for gate, rule in self.rules.items() if gate.startswith(f"G{done.number}-")}
        subject = self.subject(done.entries, has_vectors=done.number == len(PHASES) - 1)
        results = judging.judge_gates(subject, rules)
        write_report(self.folder / f"gates-{done.number}.json", as_json(subject, results))
        kept = ", as before" if done.kept else ""
        facts = f"{PHASES[done.number]}: {len(done.result):,}{kept}; {_summary(results)}"
        self.terminal.line(f"PHASE {done.number}", facts)


def _summary(results: Sequence[GateResult]) -> str:
    words = [f"{one.gate} {one.verdict.replace('_', ' ')}" for one in results if one.verdict == FAILED]
    counts = Counter(one.verdict.replace("_", " ") for one in results if one.verdict != FAILED)
    return ", ".join([*words, *(f"{count} {verdict}" for verdict, count in counts.items())])


def read_places(values: Mapping[str, Any]) -> tuple[Path, Path]:
    """Return the golden file and the folder of the phases. Raises ConfigError if ``out`` is missing."""
    if not values["out"]:
        raise ConfigError("golden build: give the destination: out=FOLDER, or out=FILE.jsonl")
    out = Path(str(values["out"])).expanduser()
    return (out, out.with_suffix(".build")) if out.suffix == ".jsonl" else (out / "golden.jsonl", out)
