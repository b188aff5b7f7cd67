"""A service that fails for one question in retrieval or reranking costs the scores of that question, not the config."""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ragsweep.core.identity import BuiltPart, Spec
from ragsweep.core.missing import INAPPLICABLE, NOT_PROBED, NOTHING_RETRIEVED, REFUSED_BY_SERVICE, SERVER_ERROR
from ragsweep.core.question_texts import to_texts
from ragsweep.core.results import COMPLETE, PARTIAL
from ragsweep.core.types import Case, Judgement, PartTraits, Rankings
from ragsweep.evaluation.answering import unpacked
from ragsweep.evaluation.evaluator import Evaluator
from ragsweep.evaluation.pipeline import Parts, graph
from ragsweep.evaluation.question_table import tabulate
from ragsweep.parts.rerankers import NoReranker
from ragsweep.report.tables import partial_note
from ragsweep.services.errors import CallError, CallFailed, EndpointFailed
from ragsweep.stages.executor import Executor
from ragsweep.stages.store import open_store
from ragsweep.sweep.running.session import Session
from support import nightly
from support.commands import GOLDEN, evaluate, evaluate_with_artifacts, prepare, write_dataset
from support.parts import Whole, Words, built, corpus, golden
from support.servers.json_server import Reply, Server, serving
from test_failures import TIMES, cell

pytestmark = pytest.mark.slow

ASKED = [{"reference": "It rests on the warm mat.", **row} if row.get("evidence") else row for row in GOLDEN]
LOST, WORDS = 1, "what keeps the yard"  # the question with a failure


def vector(text: str) -> list[float]:
    return [1.0 + text.count(letter) for letter in "abcdefghilmnoprstuwy"]


def answer(body: dict[str, Any]) -> Reply:
    """Answer what an embedding service, a rerank service or a model is asked for."""
    if "documents" in body:
        shared = [len(set(body["query"].split()) & set(text.split())) for text in body["documents"]]
        content: Any = {"results": [{"index": n, "relevance_score": score} for n, score in enumerate(shared)]}
    elif "input" in body:
        content = {"data": [{"index": n, "embedding": vector(text)} for n, text in enumerate(body["input"])]}
    else:
        message = {"role": "assistant", "content": "It rests on the warm mat."}
        content = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    return 200, {}, json.dumps(content).encode()


def searched(body: dict[str, Any]) -> str:
    """Return the texts of questions that a call to an embedding or a rerank service has."""
    return "\n".join([body.get("query", ""), *body.get("input", [])])


def fail(server: Server, status: int, words: str = WORDS) -> None:
    server.reply = lambda body, number: (status, {}, b"no") if words in searched(body) else answer(body)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, cwd: Path) -> Iterator[Server]:
    with serving(monkeypatch, answer) as made:
        yield made


def service(part: str, server: Server) -> list[str]:
    return [f"{part}.base_url={server.url}", f"{part}.key_env=null", f"{part}.model=m", f"{part}.retries=0"]


def chosen(stage: str, folder: Path, server: Server) -> list[str]:
    embedder = ["embedder=api", *service("embedder", server)]
    stages = {
        "rerank": ["retriever=bm25", "reranker=api", "reranker.candidates=3", *service("reranker", server)],
        "embed": ["retriever=vector", *embedder],
        "hybrid": ["retriever=hybrid_rrf", *embedder],
    }  # fmt: skip
    return [
        *[one for one in write_dataset(folder, ASKED) if not one.startswith("retriever")], *stages[stage], "llm=openai",
        *service("llm", server), "depth=4", "top_k=2", "tracking=none", "targets=none", "coverage=0",
        "~metrics.semantic_similarity",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("stage", "status", "reason"),
    [
        nightly("rerank", 422, REFUSED_BY_SERVICE),
        ("embed", 500, SERVER_ERROR),
        nightly("hybrid", 422, REFUSED_BY_SERVICE),
    ],
)
def test_failed_search_leaves_the_mean_over_the_others_and_a_count(
    stage: str, status: int, reason: str, server: Server, tmp_path: Path
) -> None:
    given = chosen(stage, tmp_path, server)
    whole = evaluate(Session(), *given)
    before = len(server.bodies)
    fail(server, status)
    broken = evaluate(Session(), *given)
    assert broken.summaries.metrics["context_tokens"].reasons[reason] == 1
    for name, summary in broken.summaries.metrics.items():
        kept = []
        for row in range(len(ASKED)):
            (old, why), (new, reported) = (cell(one, name, row) for one in (whole, broken))
            if row == LOST and why not in INAPPLICABLE - {NOT_PROBED}:
                assert (math.isnan(new), reported) == (True, reason), name
            elif not name.startswith(TIMES):
                np.testing.assert_equal([new, reported], [old, why], err_msg=name)
            kept += [] if math.isnan(new) else [new]
        assert summary.n_scored == len(kept)
        if kept and not name.startswith(TIMES) and summary.unit != "tokens":
            assert summary.value == pytest.approx(sum(kept) / len(kept)), name
    prompts = [json.dumps(body["messages"]) for body in server.bodies[before:] if "messages" in body]
    assert len(prompts) == len(ASKED) - 1
    assert not any(WORDS in prompt for prompt in prompts)
    assert broken.questions["answer_failed"][LOST] == reason


def test_rejected_chunk_is_not_sent_again_for_every_question(server: Server, tmp_path: Path) -> None:
    fail(server, 422, "warm mat")
    with pytest.raises(CallError, match="status 422"):
        evaluate(Session(), *chosen("embed", tmp_path, server))
    assert sum("warm mat" in searched(body) for body in server.bodies) == 1


