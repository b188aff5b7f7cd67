"""Measure how long one question takes in a stage: one by one and warm, never a batch's time divided by its length."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.identity import Node, Rows, Spec, StageContext, content_hash

SAMPLE = 50
"""How many questions are probed at most."""


def sample(queries: Sequence[str]) -> tuple[str, ...]:
    """Choose the questions to probe: by hash, so that the same ones are chosen from any order and most supersets."""
    return tuple(sorted(set(queries), key=lambda query: content_hash(query))[:SAMPLE])


@cache
def machine() -> str:
    """Name this machine by what sets its speed: architecture, processor and number of cores."""
    facts = Path("/proc/cpuinfo")
    lines = [line for line in facts.read_text().splitlines() if line.startswith("model name")] if facts.exists() else []
    model = lines[0].split(":", 1)[1].strip() if lines else platform.processor()  # which starts a process
    return f"{platform.machine()} {model} x{os.cpu_count()}"


def latency_node(
    target: Node, ranking: Node | None = None, keys: Callable[[Any, Rows], Sequence[Rows]] | None = None
) -> Node:
    """Make the node that times ``target`` for each query: seconds, float64.

    Where the target's rows are not queries, ``keys(value of ranking, queries)`` gives the rows of each query.
    """

    def compute(work: StageContext, rows: Rows) -> NDArray[np.float64]:
        wanted = (
            keys(work.get(ranking, rows), rows) if ranking is not None and keys is not None else [[q] for q in rows]
        )
        work.get(target, [key for row in wanted for key in row])  # so that only the target is timed, not its inputs
        return _one_by_one(target, work, wanted)

    spec = Spec("ragsweep.latency", "1", files={"machine": machine()})
    inputs = (target, *target.inputs) if ranking is None else (target, ranking, *target.inputs)
    return Node("latency", spec, inputs, compute, "rows", target.label, np.ndarray, check=target.check)


def rule_latency_node(target: Node, rule: Spec) -> Node:
    """Make the node that times a step whose parameters change the result but not the work, such as a weight.

    ``rule`` is the step's spec without these: all steps of one rule over the same inputs share one measurement.
    """

    def compute(work: StageContext, rows: Rows) -> NDArray[np.float64]:
        for given in target.inputs:
            work.get(given, rows)
        return _one_by_one(target, work, [[query] for query in rows])

    spec = Spec("ragsweep.latency", "1", {"rule": rule}, {"machine": machine()})
    return Node("latency", spec, target.inputs, compute, "rows", target.label, np.ndarray, check=target.check)


def _one_by_one(target: Node, work: StageContext, wanted: Sequence[Rows]) -> NDArray[np.float64]:
    inputs, seconds = _Inputs(work), []
    for rows in [*wanted[:1], *wanted]:  # the first loads what is loaded once, and warms the caches
        begin = time.perf_counter()
        target.compute(inputs, rows)
        seconds.append(time.perf_counter() - begin)
    return np.array(seconds[1:], dtype=np.float64)


class _Inputs:
    """The context of the timed target, whose inputs are computed already: nothing is recalled, reported or stored."""

    def __init__(self, work: StageContext) -> None:
        self._work = work

    def get(self, node: Node, rows: Rows | None = None) -> Any:
        return self._work.get(node, rows)

    def progress(self, done: int, total: int) -> None: ...

    def notes(self, node: Node) -> MutableMapping[str, str]:
        return {}

    def keep(self, rows: Rows, value: Any) -> None: ...

    def piece(self, name: str, make: Callable[[], Any]) -> Any:
        return make()

    def pieces(
        self, make: Callable[[Any], Any], names: Sequence[str], read: Callable[[str], Any]
    ) -> Iterator[tuple[str, Any]]:
        yield from ((name, make(read(name))) for name in names)

    def space(self, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        return np.empty(shape, dtype)
