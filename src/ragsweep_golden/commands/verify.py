"""``ragsweep golden verify``: check and repair labels after a change of the corpus."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ragsweep.commands.command_line import print_document
from ragsweep.commands.documents import read_documents
from ragsweep.core.plurals import counted
from ragsweep.report.document import Document, Section, Statement, Table, lines, paragraphs
from ragsweep_golden.commands.inputs import check_outputs, read_inputs, user_name, words_parser
from ragsweep_golden.labels.changes import KINDS, Verification, repair, verify_labels
from ragsweep_golden.sets.entries import as_label
from ragsweep_golden.sets.files import record_change, write_rows

_ABOUT = """List the labels that a change of the corpus moved, edited, deleted or made ambiguous; out=FILE writes the
set with the unambiguous repairs. Exit status: 0 no label needs manual repair, 1 some do, 2 bad input."""

_WORDS = """the golden file, or dataset=squad dataset.path=FILE; corpus=NEW, the current corpus; old=CORPUS, the corpus
for which the labels were written (needed for short anchors and whole documents); out=FILE"""


def verify(arguments: Sequence[str]) -> int:
    """Run ``ragsweep golden verify``; return 1 if a label needs manual repair, else 0.

    Raises RagsweepError for bad input.
    """
    parser = words_parser("verify", _ABOUT, _WORDS)
    parser.add_argument("--json", action="store_true", help="write the report to standard output as JSON")
    options, inputs = read_inputs(parser, arguments)
    check_outputs([inputs.values["out"]], inputs.values["corpus"], inputs.values["old"])
    corpus, values, given = inputs.corpus, inputs.values, inputs.read_set()
    old = read_documents(values["old"]) if values["old"] else given.own_corpus
    found = verify_labels(given.questions, corpus, old)
    if values["out"]:
        repair(given.entries, given.questions, found, corpus, old)
        out, source = Path(values["out"]).expanduser(), inputs.path if inputs.file else None
        with record_change(out, "verify", user_name(), source):
            write_rows(out, given.entries)
    counts = Counter((change.kind, change.new is not None) for change in found.changes)
    rows = [[kind, f"{counts[kind, True]:,}", f"{counts[kind, False]:,}"] for kind in KINDS]
    table = Table(["labels", ">repaired", ">need manual repair"], rows)
    places = {question.id: question.where for question in given.questions}
    section = Section([table, lines(_changes(found, places)), paragraphs("RESULT", _result(found, values["out"]))])
    facts = _facts(found, places, {"before": old.digest if old else None, "after": corpus.digest})
    print_document(Document("Labels", [section], facts), options)
    return 1 if any(change.new is None for change in found.changes) else 0


def _facts(found: Verification, places: Mapping[str, str], corpus: Mapping[str, str | None]) -> dict[str, Any]:
    changes = [
        {
            "question": change.question,
            "where": places[change.question],
            "kind": change.kind,
            "old": as_label(change.old),
            "new": as_label(change.new) if change.new else None,
            "note": change.note,
        }
        for change in found.changes
    ]
    return {
        "labels": found.labels,
        "counts": {kind: sum(change.kind == kind for change in found.changes) for kind in KINDS},
        "repaired": sum(change.new is not None for change in found.changes),
        "corpus": corpus,
        "changes": changes,
    }


def _changes(found: Verification, places: Mapping[str, str]) -> Iterator[Statement]:
    for change in found.changes:
        label = f'"{change.old.anchor}"' if change.old.anchor else "the whole document"
        where = f'{places[change.question]} "{change.question}"'
        yield Statement(change.kind, f'{where}: {label} of "{change.old.document}": {change.note}')


def _result(found: Verification, out: str | None) -> Statement:
    left = sum(change.new is None for change in found.changes)
    sure, untouched = len(found.changes) - left, found.labels - len(found.changes)
    written = f"; written to {out}" if out else "; out=FILE writes the repairs" if sure else ""
    needing = f"{left:,} {'needs' if left == 1 else 'need'} manual repair"
    text = f"{counted(found.labels, 'label')}: {untouched:,} unchanged, {sure:,} repaired, {needing}{written}."
    return Statement("", text, {"labels": found.labels, "unchanged": untouched, "repaired": sure, "left": left})
