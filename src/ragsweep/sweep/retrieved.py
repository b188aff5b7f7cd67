"""What a recorded config retrieved: its rankings where their stages are stored, else the contexts in its record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ragsweep.core.errors import RagsweepError
from ragsweep.core.results import Result
from ragsweep.evaluation.config_graph import chunks_of
from ragsweep.evaluation.question_table import ChunkNames
from ragsweep.stages.graph import Wanted, plan
from ragsweep.sweep.compose import PlainConfig
from ragsweep.sweep.session import Job, Session


class Retrieved(NamedTuple):
    """Names of chunks by a question's id, best first; ``whole``: as many as were wanted, or as were found."""

    chunks: Mapping[str, Sequence[str]]
    whole: bool = True


def read_retrieved(session: Session, result: Result, depth: int) -> Retrieved:
    """Return the first chunks that a config retrieved for each of its questions; nothing is computed for it."""
    columns = result.outcomes
    contexts = {name: found[:depth] for name, found in zip(columns["question_id"], columns["context"], strict=True)}
    if int(result.config["top_k"]) >= depth and not result.config.get("context_budget"):
        return Retrieved(contexts)
    values = dict(result.config)
    try:
        graph = session.prepare(Job(PlainConfig(values, values, {}), result.name, result.overrides)).graph
    except RagsweepError:
        return Retrieved(contexts, whole=False)
    searched = [n for n, count in enumerate(columns["retrieved"]) if count]
    texts = columns.get("query", columns["question"])
    rows, executor = [texts[n] for n in searched], session.evaluator.executor
    if plan([[Wanted(graph.ranking, rows), Wanted(graph.chunks, ())]], executor).missing:
        return Retrieved(contexts, whole=False)
    found = executor.get(graph.ranking, rows).positions[:, :depth]
    named = ChunkNames(chunks_of(graph, executor.get)).of(found)
    return Retrieved(contexts | {columns["question_id"][n]: names for n, names in zip(searched, named, strict=True)})
