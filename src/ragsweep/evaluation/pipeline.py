"""Build the stages of one config as a graph. Parts are used only through their protocols."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ragsweep.core.building import check_members
from ragsweep.core.errors import ConfigError
from ragsweep.core.foreign_results import check_dimension, checked_rankings, embed_queries_checked, split_checked
from ragsweep.core.identity import BuiltPart, Node, Rows, Spec, StageContext, key_check
from ragsweep.core.spans import cut_within
from ragsweep.core.traits import traits_of
from ragsweep.core.types import (
    Arrays,
    Chunks,
    Embeddings,
    Floats,
    HybridRetriever,
    NestedChunker,
    Rankings,
    ReadingReranker,
    Route,
    Spans,
    TextRetriever,
    TokenVectors,
    VectorRetriever,
)
from ragsweep.evaluation.answering import wording_node
from ragsweep.evaluation.config_graph import ApproximateLeg, ConfigGraph, PaidStage, Parts, corpus_node
from ragsweep.evaluation.evidence import COUNTING, count_tokens
from ragsweep.evaluation.generation import Answering, Context, query_node
from ragsweep.evaluation.ranking_nodes import (
    Pair,
    cut_to_context,
    drop_scores,
    exclude,
    pair_keys,
    pair_node,
    ranking_node,
    reorder_node,
    widen_to_parents,
)
from ragsweep.parts.ranking import empty_rankings, mark_failed, pad_where_not
from ragsweep.parts.reordering import reordering_of
from ragsweep.stages.latency import latency_node, rule_latency_node
from ragsweep.stages.shards import embed_chunks, index_chunks, read_chunks


def graph(parts: Parts) -> ConfigGraph:
    """Return the graph of a config's stages; equal parts over equal inputs give equal addresses."""
    stages = _Stages(parts)
    first = stages.retriever(parts.retriever, "")
    reranked = stages.reranked(first)
    ranking = stages.map_to_parents(reranked)
    context = cut_to_context(ranking, stages.counts, parts.top_k, parts.context_budget)
    answering = Answering(Context(stages.corpus, stages.context_chunks, context), parts.judged, parts.generator)
    router, writer = parts.router, parts.query
    route = wording_node("route", router.spec, router.value, router.value.route, Route) if router else None
    query = query_node(writer) if writer else None
    asked = [PaidStage(part.value, node) for part, node in ((router, route), (writer, query)) if part and node]
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
            leg: ApproximateLeg(*map(stages.map_to_parents, nodes)) for leg, nodes in stages.approximate.items()
        },
        legs={leg: stages.map_to_parents(node) for leg, node in stages.legs.items()},
        route=route,
        query=query,
        paid_stages=(*asked, *answering.paid_stages),
        repetitions=answering.repetitions,
    )


def _extend(spec: Spec, **parameters: Any) -> Spec:
    return replace(spec, parameters={**spec.parameters, **parameters})


