"""Data between the stages: corpus, questions, chunks, rankings, scores. Import these classes from `types`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.answers import Answer, Answers, Judgement, Route, Turn
from ragsweep.core.identity import content_hash, texts_hash

if TYPE_CHECKING:
    from ragsweep.core.types import OutputReader

Floats = NDArray[np.float32]
Integers = NDArray[np.int32]
Arrays = Mapping[str, NDArray[Any]]
"""The result of a stage: named arrays only, so that it can be stored without pickle."""

NO_CHUNK = -1
"""Position that pads a ranking with fewer chunks than its depth."""


# --- corpus and questions ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Corpus:
    """The documents, in the order in which they were read.

    A document has a title (may be empty) and a text; character spans always refer to the text. The title is prepended
    to each chunk of the document. ``page_starts``: id of a paged document -> the start of each page in its text.
    """

    ids: Sequence[str]
    titles: Sequence[str]
    texts: Sequence[str]
    version: str = ""  # as the source of the documents states it
    page_starts: Mapping[str, Sequence[int]] = field(default_factory=dict)

    @cached_property
    def position(self) -> Mapping[str, int]:
        """Document id -> position of the document."""
        return {identifier: n for n, identifier in enumerate(self.ids)}

    @cached_property
    def characters(self) -> int:
        """The total number of characters in the texts, a measure of the work."""
        return sum(map(len, self.texts))

    @cached_property
    def digest(self) -> str:
        """The hash of ids, titles and texts; independent of the files' location."""
        return texts_hash(zip(self.ids, self.titles, self.texts, strict=True))


@dataclass(frozen=True)
class Evidence:
    """The location of an answer: a document and, optionally, a short quote from it (the anchor)."""

    document: str
    anchor: str | None = None
    start: int | None = None  # offset of the anchor in the text, if it occurs more than once
    grade: float = 1.0  # 0 or below: judged not relevant
    where: str = field(default="", compare=False)  # "file:line" of the label, for messages


@dataclass(frozen=True)
class Question:
    """One entry of the golden set."""

    id: str
    text: str
    category: str = ""
    answerable: bool = True
    unanswerable_type: str | None = None
    needs_retrieval: bool = True  # False for conversation
    references: tuple[str, ...] = ()  # alternative correct answers
    keywords: tuple[str, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)  # such as language, product; results are grouped by them
    distractors: tuple[str, ...] = ()  # documents similar to the relevant ones, but wrong
    section: str = ""  # heading of the section that contains the answer
    expected_count: int | None = None  # number of results that a search should return
    notes: str = ""
    history: tuple[Turn, ...] = ()  # the conversation so far; query= in the config decides how it is used
    query: str = ""  # the search query, if it differs from the text
    fields: Mapping[str, Any] = field(default_factory=dict)  # of a task's case, as JSON values; its metrics read them
    weight: float | None = None  # frequency in any unit (share of the traffic, count); set for all or for none
    where: str = field(default="", compare=False)

    @property
    def expected(self) -> tuple[str, ...]:
        """The reference answers, else the keywords as one answer; empty if there are neither."""
        return self.references or ((", ".join(self.keywords),) if self.keywords else ())


