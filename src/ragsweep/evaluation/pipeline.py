"""Build the stages of one config as a graph. Parts are used by protocol only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ragsweep.core.identity import BuiltPart, Node, Rows, Spec, StageContext, content_hash, key_check
from ragsweep.core.spans import cut_within, parents_of
from ragsweep.core.traits import traits_of
from ragsweep.core.types import (
    NO_CHUNK,
    Arrays,
    Chunks,
    Corpus,
    Embeddings,
    Floats,
    HybridRetriever,
    NestedChunker,
    Rankings,
    ReadingReranker,
    Route,
    Spans,
    TokenVectors,
    VectorRetriever,
)
from ragsweep.evaluation.answering import wording_node
from ragsweep.evaluation.config_graph import ApproximateLeg, ConfigGraph, PaidStage, corpus_node
from ragsweep.evaluation.evidence import count_tokens
from ragsweep.evaluation.generation import Answering, Context, query_node
from ragsweep.parts.ranking import (
    cut_to_budget,
    drop_below,
    drop_documents,
    empty_rankings,
    mark_failed,
    pad_where_not,
    widen,
)
from ragsweep.parts.reordering import reorder, reordering_of
from ragsweep.stages.latency import latency_node, rule_latency_node
from ragsweep.stages.shards import Texts, embed_chunks, index_chunks, read_chunks

PAIRS = 256
"""Pairs of a query and a chunk that are scored and stored together."""


@dataclass(frozen=True)
class Parts:
    """The parts of one config."""

    corpus: Corpus
    chunker: BuiltPart
    retriever: BuiltPart
    reranker: BuiltPart
    depth: int
    top_k: int
    compared: bool = False  # also search exactly, beside approximate indexes
    context_budget: int | None = None  # tokens that the context may have
    generator: BuiltPart | None = None
    judged: Mapping[str, BuiltPart] = field(default_factory=dict)  # judged metrics by name
    router: BuiltPart | None = None
    query: BuiltPart | None = None  # writes the search query; None: the question's text
    excluded: Mapping[str, Sequence[str]] = field(default_factory=dict)  # see Dataset


def graph(parts: Parts) -> ConfigGraph:
    """Build the stages of a config; equal parts give equal addresses."""
    stages = _Stages(parts)
    first = stages.retriever(parts.retriever, "")
    reranked = stages.reranked(first)
    ranking = stages.map_to_parents(reranked)
    context = stages.context(ranking)
    answering = Answering(Context(stages.corpus, stages.context_chunks, context), parts.generator)
    verdicts = answering.verdicts(parts.judged)
    repeated = answering.repeated(parts.judged)
    route = query = None
    paid_stages = []
    if parts.router:
        route = wording_node("route", parts.router.spec, parts.router.value, parts.router.value.route, Route)
        paid_stages.append(PaidStage(parts.router.value, route))
    if parts.query:
        query = query_node(parts.query)
        paid_stages.append(PaidStage(parts.query.value, query))
    return ConfigGraph(
        corpus=stages.corpus,
        chunks=stages.context_chunks,
        counts=stages.counts,
        embeddings=tuple(stages.embeddings),
        first_stage=stages.map_to_parents(first),
        candidates=0 if reranked is first else parts.reranker.value.candidates,
        reranked=reranked,
        ranking=ranking,
        context=context,
        latency=dict(stages.latency),
        approximate={
            leg: ApproximateLeg(*map(stages.map_to_parents, pair)) for leg, pair in stages.approximate.items()
        },
        legs={leg: stages.map_to_parents(node) for leg, node in stages.legs.items()},
        answer=answering.answer,
        verdicts=verdicts,
        route=route,
        query=query,
        paid_stages=(*paid_stages, *answering.paid_stages(parts.judged, verdicts, repeated)),
        repetitions=repeated,
    )


def _stage(
    stage: str,
    parameters: Mapping[str, Any],
    inputs: tuple[Node, ...],
    compute: Callable[[StageContext, Rows], Any],
) -> Node:
    """Make a rows node of a step of the pipeline itself."""
    return _ranking_node(stage, Spec(f"ragsweep.pipeline.{stage}", "1", parameters), inputs, compute)


def _ranking_node(
    stage: str, spec: Spec, inputs: tuple[Node, ...], compute: Callable[[StageContext, Rows], Any], label: str = ""
) -> Node:
    """Make a rows node of rankings; a failed one is not stored."""
    return Node(stage, spec, inputs, compute, "rows", label, Rankings, cacheable=lambda found: ~found.failed)


def exclude(excluded: Mapping[str, Sequence[str]], found: Node, corpus: Node, chunks: Node) -> Node:
    """Remove each search text's excluded documents from its ranking; return the node itself if there are none."""
    if not excluded:
        return found

    def compute(work: StageContext, rows: Rows) -> Rankings:
        position = work.get(corpus).position
        dropped = [[position[name] for name in excluded.get(text, ())] for text in rows]
        return drop_documents(work.get(found, rows), work.get(chunks).document, dropped)

    pairs = content_hash([[text, *names] for text, names in sorted(excluded.items())])
    return replace(_stage("exclude", {"excluded": pairs}, (found, corpus, chunks), compute), stored=False)


