"""The data of a build's phases: sentences, candidate questions, and drafts of entries."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

Span = tuple[int, int, int]
"""Document, start and end (exclusive) in characters."""


class Sentence(NamedTuple):
    """A sentence of a document's visible text, its span in the source, and its chunk."""

    text: str
    document: int
    chunk: int
    start: int
    end: int


class Candidate(NamedTuple):
    """A question made from one or more sentences. ``answer``: verbatim, one line per sentence."""

    question: str
    answer: str
    sentences: tuple[Sentence, ...]
    pattern: str
    bloom: str
    reasoning_class: str
    subject: str = ""


@dataclass(frozen=True)
class Draft:
    """A question, its sources, and its validation.

    ``document`` and ``chunk`` are the positions of the question's source; None for a question about nothing in
    the corpus. ``answer`` has one line per sentence of evidence. ``status`` is empty before the validation.
    """

    question: str
    language: str
    generator: str
    pattern: str
    answer: str = ""
    subject: str = ""
    document: int | None = None
    chunk: int | None = None
    evidence: tuple[Span, ...] = ()
    explanation: str = ""
    question_type: str = ""
    bloom: str = ""
    reasoning_class: str = ""
    unanswerable_type: str = ""
    checked: str = ""
    status: str = ""
    method: str = ""
    score: float = 0.0
    reason: str = ""

    @property
    def answerable(self) -> bool:
        """Whether the corpus has the answer."""
        return not self.unanswerable_type

    def validated(self, status: str, method: str, score: float, reason: str = "") -> Draft:
        """Return the draft with the result of its validation."""
        return replace(self, status=status, method=method, score=round(score, 6), reason=reason)

    def as_row(self) -> dict[str, Any]:
        """Return the draft in JSON types, without empty fields."""
        return {name: given for name, given in asdict(self).items() if given not in (None, "", ())}


def read_draft(row: dict[str, Any]) -> Draft:
    """Read a draft from its row."""
    return Draft(**row | {"evidence": tuple(tuple(span) for span in row.get("evidence", ()))})


def chance(seed: int, text: str) -> str:
    """Return a text's sort key in a random order that depends only on the seed, not on the other texts."""
    return hashlib.sha256(f"{seed}\0{text}".encode()).hexdigest()
