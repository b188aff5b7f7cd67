"""The protocols of parts, and the data between the stages; protocols of metrics are in `metric_types`.

Data flows one way::

    dataset -> chunk -> embed -> index -> retrieve (one per leg) -> fuse -> rerank -> context -> answer -> scores

Inside, a chunk is an integer position and per-question data are arrays over all questions; ids appear only at the
edges (files, logs, errors). A part is a class with the methods of one protocol below, independent of graph and store.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from ragsweep.core.answers import (
    Answer,
    Answers,
    Case,
    CostEstimate,
    Judgement,
    Passage,
    Request,
    RequestSize,
    Response,
    Route,
    Turn,
    Usage,
)
from ragsweep.core.data import (
    NO_CHUNK,
    Arrays,
    Chunks,
    Corpus,
    Dataset,
    Division,
    Embeddings,
    EvaluationView,
    Evidence,
    Floats,
    GoldenSet,
    IndexComparison,
    Integers,
    Question,
    Rankings,
    Scores,
    Spans,
    TokenVectors,
    effective_number,
    weights_of,
)
from ragsweep.core.metric_types import (
    METRIC_NAME,
    NEEDS,
    CachingMetric,
    CostEstimator,
    JudgedMetric,
    Metric,
    ReplyCache,
)
from ragsweep.core.traits import HasTraits, PartTraits

# --- protocols of parts ---------------------------------------------------------------------------------------
# Constructors take exactly the keys of the part's YAML and load nothing: models are loaded at first use. A class may
# declare TRAITS (see PartTraits) and a method `fingerprint() -> Mapping[str, str]` (facts that can change a result but
# are not parameters: hash of the weights, resolved dtype, version of a library). The version, the parameters that are
# not operational and the fingerprint are part of its results' addresses.


class DatasetReader(HasTraits, Protocol):
    """Read a corpus and its golden set."""

    def load(self) -> Dataset:
        """Read everything; all faults of a file are raised in one InputError, with their lines."""


class Chunker(HasTraits, Protocol):
    """Cut every document into chunks, whose spans together cover all non-blank text."""

    def split(self, corpus: Corpus) -> Spans:
        """Cut all documents."""


@runtime_checkable
class NestedChunker(Chunker, Protocol):
    """Small chunks inside larger ones: ``parent`` cuts documents, ``child`` cuts the result into chunks to search."""

    @property
    def parent(self) -> Chunker:
        """The chunker of documents."""

    @property
    def child(self) -> Chunker:
        """The chunker that cuts the parent's chunks into smaller ones."""


@runtime_checkable
class Embedder(HasTraits, Protocol):
    """Turn texts into vectors, all of the same length."""

    def embed_documents(self, texts: Sequence[str]) -> Embeddings:
        """Embed chunks."""

    def embed_queries(self, queries: Sequence[str]) -> Floats:
        """Embed queries; return their vectors (queries, dimension)."""


@runtime_checkable
class VectorIndex(HasTraits, Protocol):
    """Find the nearest vectors, by inner product. ``build`` returns all that ``search`` needs besides the vectors.

    The vectors may be a read-only memory-mapped file: read them in blocks, and never copy all of them.
    """

    def build(self, vectors: Floats) -> Arrays:
        """Build the index as named arrays; called once per chunking and embedder."""

    def search(self, index: Arrays, vectors: Floats, queries: Floats, depth: int) -> Rankings:
        """Find the ``depth`` nearest of ``vectors``, from which ``index`` was built, for each query vector."""


@runtime_checkable
class TextRetriever(HasTraits, Protocol):
    """Rank chunks by their texts. ``build`` is called once per chunking, ``retrieve`` with any number of queries.

    If fewer than ``depth`` chunks are found, the ranking is padded with -1, and the scores with minus infinity.
    """

    def build(self, texts: Sequence[str]) -> Arrays:
        """Build the index as named arrays; called once per chunking."""

    def retrieve(self, index: Arrays, queries: Sequence[str], depth: int) -> Rankings:
        """Rank chunks for each query."""


