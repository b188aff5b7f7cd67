"""The plan of a search is an upper bound: each embedding that its space allows once, the rest by trial."""

import io
from pathlib import Path

import pytest

from ragsweep.golden import partition
from ragsweep.report.terminal import Terminal
from ragsweep.stages.executor import Executor
from ragsweep.stages.graph import Plan
from ragsweep.sweep.composing.command import compose_jobs
from ragsweep.sweep.composing.job import Job
from ragsweep.sweep.preparing import Prepared, prepare
from ragsweep.sweep.running.session import Session, open_session
from support import nightly
from support.commands import GOLDEN, read, write_dataset

pytestmark = pytest.mark.slow

SEARCH = ["hydra/sweeper=optuna", "retriever=bm25,vector", "embedder=hashing"]


@pytest.fixture
def typed(cwd: Path) -> list[str]:
    return [*write_dataset(cwd)[:-1], f"store.path={cwd / 'store'}", "tracking=none", *SEARCH]


def prepared(*typed: str) -> tuple[Prepared, Session, list[Job]]:
    command = read(typed, multirun=True)
    jobs = compose_jobs(command)
    session = open_session(jobs[0].config.values, Terminal(io.StringIO(), bars=False))
    return prepare(command, session, jobs, []), session, jobs


def bound(*typed: str) -> Plan:
    return prepared(*typed)[0].planned


def distinct(found: Plan, *stages: str) -> tuple[int, ...]:
    return tuple(found.stages[stage].distinct for stage in stages)


def test_each_embedding_of_the_space_is_counted_once_though_no_probe_has_all_of_them(typed: list[str]) -> None:
    found = bound(*typed, "embedder.dimensions=256,512", "chunker.size=choice(200,400,800)")
    assert distinct(found, "chunk", "embed", "embed_queries", "context") == (3, 6, 2, 12)
    assert (found.configs, found.upper) == (12, True)  # the space has no more


@pytest.mark.parametrize("sweep", ["range(200,600,200)", "choice(200,400)"])
def test_a_typed_number_of_finalists_does_not_change_the_space(typed: list[str], sweep: str) -> None:
    space = (*typed, "embedder.dimensions=256,512", f"chunker.size={sweep}")
    assert bound(*space, "finalists=3").stages == bound(*space).stages


def test_two_nodes_of_one_part_in_a_config_are_both_counted(typed: list[str]) -> None:
    found = bound(*typed, "retriever=vector", "embedder=hashing", "top_k=range(1,9)", "hydra.sweeper.n_trials=8")
    assert distinct(found, "latency") == (2,)  # of embedding the queries, and of retrieval


@pytest.mark.nightly
def test_no_stage_has_more_than_one_node_a_trial(typed: list[str]) -> None:
    found = bound(*typed, "chunker.size=range(200,900,10)", "hydra.sweeper.n_trials=9")
    assert distinct(found, "chunk", "embed", "context") == (9, 9, 9)


@pytest.mark.parametrize(("sweep", "number"), [nightly("range(200,600,100)", 4), ("int(interval(200,800))", 50)])
def test_values_of_a_range_count_up_to_the_number_of_trials(typed: list[str], sweep: str, number: int) -> None:
    found = bound(*typed, f"chunker.size={sweep}", "top_k=range(1,60)", "hydra.sweeper.n_trials=50")
    assert number <= distinct(found, "chunk")[0] <= number + 1  # the default's size may be one of them
    assert distinct(found, "context") == (50,)


def test_answers_are_counted_for_every_trial_though_all_have_one_generator(typed: list[str]) -> None:
    more = ("llm=extractive", "~metrics.semantic_similarity", "hydra.sweeper.n_trials=9")
    one, all_trials = (bound(*typed, *more, f"top_k=range(1,{end})").stages["generate"] for end in (2, 9))
    assert one.rows
    assert (one.distinct, all_trials.distinct) == (1, 1)
    assert all_trials.rows > 3 * one.rows


def test_a_reference_that_is_worse_is_planned_beside_the_finalists(
    typed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    more = (*typed, "retriever=bm25", "llm=extractive", "~metrics.semantic_similarity", "top_k=range(1,9)")
    more = (*more, "partition=tune", "hydra.sweeper.n_trials=3")
    alone, too_few = (bound(*more, f"finalists={most}").stages["generate"].rows for most in (0, 5))
    assert too_few == alone > 0  # a set of fewer than 300 questions has no finalists
    monkeypatch.setattr(partition, "ENOUGH", 1)
    one, all_trials = (bound(*more, f"finalists={most}").stages["generate"].rows for most in (1, 5))
    assert (one, all_trials) == (alone // 3 * 5, alone // 3 * 6)


def test_stored_answers_of_the_ends_of_a_range_are_not_those_of_its_other_values(typed: list[str]) -> None:
    one = [*typed, "retriever=bm25", "llm=extractive", "~metrics.semantic_similarity", "hydra.sweeper.n_trials=9"]
    space = [*one, "top_k=range(1,9)"]
    first, session, jobs = prepared(*space)
    before = first.planned.stages["generate"].rows
    for job in jobs:
        assert job.experiment
        session.evaluator.evaluate(job.experiment)
    assert bound(*space).stages["generate"].rows == before > 0
    assert bound(*one, "top_k=1,8").stages["generate"].rows == 0  # whose answers are all stored


def test_seconds_of_reranking_are_those_of_all_pairs_of_every_trial(
    typed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each trial may find other chunks, so that none of its pairs is known. A pair takes a second here."""
    monkeypatch.setattr(Executor, "estimate", lambda self, node, rows: float(len(rows)))
    api = ("reranker=api", "reranker.base_url=http://127.0.0.1:1/v1", "reranker.model=m", "reranker.candidates=6")
    found = bound(*typed, *api, "top_k=range(1,3)")
    assert found.configs == 4
    assert found.stages["rerank"].seconds == 4 * len(GOLDEN) * 6
