"""Add questions by hand: passages that a search proposes, and the entry of the one that a person takes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from ragsweep.core.errors import Faults, InputError
from ragsweep.core.identity import content_hash
from ragsweep.core.types import NO_CHUNK, Chunks, Evidence
from ragsweep.curation.entries import SCHEMA_VERSION, as_label, read_entries_with_questions
from ragsweep.curation.evidence_quotes import FEWEST_WORDS, shortest_anchor
from ragsweep.curation.extractive import LANGUAGES
from ragsweep.curation.files import write_whole
from ragsweep.parts.languages import detect_language
from ragsweep.parts.retrievers.bm25 import Bm25
from ragsweep.parts.sentences import sentences

PROPOSED = 8
"""Passages that are proposed."""


class Passage(NamedTuple):
    """A sentence of the corpus: its document's position, and where it begins and ends there."""

    document: int
    start: int
    end: int


def propose(question: str, chunks: Chunks) -> list[Passage]:
    """Return the best sentence of each of the best chunks by BM25, best chunk first, each sentence once."""
    code = detect_language(question) or detect_language(" ".join(chunks.corpus.texts)[:10_000])
    language = LANGUAGES.get(code, "none")
    best = _rank(question, [chunks.text(n) for n in range(len(chunks))], language, PROPOSED)
    found = []
    for chunk in best:
        document = int(chunks.spans.document[chunk])
        text, begin = chunks.corpus.texts[document], int(chunks.spans.start[chunk])
        found_here = sentences(text[begin : int(chunks.spans.end[chunk])], LANGUAGES.get(code, "english"))
        inside = [(begin + start, begin + end) for start, end in found_here]
        # headings, which resemble questions most, answer none
        inside = [one for one in inside if len(text[slice(*one)].split()) >= FEWEST_WORDS] or inside
        ranked = _rank(question, [text[start:end] for start, end in inside], language, 1)
        found += [Passage(document, *inside[n]) for n in ranked or range(min(1, len(inside)))]  # found by its title
    return list(dict.fromkeys(found))


def _rank(question: str, texts: Sequence[str], language: str, depth: int) -> list[int]:
    retriever = Bm25(language=language)
    positions = retriever.retrieve(retriever.build(texts), [question], depth).positions[0]
    return [int(one) for one in positions if one != NO_CHUNK]


def gold_entry(question: str, answer: str, passage: Passage, chunks: Chunks, who: str) -> dict[str, Any]:
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
    """Add an entry to a golden file, which is made where it is missing; a kill leaves the file of before or after.

    Raises InputError for faults of the file, and a question that it has.
    """
    text = ""
    if path.exists():
        faults = Faults()
        for other, question in read_entries_with_questions(path, faults):
            if other.get("question") == entry["question"]:
                raise InputError(f'{question.where}: has this question already, as "{question.id}"')
        faults.raise_any()
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".gz" or text.lstrip().startswith("["):
            raise InputError(f"{path}: to add to it, write it as plain JSON lines")
    separator = "\n" if text and not text.endswith("\n") else ""
    write_whole(path, f"{text}{separator}{json.dumps(entry, ensure_ascii=False)}\n")
