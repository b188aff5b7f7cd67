"""The architecture on one screen: what flows between the stages, and what a part must offer.

Data flows one way::

    dataset -> chunk -> embed -> index -> retrieve (one per leg) -> fuse -> rerank -> context -> scores

Inside, a chunk is an integer position and everything that is known of all questions is an array; ids appear only at the
edges (files, logs, errors). A part is a class with the methods of one protocol below; it knows neither graph nor store.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ragsweep.identity import content_hash, texts_hash

Floats = NDArray[np.float32]
Integers = NDArray[np.int32]
Arrays = Mapping[str, NDArray[Any]]
"""What a stage may leave behind: named arrays, nothing else, so that it can be stored without pickle."""

NO_CHUNK = -1
"""Pads a ranking that is shorter than its depth."""


# --- what is searched, and what is asked -------------------------------------------------------------------------


@dataclass(frozen=True)
class Corpus:
    """Hold the documents, in the order of their file.

    A document is a title (may be empty) and a text; character spans always refer to the text. The title is put before
    every chunk of its document, so a chunk says where it comes from.
    """

    ids: Sequence[str]
    titles: Sequence[str]
    texts: Sequence[str]
    version: str = ""

    @cached_property
    def position(self) -> Mapping[str, int]:
        """Map a document's id to its position."""
        return {identifier: n for n, identifier in enumerate(self.ids)}

    @cached_property
    def characters(self) -> int:
        """Count the characters of all texts: how much work a corpus is."""
        return sum(map(len, self.texts))

    @cached_property
    def digest(self) -> str:
        """Hash ids, titles and texts: equal content has an equal digest wherever it lies."""
        return texts_hash(zip(self.ids, self.titles, self.texts, strict=True))


@dataclass(frozen=True)
class Evidence:
    """Say where an answer stands: a document, and in it, where the answer is local, a short anchor quote."""

    document: str
    anchor: str | None = None
    start: int | None = None  # where the anchor begins in the text, for an anchor that occurs more than once
    grade: float = 1.0  # 0 and below: judged, and not relevant
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
    references: tuple[str, ...] = ()  # right answers, each by itself
    keywords: tuple[str, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)  # language ...: whatever results are grouped by
    distractors: tuple[str, ...] = ()  # documents known to look right and be wrong
    notes: str = ""
    where: str = field(default="", compare=False)

    @property
    def expected(self) -> tuple[str, ...]:
        """Return the right answers; where none is given, the keywords stand in for one."""
        return self.references or ((", ".join(self.keywords),) if self.keywords else ())


@dataclass(frozen=True)
class GoldenSet:
    """The questions of one evaluation, and a count of those left out with the reason."""

    questions: tuple[Question, ...]
    left_out: Mapping[str, int] = field(default_factory=dict)
    repeated_passages: bool = False  # an anchor found in another document too marks the same passage there

    @cached_property
    def digest(self) -> str:
        """Hash the questions and their labels: an edited golden file is another golden set."""
        rows = [
            [q.id, q.text, q.category, q.answerable, q.unanswerable_type, q.needs_retrieval, q.references, q.keywords,
             [[e.document, e.anchor, e.start, e.grade] for e in q.evidence], sorted(q.labels.items())]
            for q in self.questions
        ]  # fmt: skip
        return content_hash([rows, self.repeated_passages])


@dataclass(frozen=True)
class Dataset:
    """A corpus and the golden set that belongs to it."""

    name: str
    corpus: Corpus
    golden: GoldenSet
    notes: tuple[str, ...] = ()  # what the user should know of how it was read


class Spans(NamedTuple):
    """Where each chunk stands: chunk n is ``texts[document[n]][start[n]:end[n]]``. Ordered by document, then start."""

    document: Integers
    start: NDArray[np.int64]
    end: NDArray[np.int64]


@dataclass(frozen=True)
class Chunks:
    """The retrieved unit: spans of a corpus. ``address`` tells two chunkings apart."""

    corpus: Corpus
    spans: Spans
    address: str = ""

    def __len__(self) -> int:
        """Count the chunks."""
        return len(self.spans.document)

    def text(self, position: int) -> str:
        """Return what is indexed and handed on: the document's title, where it has one, and the span."""
        document = int(self.spans.document[position])
        body = self.corpus.texts[document][int(self.spans.start[position]) : int(self.spans.end[position])]
        title = self.corpus.titles[document]
        return f"{title} {body}" if title else body


