"""The steps of a served question: their durations, and the results of the ranking steps."""

import time
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.identity import Node
from ragsweep.core.types import NO_CHUNK, Rankings
from ragsweep.evaluation.config_graph import ConfigGraph
from ragsweep.stages.executor import Listener

TIMED = ("route", "query", "embed_queries", "retrieve", "fuse", "rerank", "generate")
"""Stages that are steps of a question; other stages select from the results of these, or run once for all questions."""

Doubles = NDArray[np.float64]


class TimedStep(NamedTuple):
    """A step of one question: its name as in the latencies of an evaluation, its duration in ms, and its end.

    ``ended`` is in seconds of ``time.perf_counter``.
    """

    name: str
    milliseconds: float
    ended: float


class StepClock(Listener):
    """Collects the steps of one question as the executor reports them."""

    def __init__(self) -> None:
        self.steps: list[TimedStep] = []

    def finished(self, node: Node, seconds: float) -> None:
        """Add the step of a node that took ``seconds``; nodes of stages that are not in TIMED are ignored."""
        if node.kind == "rows" and node.stage in TIMED:
            name = f"{node.stage}/{node.label}".strip("/")
            self.steps.append(TimedStep(name, 1000 * seconds, time.perf_counter()))


def ranking_nodes(graph: ConfigGraph) -> Mapping[str, Node]:
    """Map the name of each ranking step to the node of the ranking that the step makes."""
    legs = {f"retrieve/{leg}": node for leg, node in graph.legs.items()}
    first = {"fuse" if legs else "retrieve": graph.first_stage}
    return {**legs, **first, **({"rerank": graph.ranking} if graph.candidates else {})}


def top_scores(rankings: Rankings) -> tuple[Doubles, Doubles]:
    """Return two arrays (questions,): each question's top score, and its gap to the second; NaN if missing."""
    scores = np.full((len(rankings.scores), 2), np.nan)
    width = min(rankings.scores.shape[1], 2)
    is_chunk = rankings.positions[:, :width] != NO_CHUNK
    scores[:, :width] = np.where(is_chunk, rankings.scores[:, :width].astype(np.float64), np.nan)
    return scores[:, 0], scores[:, 0] - scores[:, 1]
