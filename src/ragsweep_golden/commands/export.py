"""``ragsweep golden export``: write a golden set in the format of another tool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ragsweep.commands.command_line import Parser, ignore_closed_pipe
from ragsweep.core.building import Builder
from ragsweep.core.errors import ConfigError, nearest
from ragsweep.core.plurals import counted
from ragsweep.core.secrets import Secrets
from ragsweep.core.types import Chunks, Corpus
from ragsweep.golden.golden_format import REJECTED
from ragsweep.report.terminal import Terminal
from ragsweep_golden.commands.inputs import (
    Given,
    only_file,
    read_config,
    read_given_corpus,
    read_given_set,
    split,
)
from ragsweep_golden.exchange.benchmarks import export_beir, export_squad, export_trec
from ragsweep_golden.exchange.exporting import RECORDS, export_records, export_table
from ragsweep_golden.exchange.fields import Exported
from ragsweep_golden.exchange.triplets import export_triplets
from ragsweep_golden.sets.entries import value
from ragsweep_golden.sets.files import write_whole

_ABOUT = """Write a golden set in the format of another tool, and count the losses by field."""

_WORDS = """the golden file, or dataset=squad dataset.path=FILE; format=beir, trec (out=FOLDER), squad, ragas, mlflow,
argilla, labelstudio, csv or triplets (out=FILE); corpus=FOLDER or FILE"""

_WITH_CORPUS = ("beir", "trec", "squad", "triplets")
_FORMATS = (*_WITH_CORPUS, *RECORDS, "csv")


def export(arguments: Sequence[str]) -> int:
    """Run ``ragsweep golden export``; return the exit status."""
    parser = Parser("ragsweep golden export", description=_ABOUT, allow_abbrev=False)
    parser.add_argument("words", nargs="*", metavar="FILE | KEY=VALUE", help=_WORDS)
    options = parser.parse_args(arguments)
    values = read_config([word for word in options.words if "=" in word], Secrets())
    name = str(values["format"])
    if name not in _FORMATS:
        raise ConfigError(f'golden export: format="{name}"{nearest(name, _FORMATS)}')
    if not values["out"]:
        raise ConfigError("golden export: give the destination: out=FILE, or out=FOLDER for beir and trec")
    given = without_rejected(read_given_set(only_file(options, "export"), values, Builder()))
    out = Path(str(values["out"])).expanduser()
    corpus = read_given_corpus(values["corpus"]) or given.own_corpus
    exported = _export(name, given, corpus, values, out)
    for path, text in exported.files.items():
        write_whole(out / path if path else out, text)
    with ignore_closed_pipe():
        show(Terminal.current(), exported, name, out, len(given.entries))
    return 0


def without_rejected(given: Given) -> Given:
    """Drop the questions that validation rejected, as an evaluation does."""
    kept = [n for n, entry in enumerate(given.entries) if value(entry, "validation", "status") != REJECTED]
    return given._replace(entries=[given.entries[n] for n in kept], questions=[given.questions[n] for n in kept])


def _export(name: str, given: Given, corpus: Corpus | None, values: Mapping[str, Any], out: Path) -> Exported:
    if name == "csv":
        return export_table(given.entries)
    if name in RECORDS:
        return export_records(name, given.entries, corpus, lines=out.suffix == ".jsonl")
    if corpus is None:
        raise ConfigError(f"golden export: format={name} needs the documents, corpus=FOLDER or FILE")
    if name == "triplets":
        return export_triplets(given.entries, given.questions, Chunks(corpus, split(corpus, values, Builder())))
    write = {"beir": export_beir, "trec": export_trec, "squad": export_squad}[name]
    return write(given.entries, corpus)


def show(terminal: Terminal, exported: Exported, name: str, out: Path, questions: int) -> None:
    """Print the fields that the format cannot express, and the changes."""
    fields = ", ".join(f"{field} of {count:,}" for field, count in exported.lost.most_common())
    terminal.block(
        "LOST",
        [
            *([f"no place in {name}: {fields}"] if fields else []),
            *(f"{counted(count, 'time')}: {note}" for note, count in exported.notes.items()),
        ],
    )
    nothing = "; nothing is lost" if not fields and not exported.notes else ""
    terminal.block("RESULT", [f"{counted(questions, 'question')} read, written to {out}{nothing}."])
