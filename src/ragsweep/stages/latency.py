"""Measure the latency of a stage for single questions: one by one, with warm caches, never as a share of a batch."""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.identity import Node, Rows, Spec, StageContext, with_held
from ragsweep.services.errors import CallFailed
from ragsweep.stages.machine import load, machine, store_speed, time_fixed_work
from ragsweep.stages.stored_replies import speed_node

EACH = 3
"""Number of questions per measurement of the machine's speed; a measurement takes as long as a fast question."""


class Probes(NamedTuple):
    """The time of each probed question, and the state of the machine at that time; all arrays are (questions,)."""

    seconds: NDArray[np.float64]
    work: NDArray[np.float64]  # seconds that the fixed work took shortly before the question
    load: NDArray[np.float64]  # load average of the last minute
    at: NDArray[np.float64]  # Unix time of the measurement


def latency_node(
    target: Node, part: Any, ranking: Node | None = None, keys: Callable[[Any, Rows], Sequence[Rows]] | None = None
) -> Node:
    """Return the node that times ``target``, a node that calls ``part``, for each query; its value is `Probes`.

    If the target's rows are not queries, ``keys(value of ranking, queries)`` returns the rows of each query. If the
    target fails for a query, the query's time is NaN and is not stored.
    """

    def compute(work: StageContext, rows: Rows) -> Probes:
        wanted = keys(work.get(ranking, rows), rows) if ranking and keys else [[query] for query in rows]
        with suppress(CallFailed):  # each query is repeated below
            work.get(target, [key for row in wanted for key in row])  # computes the inputs, so that they are not timed
        return _one_by_one(target, work, wanted)

    # The target's address does not depend on the GPUs.
    gpus = [one.accelerator for one in with_held(part) if getattr(one, "accelerator", "")]
    spec = Spec("ragsweep.latency", "2", files={"machine": " ".join([machine(), *gpus])})
    inputs = (target, *target.inputs) if ranking is None else (target, ranking, *target.inputs)
    return _node(target, spec, inputs, compute)


def rule_latency_node(target: Node, rule: Spec) -> Node:
    """Return the node that times ``target``; targets with the same inputs and the same ``rule`` share one measurement.

    ``rule`` is the target's spec without the parameters, such as weights, that do not change the amount of work.
    """

    def compute(work: StageContext, rows: Rows) -> Probes:
        for given in target.inputs:
            work.get(given, rows)
        return _one_by_one(target, work, [[query] for query in rows])

    spec = Spec("ragsweep.latency", "2", {"rule": rule}, {"machine": machine()})
    return _node(target, spec, target.inputs, compute)


def _node(target: Node, spec: Spec, inputs: tuple[Node, ...], compute: Callable[[StageContext, Rows], Probes]) -> Node:
    probed = Node("latency", spec, inputs, compute, "rows", target.label, Probes, check=target.check)
    return replace(probed, cacheable=lambda probes: ~np.isnan(probes.seconds))


def _one_by_one(target: Node, work: StageContext, wanted: Sequence[Rows]) -> Probes:
    """Time the target for each question, and the fixed work before every third run, to time both under the same load.

    ``wanted`` lists the target's rows for each question. If the target fails for a question, the question's time is
    NaN.
    """
    inputs, found, fixed = cast(StageContext, _Inputs(work)), [], 0.0
    for number, rows in enumerate([*wanted[:1], *wanted]):  # the first question runs twice: to warm up, and to be timed
        if number % EACH == 0:
            fixed = time_fixed_work()
        begin = time.perf_counter()
        succeeded = _succeeds(target, inputs, rows)
        seconds = time.perf_counter() - begin if succeeded else np.nan
        found.append((seconds, fixed, load(), time.time()))
    probes = Probes(*np.array(found[1:], dtype=np.float64).reshape(-1, len(Probes._fields)).T.copy())
    store_speed(work.notes(speed_node()), probes.work)
    return probes


def _succeeds(target: Node, work: StageContext, rows: Rows) -> bool:
    try:
        value = target.compute(work, rows)
    except CallFailed:
        return False
    return target.cacheable is None or bool(target.cacheable(value).all())


class _Inputs:
    """The methods of a ``StageContext`` that timed targets call. Inputs are precomputed, and nothing is stored."""

    def __init__(self, work: StageContext) -> None:
        self._work = work

    def get(self, node: Node, rows: Rows | None = None) -> Any:
        return self._work.get(node, rows)

    def progress(self, done: int, total: int) -> None: ...

    def keep(self, rows: Rows, value: Any) -> None: ...
