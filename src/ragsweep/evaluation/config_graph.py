"""The parts of one config, and the nodes that its evaluation, its plan and its signature use."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ragsweep.core.identity import BuiltPart, Node, Spec
from ragsweep.core.types import Chunks, Corpus
from ragsweep.stages.graph import SOURCE


@dataclass(frozen=True)
class Parts:
    """The parts that are built from one config, and the settings that its stages use."""

    corpus: Corpus
    chunker: BuiltPart
    retriever: BuiltPart
    reranker: BuiltPart
    depth: int  # length of the rankings
    top_k: int  # maximum number of chunks in the context
    compared: bool = False  # whether approximate indexes are compared with exact search
    context_budget: int | None = None  # maximum number of tokens in the context
    generator: BuiltPart | None = None
    judged: Mapping[str, BuiltPart] = field(default_factory=dict)  # judged metrics by name
    router: BuiltPart | None = None
    query: BuiltPart | None = None  # writes queries; None means the golden set's query, else the question's text
    excluded: Mapping[str, Sequence[str]] = field(default_factory=dict)  # see Dataset.excluded


class ApproximateLeg(NamedTuple):
    """The ranking that a retriever finds with an approximate index, and the exact ranking for comparison."""

    found: Node
    exact: Node
    kept: Node  # ``exact`` without excluded documents and low scores: the leg's ranking if its index were exact


class PaidStage(NamedTuple):
    """A part that may call a service, the node of its results, and the node that reads rows of these results."""

    part: Any
    node: Node
    reader: Node | None = None  # None if the keys of the rows are known without it
    uses: tuple[str, ...] = ("question",)  # fields of Case that its requests contain


class Repetition(NamedTuple):
    """The nodes of one repetition: its answers and verdicts. Verdicts that read no answer are only in repetition 0."""

    answer: Node | None  # None if the config has no answers
    verdicts: Mapping[str, Node]  # by metric


@dataclass(frozen=True)
class ConfigGraph:
    """The nodes of one config."""

    corpus: Node
    chunks: Node  # the chunks of contexts, in which evidence is located; also searched unless chunks are nested
    counts: Node  # token counts of the chunks
    first_stage: Node  # the ranking after fusion, before reranking
    reranked: Node  # the final ranking of searched chunks
    ranking: Node  # the final ranking of chunks of the context; the same node unless chunks are nested
    context: Node
    embeddings: tuple[Node, ...] = ()  # vectors of the searched chunks, one node per embedder
    candidates: int = 0  # the number of reranked candidates; 0 if there is no reranker
    latency: Mapping[str, Node] = field(default_factory=dict)  # the probes of each stage
    approximate: Mapping[str, ApproximateLeg] = field(default_factory=dict)  # by leg
    legs: Mapping[str, Node] = field(default_factory=dict)  # the legs of a hybrid retriever, by name
    located: Node | None = None  # the aligned contexts of an external system
    route: Node | None = None  # None without a router; the golden set then states which questions need the corpus
    query: Node | None = None  # queries of questions with a history; None if there is no query writer
    paid_stages: tuple[PaidStage, ...] = ()
    repetitions: tuple[Repetition, ...] = (Repetition(None, {}),)  # at least one, even without answers

    @property
    def answer(self) -> Node | None:
        """The node of the first repetition's answers; None if the config generates no answers."""
        return self.repetitions[0].answer

    @property
    def verdicts(self) -> Mapping[str, Node]:
        """The nodes of the first repetition's verdicts, by metric."""
        return self.repetitions[0].verdicts

    @property
    def own(self) -> tuple[Node, ...]:
        """The nodes that the config itself needs, excluding exact searches for comparison."""
        query = (self.query,) if self.query else ()
        return (self.context, self.chunks, self.counts, *self.embeddings, *self.latency.values(), *query, *self.asked)

    @property
    def addresses(self) -> dict[str, str]:
        """The addresses of the chunks, ranking, context, query, route and answer, by name; "" for a missing node."""
        names = ("chunk", "ranking", "context", "query", "route", "answer")
        nodes = (self.chunks, self.ranking, self.context, self.query, self.route, self.answer)
        return {name: node.address if node else "" for name, node in zip(names, nodes, strict=True)}

    @property
    def budget(self) -> int | None:
        """The maximum number of tokens in the context; None if there is no limit."""
        budget: int | None = self.context.spec.parameters.get("budget")
        return budget

    @property
    def asked(self) -> tuple[Node, ...]:
        """The nodes of the routes, the answers and the verdicts, including repetitions."""
        answered = (node for one in self.repetitions for node in (one.answer, *one.verdicts.values()))
        return tuple(filter(None, (self.route, *answered)))


def corpus_node(corpus: Corpus) -> Node:
    """Make the source node of a corpus; the node's value is the corpus itself."""
    spec = Spec("ragsweep.types.Corpus", "1", files={"content": corpus.digest})
    return Node(SOURCE, spec, (), lambda work, rows: corpus, stored=False)


def chunks_of(graph: ConfigGraph, get: Callable[[Node], Any]) -> Chunks:
    """Return the chunks from which contexts are made; ``get`` returns the value of a node."""
    return Chunks(get(graph.corpus), get(graph.chunks), graph.chunks.address)
