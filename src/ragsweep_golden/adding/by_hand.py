"""Add questions by hand: propose passages by a search, and make the entry with the chosen passage."""

import shlex
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ragsweep.core.errors import InputError
from ragsweep.core.identity import content_hash
from ragsweep.core.types import Chunks, Evidence, Question
from ragsweep.parts.languages import detect_language
from ragsweep_golden.evidence.locating import Place, quote
from ragsweep_golden.evidence.quotes import best_sentence, rank_by_language
from ragsweep_golden.sets.entries import SCHEMA_VERSION, as_label, lacks_evidence, read_set
from ragsweep_golden.sets.files import json_lines, write_rows, write_whole

PROPOSED = 8  # maximum proposed passages


def propose_all(questions: Sequence[str], chunks: Chunks, count: int) -> list[list[Place]]:
    """Return for each question the best sentence of each of its ``count`` best chunks by BM25, if any chunk matches."""
    usual = detect_language(" ".join(chunks.corpus.texts)[:10_000])
    codes = [detect_language(question) or usual for question in questions]
    ranked = rank_by_language(questions, codes, [chunks.text(n) for n in range(len(chunks))], count)

    def sentence(question: str, chunk: int, code: str) -> Place | None:
        document = int(chunks.spans.document[chunk])
        place = int(chunks.spans.start[chunk]), int(chunks.spans.end[chunk])
        best = best_sentence(question, chunks.corpus.texts[document], place, code)
        return Place(document, *best) if best else None

    return [
        list(dict.fromkeys(filter(None, (sentence(question, chunk, code) for chunk in best))))
        for question, code, best in zip(questions, codes, ranked, strict=True)
    ]


def gold_entry(question: str, answer: str, passage: Place, chunks: Chunks, who: str) -> dict[str, Any]:
    """Return the gold entry of a question with the ``passage`` that the person ``who`` chose; ``answer`` may be ""."""
    corpus = chunks.corpus
    evidence = [as_label(Evidence(corpus.ids[passage.document], *quote(passage, question, answer, corpus)))]
    explanation = corpus.texts[passage.document][passage.start : passage.end].strip()
    when = datetime.now(UTC).isoformat(timespec="seconds")
    review = {"who": who, "when": when, "what": "took the evidence"}
    return {
        "schema_version": SCHEMA_VERSION,
        "id": content_hash([question, evidence])[:16],
        "question": question,
        **({"reference": answer} if answer else {}),
        "evidence": evidence,
        "content": {"explanation": explanation},
        "validation": {"status": "validated", "method": "person", "score": 1, "corpus_digest": corpus.digest},
        "audit": {"status": "gold", "created_by": who, "reviews": [review]},
    }


def add_entry(path: Path, entry: dict[str, Any]) -> None:
    """Add an entry to a golden file, or merge it into the entry of the same question, which must lack evidence.

    Raises InputError as ``read_file`` does, and if the entry of the question has evidence or needs none.
    """
    read = read_file(path) if path.exists() else []
    for number, (other, question) in enumerate(read):
        if question.text == entry["question"]:
            if not lacks_evidence(other):
                way = "edit that entry, or rephrase the new question"
                raise InputError(f'{question.where}: already has this question, as "{question.id}"; {way}')
            earlier = (other.get("audit") or {}).get("reviews") or []
            audit = entry["audit"] | {"reviews": [*earlier, *entry["audit"]["reviews"]]}
            rows = [one for one, _ in read]
            rows[number] = other | entry | {"id": question.id, "audit": audit}
            return write_rows(path, rows)
    return append_entries(path, [entry])


def append_entries(path: Path, entries: Sequence[dict[str, Any]]) -> None:
    """Add entries at the end of a golden file atomically; a missing file is created.

    Raises InputError as ``read_file`` does.
    """
    text = ""
    if path.exists():
        read_file(path)
        text = path.read_text(encoding="utf-8")
    separator = "\n" if text and not text.endswith("\n") else ""
    write_whole(path, f"{text}{separator}{json_lines(entries)}")


def read_file(path: Path) -> list[tuple[dict[str, Any], Question]]:
    """Read the golden file to extend. Raises InputError for faults, and unless it is plain JSON lines."""
    read = read_set(path)
    try:
        is_plain = not path.read_text(encoding="utf-8-sig").lstrip().startswith("[")
    except (OSError, UnicodeDecodeError):  # Parquet, gzip, UTF-16
        is_plain = False
    if not is_plain:
        made = f"ragsweep golden verify {shlex.quote(str(path))} corpus=FOLDER out=NEW.jsonl"
        raise InputError(
            f"{path}: questions are added only to plain JSON lines in UTF-8; to convert the file, run {made}"
        )
    return read
