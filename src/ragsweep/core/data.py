"""Data between the stages: corpus, questions, chunks, rankings, scores. Import it from `types`."""

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
"""Padding of a ranking that is shorter than its depth."""


# --- corpus and questions ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Corpus:
    """The documents, in the order of their file.

    A document is a title (may be empty) and a text; character spans always refer to the text. The title is prepended to
    every chunk of its document. ``page_starts``: id of a paged document -> the start of each page in its text.
    """

    ids: Sequence[str]
    titles: Sequence[str]
    texts: Sequence[str]
    version: str = ""  # as its source states it
    page_starts: Mapping[str, Sequence[int]] = field(default_factory=dict)

    @cached_property
    def position(self) -> Mapping[str, int]:
        """The position of each document by its id."""
        return {identifier: n for n, identifier in enumerate(self.ids)}

    @cached_property
    def characters(self) -> int:
        """The number of characters of all texts, as a measure of the work."""
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
    labels: Mapping[str, str] = field(default_factory=dict)  # results are grouped by these: language, product
    distractors: tuple[str, ...] = ()  # documents similar to the relevant ones, but wrong
    section: str = ""  # heading of the section that contains the answer
    expected_count: int | None = None  # number of results that a search should return
    notes: str = ""
    history: tuple[Turn, ...] = ()  # the conversation so far; query= in the config decides how it is used
    query: str = ""  # the search query, if it differs from the text
    fields: Mapping[str, Any] = field(default_factory=dict)  # fields of a task's case for its metrics, as JSON values
    weight: float | None = None  # frequency in any unit (share of the traffic, count); set for all questions or none
    where: str = field(default="", compare=False)

    @property
    def expected(self) -> tuple[str, ...]:
        """The correct answers; without any, the keywords as one answer; empty without either."""
        return self.references or ((", ".join(self.keywords),) if self.keywords else ())


@dataclass(frozen=True)
class GoldenSet:
    """The questions of one evaluation, and the counts of omitted ones by reason."""

    questions: tuple[Question, ...]
    left_out: Mapping[str, int] = field(default_factory=dict)
    repeated_passages: bool = False  # an anchor also marks its occurrences in other documents

    @cached_property
    def digest(self) -> str:
        """The hash of the questions with their evidence, answers, labels and, if they differ, weights.

        Expectations and notes are excluded. Only ratios of weights count, to nine digits.
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
        """The hash of the expectations beyond labels: distractors, sections and counts, which few metrics read."""
        counts = [[] if q.expected_count is None else [q.expected_count] for q in self.questions]
        return content_hash([[q.id, q.distractors, q.section, *counts[n]] for n, q in enumerate(self.questions)])


def weights_of(questions: Sequence[Question]) -> list[float] | None:
    """Return the weights of questions; None where all weights are equal."""
    weights = [1.0 if question.weight is None else question.weight for question in questions]
    return weights if len(set(weights)) > 1 else None


def effective_number(weights: Sequence[float]) -> float:
    """Return the effective number of weighted questions: (sum w)^2 / sum w^2 (Kish 1965, section 8.2)."""
    return sum(weights) ** 2 / sum(weight * weight for weight in weights)


def describe_weights(weights: Sequence[float]) -> str:
    """Describe the effective number of weighted questions: ``180 questions count as 96``."""
    return f"weighted: {len(weights):,} questions count as {effective_number(weights):,.0f}"


class Division(NamedTuple):
    """The side of a partition that a golden set's questions belong to."""

    name: str  # "tune" or "holdout"
    digest: str  # of the partition: the side of every question
    whole: str  # digest of the golden set that was divided
    held: tuple[str, ...] = ()  # a short digest of each holdout question, for either side


@dataclass(frozen=True)
class Dataset:
    """A corpus and the golden set that belongs to it."""

    name: str
    corpus: Corpus
    golden: GoldenSet
    notes: tuple[str, ...] = ()  # notes for the user on how it was read
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
        """Return the indexed text: the document's title, if any, and the span."""
        document = int(self.spans.document[position])
        body = self.corpus.texts[document][int(self.spans.start[position]) : int(self.spans.end[position])]
        title = self.corpus.titles[document]
        return f"{title} {body}" if title else body


