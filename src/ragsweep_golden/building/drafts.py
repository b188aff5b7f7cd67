"""The data of a build's phases: sentences, candidate questions, drafts of entries, the sources and the wanted set."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

from ragsweep.core.types import Corpus, Spans
from ragsweep_golden.evidence.quotes import rank_by_language
from ragsweep_golden.gates.subject import chunk_texts, touching

LISTED = 50  # best chunks by BM25 that are listed for a question, to choose distractors and measure difficulty
Span = tuple[int, int, int]  # index of a document, start and end (exclusive) in characters


class Sentence(NamedTuple):
    """A sentence of a document's visible text, its span in the source, and the indices of its document and chunk."""

    text: str
    document: int
    chunk: int
    start: int
    end: int


class Candidate(NamedTuple):
    """A question made from one or more sentences. ``answer`` has one line per sentence, quoted from that sentence."""

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

    ``document`` and ``chunk`` are the indices of the question's source; None if it has no source in the corpus.
    An ``answer`` made by rule has one line per sentence of evidence. ``status`` is empty before validation. ``reason``
    says why a draft was rejected, and ``checked`` says why an unanswerable question has no answer.
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
        """Whether the corpus contains the answer."""
        return not self.unanswerable_type

    def validated(self, status: str, method: str, score: float, reason: str = "") -> Draft:
        """Return the draft with the result of its validation."""
        return replace(self, status=status, method=method, score=round(score, 6), reason=reason)

    def as_row(self) -> dict[str, Any]:
        """Return the draft in JSON types, without empty fields."""
        return {name: given for name, given in asdict(self).items() if given not in (None, "", ())}


def read_draft(row: dict[str, Any]) -> Draft:
    """Read a draft from a row that ``Draft.as_row`` returned."""
    return Draft(**row | {"evidence": tuple(tuple(span) for span in row.get("evidence", ()))})


class Stratum(NamedTuple):
    """A group of documents: its priority and its number of chunks."""

    name: str
    priority: int
    chunks: int


@dataclass(frozen=True)
class Sources:
    """The data from which entries are made: the corpus, its chunks, the strata, and the build's seed."""

    corpus: Corpus
    spans: Spans
    stratum_of: Mapping[str, str]  # document id -> name of its stratum
    strata: Mapping[str, Stratum]  # by name
    seed: int

    @cached_property
    def passages(self) -> list[str]:
        """The texts of all chunks."""
        return chunk_texts(self.corpus, self.spans)

    @cached_property
    def documents(self) -> list[int]:
        """The index of each chunk's document."""
        return [int(document) for document in self.spans.document]

    def chunk_id(self, chunk: int) -> str:
        """Return a chunk's name: its document's id, and its index within the document."""
        document = self.documents[chunk]
        return f"{self.corpus.ids[document]}#{chunk - int(self.spans.document.searchsorted(document))}"

    def chunks_of(self, draft: Draft) -> list[int]:
        """Return the indices of the chunks that overlap a draft's evidence.

        If there are none, the only index is that of the chunk from which the draft was made, if any.
        """
        found = [chunk for span in draft.evidence for chunk in touching(self.spans, *span)]
        return list(dict.fromkeys(found)) or ([] if draft.chunk is None else [draft.chunk])

    def context(self, draft: Draft) -> str:
        """Return the text of a draft's chunks."""
        return "\n".join(self.passages[chunk] for chunk in self.chunks_of(draft))

    def rank(self, drafts: Sequence[Draft], texts: Sequence[str]) -> list[list[int]]:
        """Return for each draft the indices of the LISTED best chunks by BM25 for its text in ``texts``."""
        return rank_by_language(texts, [one.language for one in drafts], self.passages, LISTED)


class WantedSet(NamedTuple):
    """The wanted composition of a set: its number of questions, and the share of unanswerable questions among them.

    ``quotas``: stratum -> number of answerable questions. ``mix``: question type -> share of the answerable questions.
    ``minimums``: unanswerable type -> minimum number of questions.
    """

    questions: int
    unanswerable: float
    quotas: Mapping[str, int]
    mix: Mapping[str, float]
    minimums: Mapping[str, int]
    seed: int


def chance(seed: int, text: str) -> str:
    """Return a key that sorts texts randomly; it depends only on the seed and the text, not on the other texts."""
    return hashlib.sha256(f"{seed}\0{text}".encode()).hexdigest()
