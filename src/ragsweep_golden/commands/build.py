"""``ragsweep golden build``: build a golden set from a corpus."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ragsweep.commands.command_line import print_blocks
from ragsweep.core.errors import ConfigError, Faults, InputError
from ragsweep.core.identity import content_hash
from ragsweep.core.plurals import counted
from ragsweep.core.types import Corpus, Spans
from ragsweep.report.document import Block, Statement, Statements, lines, paragraphs
from ragsweep.report.progress import Lines
from ragsweep.report.terminal import Terminal
from ragsweep.services.session import ServiceSession
from ragsweep_golden.building.asking import ModelAsker
from ragsweep_golden.building.phases import PHASES, VERSION, Built, PhaseFiles, build_set
from ragsweep_golden.building.selection import FAILS
from ragsweep_golden.building.settings import BuildSettings, read_settings
from ragsweep_golden.commands.gates import gates_blocks, gates_facts, read_rules
from ragsweep_golden.commands.inputs import Inputs, Model, check_outputs, next_step, user_name, words_parser
from ragsweep_golden.gates import judging
from ragsweep_golden.gates.judging import FAILED, GateResult, GateRule
from ragsweep_golden.gates.mix import UNANSWERABLE, compare_mix
from ragsweep_golden.gates.subject import Embed, Subject
from ragsweep_golden.sets.files import read_changes, read_state, record_change, write_report, write_rows

_ABOUT = """Build a golden set from a corpus in six phases; an interrupted command resumes at its last phase.
Exit status: that of the gates (0 no blocking gate failed, 1 one failed, 3 one was not measured), 2 bad input."""
_OVERRIDES = "as in conf/golden.yaml: corpus=FOLDER or FILE, out=FOLDER or FILE.jsonl, language=fr, questions=200"
_EMBEDDER = "embedder=minilm"
_NOT_MADE_FROM = ("out", "corpus", "gates", "profile", "profiles", "quotas", "metrics")
MOST_SHOWN = 20  # maximum number of dropped questions that are printed; the file of the last phase has all


def build(arguments: Sequence[str]) -> int:
    """Run ``ragsweep golden build``; return the exit status of the gates. Raises RagsweepError for bad input."""
    parser = words_parser("build", _ABOUT, _OVERRIDES, "KEY=VALUE")
    words = parser.parse_intermixed_args(arguments).words
    has_embedder = any(word.partition("=")[0].lstrip("+~") == "embedder" for word in words)
    inputs = Inputs("build", words if has_embedder else [_EMBEDDER, *words])
    values = inputs.values
    out = inputs.destination("out=FOLDER, or out=FILE.jsonl")
    golden, folder = (out, out.with_suffix(".build")) if out.suffix == ".jsonl" else (out / "golden.jsonl", out)
    check_outputs([golden], values["corpus"])
    _check_replaced(golden)
    name = judging.GENERATED if values["profile"] == judging.AUTO else str(values["profile"])
    profile = judging.choose_profile(name, values["profiles"], ())
    rules, settings = read_rules(values["gates"], profile), read_settings(values)
    services, corpus, embed = ServiceSession(), inputs.corpus, inputs.embed
    if settings.clusters and embed is None:
        raise ConfigError(f"strata.by=clusters: needs an embedder; add one, such as {_EMBEDDER}")
    spans, terminal = inputs.split(corpus), Terminal.current()
    asked = {name: given for name, given in values.items() if name not in _NOT_MADE_FROM}
    judge = PhaseJudge(corpus, spans, rules, folder, embed)
    asker = None
    if "llm" in values:
        model = Model(values, services, folder / "replies", Lines(terminal))
        prompted = (model.prompted("prompt"), model.prompted("unanswerable_prompt"))
        asker = ModelAsker(*prompted, model.executor, settings.languages)
    made_from = content_hash([VERSION, corpus.digest, asked, settings.independent])
    files = PhaseFiles(folder, made_from, judge, lambda: asker is None or not asker.failures)
    try:
        with services:
            built = build_set(corpus, spans, settings, files, embed, asker)
            with record_change(golden, "build", user_name()):
                write_rows(golden, built.entries)
            write_rows(folder / "rejected.jsonl", built.rejected)
            subject = judge.subject([*built.entries, *built.rejected], has_vectors=True)
            results = judging.judge_gates(subject, rules)
            write_report(folder / "gates.json", gates_facts(subject, results, profile.name))
    finally:  # a failed or interrupted build has its cost, too
        terminal.spent(services.meter)
    written = Statement("", f"{golden}, and the phases' results and reports in {folder}")
    print_blocks(
        *gates_blocks(subject, results, profile),
        *_left_out(built, settings),
        paragraphs("LANGUAGE", _unread(len(corpus.ids) - len(judge.strata), corpus, settings)),
        paragraphs("MODEL", _faults(asker)),
        paragraphs("WRITTEN", written),
        paragraphs("FIX", (Statement("", text) for text in _advice(built, results, settings, asker is None))),
        Statements([*_next_steps(golden, values["corpus"])] if built.entries else [], "commands"),
    )
    return judging.exit_status(results)


def _check_replaced(golden: Path) -> None:
    """Raise InputError if a file has content that a build did not write, or that was changed after a build."""
    if golden.exists() and golden.stat().st_size:
        last, digest = (read_changes(golden) or [{}])[-1], read_state(golden, Faults()).digest
        if (last.get("command"), last.get("after")) != ("golden build", digest):
            fact = "this build would replace questions that no build wrote, or that changed after their build"
            raise InputError(f"{golden}: {fact}; choose another out=, or move the file")


def _left_out(built: Built, settings: BuildSettings) -> Iterator[Block]:
    wanted = dict(settings.mix) | {UNANSWERABLE: settings.unanswerable}
    mix = compare_mix(built.entries, wanted)
    left = Counter(row["reason"].partition(" (")[0] for row in built.left_out)
    failed = [f'"{row["question"]}" {row["reason"]}' for row in built.left_out if row["reason"].startswith(FAILS)]
    yield paragraphs("MIX", (Statement("", row.as_text(), row._asdict()) for row in mix))
    yield paragraphs("LEFT OUT", (Statement("", f"{count:,}: {reason}") for reason, count in left.most_common()))
    yield paragraphs("DROPPED", (Statement("", text) for text in failed[:MOST_SHOWN]))


def _unread(count: int, corpus: Corpus, settings: BuildSettings) -> Iterator[Statement]:
    if count:
        way = f"left out, because not in a language of the set ({', '.join(settings.languages)})"
        yield Statement("", f"{count:,} of {counted(len(corpus.ids), 'document')}: {way}.", {"documents": count})


def _faults(asker: ModelAsker | None) -> Iterator[Statement]:
    for fault, count in asker.faults.items() if asker else ():
        if count:
            yield Statement("", f"{counted(count, 'time')}: {fault}", {"replies": count})
    if asker and asker.failures:
        yield Statement("", "To repeat the failed calls, run the same command again.", {"failures": asker.failures})


def _next_steps(golden: Path, corpus: object) -> Iterator[Statement]:
    review = next_step("review", golden, f"corpus={corpus}")
    yield Statement(review, "confirm or correct the questions: silver becomes gold")
    yield Statement(next_step("gates", golden, f"corpus={corpus}", _EMBEDDER), "judge the set again")


def _advice(built: Built, results: Sequence[GateResult], settings: BuildSettings, by_rule_only: bool) -> Iterator[str]:
    if not any(one["answerable"] for one in built.entries):
        yield "No answerable question was found: the rules need whole sentences in English or French."
    if len(built.entries) < settings.questions:
        yield f"{len(built.entries):,} of {settings.questions:,} questions: no other is specific and passes the gates."
        if by_rule_only:
            yield "To generate more questions with a model, add llm=openai llm.model=NAME."
    failed = {one.gate for one in results if one.verdict == FAILED}
    if "G0-1" in failed and not settings.clusters:
        yield "To divide documents by similarity instead of by folder, set strata.by=clusters."
    if "G5-4" in failed:
        yield "For more hard questions, add documents or a model; with gates.G5-4.blocking=false, the gate only warns."


@dataclass
class PhaseJudge:
    """A callback that judges the result of each phase by the phase's gates, writes a report, and prints a line."""

    corpus: Corpus
    spans: Spans
    rules: Mapping[str, GateRule]
    folder: Path
    embed: Embed | None
    strata: dict[str, str] = field(default_factory=dict)  # document id -> stratum, from phase 0

    def subject(self, entries: Sequence[Any], has_vectors: bool) -> Subject:
        """Return the input of the gates; ``has_vectors`` adds vectors of the texts, if there is an embedder."""
        subject = Subject(entries, self.corpus, self.spans, strata=self.strata)
        return subject.with_vectors(self.embed) if self.embed and has_vectors else subject

    def __call__(self, number: int, rows: Sequence[Any], was_cached: bool, entries: Sequence[Any]) -> None:
        """Judge ``entries``, the entries of the set after a phase, by the gates of this phase."""
        if number == 0:
            self.strata = {name: row["stratum"] for row in rows for name in row["documents"]}
        rules = {gate: rule for gate, rule in self.rules.items() if gate.startswith(f"G{number}-")}
        subject = self.subject(entries, has_vectors=number == len(PHASES) - 1)
        results = judging.judge_gates(subject, rules)
        write_report(self.folder / f"gates-{number}.json", gates_facts(subject, results))
        kept = ", reused" if was_cached else ""
        facts = f"{PHASES[number]}: {len(rows):,}{kept}; {_summary(results)}"
        print_blocks(lines(Statement(f"PHASE {number}", facts, {"results": len(rows)})))


def _summary(results: Sequence[GateResult]) -> str:
    words = [f"{one.gate} {one.verdict.replace('_', ' ')}" for one in results if one.verdict == FAILED]
    counts = Counter(one.verdict.replace("_", " ") for one in results if one.verdict != FAILED)
    return ", ".join([*words, *(f"{count} {verdict}" for verdict, count in counts.items())])