@dataclass(frozen=True)
class GoldenSet:
    """The questions of one evaluation; ``left_out`` maps each reason to the number of questions or labels omitted."""

    questions: tuple[Question, ...]
    left_out: Mapping[str, int] = field(default_factory=dict)
    repeated_passages: bool = False  # an anchor also marks its occurrences in other documents

    @cached_property
    def digest(self) -> str:
        """The hash of ``repeated_passages`` and of the questions.

        Of a question, the notes are not hashed, nor are the distractors, the expected section and the expected count,
        which `expectations` hashes. Weights are hashed as shares of their sum, to nine digits; equal weights are not
        hashed.
        """
        weights = weights_of(self.questions)
        total = math.fsum(weights or ())
        rows = [
            [
                *(q.id, q.text, q.category, q.answerable, q.unanswerable_type, q.needs_retrieval),
                *(q.references, q.keywords),
                [[e.document, e.anchor, e.start, e.grade] for e in q.evidence],
                sorted(q.labels.items()),
                *([[[turn.role, turn.text] for turn in q.history]] if q.history else []),
                *([{"weight": f"{weights[n] / total:.9g}"}] if weights else []),
                *([{"query": q.query, "fields": q.fields}] if q.query or q.fields else []),
            ]
            for n, q in enumerate(self.questions)
        ]
        return content_hash([rows, self.repeated_passages])

    @cached_property
    def expectations(self) -> str:
        """The hash of what only a few metrics read: distractors, expected sections and expected counts."""
        counts = [[] if q.expected_count is None else [q.expected_count] for q in self.questions]
        return content_hash([[q.id, q.distractors, q.section, *counts[n]] for n, q in enumerate(self.questions)])


def weights_of(questions: Sequence[Question]) -> list[float] | None:
    """Return the weights of questions; None if all weights are equal."""
    weights = [1.0 if question.weight is None else question.weight for question in questions]
    return weights if len(set(weights)) > 1 else None


def effective_number(weights: Sequence[float]) -> float:
    """Return the effective number of weighted questions: (sum w)^2 / sum w^2 (Kish 1965, section 8.2)."""
    return sum(weights) ** 2 / sum(weight * weight for weight in weights)


def describe_weights(weights: Sequence[float]) -> str:
    """Describe the effective number of weighted questions: ``weighted: 180 questions count as 96``."""
    return f"weighted: {len(weights):,} questions count as {effective_number(weights):,.0f}"


class Division(NamedTuple):
    """The side of a partition that a golden set's questions belong to."""

    name: str  # "tune" or "holdout"
    digest: str  # identifies the partition, that is, the side of every question
    whole: str  # digest of the golden set that was divided
    held: tuple[str, ...] = ()  # a short digest of each holdout question, also on the tune side


@dataclass(frozen=True)
class Dataset:
    """A corpus and the golden set that belongs to it."""

    name: str
    corpus: Corpus
    golden: GoldenSet
    notes: tuple[str, ...] = ()  # for the user: how the files were read
    division: Division | None = None  # None: all questions, or the sample that the config draws
    excluded: Mapping[str, Sequence[str]] = field(default_factory=dict)  # search text -> ids of documents to
    # remove from its rankings


class Spans(NamedTuple):
    """The position of each chunk: chunk n is ``texts[document[n]][start[n]:end[n]]``. Sorted by document and start."""

    document: Integers
    start: NDArray[np.int64]
    end: NDArray[np.int64]


@dataclass(frozen=True)
class Chunks:
    """The retrieval units: spans of a corpus. ``address`` identifies the chunking."""

    corpus: Corpus
    spans: Spans
    address: str = ""

    def __len__(self) -> int:
        """Count the chunks."""
        return len(self.spans.document)

    def text(self, position: int) -> str:
        """Return a chunk's indexed text: the document's title, if any, and the text of the span."""
        document = int(self.spans.document[position])
        body = self.corpus.texts[document][int(self.spans.start[position]) : int(self.spans.end[position])]
        title = self.corpus.titles[document]
        return f"{title} {body}" if title else body


class Embeddings(NamedTuple):
    """For every chunk: its vector (a row of ``vectors``), its number of tokens, and how many of them the model read."""

    vectors: Floats
    tokens: Integers
    tokens_read: Integers


class TokenVectors(NamedTuple):
    """Vectors of the individual tokens of all chunks: chunk n has ``vectors[start[n]:start[n + 1]]``.

    ``vectors`` has the shape (tokens, dimension), ``start`` the shape (chunks + 1,).
    """

    vectors: NDArray[np.float16]
    start: NDArray[np.int64]

    def of(self, position: int) -> NDArray[np.float16]:
        """Return the vectors of the tokens of one chunk."""
        return self.vectors[self.start[position] : self.start[position + 1]]


