"""Served answers are traced beside them: no answer waits for a trace or fails with it, and a sample is a sample."""

import logging
import math
import threading
from pathlib import Path

import pytest

from llm_server import LlmServer
from ragsweep.parts.tracking.served_traces import ServedTrace
from ragsweep_serving.pipeline import ServedPipeline
from ragsweep_serving.reference import Reference
from ragsweep_serving.tracing import MOST_WAITING, RATIO, TraceQueue, describe, describe_failure
from support.commands import GOLDEN
from test_served_pipeline import shipped

TRACE = ServedTrace("handbook", "b", "where is the cat", 1.0, 2.0)


def test_what_cannot_be_sent_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    def refuse(trace: ServedTrace) -> None:
        raise OSError("no server")

    traces = TraceQueue(refuse)
    with caplog.at_level(logging.WARNING):
        traces.put(lambda: TRACE)
        assert traces.flush(30)
    assert "a trace was not sent: no server" in caplog.text


def test_slow_place_drops_traces_and_delays_nothing(caplog: pytest.LogCaptureFixture) -> None:
    free, sent = threading.Event(), []

    def wait(trace: ServedTrace) -> None:
        free.wait(30)
        sent.append(trace)

    traces = TraceQueue(wait)
    for _ in range(MOST_WAITING + 10):
        traces.put(lambda: TRACE)  # returns, although nothing is sent
    assert not traces.flush(0)
    assert 9 <= traces.dropped <= 10  # the thread may have taken one
    assert "traces dropped so far" in caplog.text
    free.set()
    assert traces.flush(30)
    assert len(sent) == MOST_WAITING + 10 - traces.dropped


def test_sample_is_a_share_unless_mlflow_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    for ratio, variable, expected in ((0.0, "", 0), (1.0, "", 50), (0.0, "0.5", 50)):
        sent: list[ServedTrace] = []
        monkeypatch.delenv(RATIO, raising=False)
        if variable:
            monkeypatch.setenv(RATIO, variable)
        traces = TraceQueue(sent.append, ratio)
        for _ in range(50):
            traces.put(lambda: TRACE)
        assert traces.flush(30)
        assert len(sent) == expected


def test_trace_has_the_steps_of_the_evaluation_with_their_scores(tmp_path: Path, tiny_classifier: Path) -> None:
    reranker = ["reranker=cross_encoder", f"reranker.model={tiny_classifier}", "reranker.candidates=4"]
    result, bundle = shipped(tmp_path, "retriever=hybrid_rrf", "llm=extractive", *reranker)
    pipeline = ServedPipeline(bundle)
    found = pipeline.answer("where does the cat rest")
    trace = describe("handbook", "b", ("where does the cat rest", ()), 1.0, found)
    steps = {step.name: step for step in trace.steps}
    assert set(steps) == {"embed_queries/vector", "retrieve/bm25", "retrieve/vector", "fuse", "rerank", "generate"}
    assert steps["rerank"].top_score == pytest.approx(found.context[0].score)
    assert steps["rerank"].gap == pytest.approx(found.context[0].score - found.context[1].score)
    assert steps["fuse"].top_score > steps["fuse"].top_score - steps["fuse"].gap > 0
    assert math.isnan(steps["generate"].top_score)
    assert all(step.milliseconds >= 0 for step in trace.steps)
    documents = [one["id"].partition(":")[0] for one in steps["rerank"].outputs][:3]
    assert documents == [one.document for one in found.context]
    assert (trace.results, trace.failed) == (len(found.context), "")
    assert trace.abstained == result.questions["abstained"][0]
    assert trace.answer == result.questions["answer"][0]
    failure = describe_failure("handbook", "b", ("x", ()), 1.0, ValueError("lost"))
    assert (failure.failed, failure.results, failure.answer) == ("ValueError", 0, None)


def test_reference_has_what_the_served_pipeline_gives_for_the_same_questions(tmp_path: Path) -> None:
    result, bundle = shipped(tmp_path, "retriever=hybrid_rrf")
    reference, pipeline = Reference.read(bundle), ServedPipeline(bundle)
    for n, text in enumerate(result.questions["question"]):
        found = pipeline.answer(text)
        for step, ranked in found.rankings.items():
            known = reference.numbers[f"top_score/{step}"][n], reference.numbers[f"gap/{step}"][n]
            assert known == pytest.approx((ranked.top_score, ranked.gap), nan_ok=True)
        assert reference.numbers["results"][n] == len(found.context)
    assert reference.trace_sample == 0.5
    assert {"ms/fuse", "ms/retrieve/bm25", "ms/total"} <= set(reference.numbers)


def test_reference_and_trace_of_a_routed_question_have_the_same_numbers(tmp_path: Path) -> None:
    empty = {"id": "q5", "question": "zzz qqq", "evidence": [{"document": "cats"}]}
    talk = {"id": "q6", "question": "hello", "needs_retrieval": False}
    _, bundle = shipped(tmp_path, "retriever=bm25", "router=rule", golden=[*GOLDEN, empty, talk])
    reference, pipeline = Reference.read(bundle), ServedPipeline(bundle)
    for text, results in zip(("zzz qqq", "hello"), reference.numbers["results"][-2:], strict=True):
        trace = describe("handbook", "b", (text, ()), 1.0, pipeline.answer(text))
        assert results == pytest.approx(trace.results if trace.query else math.nan, nan_ok=True)
        timed = {step.name for step in trace.steps if not math.isnan(step.milliseconds)}
        assert timed == ({"route", "retrieve"} if trace.query else {"route"})
    assert "ms/retrieve" in reference.numbers
    assert "ms/total" not in reference.numbers  # an evaluation does not time the router


def test_reference_has_the_time_of_a_query_only_where_one_was_written(tmp_path: Path) -> None:
    talk = [{"role": "user", "text": "Tell me of the cat."}]
    asked = {"id": "q5", "question": "where does it rest", "history": talk, "evidence": [{"document": "cats"}]}
    with LlmServer(lambda request: "where does the cat rest") as server:
        chosen = ["query=rewrite", "llm=openai", *server.overrides("llm")]
        _, bundle = shipped(tmp_path, "retriever=bm25", *chosen, golden=[*GOLDEN, asked])
    numbers = Reference.read(bundle).numbers
    assert [ms > 0 for ms in numbers["ms/query"]] == [*[False] * len(GOLDEN), True]
    assert all(math.isnan(ms) for ms in numbers["ms/query"][:-1])  # a request without a history has no such step
    assert not any(map(math.isnan, numbers["ms/total"]))
