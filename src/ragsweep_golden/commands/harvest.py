"""``ragsweep golden harvest``: add the questions of production logs to a golden file."""

import argparse
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ragsweep.commands.command_line import print_blocks
from ragsweep.commands.documents import show_notes
from ragsweep.commands.served import MODEL, SINCE, describe_skipped, read_since, read_traces
from ragsweep.core.errors import ConfigError, InputError
from ragsweep.core.plurals import counted
from ragsweep.core.types import Chunks
from ragsweep.parts.tracking import Mlflow
from ragsweep.parts.tracking.recorded_inputs import read_root_inputs
from ragsweep.report.document import Block, Statement, Statements, Table, paragraphs
from ragsweep_golden.adding.by_hand import append_entries
from ragsweep_golden.adding.harvest import Harvest, as_entries, find_question, read_log
from ragsweep_golden.adding.harvest import harvest as choose
from ragsweep_golden.commands.inputs import next_step, read_inputs, user_name, words_parser
from ragsweep_golden.sets import entries as sets
from ragsweep_golden.sets.changelog import record_change

_ABOUT = """Add the new questions of a log to a golden file, deduplicated, as silver questions with the evidence that
BM25 proposes. Exit status: 0 added, 1 nothing new, 2 bad input."""

_WORDS = """the golden file, created if missing; corpus=FOLDER or FILE; log=FILE (a table or JSON lines),
or traces=MLFLOW_URI experiment=NAME; embedder=minilm also skips similar questions"""

_SHOWN = 10


def harvest(arguments: Sequence[str]) -> int:
    """Run ``ragsweep golden harvest``; return the exit status."""
    parser = words_parser("harvest", _ABOUT, _WORDS)
    traced = f"take the questions from the traces of {MODEL}; the traces are at traces=MLFLOW_URI"
    parser.add_argument("--model", help=traced)
    parser.add_argument("--since", metavar="WHEN", help=f"with --model, {SINCE}; default: 7d")
    parser.add_argument("--weights", action="store_true", help="weight each new question by how often it was asked")
    options, inputs = read_inputs(parser, arguments)
    file, values, corpus = inputs.path, inputs.values, inputs.corpus
    entries = read_set(file, options.weights)
    questions = _read_questions(values, options)
    found = choose(questions, entries, inputs.embed)
    if found.new:
        added = as_entries(found.new, Chunks(corpus, inputs.split(corpus)), options.weights)
        with record_change(file, "harvest", user_name()):
            append_entries(file, added)
    print_blocks(*_blocks(found, questions, file, values["corpus"]))
    return 0 if found.new else 1


def read_set(file: Path, has_weights: bool) -> list[dict[str, Any]]:
    """Read the existing entries; ``has_weights``: whether the new ones have weights.

    Raises InputError for faults of the file, and if only some of the existing and new entries have weights.
    """
    entries = [entry for entry, _ in sets.read_set(file)] if file.exists() else []
    without = sum(entry.get("weight") is None for entry in entries)
    if without and (has_weights or without < len(entries)):
        way = "add it" if without < len(entries) else "add it, or omit --weights"
        raise InputError(f'{file}: {counted(without, "question")} without a "weight"; {way}')
    if entries and not has_weights and not without:
        raise InputError(f"{file}: its questions have weights; add --weights to weight the new questions, too")
    return entries


def _read_questions(values: Mapping[str, Any], options: argparse.Namespace) -> list[str]:
    log, traces, experiment = values["log"], values["traces"], values["experiment"]
    if options.model:
        if log is not None:
            raise ConfigError("golden harvest: --model and log=FILE: use only one of them")
        registry = Mlflow(traces, "ragsweep").registry()
        since = read_since(options.since or "7d", time.time())
        found, skipped = read_traces(registry, registry.find(options.model), since, experiment)
        if skipped:
            show_notes([describe_skipped(skipped)])
        return [one.question for one in found]
    if options.since:
        raise ConfigError(
            "--since: needs --model; add it, or omit --since to take all questions of a log or an experiment"
        )
    if (log is None) == (traces is None) or (traces is None) != (experiment is None):
        raise ConfigError(
            "golden harvest: needs exactly one of --model NAME@ALIAS, log=FILE, or traces=MLFLOW_URI experiment=NAME"
        )
    if log is not None:
        return read_log(Path(str(log)).expanduser())
    return [_traced_question(inputs) for inputs in read_root_inputs(str(traces), str(experiment))]


def _traced_question(inputs: Any) -> str:
    """Return the question of a trace; empty if its inputs are unreadable, since traces cannot be corrected."""
    try:
        return find_question(inputs)
    except ValueError:
        return ""


def _blocks(found: Harvest, questions: Sequence[str], file: Path, corpus: str) -> Iterator[Block]:
    """Yield the most frequent new questions, the counts, and the next step."""
    yield Table([">asked", "question"], [[f"{one.times:,}", one.text[:100]] for one in found.new[:_SHOWN]])
    blank = sum(not question.strip() for question in questions)
    text = (
        f"{counted(len(questions), 'record')}, {blank:,} without a question; "
        f"{counted(found.different, 'different question')}: {found.known:,} already in the file, "
        f"{found.similar:,} similar to others, {len(found.new):,} added to {file} as silver."
    )
    counts = {"records": len(questions), "blank": blank, "different": found.different, "new": len(found.new)}
    yield paragraphs("RESULT", Statement("", text, {**counts, "known": found.known, "similar": found.similar}))
    if found.new:
        review = next_step("review", file, f"corpus={corpus}")
        yield Statements([Statement(review, "confirm or correct the proposed evidence")], "commands")