@runtime_checkable
class CountingRetriever(TextRetriever, Protocol):
    """A retriever that counts words in independent shards of chunks, in any process and order."""

    def shards(self, lengths: Sequence[int]) -> list[slice]:
        """Divide chunks into shards to be counted separately; ``lengths`` are the chunks' lengths in characters."""

    def count(self, texts: Sequence[str]) -> Arrays:
        """Count the words of some chunks."""

    def assemble(self, shards: Iterable[tuple[int, Arrays]]) -> Arrays:
        """Merge the counts of all shards into the index of all chunks.

        Each count comes with the number of its shard; the shards come in any order.
        """


@runtime_checkable
class VectorRetriever(HasTraits, Protocol):
    """Rank chunks by their vectors: an embedder and an index, both separate parts."""

    @property
    def embedder(self) -> Embedder:
        """The embedder of chunks and queries."""

    @property
    def index(self) -> VectorIndex:
        """The index of the vectors."""

    @property
    def exact(self) -> VectorIndex:
        """An exact index, the reference for an approximate ``index``."""


@runtime_checkable
class HybridRetriever(HasTraits, Protocol):
    """Several named retrievers over one chunking, and a rule to fuse their rankings."""

    @property
    def legs(self) -> Mapping[str, Any]:
        """The retrievers by name."""

    def fuse(self, rankings: Mapping[str, Rankings], depth: int) -> Rankings:
        """Fuse the legs' rankings, by name, to at most ``depth`` chunks per question."""


class Reranker(HasTraits, Protocol):
    """Score (query, chunk text) pairs; the first ``candidates`` of a ranking are sorted by these scores.

    ``candidates`` 0 leaves the ranking unchanged. Scores are stored per pair; a change of the parameters in the trait
    ``reordering`` recomputes none (see :class:`ragsweep.parts.reordering.Reordering`).
    """

    @property
    def candidates(self) -> int:
        """The number of chunks of a ranking that are reranked."""

    def score(self, pairs: Sequence[tuple[str, str]]) -> Floats:
        """Score pairs; higher is better."""


@runtime_checkable
class ReadingReranker(Reranker, Protocol):
    """A reranker that reads chunks in advance; its token vectors are stored like an index."""

    def read(self, texts: Sequence[str]) -> TokenVectors:
        """Read chunks; the result for each is independent of the others."""

    def score_read(self, chunks: TokenVectors, pairs: Sequence[tuple[str, int]]) -> Floats:
        """Score pairs (question, position in ``chunks``); higher is better."""


class Generator(HasTraits, Protocol):
    """Answer questions from their context."""

    def generate(self, requests: Sequence[Request], done: Callable[[int, Answer], None]) -> None:
        """Answer every request, in any order; call ``done(index of the request, answer)`` once for each.

        If one request fails, its answer has the reason (``failed``); a failure of all requests (no key, no such model)
        raises a RagsweepError.
        """


@runtime_checkable
class RepeatingGenerator(Generator, Protocol):
    """A generator that samples its answers, so that each request may be answered several times.

    ``replicates`` is operational: each repetition has its own address, which does not depend on how many there are.
    """

    @property
    def replicates(self) -> int:
        """The number of answers to each request, at least 1."""

    def repeat(self, requests: Sequence[Request], done: Callable[[int, Answer], None], replicate: int) -> None:
        """Answer like ``generate``, with the samples of one repetition; ``replicate`` 0 is ``generate`` itself."""


class Router(HasTraits, Protocol):
    """Decide which questions need the corpus; the others are answered without it."""

    def route(self, requests: Sequence[Request], done: Callable[[int, Route], None]) -> None:
        """Route every request (question and history; no passages); call ``done(its index, route)`` once for each."""


class QueryWriter(HasTraits, Protocol):
    """Write the search query of a question with a history."""

    def write(self, requests: Sequence[Request], done: Callable[[int, Answer], None]) -> None:
        """Write the query of every request (question and history; no passages); call ``done(index, query)`` for each.

        The query is the answer's text; if one request fails, its answer has the reason (``failed``).
        """


class OutputReader(HasTraits, Protocol):
    """Read the text of an answer as the output that the metrics of a task score."""

    def read(self, text: str) -> Any:
        """Return the output; raise ValueError, whose message is the reason, if the text is not valid."""


class System(HasTraits, Protocol):
    """An existing system that searches and answers; if its attribute ``answers`` is False, it only searches."""

    def ask(self, requests: Sequence[Request], done: Callable[[int, Response], None]) -> None:
        """Send every request (question and history; no passages); call ``done(its index, response)`` once for each."""
