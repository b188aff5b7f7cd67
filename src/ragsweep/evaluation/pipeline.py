"""Build the stages of one config as a graph. Parts are used by protocol only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ragsweep.core.identity import BuiltPart, Node, Rows, Spec, StageContext, key_check
from ragsweep.core.spans import cut_within, parents_of
from ragsweep.core.types import (
    NO_CHUNK,
    Chunks,
    Corpus,
    Embeddings,
    Floats,
    HybridRetriever,
    NestedChunker,
    Rankings,
    ReadingReranker,
    Spans,
    TokenVectors,
    VectorRetriever,
)
from ragsweep.evaluation.config_graph import Compared, ConfigGraph, PaidStage
from ragsweep.evaluation.evidence import count_tokens
from ragsweep.evaluation.generation import Answering, Context, query_node, route_node
from ragsweep.parts.ranking import cut_to_budget, drop_below, widen
from ragsweep.parts.reordering import reorder, reordering_of
from ragsweep.stages.graph import SOURCE
from ragsweep.stages.latency import latency_node, rule_latency_node
from ragsweep.stages.shards import Texts, embedded, read_all

PAIRS = 256
"""Pairs of a query and a chunk scored at a time, and kept."""


@dataclass(frozen=True)
class Parts:
    """The parts of one config."""

    corpus: Corpus
    chunker: BuiltPart
    retriever: BuiltPart
    reranker: BuiltPart
    depth: int
    top_k: int
    compared: bool = False  # search exactly beside approximate indexes
    context_budget: int | None = None  # tokens that the context may have
    generator: BuiltPart | None = None
    judged: Mapping[str, BuiltPart] = field(default_factory=dict)  # metrics that somebody judges, by name
    router: BuiltPart | None = None
    query: BuiltPart | None = None  # writes what is searched with; None: the question as it is


def graph(parts: Parts) -> ConfigGraph:
    """Build the stages: equal parts give equal addresses, wherever they are used."""
    stages = _Stages(parts)
    first = stages.retriever(parts.retriever, "")
    reranked = stages.reranked(first)
    ranking = stages.map_to_parents(reranked)
    context = stages.context(ranking)
    answering = Answering(Context(stages.corpus, stages.context_chunks, context), parts.generator)
    verdicts = {name: answering.verdict(metric) for name, metric in parts.judged.items()}
    route = route_node(parts.router) if parts.router else None
    query = query_node(parts.query) if parts.query else None
    before = [
        PaidStage(part.value, node) for part, node in ((parts.router, route), (parts.query, query)) if part and node
    ]
    candidates = 0 if reranked is first else parts.reranker.value.candidates
    return ConfigGraph(
        stages.corpus, stages.context_chunks, stages.counts, tuple(stages.embeddings), stages.map_to_parents(first),
        candidates, reranked, ranking, context, dict(stages.latency),
        {leg: Compared(*map(stages.map_to_parents, pair)) for leg, pair in stages.approximate.items()},
        answering.answer, verdicts, None, route, query, (*before, *answering.callers(parts.judged, verdicts)),
    )  # fmt: skip


def _stage(
    stage: str,
    parameters: Mapping[str, Any],
    inputs: tuple[Node, ...],
    compute: Callable[[StageContext, Rows], Any],
) -> Node:
    """Make a rows node of a step that belongs to the pipeline itself."""
    return Node(stage, Spec(f"ragsweep.pipeline.{stage}", "1", parameters), inputs, compute, "rows", result=Rankings)


class _Stages:
    """Make the nodes of one config, bottom up, and collect those whose latency counts."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self.embeddings: list[Node] = []
        self.latency: dict[str, Node] = {}
        self.approximate: dict[str, Compared] = {}
        corpus = parts.corpus
        given = Spec("ragsweep.types.Corpus", "1", files={"content": corpus.digest})
        self.corpus = Node(SOURCE, given, (), lambda work, rows: corpus, stored=False)
        self.context_chunks, self.chunks = self._chunked(parts.chunker)  # one and the same but for nested chunkers
        self.counts = self._whole(
            "count", Spec("ragsweep.evidence.count_tokens", "1"), (self.corpus, self.context_chunks),
            lambda work: {"tokens": count_tokens(Chunks(work.get(self.corpus), work.get(self.context_chunks)))}, dict,
        )  # fmt: skip

    def _chunked(self, built: BuiltPart) -> tuple[Node, Node]:
        """Build the nodes of the chunks handed to the generator, and of those searched."""
        chunker = built.value
        if not isinstance(chunker, NestedChunker):
            whole = self._whole(
                "chunk", built.spec, (self.corpus,), lambda work: chunker.split(work.get(self.corpus)), Spans
            )
            return whole, whole
        specs = built.spec.parameters
        _, parents = self._chunked(BuiltPart(chunker.parent, specs["parent"]))

        def compute(work: StageContext) -> Spans:
            return cut_within(work.get(self.corpus), work.get(parents), chunker.child)

        return parents, self._whole("chunk", specs["child"], (self.corpus, parents), compute, Spans)

    def _whole(
        self, stage: str, spec: Spec, inputs: tuple[Node, ...], compute: Callable[[StageContext], Any], result: type,
        label: str = "",
    ) -> Node:  # fmt: skip
        amount = max(self.parts.corpus.characters, 1)
        return Node(stage, spec, inputs, lambda work, rows: compute(work), "whole", label, result, amount=amount)

    def _chunks(self, work: StageContext) -> Chunks:
        return Chunks(work.get(self.corpus), work.get(self.chunks), self.chunks.address)

    def _texts(self, work: StageContext) -> Texts:
        return Texts(self._chunks(work))

    def _timed(self, name: str, node: Node) -> None:
        if not any(known.inputs[0].address == node.address for known in self.latency.values()):
            self.latency[name] = latency_node(node)

    def retriever(self, built: BuiltPart, label: str) -> Node:
        """Build one retriever of any kind, and drop low scores from its ranking."""
        filtering = getattr(built.value, "FILTERING", ())
        found = self._unfiltered(BuiltPart(built.value, built.spec.without(*filtering)), label)
        least = built.value.min_score if "min_score" in filtering else None
        if least is None:
            return found

        def compute(work: StageContext, rows: Rows) -> Rankings:
            return drop_below(work.get(found, rows), least)

        return replace(_stage("drop", {"min_score": least}, (found,), compute), stored=False)

    def _unfiltered(self, built: BuiltPart, label: str) -> Node:
        """Build the retriever itself; a single one is a hybrid of one leg that needs no fusion."""
        if isinstance(built.value, HybridRetriever):
            return self._hybrid(built, label)
        if isinstance(built.value, VectorRetriever):
            return self._vector(built, label)
        return self._text(built, label)

    def _text(self, built: BuiltPart, label: str) -> Node:
        part, depth = built.value, self.parts.depth
        inputs = (self.corpus, self.chunks)
        index = self._whole("index", built.spec, inputs, lambda work: part.build(self._texts(work)), dict, label)

        def compute(work: StageContext, rows: Rows) -> Rankings:
            found: Rankings = part.retrieve(work.get(index), rows, depth)
            return found._replace(chunks=self.chunks.address)

        node = self._retrieve(built.spec, (index,), compute, label)
        self._timed(f"retrieve/{label}".strip("/"), node)
        return node

    def _vector(self, built: BuiltPart, label: str) -> Node:
        embedder, spec = built.value.embedder, built.spec.parameters["embedder"]
        embeddings = self._embeddings(embedder, spec)
        queries = Node(
            "embed_queries",
            spec,
            (),
            lambda work, rows: embedder.embed_queries(list(rows)),
            "rows",
            label,
            np.ndarray,
            check=key_check(embedder),
        )
        node = self._searched(built, "index", (embeddings, queries), label)
        self._timed(f"embed_queries/{label}".strip("/"), queries)
        self._timed(f"retrieve/{label}".strip("/"), node)
        exact = self._searched(built, "exact", (embeddings, queries), f"{label} exact".strip())
        if self.parts.compared and exact.address != node.address:
            self.approximate[label] = Compared(node, exact)
        return node

    def _searched(self, built: BuiltPart, key: str, vectors: tuple[Node, Node], label: str) -> Node:
        """Build the search by the index at this key: its choice makes the same node, whichever the key is."""
        (embeddings, queries), search, spec = vectors, getattr(built.value, key), built.spec.parameters[key]
        index = self._whole(
            "index", spec.without(*getattr(search, "SEARCH_ONLY", ())), (embeddings,),
            lambda work: search.build(work.get(embeddings).vectors), dict, label,
        )  # fmt: skip
        index = replace(index, check=key_check(search))

        def compute(work: StageContext, rows: Rows) -> Rankings:
            among, asked = work.get(embeddings).vectors, work.get(queries, rows)
            found: Rankings = search.search(work.get(index), among, asked, self.parts.depth)
            return found._replace(chunks=self.chunks.address)

        rule = built.spec.without("embedder", "exact")
        rule = Spec(rule.target, rule.version, {**rule.parameters, "index": spec}, rule.files)
        return replace(self._retrieve(rule, (index, embeddings, queries), compute, label), check=key_check(search))

    def _retrieve(
        self, spec: Spec, inputs: tuple[Node, ...], compute: Callable[[StageContext, Rows], Rankings], label: str
    ) -> Node:
        with_depth = Spec(spec.target, spec.version, {**spec.parameters, "depth": self.parts.depth}, spec.files)
        return Node("retrieve", with_depth, inputs, compute, "rows", label, Rankings)

    def _embeddings(self, embedder: Any, spec: Spec) -> Node:
        def compute(work: StageContext) -> Embeddings:
            return embedded(work, embedder, self._texts(work), work.get(self.chunks))

        node = self._whole("embed", spec, (self.corpus, self.chunks), compute, Embeddings)
        node = replace(node, check=key_check(embedder))
        if all(node.address != known.address for known in self.embeddings):
            self.embeddings.append(node)
        return node

    def _hybrid(self, built: BuiltPart, label: str) -> Node:
        # Sorted, so that neither the order of keys in a config nor that of summation can change a result.
        names = sorted(built.value.legs)
        specs = built.spec.parameters["legs"]
        legs = {
            name: self.retriever(BuiltPart(built.value.legs[name], specs[name]), f"{label}/{name}".strip("/"))
            for name in names
        }
        depth = self.parts.depth

        def compute(work: StageContext, rows: Rows) -> Rankings:
            found = {name: work.get(leg, rows) for name, leg in legs.items()}
            fused: Rankings = built.value.fuse(found, depth)
            return fused._replace(chunks=self.chunks.address)

        rule = built.spec.without("legs")
        spec = Spec(rule.target, rule.version, {**rule.parameters, "legs": names, "depth": depth}, rule.files)
        node = Node("fuse", spec, tuple(legs.values()), compute, "rows", label, Rankings)
        # How long two lists take to fuse does not depend on their weights.
        rule = rule.without(*getattr(built.value, "WEIGHING", ()))
        rule = Spec(rule.target, rule.version, {**rule.parameters, "legs": names, "depth": depth}, rule.files)
        self.latency[f"fuse/{label}".strip("/")] = rule_latency_node(node, rule)
        return node

    def reranked(self, first: Node) -> Node:
        """Order the first candidates by the reranker; the rest follow in their old order."""
        how = reordering_of(self.parts.reranker.value)
        if not how.candidates:
            return first
        pairs = self._pairs()

        def keys(ranking: Rankings, rows: Rows) -> list[list[str]]:
            return _pair_keys(ranking.positions[:, : how.candidates], rows)

        def compute(work: StageContext, rows: Rows) -> Rankings:
            ranking: Rankings = work.get(first, rows)
            return reorder(ranking, work.get(pairs, [key for row in keys(ranking, rows) for key in row]), how)

        probe = latency_node(pairs, first, keys)
        counted = replace(probe.spec, parameters={"candidates": how.candidates})  # ten take longer than five
        self.latency["rerank"] = replace(probe, spec=counted)
        return _stage("reorder", how._asdict(), (first, pairs), compute)

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
        """Cut the ranking to the context: the first chunks, as far as they fit into the budget of tokens."""
        top_k, budget = self.parts.top_k, self.parts.context_budget

        def compute(work: StageContext, rows: Rows) -> Rankings:
            found: Rankings = work.get(ranking, rows)
            first = found.first(top_k)
            return first if budget is None else cut_to_budget(first, work.get(self.counts)["tokens"], budget)

        budgeted = {} if budget is None else {"budget": budget}
        inputs = (ranking,) if budget is None else (ranking, self.counts)
        # A slice is made faster than read back.
        return replace(_stage("context", {"top_k": top_k, **budgeted}, inputs, compute), stored=False)

    def _pairs(self) -> Node:
        """Build the node of the scores of pairs; their further use is in no address."""
        part = self.parts.reranker.value
        spec = self.parts.reranker.spec.without("candidates", *getattr(part, "REORDERING", ()))
        inputs = [self.corpus, self.chunks]
        if isinstance(part, ReadingReranker):
            inputs.append(self._read(part, spec))

        def score_some(work: StageContext, some: Rows) -> Floats:
            if isinstance(part, ReadingReranker):
                return part.score_read(
                    work.get(inputs[-1]), [(query, position) for position, query in map(_pair, some)]
                )
            texts = self._texts(work)
            scores: Floats = part.score([(query, texts[position]) for position, query in map(_pair, some)])
            return scores

        def score(work: StageContext, keys: Rows) -> Floats:
            parts = [np.empty(0, np.float32)]
            for start in range(0, len(keys), PAIRS):
                some = keys[start : start + PAIRS]
                parts.append(score_some(work, some))
                work.keep(some, parts[-1])
                work.progress(start + len(some), len(keys))
            return np.concatenate(parts)

        return Node("rerank", spec, tuple(inputs), score, "rows", result=np.ndarray, check=key_check(part))

    def _read(self, part: ReadingReranker, spec: Spec) -> Node:
        def compute(work: StageContext) -> TokenVectors:
            return read_all(work, part, self._texts(work), work.get(self.chunks))

        return self._whole("embed_tokens", spec, (self.corpus, self.chunks), compute, TokenVectors)


def _pair_keys(positions: np.ndarray, rows: Rows) -> list[list[str]]:
    """Name the (query, chunk) pairs of each query."""
    return [
        [f"{position}\t{query}" for position in found[found != NO_CHUNK]]
        for query, found in zip(rows, positions, strict=True)
    ]


def _pair(key: str) -> tuple[int, str]:
    position, query = key.split("\t", 1)
    return int(position), query
