"""Measure the latency of a config's stages, measure it again if it is stale, and summarise it."""

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.types import EvaluationView
from ragsweep.evaluation.config_graph import ConfigGraph
from ragsweep.evaluation.question_table import QuestionTable
from ragsweep.stages.executor import Executor
from ragsweep.stages.latency import Probes
from ragsweep.stages.machine import is_busy, is_quiet_now, quiet_seconds
from ragsweep.stages.stored_replies import speed_node
from ragsweep.stats.intervals import quantile


def probe_stages(
    executor: Executor, graph: ConfigGraph, table: QuestionTable, since: float, again: bool
) -> dict[str, Probes]:
    """Return the probes of each stage: the stored probes or, if they are missing or stale, new probes.

    A stage's probes are never repeated if all of them were made after ``since`` (a Unix time), or if the stage calls a
    service. Otherwise, the probes are repeated if ``again`` is set, or if the machine was busy when they were made and
    is idle now.
    """
    stages: dict[str, Probes] = {stage: executor.get(node, table.probed) for stage, node in graph.latency.items()}
    own = [stage for stage, node in graph.latency.items() if not node.check]  # calls to a service cost money
    stale = [stage for stage in own if (stages[stage].at < since).any()]
    if not again:
        quiet = quiet_seconds(executor.notes(speed_node()))
        busy = [stage for stage in stale if is_busy(stages[stage].work, quiet)]
        stale = busy if busy and is_quiet_now(quiet) else []
    for stage in stale:
        executor.drop_rows(graph.latency[stage])
        stages[stage] = executor.get(graph.latency[stage], table.probed)
    return stages


def seconds_by_question(
    probes: Mapping[str, Probes], view: EvaluationView, table: QuestionTable
) -> dict[str, NDArray[np.float64]]:
    """Return the seconds of each question by stage (questions,); NaN for questions that are not probed.

    For the stages of queries and answers, the seconds are the durations of the original calls: 0 for a query that was
    not written, and NaN for a failed call without a duration. For the other stages, the seconds are also NaN for a
    question whose search failed.
    """
    failed = view.rankings.failed
    latency = {
        stage: np.where(failed, np.nan, np.append(one.seconds, np.nan)[table.probe]) for stage, one in probes.items()
    }
    probed = table.probe < len(table.probed)
    if view.queries:  # a query that was not written took no time
        written = [one.seconds if one.failed else np.nan_to_num(one.seconds) for one in view.queries]
        latency["query"] = np.where(probed, written, np.nan)
    if view.answers:
        latency["generate"] = np.where(probed, [answer.seconds for answer in view.answers.answers], np.nan)
    return latency


def summarise_latency(
    view: EvaluationView, probes: Mapping[str, Probes], executor: Executor
) -> dict[str, dict[str, float]]:
    """Return the number of questions, and the mean and quantiles in ms, of each measured stage.

    For a probed stage, the state of the machine during the measurement is added.
    """
    quiet = quiet_seconds(executor.notes(speed_node())) if probes else math.nan
    stages = {}
    for stage, seconds in view.latency.items():
        milliseconds = seconds[~np.isnan(seconds)] * 1000
        if len(milliseconds):
            ordered = np.sort(milliseconds)
            quantiles = {f"p{p}_ms": quantile(ordered, p / 100) for p in (50, 95, 99)}
            stages[stage] = {"n": len(ordered), "mean_ms": float(milliseconds.mean()), **quantiles}
            if stage in probes:
                state = probes[stage]
                stages[stage] |= {
                    "work_mean_ms": 1000 * float(state.work.mean()),
                    "work_p95_ms": 1000 * quantile(np.sort(state.work), 0.95),
                    "work_quiet_ms": 1000 * quiet,
                    "load": float(state.load.mean()),
                    "measured": float(state.at.min()),
                }
    return stages
