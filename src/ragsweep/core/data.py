"""The data that stages exchange: corpus, questions, chunks, rankings, scores. Import these classes from `types`."""

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
"""The result of a stage: a mapping of names to arrays that can be stored without pickle."""

NO_CHUNK = -1
"""The position that pads a short ranking to the full depth."""


# --- corpus and questions ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Corpus:
    """The documents, in the order in which they were read.

    A document has a title, which may be empty, and a text; character spans always refer to the text. The title is
    prepended to each chunk of the document. ``page_starts`` maps the id of a document with pages to the start of each
    page in its text.
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
        """The total number of characters in the texts, for estimates of a stage's duration."""
        return sum(map(len, self.texts))

    @cached_property
    def digest(self) -> str:
        """The hash of the documents' ids, titles and texts, independent of the location of the files."""
        return texts_hash(zip(self.ids, self.titles, self.texts, strict=True))


@dataclass(frozen=True)
class Evidence:
    """The location of an answer: a document and, optionally, a short quote from it (the anchor)."""

    document: str
    anchor: str | None = None
    start: int | None = None  # offset of the anchor, set if the text contains it more than once
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
    labels: Mapping[str, str] = field(default_factory=dict)  # such as language or product, to group results by
    distractors: tuple[str, ...] = ()  # documents similar to the relevant ones, but wrong
    section: str = ""  # heading of the section that contains the answer
    expected_count: int | None = None  # number of results that a search should return
    notes: str = ""
    history: tuple[Turn, ...] = ()  # the conversation so far; query= in the config determines its use
    query: str = ""  # the search query, if it differs from the text
    fields: Mapping[str, Any] = field(default_factory=dict)  # other fields, JSON values, for the metrics of a task
    weight: float | None = None  # frequency in any unit (share of the traffic, count); set for all questions or none
    where: str = field(default="", compare=False)

    @property
    def relevant(self) -> tuple[Evidence, ...]:
        """The evidence with a grade above 0."""
        return tuple(evidence for evidence in self.evidence if evidence.grade > 0)

    @property
    def expected(self) -> tuple[str, ...]:
        """The reference answers, else the keywords joined into a single answer; () if the question has neither."""
        return self.references or ((", ".join(self.keywords),) if self.keywords else ())


@dataclass(frozen=True)
class GoldenSet:
    """The questions of an evaluation; ``left_out``: reason -> number of questions or labels omitted for this reason."""

    questions: tuple[Question, ...]
    left_out: Mapping[str, int] = field(default_factory=dict)
    repeated_passages: bool = False  # an anchor also marks its occurrences in other documents

    @cached_property
    def digest(self) -> str:
        """The hash of ``repeated_passages`` and of the questions, in order.

        The hash excludes the notes of the questions. It also excludes their distractors, expected sections and expected
        counts, which `expectations` hashes. Weights are hashed as shares of their sum, to nine significant digits,
        unless all weights are equal.
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
        """The hash of the fields that only a few metrics read: distractors, expected sections and expected counts."""
        counts = [[] if q.expected_count is None else [q.expected_count] for q in self.questions]
        return content_hash([[q.id, q.distractors, q.section, *counts[n]] for n, q in enumerate(self.questions)])


def weights_of(questions: Sequence[Question]) -> list[float] | None:
    """Return the weights of questions, 1 for a question without a weight; None if all weights are equal."""
    weights = [1.0 if question.weight is None else question.weight for question in questions]
    return weights if len(set(weights)) > 1 else None


def effective_number(weights: Sequence[float]) -> float:
    """Return the effective sample size of weighted questions: (sum w)^2 / sum w^2 (Kish 1965, section 8.2)."""
    return sum(weights) ** 2 / sum(weight * weight for weight in weights)


def describe_weights(weights: Sequence[float]) -> str:
    """Return the effective sample size of weighted questions as text: ``weighted: 180 questions count as 96``."""
    return f"weighted: {len(weights):,} questions count as {effective_number(weights):,.0f}"


class Division(NamedTuple):
    """The side of a divided golden set (tune or holdout) from which a dataset's questions come."""

    name: str  # "tune" or "holdout"
    digest: str  # identifies the division of the questions between the two sides
    whole: str  # digest of the golden set that was divided
    held: tuple[str, ...] = ()  # a short digest of each holdout question; also set for tune