class Rankings(NamedTuple):
    """The ranking of every question under one config: distinct chunks, best first; retrievers order ties by position.

    ``positions`` and ``scores`` have the shape (questions, depth); ``chunks`` is the address of the chunking that the
    positions refer to. A short ranking is padded with -1, whose score is -inf, or NaN if the question's search failed.
    """

    positions: Integers
    scores: Floats
    chunks: str = ""

    def first(self, length: int) -> Rankings:
        """Return the rankings cut to their first ``length`` ranks."""
        return Rankings(self.positions[:, :length], self.scores[:, :length], self.chunks)

    @property
    def failed(self) -> NDArray[np.bool_]:
        """For each question, whether its search failed (questions,)."""
        return np.asarray(((self.positions == NO_CHUNK) & np.isnan(self.scores)).any(axis=1))


class IndexComparison(NamedTuple):
    """What a leg's approximate index and an exact search found, and the rank of each piece of evidence in both."""

    found: Rankings
    exact: Rankings
    found_rank: NDArray[np.int64]  # (pieces,), as in EvaluationView.first_rank
    exact_rank: NDArray[np.int64]


# --- scoring -------------------------------------------------------------------------------------------------------


class Scores(NamedTuple):
    """A metric's value and reason for every question: NaN and why it was not measured, or a value and an empty text."""

    values: NDArray[np.float64]
    reasons: NDArray[np.str_]


@dataclass(frozen=True)
class EvaluationView:
    """Input of a metric: one config's rankings, the evidence that they cover, and its answers, for all questions.

    Evidence arrays run over the relevant pieces of evidence (grade > 0) of all questions. ``first_rank`` is the first
    rank, from 1, whose chunk covers the piece; 0 if no chunk does. ``credited_rank`` is the same, unless one chunk
    covers several pieces of a question: then they are credited at its rank and the ranks after it, one piece per rank,
    which may push later pieces down. So no ranking beats the ideal one (see ``evidence.credit``).
    """

    questions: Sequence[Question]
    rankings: Rankings  # after fusion and reranking, to full depth
    top_k: int  # the first top_k chunks are the context
    evidence_question: NDArray[np.int64]  # the index of each piece's question
    grade: NDArray[np.float64]
    first_rank: NDArray[np.int64]
    credited_rank: NDArray[np.int64]
    evidence_covered: NDArray[np.float64]  # share of the piece's characters that are in the context
    context_relevant: NDArray[np.bool_]  # (questions, top_k): the chunk covers a piece of the question's evidence
    context_tokens: NDArray[np.int64]  # (questions, top_k), by the fixed tokenizer; 0 where padded
    context_evidence_tokens: NDArray[np.int64]  # (questions, top_k): how many of those are inside evidence
    latency: Mapping[str, NDArray[np.float64]]  # stage -> seconds of each question, NaN if not probed
    approximate: Mapping[str, IndexComparison]  # by leg; only legs with an approximate index
    context_length: NDArray[np.int64] | None = None  # (questions,), in chunks; None without a token budget
    answers: Answers | None = None  # None if the config has no generator and no system that answers
    judgements: Mapping[str, Sequence[Judgement]] = field(default_factory=dict)  # judged metric -> one per question
    routes: Sequence[Route] | None = None  # one per question; None without a router
    chunks: Chunks | None = None  # the chunking that was searched, with its corpus
    queries: Sequence[Answer] | None = None  # one per question: the written query; None without a query writer
    output: OutputReader | None = None  # reads answers for the metrics of a task

    @property
    def context(self) -> Integers:
        """The positions of the chunks in each context (questions, top_k), padded with -1."""
        positions = self.rankings.positions[:, : self.top_k]
        if self.context_length is None:
            return positions
        inside = np.arange(positions.shape[1]) < self.context_length[:, None]
        return np.where(inside, positions, np.int32(NO_CHUNK))
