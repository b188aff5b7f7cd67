"""Data that the phases of a build exchange: sentences, drafts and sources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

from ragsweep.core.types import Corpus, Spans
from ragsweep_golden.evidence.quotes import rank_by_language
from ragsweep_golden.gates.subject import chunk_texts, touching

LISTED = 50  # number of chunks in the BM25 ranking of a question
Span = tuple[int, int, int]  # index of a document, start and end (exclusive) in characters


class Sentence(NamedTuple):
    """A sentence of a document, without markup.

    ``document`` and ``chunk`` are the indices of its document and of the first chunk that contains the sentence.
    ``start`` and ``end`` are its span in the source text of the document.
    """

    text: str
    document: int
    chunk: int
    start: int
    end: int

    def draft(self, question: str, answer: str, pattern: str, bloom: str, reasoning_class: str, subject: str) -> Draft:
        """Return the draft of a question that a rule made from this sentence; ``language`` is left empty."""
        place = self.document, self.start, self.end
        made = Draft(question, "", "rule", pattern, answer, subject, self.document, self.chunk, (place,), self.text)
        return replace(made, bloom=bloom, reasoning_class=reasoning_class)


@dataclass(frozen=True)
class Draft:
    """A question with its source and, once it has been validated, the result of the validation.

    ``document`` and ``chunk`` are the indices of the source, or None if the question has no source in the corpus. An
    ``answer`` made by rule has one line per sentence of evidence. ``pattern`` is the name of the rule or, if a model
    wrote the question, the config key of the prompt. ``subject`` is the phrase that the question is about, or "" if the
    rule does not capture it. ``status`` is empty before the validation. ``reason`` is the reason for a rejection.
    ``checked`` is the reason why the corpus does not answer an unanswerable question.
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
        """Whether the corpus should answer the question, that is, whether the question has no ``unanswerable_type``."""
        return not self.unanswerable_type

    def validated(self, status: str, method: str, score: float, reason: str = "") -> Draft:
        """Return a copy of the draft with the result of its validation; the score is rounded to 6 decimal places."""
        return replace(self, status=status, method=method, score=round(score, 6), reason=reason)

    def as_row(self) -> dict[str, Any]:
        """Return the draft as a dict for JSON, without fields that are None or empty."""
        return {name: given for name, given in asdict(self).items() if given not in (None, "", ())}


def read_draft(row: dict[str, Any]) -> Draft:
    """Return the draft for a row that ``Draft.as_row`` returned, directly or read back from JSON."""
    return Draft(**row | {"evidence": tuple(tuple(span) for span in row.get("evidence", ()))})


class Stratum(NamedTuple):
    """A group of documents: its name, its priority (1 is the highest), its number of chunks, and its quota.

    ``quota`` is the number of answerable questions that are allocated to the stratum.
    """

    name: str
    priority: int
    chunks: int
    quota: int = 0


@dataclass(frozen=True)
class Sources:
    """The data from which entries are made: the corpus, its chunks (``spans``), the strata, and the build's seed."""

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
        """The document index of each chunk."""
        return [int(document) for document in self.spans.document]

    def chunk_id(self, chunk: int) -> str:
        """Return the id of a chunk, ``DOCUMENT#N``, where N is the index of the chunk in its document, from 0."""
        document = self.documents[chunk]
        return f"{self.corpus.ids[document]}#{chunk - int(self.spans.document.searchsorted(document))}"

    def chunks_of(self, draft: Draft) -> list[int]:
        """Return the indices of the chunks that overlap the evidence of a draft, each once.

        If no chunk overlaps the evidence, return only the index of the chunk from which the draft was made, or [] if
        there is no such chunk.
        """
        found = [chunk for span in draft.evidence for chunk in touching(self.spans, *span)]
        return list(dict.fromkeys(found)) or ([] if draft.chunk is None else [draft.chunk])

    def context(self, draft: Draft) -> str:
        """Return the texts of the chunks of a draft (see ``chunks_of``), joined by line breaks."""
        return "\n".join(self.passages[chunk] for chunk in self.chunks_of(draft))

    def rank(self, drafts: Sequence[Draft], texts: Sequence[str]) -> list[list[int]]:
        """Return the indices of the LISTED best chunks by BM25 for each draft; ``texts`` are the drafts' queries."""
        return rank_by_language(texts, [one.language for one in drafts], self.passages, LISTED)
