"""A stored latency is measured again where it is out of date, and says how busy the machine was."""

import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ragsweep.core.identity import Node
from ragsweep.core.types import Answer, Chunks, Dataset, Rankings
from ragsweep.evaluation.evaluator import Evaluator
from ragsweep.evaluation.evidence import cover, view
from ragsweep.evaluation.experiment import Experiment
from ragsweep.evaluation.pipeline import Parts, graph
from ragsweep.evaluation.probing import seconds_by_question, summarise_latency
from ragsweep.evaluation.question_table import tabulate
from ragsweep.parts.chunkers import FixedSize
from ragsweep.parts.metrics import Latency
from ragsweep.parts.rerankers import NoReranker
from ragsweep.stages.blobs import StoredPiece
from ragsweep.stages.executor import Executor
from ragsweep.stages.latency import Probes
from ragsweep.stages.machine import is_quiet_now, store_speed
from ragsweep.stages.store import Cost, Store
from ragsweep.stages.stored_replies import speed_node
from ragsweep.stats.latencies import slowness
from support.parts import Whole, Words, built, corpus, golden

QUESTIONS = golden(("cats in the yard", "d1"), ("source code compiler", "d2"))
TEXTS = tuple(question.text for question in QUESTIONS.questions)
YEAR_2001 = 1e9
QUIET, BUSY = 50.0, 200.0
"""Seconds of the fixed work: no machine of these days takes a second, so it is quiet beside these."""


def asked(**config: bool) -> Experiment:
    laid = graph(Parts(corpus(), built(FixedSize(40), size=40), built(Words()), built(NoReranker()), 4, 1))
    metrics = (Latency(quantile=0.95),)
    return Experiment("n", (), config, {}, Dataset("toy", corpus(), QUESTIONS), laid, 1, metrics, 0.5, "s")


def stored(folder: Path, work: float, quiet: float) -> tuple[Store, Node]:
    """Store a probe of 7 seconds a question, of long ago, while the fixed work took so long."""
    store, node = Store(folder, pytest.fail), asked().graph.latency["retrieve"]
    probes = Probes(*(np.full(len(TEXTS), one) for one in (7.0, work, 1.0, YEAR_2001)))
    store.keep_rows(node, StoredPiece(TEXTS, probes), Cost(len(TEXTS), 14.0))
    store_speed(Executor(store).notes(speed_node()), np.array([quiet]))
    return store, node


def p95(experiment: Experiment, store: Store) -> float:
    return Evaluator(Executor(store)).evaluate(experiment).summaries.metrics["latency_p95_ms"].value


def test_stored_latency_is_recalled(tmp_path: Path) -> None:
    store, _ = stored(tmp_path, QUIET, QUIET)
    assert p95(asked(), store) == 7000.0


def test_latency_is_measured_again_with_rerun_and_once_a_process(tmp_path: Path) -> None:
    store, node = stored(tmp_path, QUIET, QUIET)
    evaluator = Evaluator(Executor(store))
    first, second = (evaluator.evaluate(asked(rerun=True)) for _ in range(2))
    assert first.summaries.metrics["latency_p95_ms"].value < 7000.0
    assert first.summaries.latency == second.summaries.latency
    assert evaluator.executor.work["latency"].executed == 1
    assert Executor(store).get(node, TEXTS).seconds.max() < 7.0  # and the old one is gone
    assert store.cost(node) < 14.0


def test_latency_of_a_busy_machine_is_measured_again_when_the_machine_is_quiet(tmp_path: Path) -> None:
    store, _ = stored(tmp_path, BUSY, QUIET)
    assert p95(asked(), store) < 7000.0


def test_latency_of_a_busy_machine_stays_while_the_machine_is_busy(tmp_path: Path) -> None:
    store, _ = stored(tmp_path, BUSY, 1e-7)
    result = Evaluator(Executor(store)).evaluate(asked())
    assert result.summaries.metrics["latency_p95_ms"].value == 7000.0
    assert slowness(result) == pytest.approx(BUSY / 1e-7)


def test_machine_that_is_certainly_busy_is_not_measured_further() -> None:
    def seconds(quiet: float) -> float:
        begin = time.process_time()
        is_quiet_now(quiet)
        return time.process_time() - begin

    assert min(seconds(1e-7) for _ in range(3)) < min(seconds(QUIET) for _ in range(3)) / 4


def test_latency_of_a_service_is_not_paid_for_twice(tmp_path: Path) -> None:
    store, node = stored(tmp_path, BUSY, QUIET)
    experiment = asked(rerun=True)
    latency = {"retrieve": replace(node, check=lambda: None)}
    assert p95(replace(experiment, graph=replace(experiment.graph, latency=latency)), store) == 7000.0


def test_result_has_the_state_of_the_machine_beside_each_probe() -> None:
    before = time.time()
    stage = Evaluator().evaluate(asked()).summaries.latency["retrieve"]
    assert 0 < stage["work_quiet_ms"] <= stage["work_mean_ms"] * (1 + 1e-6)  # the former is stored with nine digits
    assert before <= stage["measured"] <= time.time()
    assert stage["load"] >= 0


def test_failed_query_has_no_latency() -> None:
    given = golden(("cats", "d1"), ("dogs", "d2"), ("mice", "d1"), ("rats", "d1"))
    rankings = Rankings(np.zeros((4, 1), dtype=np.int32), np.ones((4, 1), dtype=np.float32))
    queries = [Answer("a", seconds=0.5), Answer("b", seconds=0.7), Answer(failed="timed out"), Answer()]
    looked = replace(view(cover(Chunks(corpus(), Whole().split(corpus())), given), rankings, 1), queries=queries)
    looked = replace(looked, latency=seconds_by_question({}, looked, tabulate(given.questions)))
    np.testing.assert_array_equal(looked.latency["query"], [0.5, 0.7, np.nan, 0.0])  # the last one was not written
    facts = summarise_latency(looked, {}, Executor())["query"]
    assert (facts["n"], facts["mean_ms"]) == (3, pytest.approx(400.0))
