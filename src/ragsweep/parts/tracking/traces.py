"""Send traces of evaluated questions to MLflow: spans with inputs, outputs and durations, and scores as feedback."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from ragsweep.parts.tracking.connection import Connection, OpenRun

if TYPE_CHECKING:
    from mlflow import MlflowClient

QUESTION = "ragsweep.question"
"""The trace tag whose value is the id of the question."""

KINDS = {"retrieve": "RETRIEVER", "fuse": "CHAIN", "rerank": "RERANKER", "generate": "CHAT_MODEL", "judge": "EVALUATOR"}
"""First word of a span's name -> the span type that MLflow displays."""

PAGE = 100


def send(connection: Connection, run: OpenRun, traces: Sequence[Mapping[str, Any]], started: float) -> None:
    """Send a run's traces, and wait until they are stored; remove traces of an earlier attempt at the run first.

    ``started`` is the start time of each trace, in seconds since 1970.
    """
    import mlflow

    client = connection.client
    if run.before:
        places = [run.experiment]
        while found := client.search_traces(locations=places, run_id=run.id, max_results=PAGE, include_spans=False):
            client.delete_traces(run.experiment, trace_ids=[trace.info.trace_id for trace in found])
    with connection.as_default(run.experiment):
        for trace in traces:
            _send(client, run, trace, round(started * 1e9))
        mlflow.flush_trace_async_logging()  # needed if the user's environment enables asynchronous logging


def _send(client: MlflowClient, run: OpenRun, trace: Mapping[str, Any], begun: int) -> None:
    import mlflow
    from mlflow.entities import AssessmentSource

    tags = {QUESTION: str(trace["question_id"])}
    root = client.start_trace(
        "question", "CHAIN", {"question": trace["question"]}, None, tags, run.experiment, begun, run.id
    )
    now = begun
    for span in trace["spans"]:
        attributes = {} if math.isfinite(span["seconds"]) else {"duration": "not measured"}
        part = mlflow.start_span_no_context(
            span["name"],
            KINDS[span["name"].partition(" ")[0]],
            cast(Any, root),
            span["inputs"],
            attributes,
            start_time_ns=now,
        )
        now += 0 if attributes else round(span["seconds"] * 1e9)
        part.end(span["outputs"], end_time_ns=now)
    client.end_trace(root.trace_id, trace["answer"], None, "ERROR" if trace["failed"] else "OK", now)
    for name, score in trace["scores"].items():
        kind, who = ("LLM_JUDGE", score["model"]) if score["model"] else ("CODE", "ragsweep")
        mlflow.log_feedback(
            trace_id=root.trace_id,
            name=name,
            value=score["value"],
            source=AssessmentSource(kind, who),
            rationale=score["reasons"] or None,
        )