class _Stages:
    """A builder of one config's nodes; it also lists the nodes of embeddings, latency, legs and comparisons."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self.embeddings: list[Node] = []
        self.latency: dict[str, Node] = {}
        self.approximate: dict[str, ApproximateLeg] = {}
        self.legs: dict[str, Node] = {}  # legs of the outermost hybrid
        self.corpus = corpus_node(parts.corpus)
        self.context_chunks, self.chunks = self._chunk_nodes(parts.chunker)  # equal unless the chunker is nested
        self.counts = self._whole("count", COUNTING, (self.corpus, self.context_chunks), self._count_tokens, dict)

    def _chunk_nodes(self, built: BuiltPart) -> tuple[Node, Node]:
        """Return the nodes of the context's chunks and of the searched chunks; they differ for a nested chunker."""
        chunker = built.value
        if not isinstance(chunker, NestedChunker):

            def split(work: StageContext) -> Spans:
                return split_checked(chunker, work.get(self.corpus))

            whole = self._whole("chunk", built.spec, (self.corpus,), split, Spans)
            return whole, whole
        specs = built.spec.parameters
        _, parents = self._chunk_nodes(BuiltPart(chunker.parent, specs["parent"]))

        def compute(work: StageContext) -> Spans:
            return cut_within(work.get(self.corpus), work.get(parents), partial(split_checked, chunker.child))

        return parents, self._whole("chunk", specs["child"], (self.corpus, parents), compute, Spans)

    def _whole(
        self,
        stage: str,
        spec: Spec,
        inputs: tuple[Node, ...],
        compute: Callable[[StageContext], Any],
        result: type,
        **further: Any,
    ) -> Node:
        amount = max(self.parts.corpus.characters, 1)
        return Node(stage, spec, inputs, lambda work, rows: compute(work), result=result, amount=amount, **further)

    def _count_tokens(self, work: StageContext) -> Arrays:
        return {"tokens": count_tokens(Chunks(work.get(self.corpus), work.get(self.context_chunks)))}

    def _read_chunks(self, work: StageContext) -> Chunks:
        return Chunks(work.get(self.corpus), work.get(self.chunks), self.chunks.address)

    def _add_latency(self, name: str, node: Node, part: Any) -> None:
        if not any(known.inputs[0].address == node.address for known in self.latency.values()):
            self.latency[name] = latency_node(node, part)

    def retriever(self, built: BuiltPart, label: str) -> Node:
        """Return the node of a retriever's rankings, without excluded documents or chunks below its ``min_score``."""
        unfiltered = BuiltPart(built.value, built.spec.without(*traits_of(built.value).filtering))
        if isinstance(built.value, HybridRetriever):
            return drop_scores(self._hybrid(unfiltered, label), built.value)
        search = self._vector if isinstance(built.value, VectorRetriever) else self._text
        return self._kept(search(unfiltered, label), built.value)

    def _kept(self, found: Node, part: Any) -> Node:
        return drop_scores(exclude(self.parts.excluded, found, self.corpus, self.chunks), part)

    def map_to_parents(self, ranking: Node) -> Node:
        """Return the node that replaces ranked chunks with their parents; ``ranking`` itself if there are none."""
        if self.context_chunks is self.chunks:
            return ranking
        return widen_to_parents(ranking, self.chunks, self.context_chunks)

    def _text(self, built: BuiltPart, label: str) -> Node:
        part, depth = built.value, self.parts.depth

        def build(work: StageContext) -> Arrays:
            return index_chunks(work, part, self._read_chunks(work))

        index = self._whole("index", built.spec, (self.corpus, self.chunks), build, dict, label=label)

        def compute(work: StageContext, rows: Rows) -> Rankings:
            found = part.retrieve(work.get(index), list(rows), depth)
            found = checked_rankings(part, found, len(rows))
            return found._replace(chunks=self.chunks.address)

        node = self._retrieve(built.spec, (index,), compute, label)
        self._add_latency(f"retrieve/{label}".strip("/"), node, part)
        return node

    def _vector(self, built: BuiltPart, label: str) -> Node:
        embedder, spec = built.value.embedder, built.spec.parameters["embedder"]
        check = key_check(embedder)

        def embed_all(work: StageContext) -> Embeddings:
            return embed_chunks(work, embedder, self._read_chunks(work))

        embeddings = self._whole("embed", spec, (self.corpus, self.chunks), embed_all, Embeddings, check=check)
        if all(embeddings.address != known.address for known in self.embeddings):
            self.embeddings.append(embeddings)

        def embed(work: StageContext, rows: Rows) -> Any:
            return embed_queries_checked(embedder, list(rows))

        queries = Node("embed_queries", spec, (), embed, "rows", label, np.ndarray, check=check)
        node = self._search(built, "index", (embeddings, queries), label)
        self._add_latency(f"embed_queries/{label}".strip("/"), queries, embedder)
        self._add_latency(f"retrieve/{label}".strip("/"), node, built.value.index)
        exact = self._search(built, "exact", (embeddings, queries), f"{label} exact".strip())
        if self.parts.compared and exact.address != node.address:
            self.approximate[label] = ApproximateLeg(node, exact, self._kept(exact, built.value))
        return node

    def _search(self, built: BuiltPart, key: str, inputs: tuple[Node, Node], label: str) -> Node:
        """Return the node of a vector search, with the retriever's index under ``key``: "index" or "exact"."""
        (embeddings, queries), search, spec = inputs, getattr(built.value, key), built.spec.parameters[key]

        def build(work: StageContext) -> Any:
            return search.build(work.get(embeddings).vectors)

        building = spec.without(*traits_of(search).search_only)
        index = self._whole("index", building, (embeddings,), build, dict, label=label, check=key_check(search))

        def compute(work: StageContext, rows: Rows) -> Rankings:
            vectors, query_vectors = work.get(embeddings).vectors, work.get(queries, rows)
            check_dimension(built.value.embedder, vectors, query_vectors)
            found = search.search(work.get(index), vectors, query_vectors, self.parts.depth)
            # A query without words has a zero vector, which is similar to no chunk, so its ranking is empty.
            kept = query_vectors.any(axis=1)
            found = checked_rankings(search, found, len(rows), kept)
            return pad_where_not(kept[:, None], found)._replace(chunks=self.chunks.address)

        rule = _extend(built.spec.without("embedder", "exact"), index=spec)
        return replace(self._retrieve(rule, (index, embeddings, queries), compute, label), check=key_check(search))

    def _retrieve(
        self, spec: Spec, inputs: tuple[Node, ...], compute: Callable[[StageContext, Rows], Rankings], label: str
    ) -> Node:
        return self._searching(ranking_node("retrieve", _extend(spec, depth=self.parts.depth), inputs, compute, label))

    def _searching(self, node: Node) -> Node:
        """Return ``node`` with an empty ranking, marked as failed, for each query whose call to a service fails."""

        def failed(rows: Rows) -> Rankings:
            empty = empty_rankings(len(rows), self.parts.depth)._replace(chunks=self.chunks.address)
            return mark_failed(empty, np.ones(len(rows), dtype=bool))

        return replace(node, failed=failed)

    def _hybrid(self, built: BuiltPart, label: str) -> Node:
        # Sorted, so that the order of config keys cannot change the order of summation.
        names = sorted(built.value.legs)
        specs = built.spec.parameters["legs"]
        for name in names:
            where = f"retriever.{'.'.join(f'legs.{one}' for one in f'{label}/{name}'.strip('/').split('/'))}"
            if not isinstance(specs[name], Spec):
                raise ConfigError(
                    f"{where}: must be a retriever (a mapping with _target_), got {specs[name]!r}; omit it: ~{where}"
                )
            check_members(built.value.legs[name], (TextRetriever, VectorRetriever, HybridRetriever), where)
        legs = {
            name: self.retriever(BuiltPart(built.value.legs[name], specs[name]), f"{label}/{name}".strip("/"))
            for name in names
        }
        if not label:
            self.legs = legs
        depth = self.parts.depth

        def compute(work: StageContext, rows: Rows) -> Rankings:
            found = {name: work.get(leg, rows) for name, leg in legs.items()}
            fused = checked_rankings(built.value, built.value.fuse(dict(found), depth), len(rows))
            failed = np.any([leg.failed for leg in found.values()], axis=0)
            return mark_failed(fused._replace(chunks=self.chunks.address), failed)

        spec = _extend(built.spec.without("legs"), legs=names, depth=depth)
        node = ranking_node("fuse", spec, tuple(legs.values()), compute, label)
        # The duration of a fusion does not depend on the weights.
        rule = spec.without(*traits_of(built.value).weighing)
        self.latency[f"fuse/{label}".strip("/")] = rule_latency_node(node, rule)
        return node

    def reranked(self, first: Node) -> Node:
        """Return the node that reorders candidates by reranker scores, or ``first`` if no candidates are reranked."""
        how = reordering_of(self.parts.reranker.value)
        if not how.candidates:
            return first
        pairs = self._pairs()
        probe = latency_node(pairs, self.parts.reranker.value, first, partial(pair_keys, how.candidates))
        counted = replace(probe.spec, parameters={"candidates": how.candidates})  # more candidates take longer
        reordered = reorder_node(first, pairs, how)
        self.latency["rerank"] = replace(probe, spec=counted, input_rows=reordered.input_rows)
        return self._searching(reordered)

    def _pairs(self) -> Node:
        """Return the node of the reranker's pair scores; its address does not depend on how the scores are used."""
        part = self.parts.reranker.value
        spec = self.parts.reranker.spec.without("candidates", *traits_of(part).reordering)
        inputs = (self.corpus, self.chunks)
        if not isinstance(part, ReadingReranker):

            def score(work: StageContext, pairs: Sequence[Pair]) -> Floats:
                texts = self._read_chunks(work)
                scores: Floats = part.score([(query, texts[position]) for query, position in pairs])
                return scores

            return pair_node(part, spec, inputs, score)

        def read(work: StageContext) -> TokenVectors:
            return read_chunks(work, part, self._read_chunks(work))

        tokens = self._whole("embed_tokens", spec, inputs, read, TokenVectors)
        return pair_node(part, spec, (*inputs, tokens), lambda work, pairs: part.score_read(work.get(tokens), pairs))
