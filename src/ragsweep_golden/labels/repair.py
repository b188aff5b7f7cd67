"""Repair the labels that have an unambiguous place in the new corpus."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from ragsweep.core.types import Corpus, Evidence, Question
from ragsweep.golden.anchors import resolve
from ragsweep_golden.labels.changes import LabelChange, Verification
from ragsweep_golden.sets.entries import as_label, value


def repair(
    entries: Sequence[dict[str, Any]],
    questions: Sequence[Question],
    found: Verification,
    corpus: Corpus,
    old: Corpus | None,
) -> None:
    """Store the repaired labels in the entries, each with a line in the entry's changelog, ``audit.reviews``."""
    when = datetime.now(UTC).isoformat(timespec="seconds")
    changes: dict[str, list[LabelChange]] = {}
    for change in found.changes:
        changes.setdefault(change.question, []).append(change)
    for entry, question in zip(entries, questions, strict=True):
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