@pytest.mark.parametrize("stage", ["rerank", nightly("embed")])
def test_failed_search_is_no_empty_ranking_in_traces_runs_and_the_reranking(
    stage: str, server: Server, tmp_path: Path
) -> None:
    given = chosen(stage, tmp_path, server)
    whole, written = evaluate_with_artifacts(Session(), *given)
    fail(server, 422)
    broken, rewritten = evaluate_with_artifacts(Session(), *given)
    paths = [to_texts(one.questions)["evidence_trace"] for one in (broken, whole)]
    assert paths[0][LOST] == "{}"
    assert paths[0][0] == paths[1][0]
    assert not written.rankings.keys() & rewritten.rankings.keys()
    for kind in ("rankings", "qrels", "evidence_runs", "evidence_qrels"):
        (complete,), (lacking,) = (getattr(one, kind).values() for one in (written, rewritten))
        assert lacking == "".join(line for line in complete.splitlines(keepends=True) if not line.startswith("q2 "))
    if stage == "rerank":
        assert broken.summaries.reranking["evidences"] == whole.summaries.reranking["evidences"] - 1
        assert broken.summaries.reranking["lost"] == 0
    assert all(facts["n"] <= len(ASKED) - 1 for facts in broken.summaries.latency.values())


def test_failed_search_makes_partial_below_the_coverage(server: Server, tmp_path: Path) -> None:
    given = chosen("rerank", tmp_path, server)
    fail(server, 422)
    refused, accepted = (evaluate(Session(), *given, f"coverage={least}") for least in (0.98, 0.5))
    assert (refused.run.state, accepted.run.state) == (PARTIAL, COMPLETE)
    assert "to accept the missing scores" in partial_note(refused)
    fail(server, 500)
    assert "run it again: only failed calls are repeated" in partial_note(evaluate(Session(), *given, "coverage=0.98"))


@pytest.mark.parametrize("stage", ["rerank", "embed", "hybrid"])
def test_next_run_repeats_only_the_failed_search(stage: str, server: Server, tmp_path: Path) -> None:
    experiment = prepare(Session(), *chosen(stage, tmp_path, server))
    context, queries = experiment.graph.context, tabulate(experiment.dataset.golden.questions).queries
    fail(server, 422)
    first = Executor(open_store(tmp_path / "store", print)).get(context, queries)
    assert first.failed.tolist() == [row == LOST for row in range(len(ASKED))]
    again = Executor(open_store(tmp_path / "store", print)).get(context, queries)  # the same question fails again
    np.testing.assert_array_equal(again.positions, first.positions)
    before = len(server.bodies)
    server.reply = lambda body, number: answer(body)
    last = Executor(open_store(tmp_path / "store", print)).get(context, queries)
    assert not last.failed.any()
    assert {searched(body).strip() for body in server.bodies[before:]} <= {"dimension", queries[LOST]}


@pytest.mark.parametrize(
    ("stage", "status", "error"),
    [
        ("rerank", 422, CallFailed),
        ("hybrid", 422, CallFailed),
        ("embed", 422, CallFailed),
        ("embed", 401, EndpointFailed),
    ],
)
def test_config_fails_where_no_search_succeeds(
    stage: str, status: int, error: type[Exception], server: Server, tmp_path: Path
) -> None:
    experiment = prepare(Session(), *chosen(stage, tmp_path, server))
    questions = {str(row["question"]) for row in ASKED}
    server.reply = lambda body, number: (
        (status, {}, b"no") if any(text in searched(body) for text in questions) else answer(body)
    )
    with pytest.raises(error, match=f"status {status}: no"):
        Evaluator(Executor(open_store(tmp_path / "store", print))).evaluate(experiment)
    assert not any("messages" in body for body in server.bodies)


class FailingWords(Words):
    """A retriever of a user's own that calls a service, which fails for one query."""

    def retrieve(self, index: Mapping[str, np.ndarray], queries: Sequence[str], depth: int) -> Rankings:
        """Count shared words."""
        if "source code" in queries:
            raise CallFailed("down")
        return super().retrieve(index, queries, depth)


class Counting:
    """A judged metric of contexts; records the questions that it judged."""

    TRAITS = PartTraits(version="1")
    name = "counting"
    uses = ("question", "contexts")

    def __init__(self) -> None:
        self.judged: list[str] = []

    def judge(self, cases: Sequence[Case], done: Callable[[int, Judgement], None]) -> None:
        """Count the passages."""
        for number, case in enumerate(cases):
            self.judged.append(str(case.question))
            done(number, Judgement(float(len(case.contexts or ()))))


def test_context_of_a_failed_search_is_not_judged_and_its_verdict_not_stored(tmp_path: Path) -> None:
    table = tabulate(golden(("the cat", "d0"), ("source code", "d2"), ("no such word", "d1")).questions)
    for retriever, reasons in (
        (FailingWords(), ["", SERVER_ERROR, NOTHING_RETRIEVED]),
        (Words(), ["", "", NOTHING_RETRIEVED]),
    ):
        judge = Counting()
        parts = Parts(corpus(), built(Whole()), BuiltPart(retriever, Spec("Words", "1")), built(NoReranker()), 4, 2)
        config = graph(replace(parts, judged={"counting": built(judge)}))
        verdicts = Executor(open_store(tmp_path / "store", print)).get(config.verdicts["counting"], table.judged)
        assert [one.reason for one in unpacked(verdicts, Judgement)] == reasons
        assert judge.judged == (["the cat"] if SERVER_ERROR in reasons else ["source code"])