class Embeddings(NamedTuple):
    """Vectors of all chunks (chunks, dimension), and how many tokens each has and how many the model read."""

    vectors: Floats
    tokens: Integers
    tokens_read: Integers


class TokenVectors(NamedTuple):
    """Vectors of the single tokens of all chunks: chunk n has ``vectors[start[n]:start[n + 1]]``.

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
    the positions refer to.
    """

    positions: Integers
    scores: Floats
    chunks: str = ""

    def first(self, length: int) -> Rankings:
        """Cut every ranking to its first ``length`` places."""
        return Rankings(self.positions[:, :length], self.scores[:, :length], self.chunks)


class Approximate(NamedTuple):
    """What a leg with an approximate index found, and what exact search finds; ranks are those of the evidences."""

    found: Rankings
    exact: Rankings
    found_rank: NDArray[np.int64]  # (evidences,), as View.first_rank
    exact_rank: NDArray[np.int64]


# --- what a part must offer --------------------------------------------------------------------------------------
# Constructors take exactly the keys of the part's YAML and load nothing: models are loaded at first use. A class may
# state VERSION (else its source is hashed), OPERATIONAL (parameters that cannot change a result) and a method
# `fingerprint() -> Mapping[str, str]` (facts that can change a result and are no parameters: hash of the weights,
# resolved dtype, version of a library). All three go into, or stay out of, the address of what it computes. A retriever
# with FILTERING = {"min_score"} lets the pipeline drop from its ranking what scores less, if that is not None.


class DatasetReader(Protocol):
    """Read a corpus and its golden set; every fault of a file is reported at once, with its line."""

    def load(self) -> Dataset:
        """Read everything; what is wrong is said all at once."""


class Chunker(Protocol):
    """Cut every document into chunks; together the spans of a document cover all of its text that is not blank."""

    def split(self, corpus: Corpus) -> Spans:
        """Cut all documents."""


@runtime_checkable
class NestedChunker(Chunker, Protocol):
    """Small chunks inside larger ones: ``child`` cuts what is searched out of what ``parent`` cuts and is handed on."""

    @property
    def parent(self) -> Chunker:
        """What cuts the documents."""

    @property
    def child(self) -> Chunker:
        """What cuts the parent's chunks."""


@runtime_checkable
class Embedder(Protocol):
    """Turn texts into vectors of one length."""

    def embed_documents(self, texts: Sequence[str]) -> Embeddings:
        """Embed chunks."""

    def embed_queries(self, queries: Sequence[str]) -> Floats:
        """Embed queries, (queries, dimension)."""


@runtime_checkable
class VectorIndex(Protocol):
    """Find nearest vectors. ``build`` returns all that ``search`` needs beside the vectors themselves.

    The vectors may lie in a file that is mapped, read-only: read them in blocks, and never copy them whole. A class may
    state SEARCH_ONLY, the parameters that ``search`` reads and ``build`` does not: to change one builds nothing anew.
    """

    def build(self, vectors: Floats) -> Arrays:
        """Make what searching needs, as named arrays; called once a chunking."""

    def search(self, index: Arrays, vectors: Floats, queries: Floats, depth: int) -> Rankings:
        """Find the nearest of ``vectors``, those that ``index`` was built of, for each query vector."""


@runtime_checkable
class TextRetriever(Protocol):
    """Rank chunks by their texts. ``build`` is called once a chunking, ``retrieve`` with any number of queries.

    Fewer than ``depth`` chunks may be found; the rest is padded with -1 (score: minus infinity).
    """

    def build(self, texts: Sequence[str]) -> Arrays:
        """Make what searching needs, as named arrays; called once a chunking."""

    def retrieve(self, index: Arrays, queries: Sequence[str], depth: int) -> Rankings:
        """Rank chunks for each query."""


@runtime_checkable
class VectorRetriever(Protocol):
    """Rank chunks by their vectors: an embedder and an index, both parts of their own."""

    @property
    def embedder(self) -> Embedder:
        """What makes the vectors."""

    @property
    def index(self) -> VectorIndex:
        """What searches them."""

    @property
    def exact(self) -> VectorIndex:
        """What ``index`` is compared with where it is another one: an index that misses nothing."""


