"""The protocols of parts, and the data between the stages; protocols of metrics are in `metric_types`.

Data flows one way::

    dataset -> chunk -> embed -> index -> retrieve (one per leg) -> fuse -> rerank -> context -> answer -> scores

Between the stages, a chunk is an integer position, and data about questions are arrays over all questions; ids are
used only in files, logs and errors. A part is a class with the methods of one of the protocols below; it depends
neither on the graph of stages nor on the store.
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
# not operational and the fingerprint are part of the addresses of results.


class DatasetReader(HasTraits, Protocol):
    """A reader of a corpus and its golden set."""

    def load(self) -> Dataset:
        """Return the dataset; raise InputError for faults in files, with a message that lists them and their lines."""


class Chunker(HasTraits, Protocol):
    """A part that cuts every document into chunks; together, the chunks cover all non-blank text."""

    def split(self, corpus: Corpus) -> Spans:
        """Return the spans of the chunks of all documents, sorted by document and start."""


@runtime_checkable
class NestedChunker(Chunker, Protocol):
    """A part that cuts documents into large chunks with ``parent``, and these into searched chunks with ``child``."""

    @property
    def parent(self) -> Chunker:
        """The chunker that cuts documents into large chunks."""

    @property
    def child(self) -> Chunker:
        """The chunker that cuts the large chunks into small chunks."""


@runtime_checkable
class Embedder(HasTraits, Protocol):
    """A part that turns texts into vectors of a fixed length."""

    def embed_documents(self, texts: Sequence[str]) -> Embeddings:
        """Return the vectors of the texts of chunks, and the two token counts of each text (see ``Embeddings``)."""

    def embed_queries(self, queries: Sequence[str]) -> Floats:
        """Return the vectors of queries (queries, dimension)."""


@runtime_checkable
class VectorIndex(HasTraits, Protocol):
    """An index that finds the nearest vectors by inner product.

    The vectors may be a read-only memory-mapped file: read them in blocks, and never copy all of them.
    """

    def build(self, vectors: Floats) -> Arrays:
        """Return the index as named arrays: all that ``search`` needs besides the vectors.

        This method is called once per chunking and embedder.
        """

    def search(self, index: Arrays, vectors: Floats, queries: Floats, depth: int) -> Rankings:
        """Return the ``depth`` nearest of ``vectors`` for each query vector; ``index`` was built from ``vectors``.

        If fewer vectors are found, the ranking is padded with the position -1 and the score -inf.
        """


@runtime_checkable
class TextRetriever(HasTraits, Protocol):
    """A retriever that ranks chunks by their texts."""

    def build(self, texts: Sequence[str]) -> Arrays:
        """Return the index of the chunks as named arrays; this method is called once per chunking."""

    def retrieve(self, index: Arrays, queries: Sequence[str], depth: int) -> Rankings:
        """Return a ranking of ``depth`` chunks for each query; there may be any number of queries.

        If fewer chunks are found, the ranking is padded with the position -1 and the score -inf.
        """


@runtime_checkable
class CountingRetriever(TextRetriever, Protocol):
    """A retriever whose index is built from the word counts of shards; any process may count a shard, in any order."""

    def shards(self, lengths: Sequence[int]) -> list[slice]:
        """Return the shards: slices of the chunks for which words are counted separately.

        ``lengths`` are the lengths of the chunks in characters.
        """

    def count(self, texts: Sequence[str]) -> Arrays:
        """Return the word counts of the chunks of one shard."""

    def assemble(self, shards: Iterable[tuple[int, Arrays]]) -> Arrays:
        """Return the index of all chunks, merged from the counts of all shards.

        ``shards`` yields the number of each shard and its counts, in any order.
        """


@runtime_checkable
class VectorRetriever(HasTraits, Protocol):
    """A retriever that ranks chunks by their vectors; its embedder and its index are separate parts."""

    @property
    def embedder(self) -> Embedder:
        """The embedder of the chunks and the queries."""

    @property
    def index(self) -> VectorIndex:
        """The index of the chunks' vectors."""

    @property
    def exact(self) -> VectorIndex:
        """An exact index; its rankings are the reference for an approximate ``index``."""


