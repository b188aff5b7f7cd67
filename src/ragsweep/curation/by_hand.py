"""Add questions by hand: passages that a search proposes, and the entry of the one that a person takes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from ragsweep.core.errors import Faults, InputError
from ragsweep.core.identity import content_hash
from ragsweep.core.types import Chunks, Evidence, Question
from ragsweep.curation.entries import SCHEMA_VERSION, as_label, read_entries_with_questions
from ragsweep.curation.evidence_quotes import shortest_anchor
from ragsweep.curation.files import write_whole
from ragsweep.curation.ranking import best_sentence, rank_texts
from ragsweep.parts.languages import detect_language

PROPOSED = 8
"""Passages that are proposed."""


class SentenceSpan(NamedTuple):
    """A sentence of the corpus: its document's position, and where it begins and ends there."""

    document: int
    start: int
    end: int


def propose(question: str, chunks: Chunks) -> list[SentenceSpan]:
    """Return the best sentence of each of the best chunks by BM25, best chunk first, each sentence once."""
    return propose_all([question], chunks, PROPOSED)[0]


def propose_all(questions: Sequence[str], chunks: Chunks, count: int) -> list[list[SentenceSpan]]:
    """Return for each question what ``propose`` does, of ``count`` chunks; all texts are indexed once a language."""
    usual = detect_language(" ".join(chunks.corpus.texts)[:10_000])
    codes = [detect_language(question) or usual for question in questions]
    texts = [chunks.text(n) for n in range(len(chunks))]
    found: list[list[SentenceSpan]] = [[] for _ in questions]
    for code in dict.fromkeys(codes):
        asked = [n for n, one in enumerate(codes) if one == code]
        ranked = rank_texts([questions[n] for n in asked], texts, code, count)
        for n, best in zip(asked, ranked, strict=True):
            found[n] = list(dict.fromkeys(filter(None, (_best_of(questions[n], one, chunks, code) for one in best))))
    return found


def _best_of(question: str, chunk: int, chunks: Chunks, code: str) -> SentenceSpan | None:
    document = int(chunks.spans.document[chunk])
    place = int(chunks.spans.start[chunk]), int(chunks.spans.end[chunk])
    best = best_sentence(question, chunks.corpus.texts[document], place, code)
    return SentenceSpan(document, *best) if best else None


def gold_entry(question: str, answer: str, passage: SentenceSpan, chunks: Chunks, who: str) -> dict[str, Any]:
    """Return the entry of a question whose evidence a person took."""
    corpus, (document, begin, end) = chunks.corpus, passage
    text = corpus.texts[document]
    anchor, start = shortest_anchor(text, begin, end)
    evidence = [as_label(Evidence(corpus.ids[document], anchor, start))]
    when = datetime.now(UTC).isoformat(timespec="seconds")
    return {
        "schema_version": SCHEMA_VERSION,
        "id": content_hash([question, evidence])[:16],
        "question": question,
        **({"reference": answer} if answer else {}),
        "evidence": evidence,
        "content": {"explanation": text[begin:end].strip()},
        "validation": {"status": "validated", "method": "person", "score": 1, "corpus_digest": corpus.digest},
        "audit": {
            "status": "gold",
            "created_by": who,
            "reviews": [{"who": who, "when": when, "what": "wrote the question and took its evidence"}],
        },
    }


def append_entry(path: Path, entry: dict[str, Any]) -> None:
    """Add an entry to a golden file as ``append_entries`` does. Raises InputError also for a question that it has."""
    if path.exists():
        for other, question in _read_file(path):
            if other.get("question") == entry["question"]:
                raise InputError(f'{question.where}: has this question already, as "{question.id}"')
    append_entries(path, [entry])


def append_entries(path: Path, entries: Sequence[dict[str, Any]]) -> None:
    """Add entries to a golden file, which is made where it is missing; a kill leaves the file of before or after.

    Raises InputError for faults of the file.
    """
    text = ""
    if path.exists():
        _read_file(path)
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".gz" or text.lstrip().startswith("["):
            raise InputError(f"{path}: to add to it, write it as plain JSON lines")
    separator = "\n" if text and not text.endswith("\n") else ""
    lines = "".join(json.dumps(entry, ensure_ascii=False) + "\n" for entry in entries)
    write_whole(path, f"{text}{separator}{lines}")


def _read_file(path: Path) -> list[tuple[dict[str, Any], Question]]:
    faults = Faults()
    read = read_entries_with_questions(path, faults)
    faults.raise_any()
    return read