@dataclass(frozen=True)
class Dataset:
    """A corpus and the golden set that belongs to it."""

    name: str
    corpus: Corpus
    golden: GoldenSet
    notes: tuple[str, ...] = ()  # for the user: how the files were read
    division: Division | None = None  # None: all questions, or the sample that the config draws
    excluded: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Search text -> ids of the documents to remove from the ranking for this text."""


class Spans(NamedTuple):
    """The spans of all chunks, sorted by document and start: chunk n is ``texts[document[n]][start[n]:end[n]]``."""

    document: Integers
    start: NDArray[np.int64]
    end: NDArray[np.int64]


@dataclass(frozen=True)
class Chunks(Sequence[str]):
    """The chunks of a corpus: the units that are retrieved. ``address`` identifies the result of the chunking.

    As a sequence, the chunks are their indexed texts. The texts are created on access, to save memory.
    """

    corpus: Corpus
    spans: Spans
    address: str = ""

    def __len__(self) -> int:
        """Return the number of chunks."""
        return len(self.spans.document)

    def __getitem__(self, item: Any) -> Any:
        """Return one text, or a list of texts for a slice; raises IndexError for an index out of range."""
        numbers = range(len(self))[item]
        return list(map(self.text, numbers)) if isinstance(numbers, range) else self.text(numbers)

    def text(self, position: int) -> str:
        """Return the indexed text of the chunk at a position: the document's title, if any, and the span's text."""
        document = int(self.spans.document[position])
        body = self.corpus.texts[document][int(self.spans.start[position]) : int(self.spans.end[position])]
        title = self.corpus.titles[document]
        return f"{title} {body}" if title else body


class Embeddings(NamedTuple):
    """The vectors of chunks (chunks, dimension), and the numbers of tokens and of embedded tokens per chunk."""

    vectors: Floats
    tokens: Integers
    tokens_read: Integers


class TokenVectors(NamedTuple):
    """The vectors of the tokens of all chunks; chunk n has the vectors ``vectors[start[n]:start[n + 1]]``.

    ``vectors`` has the shape (tokens, dimension), ``start`` the shape (chunks + 1,).
    """

    vectors: NDArray[np.float16]
    start: NDArray[np.int64]

    def of(self, position: int) -> NDArray[np.float16]:
        """Return the token vectors of the chunk at a position (tokens, dimension)."""
        return self.vectors[self.start[position] : self.start[position + 1]]


class Rankings(NamedTuple):
    """The rankings of all questions under one config: distinct chunks, best first; retrievers order ties by position.

    ``positions`` and ``scores`` have the shape (questions, depth); ``chunks`` is the address of the chunking to which
    the positions refer. A short ranking is padded with the position -1 and the score -inf or, if the search for the
    question failed, NaN.
    """

    positions: Integers
    scores: Floats
    chunks: str = ""

    def first(self, length: int) -> Rankings:
        """Return the first ``length`` ranks of every ranking."""
        return Rankings(self.positions[:, :length], self.scores[:, :length], self.chunks)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """The number of chunks in each ranking (questions,)."""
        return np.asarray(np.count_nonzero(self.positions != NO_CHUNK, axis=1), dtype=np.int64)

    @property
    def failed(self) -> NDArray[np.bool_]:
        """Flags (questions,) that mark the questions whose search failed."""
        is_padding = self.positions == NO_CHUNK
        if not is_padding.any():
            return np.zeros(len(is_padding), dtype=bool)
        return np.asarray((is_padding & np.isnan(self.scores)).any(axis=1))


class IndexComparison(NamedTuple):
    """One leg's rankings by its approximate index (``found``) and by exact search, and the evidence ranks in both."""

    found: Rankings
    exact: Rankings
    found_rank: NDArray[np.int64]  # (pieces,), as in EvaluationView.first_rank
    exact_rank: NDArray[np.int64]


# --- scoring -------------------------------------------------------------------------------------------------------


class Scores(NamedTuple):
    """A metric's value and reason for every question (questions,): a value and "", or NaN and a reason."""

    values: NDArray[np.float64]
    reasons: NDArray[np.str_]


@dataclass(frozen=True)
class EvaluationView:
    """The input of a metric: the rankings, covered evidence and answers of one config for all questions.

    The evidence arrays have one element per relevant piece of evidence (grade > 0) of all questions. ``first_rank`` is
    the first rank, from 1, whose chunk covers the piece; 0 if no chunk covers it. ``credited_rank`` equals
    ``first_rank`` unless one chunk covers several pieces of a question. In that case, the pieces are credited at
    successive ranks, starting at the chunk's rank, so that no ranking scores higher than the ideal ranking (see
    ``evidence.credit``). Pieces that later chunks cover may therefore be credited later, too.
    """

    questions: Sequence[Question]
    rankings: Rankings  # after fusion and reranking, to full depth
    chunks: Chunks  # the chunking that was searched, with its corpus
    top_k: int  # the context is the first top_k chunks, or fewer with a token budget
    evidence_question: NDArray[np.int64]  # the index of each piece's question
    grade: NDArray[np.float64]
    first_rank: NDArray[np.int64]
    credited_rank: NDArray[np.int64]
    evidence_covered: NDArray[np.float64]  # share of the piece's characters that are in the context
    context_relevant: NDArray[np.bool_]  # (questions, top_k): the chunk covers a piece of the question's evidence
    context_tokens: NDArray[np.int64]  # (questions, top_k), by the fixed tokenizer; 0 where padded
    context_evidence_tokens: NDArray[np.int64]  # (questions, top_k): how many of these tokens are in evidence
    latency: Mapping[str, NDArray[np.float64]]  # stage -> seconds of each question, NaN if not probed
    approximate: Mapping[str, IndexComparison]  # by leg; only legs with an approximate index
    context_length: NDArray[np.int64] | None = None  # (questions,), in chunks; None if there is no token budget
    answers: Answers | None = None  # None if the config has no generator and no system that answers
    judgements: Mapping[str, Sequence[Judgement]] = field(default_factory=dict)  # judged metric -> one per question
    routes: Sequence[Route] | None = None  # one per question; None if there is no router
    queries: Sequence[Answer] | None = None  # one per question: the written query; None if there is no query writer
    output: OutputReader | None = None  # reads answers for the metrics of a task

    @property
    def context(self) -> Integers:
        """The positions of the chunks in the context of each question (questions, top_k), padded with -1."""
        positions = self.rankings.positions[:, : self.top_k]
        if self.context_length is None:
            return positions
        inside = np.arange(positions.shape[1]) < self.context_length[:, None]
        return np.where(inside, positions, np.int32(NO_CHUNK))