@runtime_checkable
class HybridRetriever(HasTraits, Protocol):
    """Several named retrievers (legs) that search the same chunks, and a rule to fuse their rankings."""

    @property
    def legs(self) -> Mapping[str, Any]:
        """The retrievers, by name."""

    def fuse(self, rankings: Mapping[str, Rankings], depth: int) -> Rankings:
        """Return one ranking of at most ``depth`` chunks per question, fused from the rankings of all legs.

        ``rankings`` maps the name of each leg to its rankings.
        """


class Reranker(HasTraits, Protocol):
    """A part that scores pairs of a query and a chunk, to sort the first ``candidates`` chunks of a ranking.

    Scores are stored per pair. They are not recomputed when a parameter in the trait ``reordering`` changes (see
    :class:`ragsweep.parts.reordering.Reordering`).
    """

    @property
    def candidates(self) -> int:
        """The number of chunks at the top of a ranking that are reranked; 0 leaves the ranking unchanged."""

    def score(self, pairs: Sequence[tuple[str, str]]) -> Floats:
        """Return one score per pair (pairs,); higher is better."""


@runtime_checkable
class ReadingReranker(Reranker, Protocol):
    """A reranker that encodes chunks in advance; their token vectors are stored like an index."""

    def read(self, texts: Sequence[str]) -> TokenVectors:
        """Return the token vectors of chunks; the vectors of one chunk must not depend on other chunks."""

    def score_read(self, chunks: TokenVectors, pairs: Sequence[tuple[str, int]]) -> Floats:
        """Return the scores of pairs of a query and a position in ``chunks`` (pairs,); higher is better."""


class Generator(HasTraits, Protocol):
    """A part that answers questions from their context."""

    def generate(self, requests: Sequence[Request], done: Callable[[int, Answer], None]) -> None:
        """Answer every request, in any order, and call ``done(index of the request, answer)`` once per request.

        If a single request fails, its answer states the reason in ``failed``. Raise a RagsweepError if no request can
        succeed (no key, no such model).
        """


@runtime_checkable
class RepeatingGenerator(Generator, Protocol):
    """A generator that samples its answers, so that each request may be answered several times.

    ``replicates`` is an operational parameter: the address of each repetition does not depend on the number of
    repetitions.
    """

    @property
    def replicates(self) -> int:
        """The number of answers to each request, at least 1."""

    def repeat(self, requests: Sequence[Request], done: Callable[[int, Answer], None], replicate: int) -> None:
        """Answer every request as ``generate`` does, but with the samples of the repetition numbered ``replicate``.

        The repetitions are numbered from 0; repetition 0 gives the answers of ``generate``.
        """


class Router(HasTraits, Protocol):
    """A part that selects the questions for which the corpus is searched; the others are answered without context."""

    def route(self, requests: Sequence[Request], done: Callable[[int, Route], None]) -> None:
        """Decide on every request, in any order, and call ``done(index of the request, route)`` once per request.

        Requests have a question and a history, but no passages.
        """


class QueryWriter(HasTraits, Protocol):
    """A part that writes the search query for a question with a history."""

    def write(self, requests: Sequence[Request], done: Callable[[int, Answer], None]) -> None:
        """Write a query for every request, in any order, and call ``done(index of the request, answer)`` once for each.

        Requests have a question and a history, but no passages. The query is the text of the answer. If a single
        request fails, its answer states the reason in ``failed``.
        """


class OutputReader(HasTraits, Protocol):
    """A part that converts the text of an answer into the output that the metrics of a task score."""

    def read(self, text: str) -> Any:
        """Return the output; if the text is not valid, raise ValueError with the reason as its message."""


class System(HasTraits, Protocol):
    """An external system that searches and answers; if its attribute ``answers`` is False, it only searches."""

    def ask(self, requests: Sequence[Request], done: Callable[[int, Response], None]) -> None:
        """Send every request to the system, and call ``done(index of the request, response)`` once per request.

        Requests have a question and a history, but no passages.
        """
