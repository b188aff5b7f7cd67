"""Traces of served requests come back from MLflow as they were sent, and only those that were looked for."""

import math
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mlflow
import pytest
from mlflow.store.entities.paged_list import PagedList

from ragsweep.core.errors import InputError, TrackingError
from ragsweep.core.interruption import deadline
from ragsweep.core.results import Artifacts
from ragsweep.parts.tracking import Mlflow
from ragsweep.parts.tracking import connection as tracking_connection
from ragsweep.parts.tracking.connection import Connection
from ragsweep.parts.tracking.served_traces import (
    BUNDLE,
    ServedStep,
    ServedTrace,
    is_traced,
    read_root_inputs,
    read_served_traces,
    send_served,
)
from support.commands import add_tables
from support.results import a_result

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # of MLflow, when it is first used

STEPS = (
    ServedStep("retrieve/bm25", 2.5, 7.25, 1.5, {"query": "cat"}, [{"id": "a", "page_content": "text"}]),
    ServedStep("rerank", 12.0, 0.5),
    ServedStep("generate", 30.0, inputs={"question": "cat"}, outputs={"content": "on the mat"}),
)
TRACES = [
    ServedTrace("handbook", "one", "where is the cat", 1000.0, 50.0, STEPS, query="cat", results=1, documents=["a"],
                answer="on the mat", abstained=False, tokens_in=10, tokens_out=4, money=0.002),
    ServedTrace("handbook", "one", "und der Hund?", 2000.0, 1.0, failed="OSError",
                history=[{"role": "user", "text": "hello"}]),
    ServedTrace("handbook", "two", "another version", 3000.0, 1.0),
]  # fmt: skip


@pytest.mark.usefixtures("restored_uri")
def test_what_is_read_is_what_was_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add_tables(tmp_path)
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "assistant")
    mlflow.set_tracking_uri(uri)
    assert is_traced()
    for trace in TRACES:
        send_served(trace)
    mlflow.flush_trace_async_logging()
    connection = Mlflow(uri).registry().connection

    def read(bundle: str, since: float, experiment: str | None = None) -> list[ServedTrace]:
        return list(read_served_traces(connection, {BUNDLE: bundle}, since, pytest.fail, experiment))

    second, first = read("one", 0.0)
    assert (first.question, first.facts, first.began) == (TRACES[0].question, TRACES[0].facts, 1000.0)
    assert [step.name for step in first.steps] == [step.name for step in STEPS]
    assert math.isnan(first.steps[2].top_score)
    assert (second.failed, second.history, second.steps) == ("OSError", [{"role": "user", "text": "hello"}], [])
    assert [one.question for one in read("two", 0.0, "assistant")] == ["another version"]
    assert [one.question for one in read("one", 1500.0)] == ["und der Hund?"]
    with pytest.raises(InputError, match='no experiment "other"'):
        read("one", 0.0, "other")
    (trace,) = mlflow.search_traces(return_type="list", filter_string="trace.timestamp_ms < 1500000")
    kinds = {span.name: span.span_type for span in trace.data.spans}
    assert kinds == {"question": "CHAIN", "retrieve bm25": "RETRIEVER", "rerank": "RERANKER", "generate": "CHAT_MODEL"}
    assert trace.info.token_usage == {"input_tokens": 10, "output_tokens": 4, "total_tokens": 14}
    for one in mlflow.search_experiments():
        mlflow.delete_experiment(one.experiment_id)
    with pytest.raises(InputError, match=r"no experiments; correct tracking\.uri, --uri"):
        read("one", 0.0)


class SlowClient:
    """A client of a server that takes a tenth of a second for each page of one trace."""

    def search_experiments(self, **_: object) -> PagedList[Any]:
        return PagedList([SimpleNamespace(experiment_id="1", name="assistant")], None)

    def search_traces(self, page_token: str | None = None, **_: object) -> PagedList[Any]:
        time.sleep(0.1)
        number = int(page_token or 0) + 1
        span = SimpleNamespace(parent_id=None, inputs={"question": str(number)}, attributes={})
        trace = SimpleNamespace(data=SimpleNamespace(spans=[span]))
        return PagedList([trace], str(number) if number < 6 else None)


def test_many_pages_of_traces_may_take_longer_than_one_answer_of_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    place = Connection.to("http://127.0.0.1:9")
    monkeypatch.setattr(place, "client", SlowClient())
    monkeypatch.setattr(tracking_connection, "deadline", lambda _: deadline(0.5))
    skipped: list[str] = []
    assert list(read_served_traces(place, {}, 0.0, skipped.append)) == []
    assert len(skipped) == 6
    assert read_root_inputs(place.uri, "assistant") == [{"question": str(n)} for n in range(1, 7)]


def test_traces_of_many_questions_have_the_time_that_they_take(monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[float] = []

    def opened(_: Connection, seconds: float = tracking_connection.ANSWER_SECONDS) -> None:
        limits.append(seconds)
        raise TrackingError("only the limit is needed")

    monkeypatch.setattr(Connection, "opened", opened)
    for count in (0, 5000):
        with pytest.raises(TrackingError):
            Mlflow("http://127.0.0.1:9").log_result(a_result(), artifacts=Artifacts(traces=[{}] * count))
    assert limits[0] == tracking_connection.ANSWER_SECONDS
    assert limits[1] - limits[0] >= 5000 * 0.3  # seconds, the upper value in conf/tracking/mlflow.yaml