class Embeddings(NamedTuple):
    """Vectors of all chunks (chunks, dimension), each chunk's number of tokens, and the number that the model read."""

    vectors: Floats
    tokens: Integers
    tokens_read: Integers


class TokenVectors(NamedTuple):
    """Vectors of the individual tokens of all chunks: chunk n has ``vectors[start[n]:start[n + 1]]``.

    ``vectors`` is float16, (tokens, dimension); ``start`` is (chunks + 1,).
    """

    vectors: NDArray[np.float16]
    start: NDArray[np.int64]

    def of(self, position: int) -> NDArray[np.float16]:
        """Return the vectors of one chunk, (its tokens, dimension)."""
        return self.vectors[self.start[position] : self.start[position + 1]]


class Rankings(NamedTuple):
    """The chunks found for all questions under one config: best first, unique, ties by chunk position, padded with -1.

    ``positions`` int32 and ``scores`` float32 are (questions, depth); ``chunks`` is the address of the chunking that
    the positions refer to. Padding has the score -inf, or NaN for a question whose search failed.
    """

    positions: Integers
    scores: Floats
    chunks: str = ""

    def first(self, length: int) -> Rankings:
        """Return the rankings cut to their first ``length`` ranks."""
        return Rankings(self.positions[:, :length], self.scores[:, :length], self.chunks)

    @property
    def failed(self) -> NDArray[np.bool_]:
        """Flags of the questions without a ranking because their search failed (questions,)."""
        return np.asarray(((self.positions == NO_CHUNK) & np.isnan(self.scores)).any(axis=1))


class IndexComparison(NamedTuple):
    """Results of a leg's approximate index and of exact search; ranks are per piece of evidence."""

    found: Rankings
    exact: Rankings
    found_rank: NDArray[np.int64]  # (pieces,), as in EvaluationView.first_rank
    exact_rank: NDArray[np.int64]


# --- scoring -------------------------------------------------------------------------------------------------------


class Scores(NamedTuple):
    """One metric for every question: NaN where it could not be measured, with a reason there (else an empty string)."""

    values: NDArray[np.float64]
    reasons: NDArray[np.str_]


@dataclass(frozen=True)
class EvaluationView:
    """Input of a metric: one config's rankings, and the evidence that they cover, for all questions.

    Evidence arrays run over the pieces of evidence of all questions (relevant ones only, grade > 0). ``first_rank`` is
    the first 1-based rank whose chunk covers the piece, 0 if none does. ``credited_rank`` differs from it only where
    one chunk covers several pieces: these are spread over following ranks, one per rank, so that no list beats the
    ideal one.
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
    context_evidence_tokens: NDArray[np.int64]  # (questions, top_k): the number of these inside evidence
    latency: Mapping[str, NDArray[np.float64]]  # stage -> seconds per question, NaN if not probed
    approximate: Mapping[str, IndexComparison]  # by leg; only legs with an approximate index
    context_length: NDArray[np.int64] | None = None  # (questions,): number of chunks; None without a token budget
    answers: Answers | None = None  # None where the config names no generator
    judgements: Mapping[str, Sequence[Judgement]] = field(default_factory=dict)  # judged metric -> one per question
    routes: Sequence[Route] | None = None  # one per question; None without a router
    chunks: Chunks | None = None  # the chunking that was searched, with its corpus
    queries: Sequence[Answer] | None = None  # one per question: the written query; None without a query writer
    output: OutputReader | None = None  # reads answers for the metrics of a task

    @property
    def context(self) -> Integers:
        """The chunks of the context (questions, top_k), padded."""
        positions = self.rankings.positions[:, : self.top_k]
        if self.context_length is None:
            return positions
        inside = np.arange(positions.shape[1]) < self.context_length[:, None]
        return np.where(inside, positions, np.int32(NO_CHUNK))
