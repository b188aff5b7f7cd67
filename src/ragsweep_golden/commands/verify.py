"""``ragsweep golden verify``: check and repair labels after a change of the corpus."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ragsweep.commands.command_line import Parser, ignore_closed_pipe
from ragsweep.core.building import Builder
from ragsweep.core.plurals import counted
from ragsweep.core.secrets import Secrets
from ragsweep.core.types import Corpus, Evidence
from ragsweep.golden.anchors import resolve
from ragsweep.report.terminal import Terminal
from ragsweep_golden.commands.inputs import (
    Given,
    need_corpus,
    only_file,
    read_config,
    read_given_corpus,
    read_given_set,
    user_name,
)
from ragsweep_golden.labels.changes import KINDS, LabelChange, Verification, verify_labels
from ragsweep_golden.sets.changelog import record_change
from ragsweep_golden.sets.entries import as_label, value
from ragsweep_golden.sets.files import write_rows

_ABOUT = """List the labels that a change of the corpus moved, edited, deleted or made ambiguous; out=FILE writes the
set with the unambiguous repairs. Exit status: 0 no label needs a person, 1 some do, 2 bad input."""

_WORDS = """the golden file, or dataset=squad dataset.path=FILE; corpus=NEW, the current corpus; old=CORPUS, for which
the labels were written (needed for short anchors and whole documents); out=FILE"""


def verify(arguments: Sequence[str]) -> int:
    """Run ``ragsweep golden verify``; return the exit status."""
    parser = Parser("ragsweep golden verify", description=_ABOUT, allow_abbrev=False)
    parser.add_argument("words", nargs="*", metavar="FILE | KEY=VALUE", help=_WORDS)
    parser.add_argument("--json", action="store_true", help="write the report to standard output")
    options = parser.parse_intermixed_args(arguments)
    values = read_config([word for word in options.words if "=" in word], Secrets())
    corpus = need_corpus(values, "verify")
    file = only_file(options, "verify")
    given = read_given_set(file, values, Builder())
    old = read_given_corpus(values["old"]) or given.own_corpus
    found = verify_labels(given.questions, corpus, old)
    left = sum(change.new is None for change in found.changes)
    if values["out"]:
        repair(given, found, corpus, old)
        out, source = Path(values["out"]).expanduser(), Path(file).expanduser() if file else None
        with record_change(out, "verify", user_name(), source):
            write_rows(out, given.entries)
    with ignore_closed_pipe():
        if options.json:
            print(json.dumps(as_json(given, found, corpus, old), ensure_ascii=False))
        else:
            show(Terminal.current(), given, found, values["out"])
    return 1 if left else 0


def repair(given: Given, found: Verification, corpus: Corpus, old: Corpus | None) -> None:
    """Store the repaired labels in the entries, each with a line in the entry's changelog, ``audit.reviews``."""
    when = datetime.now(UTC).isoformat(timespec="seconds")
    changes: dict[str, list[LabelChange]] = {}
    for change in found.changes:
        changes.setdefault(change.question, []).append(change)
    for entry, question in zip(given.entries, given.questions, strict=True):
        for number, label in enumerate(question.evidence):
            if label in found.renumbered:
                entry["evidence"][number] |= {"start": found.renumbered[label].start}
        if entry.get("distractors"):
            entry["distractors"] = [found.renamed.get(name, name) for name in entry["distractors"]]
        stated = value(entry, "validation", "corpus_digest")
        digests = {"before": old.digest if old else stated, "after": corpus.digest}
        mine = changes.get(question.id, [])
        for change in mine:
            if change.new:
                old_label, new_label = as_label(change.old), as_label(change.new)
                entry["evidence"][change.number] = new_label
                _follow(entry, change.old, new_label, corpus, found.renamed)
                line: dict[str, Any] = {"who": "ragsweep golden verify", "when": when, "what": f"label {change.kind}"}
                line |= {"old": old_label, "new": new_label, "corpus": digests}
                audit = entry.get("audit") or {}
                entry["audit"] = audit | {"reviews": [*(audit.get("reviews") or []), line]}
        if stated and all(change.new for change in mine):
            entry["validation"] = entry["validation"] | {"corpus_digest": corpus.digest}


def _follow(
    entry: dict[str, Any], old: Evidence, new: dict[str, Any], corpus: Corpus, renamed: Mapping[str, str]
) -> None:
    """Update the provenance to the document and span of the repaired label.

    The chunk of the build keeps its number in a renamed document, and is dropped in another document.
    """
    if value(entry, "provenance", "document") != old.document:
        return
    places = resolve(corpus.texts[corpus.position[new["document"]]], str(value(entry, "content", "passage") or ""))
    start, end = places[0] if len(places) == 1 else (None, None)
    place = {"document": new["document"], "start": start, "end": end}
    chunk = entry["provenance"].get("chunk_id")
    if chunk and new["document"] != old.document:
        is_renamed = renamed.get(old.document) == new["document"]
        place["chunk_id"] = f"{new['document']}#{chunk.rpartition('#')[2]}" if is_renamed else None
    entry["provenance"] = entry["provenance"] | place


def as_json(given: Given, found: Verification, corpus: Corpus, old: Corpus | None) -> dict[str, Any]:
    """Return the report in JSON types."""
    lines = {question.id: question.where for question in given.questions}
    return {
        "labels": found.labels,
        "counts": {kind: sum(change.kind == kind for change in found.changes) for kind in KINDS},
        "repaired": sum(change.new is not None for change in found.changes),
        "corpus": {"before": old.digest if old else None, "after": corpus.digest},
        "changes": [
            {
                "question": change.question,
                "where": lines[change.question],
                "kind": change.kind,
                "old": as_label(change.old),
                "new": as_label(change.new) if change.new else None,
                "note": change.note,
            }
            for change in found.changes
        ],
    }


def show(terminal: Terminal, given: Given, found: Verification, out: str | None) -> None:
    """Print the counts by kind, then every changed label with its line in the file."""
    counts = Counter((change.kind, change.new is not None) for change in found.changes)
    rows = [[kind, f"{counts[kind, True]:,}", f"{counts[kind, False]:,}"] for kind in KINDS]
    terminal.table(["labels", ">repaired", ">need a person"], rows)
    lines = {question.id: question.where for question in given.questions}
    for change in found.changes:
        label = f'"{change.old.anchor}"' if change.old.anchor else "the whole document"
        where = f'{lines[change.question]} "{change.question}"'
        terminal.line(change.kind, f' {where}: {label} of "{change.old.document}": {change.note}')
    left = sum(change.new is None for change in found.changes)
    sure = len(found.changes) - left
    written = f"; written to {out}" if out else "; out=FILE writes them" if sure else ""
    untouched = found.labels - len(found.changes)
    needing = f"{left:,} {'needs' if left == 1 else 'need'} a person"
    facts = f"{counted(found.labels, 'label')}: {untouched:,} hold, {sure:,} repaired{written}, {needing}."
    terminal.block("RESULT", [facts])
