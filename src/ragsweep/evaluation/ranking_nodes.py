"""Make the nodes that change rankings: exclude documents, drop low scores, rerank, widen to parents, cut to context."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ragsweep.core.foreign_results import checked_floats
from ragsweep.core.identity import Node, ReadKnown, Rows, Spec, StageContext, content_hash, key_check
from ragsweep.core.spans import parents_of
from ragsweep.core.traits import traits_of
from ragsweep.core.types import NO_CHUNK, Floats, Rankings, Spans
from ragsweep.parts.ranking import cut_to_budget, drop_below, drop_documents, widen
from ragsweep.parts.reordering import Reordering, reorder

Compute = Callable[[StageContext, Rows], Any]

Pair = tuple[str, int]
"""A query, and the position of a chunk that is scored for it."""

PAIRS = 256
"""Maximum number of pairs that are scored and stored together."""


def ranking_node(
    stage: str, spec: Spec, inputs: tuple[Node, ...], compute: Compute, label: str = "", stored: bool = True
) -> Node:
    """Make a node with one ranking per query; a ranking whose search failed is not stored."""
    return Node(
        stage, spec, inputs, compute, "rows", label, Rankings, stored=stored, cacheable=lambda found: ~found.failed
    )


def step_node(
    stage: str, parameters: Mapping[str, Any], inputs: tuple[Node, ...], compute: Compute, stored: bool = False
) -> Node:
    """Make the node of a step that changes rankings.

    By default, the results are not stored, because reading them takes longer than computing them.
    """
    return ranking_node(stage, Spec(f"ragsweep.pipeline.{stage}", "1", parameters), inputs, compute, stored=stored)


def exclude(excluded: Mapping[str, Sequence[str]], found: Node, corpus: Node, chunks: Node) -> Node:
    """Make the node that removes documents from the rankings of the node ``found``.

    ``excluded`` maps a search text to the ids of the documents to remove from its ranking; if the mapping is empty,
    return ``found`` itself.
    """
    if not excluded:
        return found

    def compute(work: StageContext, rows: Rows) -> Rankings:
        position = work.get(corpus).position
        dropped = [[position[name] for name in excluded.get(text, ())] for text in rows]
        return drop_documents(work.get(found, rows), work.get(chunks).document, dropped)

    pairs = content_hash([[text, *names] for text, names in sorted(excluded.items())])
    return step_node("exclude", {"excluded": pairs}, (found, corpus, chunks), compute)


def drop_scores(found: Node, part: Any) -> Node:
    """Make the node that drops chunks below a retriever's ``min_score``, or return ``found`` if there is none."""
    least: float | None = part.min_score if "min_score" in traits_of(part).filtering else None
    if least is None:
        return found

    def compute(work: StageContext, rows: Rows) -> Rankings:
        return drop_below(work.get(found, rows), least)

    return step_node("drop", {"min_score": least}, (found,), compute)


def pair_keys(candidates: int, ranking: Rankings, rows: Rows) -> list[list[str]]:
    """Return the row keys of each query's pairs with the first ``candidates`` chunks of its ranking."""
    found = zip(rows, ranking.positions[:, :candidates], strict=True)
    return [[f"{position}\t{query}" for position in row[row != NO_CHUNK]] for query, row in found]


def pair_node(
    part: Any, spec: Spec, inputs: tuple[Node, ...], score: Callable[[StageContext, Sequence[Pair]], Floats]
) -> Node:
    """Make the node that computes a reranker's scores of pairs; each call of ``score`` receives at most PAIRS pairs."""

    def compute(work: StageContext, keys: Rows) -> Floats:
        scores = [np.empty(0, np.float32)]
        for start in range(0, len(keys), PAIRS):
            some = keys[start : start + PAIRS]
            split = (key.split("\t", 1) for key in some)
            found = score(work, [(query, int(position)) for position, query in split])
            scores.append(checked_floats(part, found, len(some), 1))
            work.keep(some, scores[-1])
            work.progress(start + len(some), len(keys))
        return np.concatenate(scores)

    return Node("rerank", spec, inputs, compute, "rows", result=np.ndarray, check=key_check(part))


def reorder_node(first: Node, pairs: Node, how: Reordering) -> Node:
    """Make the node that reorders the rankings of ``first`` by the scores in ``pairs`` (see `reorder`)."""

    def keys(ranking: Rankings, rows: Rows) -> list[str]:
        return [key for row in pair_keys(how.candidates, ranking, rows) for key in row]

    def compute(work: StageContext, rows: Rows) -> Rankings:
        ranking: Rankings = work.get(first, rows)
        return reorder(ranking, work.get(pairs, keys(ranking, rows)), how)

    def input_rows(node: Node, rows: Rows, read: ReadKnown) -> Rows:
        if node is not pairs:
            return rows
        if (ranking := read(first, rows)) is not None:
            return keys(ranking, rows)
        return [f"{first.address} {n}\t{query}" for query in rows for n in range(how.candidates)]  # all possible rows

    return replace(step_node("reorder", how._asdict(), (first, pairs), compute, stored=True), input_rows=input_rows)


def widen_to_parents(ranking: Node, chunks: Node, parents: Node) -> Node:
    """Make the node that replaces each ranked chunk with the parent that contains it (see `widen`)."""

    def compute(work: StageContext, rows: Rows) -> Rankings:
        narrow: Rankings = work.get(ranking, rows)
        found = Spans(*(np.append(column, 0)[narrow.positions] for column in work.get(chunks)))
        wide = parents_of(found, work.get(parents))
        return widen(narrow, np.where(narrow.positions == NO_CHUNK, NO_CHUNK, wide), parents.address)

    return step_node("widen", {}, (ranking, chunks, parents), compute)


def cut_to_context(ranking: Node, counts: Node, top_k: int, budget: int | None) -> Node:
    """Make the node that cuts rankings to the first ``top_k`` chunks and, if set, to ``budget`` tokens."""

    def compute(work: StageContext, rows: Rows) -> Rankings:
        first = work.get(ranking, rows).first(top_k)
        return first if budget is None else cut_to_budget(first, work.get(counts)["tokens"], budget)

    if budget is None:
        return step_node("context", {"top_k": top_k}, (ranking,), compute)
    return step_node("context", {"top_k": top_k, "budget": budget}, (ranking, counts), compute)