def _extend(spec: Spec, **parameters: Any) -> Spec:
    return replace(spec, parameters={**spec.parameters, **parameters})


class _Stages:
    """Make the nodes of one config, bottom up, and collect the nodes whose latency counts."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self.embeddings: list[Node] = []
        self.latency: dict[str, Node] = {}
        self.approximate: dict[str, ApproximateLeg] = {}
        self.legs: dict[str, Node] = {}  # of the outermost hybrid
        self.corpus = corpus_node(parts.corpus)
        self.context_chunks, self.chunks = self._chunk_nodes(parts.chunker)  # the same node but for nested chunkers
        counting, inputs = Spec("ragsweep.evidence.count_tokens", "1"), (self.corpus, self.context_chunks)
        self.counts = self._whole("count", counting, inputs, self._count_tokens, dict)

    def _chunk_nodes(self, built: BuiltPart) -> tuple[Node, Node]:
        """Build the nodes of the chunks handed to the generator, and of those searched."""
        chunker = built.value
        if not isinstance(chunker, NestedChunker):
            whole = self._whole(
                "chunk", built.spec, (self.corpus,), lambda work: chunker.split(work.get(self.corpus)), Spans
            )
            return whole, whole
        specs = built.spec.parameters
        _, parents = self._chunk_nodes(BuiltPart(chunker.parent, specs["parent"]))

        def compute(work: StageContext) -> Spans:
            return cut_within(work.get(self.corpus), work.get(parents), chunker.child)

        return parents, self._whole("chunk", specs["child"], (self.corpus, parents), compute, Spans)

    def _whole(
        self,
        stage: str,
        spec: Spec,
        inputs: tuple[Node, ...],
        compute: Callable[[StageContext], Any],
        result: type,
        label: str = "",
    ) -> Node:
        amount = max(self.parts.corpus.characters, 1)
        return Node(stage, spec, inputs, lambda work, rows: compute(work), "whole", label, result, amount=amount)

    def _count_tokens(self, work: StageContext) -> Arrays:
        return {"tokens": count_tokens(Chunks(work.get(self.corpus), work.get(self.context_chunks)))}

    def _texts(self, work: StageContext) -> Texts:
        return Texts(Chunks(work.get(self.corpus), work.get(self.chunks), self.chunks.address))

    def _add_latency(self, name: str, node: Node) -> None:
        if not any(known.inputs[0].address == node.address for known in self.latency.values()):
            self.latency[name] = latency_node(node)

    def retriever(self, built: BuiltPart, label: str) -> Node:
        """Build one retriever of any kind, and drop low scores from its ranking."""
        filtering = traits_of(built.value).filtering
        unfiltered = BuiltPart(built.value, built.spec.without(*filtering))
        if isinstance(built.value, HybridRetriever):
            found = self._hybrid(unfiltered, label)
        elif isinstance(built.value, VectorRetriever):
            found = self._vector(unfiltered, label)
        else:
            found = self._text(unfiltered, label)
        if not isinstance(built.value, HybridRetriever):
            found = exclude(self.parts.excluded, found, self.corpus, self.chunks)
        least = built.value.min_score if "min_score" in filtering else None
        if least is None:
            return found

        def compute(work: StageContext, rows: Rows) -> Rankings:
            return drop_below(work.get(found, rows), least)

        return replace(_stage("drop", {"min_score": least}, (found,), compute), stored=False)

    def _text(self, built: BuiltPart, label: str) -> Node:
        part, depth = built.value, self.parts.depth

        def build(work: StageContext) -> Arrays:
            return index_chunks(work, part, self._texts(work), work.get(self.chunks))

        index = self._whole("index", built.spec, (self.corpus, self.chunks), build, dict, label)

        def compute(work: StageContext, rows: Rows) -> Rankings:
            found: Rankings = part.retrieve(work.get(index), rows, depth)
            return found._replace(chunks=self.chunks.address)

        node = self._retrieve(built.spec, (index,), compute, label)
        self._add_latency(f"retrieve/{label}".strip("/"), node)
        return node

    def _vector(self, built: BuiltPart, label: str) -> Node:
        embedder, spec = built.value.embedder, built.spec.parameters["embedder"]
        embeddings = self._embeddings(embedder, spec)

        def embed(work: StageContext, rows: Rows) -> Any:
            return embedder.embed_queries(list(rows))

        queries = Node("embed_queries", spec, (), embed, "rows", label, np.ndarray, check=key_check(embedder))
        node = self._search(built, "index", (embeddings, queries), label)
        self._add_latency(f"embed_queries/{label}".strip("/"), queries)
        self._add_latency(f"retrieve/{label}".strip("/"), node)
        exact = self._search(built, "exact", (embeddings, queries), f"{label} exact".strip())
        if self.parts.compared and exact.address != node.address:
            self.approximate[label] = ApproximateLeg(node, exact)
        return node

    def _search(self, built: BuiltPart, key: str, inputs: tuple[Node, Node], label: str) -> Node:
        """Build the search by the index at this key; equal indexes at different keys give the same node."""
        (embeddings, queries), search, spec = inputs, getattr(built.value, key), built.spec.parameters[key]

        def build(work: StageContext) -> Any:
            return search.build(work.get(embeddings).vectors)

        building = spec.without(*traits_of(search).search_only)
        index = self._whole("index", building, (embeddings,), build, dict, label)
        index = replace(index, check=key_check(search))

        def compute(work: StageContext, rows: Rows) -> Rankings:
            vectors, query_vectors = work.get(embeddings).vectors, work.get(queries, rows)
            found: Rankings = search.search(work.get(index), vectors, query_vectors, self.parts.depth)
            # A query without words has no direction, so that no chunk is near to it.
            return pad_where_not(query_vectors.any(axis=1)[:, None], found)._replace(chunks=self.chunks.address)

        rule = _extend(built.spec.without("embedder", "exact"), index=spec)
        return replace(self._retrieve(rule, (index, embeddings, queries), compute, label), check=key_check(search))

    def _retrieve(
        self, spec: Spec, inputs: tuple[Node, ...], compute: Callable[[StageContext, Rows], Rankings], label: str
    ) -> Node:
        return self._searching(_ranking_node("retrieve", _extend(spec, depth=self.parts.depth), inputs, compute, label))

    def _searching(self, node: Node) -> Node:
        """Make a node of rankings tolerate a failing service: the question has no ranking."""

        def failed(rows: Rows) -> Rankings:
            empty = empty_rankings(len(rows), self.parts.depth)._replace(chunks=self.chunks.address)
            return mark_failed(empty, np.ones(len(rows), dtype=bool))

        return replace(node, failed=failed)

    def _embeddings(self, embedder: Any, spec: Spec) -> Node:
        def compute(work: StageContext) -> Embeddings:
            return embed_chunks(work, embedder, self._texts(work), work.get(self.chunks))

        node = self._whole("embed", spec, (self.corpus, self.chunks), compute, Embeddings)
        node = replace(node, check=key_check(embedder))
        if all(node.address != known.address for known in self.embeddings):
            self.embeddings.append(node)
        return node

    def _hybrid(self, built: BuiltPart, label: str) -> Node:
        # Sorted, so that the order of keys in a config cannot change the order of summation and thus a result.
        names = sorted(built.value.legs)
        specs = built.spec.parameters["legs"]
        legs = {
            name: self.retriever(BuiltPart(built.value.legs[name], specs[name]), f"{label}/{name}".strip("/"))
            for name in names
        }
        if not label:
            self.legs = legs
        depth = self.parts.depth

        def compute(work: StageContext, rows: Rows) -> Rankings:
            found = {name: work.get(leg, rows) for name, leg in legs.items()}
            fused: Rankings = built.value.fuse(found, depth)
            failed = np.any([leg.failed for leg in found.values()], axis=0)
            return mark_failed(fused._replace(chunks=self.chunks.address), failed)

        spec = _extend(built.spec.without("legs"), legs=names, depth=depth)
        node = _ranking_node("fuse", spec, tuple(legs.values()), compute, label)
        # The duration of a fusion does not depend on the weights.
        rule = spec.without(*traits_of(built.value).weighing)
        self.latency[f"fuse/{label}".strip("/")] = rule_latency_node(node, rule)
        return node

    def reranked(self, first: Node) -> Node:
        """Order the first candidates by the reranker; the rest follow in their old order."""
        how = reordering_of(self.parts.reranker.value)
        if not how.candidates:
            return first
        pairs = self._pairs()

        def keys(ranking: Rankings, rows: Rows) -> list[list[str]]:
            candidates = zip(rows, ranking.positions[:, : how.candidates], strict=True)
            return [[f"{position}\t{query}" for position in row[row != NO_CHUNK]] for query, row in candidates]

        def compute(work: StageContext, rows: Rows) -> Rankings:
            ranking: Rankings = work.get(first, rows)
            return reorder(ranking, work.get(pairs, [key for row in keys(ranking, rows) for key in row]), how)

        probe = latency_node(pairs, first, keys)
        counted = replace(probe.spec, parameters={"candidates": how.candidates})  # ten take longer than five
        self.latency["rerank"] = replace(probe, spec=counted)
        return self._searching(_stage("reorder", how._asdict(), (first, pairs), compute))

    def map_to_parents(self, ranking: Node) -> Node:
        """Replace found chunks by their parents."""
        if self.context_chunks is self.chunks:
            return ranking

        def compute(work: StageContext, rows: Rows) -> Rankings:
            narrow: Rankings = work.get(ranking, rows)
            found = Spans(*(np.append(column, 0)[narrow.positions] for column in work.get(self.chunks)))
            wide = parents_of(found, work.get(self.context_chunks))
            return widen(narrow, np.where(narrow.positions == NO_CHUNK, NO_CHUNK, wide), self.context_chunks.address)

        return replace(_stage("widen", {}, (ranking, self.chunks, self.context_chunks), compute), stored=False)

    def context(self, ranking: Node) -> Node:
        """Cut the ranking to the context: the first chunks that fit into the budget of tokens."""
        top_k, budget = self.parts.top_k, self.parts.context_budget

        def compute(work: StageContext, rows: Rows) -> Rankings:
            found: Rankings = work.get(ranking, rows)
            first = found.first(top_k)
            return first if budget is None else cut_to_budget(first, work.get(self.counts)["tokens"], budget)

        budgeted = {} if budget is None else {"budget": budget}
        inputs = (ranking,) if budget is None else (ranking, self.counts)
        # Slicing is faster than reading back.
        return replace(_stage("context", {"top_k": top_k, **budgeted}, inputs, compute), stored=False)

    def _pairs(self) -> Node:
        """Build the node of the scores of pairs, whose address does not depend on their further use."""
        part = self.parts.reranker.value
        spec = self.parts.reranker.spec.without("candidates", *traits_of(part).reordering)
        inputs = [self.corpus, self.chunks]
        if isinstance(part, ReadingReranker):

            def read(work: StageContext) -> TokenVectors:
                return read_chunks(work, part, self._texts(work), work.get(self.chunks))

            inputs.append(self._whole("embed_tokens", spec, (self.corpus, self.chunks), read, TokenVectors))

        def score(work: StageContext, keys: Rows) -> Floats:
            scores = [np.empty(0, np.float32)]
            for start in range(0, len(keys), PAIRS):
                some = keys[start : start + PAIRS]
                pairs = [(query, int(position)) for position, query in (key.split("\t", 1) for key in some)]
                if isinstance(part, ReadingReranker):
                    scores.append(part.score_read(work.get(inputs[-1]), pairs))
                else:
                    texts = self._texts(work)
                    scores.append(part.score([(query, texts[position]) for query, position in pairs]))
                work.keep(some, scores[-1])
                work.progress(start + len(some), len(keys))
            return np.concatenate(scores)

        return Node("rerank", spec, tuple(inputs), score, "rows", result=np.ndarray, check=key_check(part))
