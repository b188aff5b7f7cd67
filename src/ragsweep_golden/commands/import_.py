"""``ragsweep golden import``: convert questions in another format to a golden file."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ragsweep.commands.command_line import print_blocks
from ragsweep.commands.documents import show_notes
from ragsweep.core.building import Builder
from ragsweep.core.errors import ConfigError
from ragsweep.core.plurals import counted
from ragsweep.core.types import Dataset
from ragsweep.report.document import Block, Statement, Statements, lines, paragraphs
from ragsweep_golden.commands.inputs import (
    check_outputs,
    evidence_step,
    next_step,
    read_inputs,
    user_name,
    words_parser,
)
from ragsweep_golden.exchange.evidence import Imported
from ragsweep_golden.exchange.importing import finish, import_file
from ragsweep_golden.exchange.layouts import COLUMNS
from ragsweep_golden.sets.entries import as_entry
from ragsweep_golden.sets.files import record_change, write_rows

_ABOUT = """Convert questions in another format to a golden file, find their evidence in the corpus, and count the
lost fields. Exit status: 0 all evidence was found, 1 some was not, 2 bad input."""

_WORDS = """a table, JSON lines, JSON, Parquet, YAML or topics, or dataset=squad dataset.path=FILE (beir, trec);
out=GOLDEN.jsonl; corpus=FOLDER or FILE; format=NAME if the format is not recognised, or the names of the fields:
question=FIELD reference=FIELD passages=FIELD"""


def import_(arguments: Sequence[str]) -> int:
    """Run ``ragsweep golden import``; return 0 if every text was found, else 1. Raises RagsweepError for bad input."""
    named = {word: word.partition("=")[::2] for word in arguments if "=" in word and word.partition("=")[0] in COLUMNS}
    others, columns = [word for word in arguments if word not in named], dict(named.values())
    try:
        _, inputs = read_inputs(words_parser("import", _ABOUT, _WORDS), others)
    except ConfigError as fault:
        targets = f"; keys that name a field: {', '.join(COLUMNS)}" if ': no key "' in str(fault) else ""
        raise ConfigError(f"{fault}{targets}") from None
    values, file = inputs.values, inputs.file
    out = inputs.destination("out=GOLDEN.jsonl")
    _check_new(out, values["overwrite"])
    if (file is None) == ("dataset" not in values):
        raise ConfigError("golden import: specify either a file or a reader, such as dataset=squad dataset.path=FILE")
    of_file = [word for word in arguments if word.partition("=")[0] in (*COLUMNS, "format", "encoding", "corpus")]
    if file is None and of_file:
        fact = f"{', '.join(of_file)}: only for a file, but dataset= names a reader"
        way = f"omit {'it' if len(of_file) == 1 else 'them'}, or use the reader's settings, such as dataset.columns="
        raise ConfigError(f"golden import: {fact}; {way}")
    check_outputs([out], inputs.file, values["corpus"], *values.get("dataset", {}).values())
    if file is not None:
        imported = import_file(inputs.path, str(values["format"]), inputs.given_corpus, columns, values["encoding"])
        show_notes(imported.notes)
    else:
        imported = _import_dataset(values, out)
    with record_change(out, "import", user_name()):
        write_rows(out, imported.entries)
    print_blocks(*_blocks(imported, out, values["corpus"]))
    return 1 if imported.unfound else 0


def _check_new(path: Path, may_overwrite: object) -> None:
    if path.exists() and not may_overwrite:
        raise ConfigError(f"golden import: {path} already exists; choose another out=, or add overwrite=true")


def _import_dataset(values: Mapping[str, Any], out: Path) -> Imported:
    """Import the set of a reader; for SQuAD, whose file contains the documents, also write these next to ``out``."""
    dataset: Dataset = Builder().build(values["dataset"], "dataset").value.load()
    show_notes(dataset.notes)
    name = str(values["dataset"]["_target_"]).rpartition(".")[2].lower()
    corpus = dataset.corpus
    if name == "squad":
        documents = out.with_name(f"{out.name.removesuffix('.jsonl')}.corpus.jsonl")
        _check_new(documents, values["overwrite"])
        rows = zip(corpus.ids, corpus.titles, corpus.texts, strict=True)
        write_rows(documents, ({"id": one, "title": title, "text": text} for one, title, text in rows))
        text = f"{counted(len(corpus.ids), 'paragraph')}, in {documents}"
        print_blocks(lines(Statement("CORPUS", text, {"paragraphs": len(corpus.ids)})))
    left = (Statement("", f"{count:,} left out: {reason}") for reason, count in dataset.golden.left_out.items())
    print_blocks(paragraphs("LOST", left))
    return finish([as_entry(question) for question in dataset.golden.questions], Imported(name))


def _blocks(imported: Imported, out: Path, corpus: str | None) -> Iterator[Block]:
    lost = [
        *(_unplaced(name, count, "kept in notes") for name, count in imported.in_notes.items()),
        *(_unplaced(name, count, "left out") for name, count in imported.left.items()),
        *([f"{counted(imported.repeated, 'repeated row')}: left out"] if imported.repeated else []),
        *([f"{counted(imported.gold, 'gold question')}: silver until confirmed by a person"] if imported.gold else []),
    ]
    yield paragraphs("LOST", (Statement("", text) for text in lost))
    why = "not in the corpus" if corpus else "specify the documents with corpus=FOLDER or corpus=FILE"
    for identifier, text in imported.unfound:
        named = f'"{identifier}": {" ".join(text.split())[:80]} ({why})'
        yield lines(Statement("NOT FOUND", named, {"question": identifier}))
    rows, evidence = len(imported.entries), sum("evidence" in entry for entry in imported.entries)
    counts = {"literally": imported.exact, "nearly": imported.near, "not": len(imported.unfound)}
    found = ", ".join(f"{count:,} {how}" for how, count in counts.items() if any(counts.values()))
    texts = f"; texts: {found} found" if found else ""
    text = f"{counted(rows, 'question')} ({imported.format}) in {out}, {evidence:,} with evidence{texts}."
    yield paragraphs("RESULT", Statement("", text, {"questions": rows, "evidence": evidence, **counts}))
    if corpus:
        check = next_step("check", out, f"corpus={corpus}")
        steps = [*evidence_step(imported.entries, out, corpus), Statement(check, "list what an evaluation rejects")]
        yield Statements(steps, "commands")


def _unplaced(name: str, count: int, fate: str) -> str:
    return f"no field for {name} of {counted(count, 'row')}: {fate}"