@runtime_checkable
class HybridRetriever(Protocol):
    """Several named retrievers over one chunking, and a rule that makes one ranking of theirs.

    A class may state WEIGHING, the parameters that change the result of ``fuse`` and not its work: it is timed once.
    """

    @property
    def legs(self) -> Mapping[str, Any]:
        """The retrievers by name."""

    def fuse(self, rankings: Mapping[str, Rankings], depth: int) -> Rankings:
        """Make one ranking of the legs', which are given by name: at most ``depth`` chunks a question."""


class Reranker(Protocol):
    """Score (query, chunk text) pairs; the first ``candidates`` of a ranking are put in the order of these scores.

    ``candidates`` 0 leaves the ranking as it is. A class may state REORDERING, the names of the parameters that change
    no score but what is done with the scores: any of "candidates", "min_score" and "mix" (see
    :class:`ragsweep.reordering.Reordering`). Scores are kept by pair, and such a parameter recomputes none.
    """

    @property
    def candidates(self) -> int:
        """How many of a ranking are reranked."""

    def score(self, pairs: Sequence[tuple[str, str]]) -> Floats:
        """Score pairs; the higher, the better."""


@runtime_checkable
class ReadingReranker(Reranker, Protocol):
    """A reranker that reads the chunks before any question is asked; what it read is kept like an index."""

    def read(self, texts: Sequence[str]) -> TokenVectors:
        """Read some chunks; each is read alike whichever are beside it."""

    def score_read(self, chunks: TokenVectors, pairs: Sequence[tuple[str, int]]) -> Floats:
        """Score pairs of a question and a chunk's position among those that were read."""


class Scores(NamedTuple):
    """One metric for every question: NaN where it could not be measured, and there a reason (else an empty string)."""

    values: NDArray[np.float64]
    reasons: NDArray[np.str_]


class Metric(Protocol):
    """Define one number per question, and how the numbers of all questions become one.

    ``needs`` names what a question must have ("evidence", "latency", ...); ``quantile`` is None for a mean. Without
    ``bounds`` (lowest, highest possible value; None where there is none) there is no worst and no best case.
    """

    @property
    def name(self) -> str:
        """The metric's name, as in tables and in MLflow."""

    @property
    def needs(self) -> tuple[str, ...]:
        """What a question must have."""

    @property
    def unit(self) -> str:
        """Unit of the value; empty for a share."""

    @property
    def higher_is_better(self) -> bool | None:
        """None where neither end is better as such."""

    @property
    def bounds(self) -> tuple[float | None, float | None]:
        """Lowest and highest possible value."""

    @property
    def quantile(self) -> float | None:
        """Which quantile sums up the questions; None for the mean."""

    def score(self, view: View) -> Scores:
        """Score every question of the view."""


@dataclass(frozen=True)
class View:
    """All that a metric may look at: one config's rankings, and what they cover, for all questions.

    Evidence arrays run over the evidences of all questions (relevant ones only, grade > 0). ``first_rank`` is the first
    1-based rank whose chunk covers the evidence, 0 if none does. ``credited_rank`` differs from it only where one chunk
    covers several evidences: these are spread over following ranks, one a rank, so that no list beats the ideal one.
    """

    questions: Sequence[Question]
    rankings: Rankings  # after fusion and reranking, to full depth
    top_k: int  # the first top_k chunks are the context
    evidence_question: NDArray[np.int64]  # which question an evidence belongs to
    grade: NDArray[np.float64]
    first_rank: NDArray[np.int64]
    credited_rank: NDArray[np.int64]
    evidence_covered: NDArray[np.float64]  # share of the evidence's characters that stand in the context
    context_relevant: NDArray[np.bool_]  # (questions, top_k): the chunk covers an evidence of the question
    context_tokens: NDArray[np.int64]  # (questions, top_k), by the one fixed tokenizer; 0 where padded
    context_evidence_tokens: NDArray[np.int64]  # (questions, top_k): those of them that stand in an evidence
    latency: Mapping[str, NDArray[np.float64]]  # stage -> seconds a question, NaN where not probed
    approximate: Mapping[str, Approximate]  # leg -> what its index missed; only legs with an approximate index
