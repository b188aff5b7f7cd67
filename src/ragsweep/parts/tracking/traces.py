"""Traces of single questions in MLflow: spans with their inputs, outputs and durations, and scores as feedback."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from mlflow import MlflowClient

QUESTION = "ragsweep.question"
"""The tag with the question's id."""

KINDS = {"retrieve": "RETRIEVER", "fuse": "CHAIN", "rerank": "RERANKER", "generate": "CHAT_MODEL", "judge": "EVALUATOR"}
"""The first word of a span's name -> its type, by which MLflow's pages show it."""

PAGE = 100


def send(client: MlflowClient, uri: str, experiment: str, run_id: str, traces: Sequence[Mapping[str, Any]],
         started: float) -> None:  # fmt: skip
    """Send traces of questions, which belong to a run, one after the other; ``started`` in seconds since 1970.

    What is sent when this returns is in the database.
    """
    import mlflow

    with _exporting_to(uri):
        for trace in traces:
            _send(client, experiment, run_id, trace, round(started * 1e9))
        mlflow.flush_trace_async_logging()  # where the user's environment asks for a queue


def remove(client: MlflowClient, experiment: str, run_id: str) -> None:
    """Remove the traces of an earlier attempt at a run."""
    while found := client.search_traces(locations=[experiment], run_id=run_id, max_results=PAGE, include_spans=False):
        client.delete_traces(experiment, trace_ids=[trace.info.trace_id for trace in found])


def _send(client: MlflowClient, experiment: str, run_id: str, trace: Mapping[str, Any], begun: int) -> None:
    import mlflow
    from mlflow.entities import AssessmentSource

    tags = {QUESTION: str(trace["question_id"])}
    root = client.start_trace(
        "question", "CHAIN", {"question": trace["question"]}, None, tags, experiment, begun, run_id
    )  # fmt: skip
    now = begun
    for span in trace["spans"]:
        attributes = {} if math.isfinite(span["seconds"]) else {"duration": "not measured"}
        part = mlflow.start_span_no_context(
            span["name"], KINDS[span["name"].partition(" ")[0]], cast(Any, root), span["inputs"], attributes,
            start_time_ns=now,
        )  # fmt: skip
        now += 0 if attributes else round(span["seconds"] * 1e9)
        part.end(span["outputs"], end_time_ns=now)
    client.end_trace(root.trace_id, trace["answer"], None, "ERROR" if trace["failed"] else "OK", now)
    for name, score in trace["scores"].items():
        kind, who = ("LLM_JUDGE", score["model"]) if score["model"] else ("CODE", "ragsweep")
        mlflow.log_feedback(
            trace_id=root.trace_id, name=name, value=score["value"], source=AssessmentSource(kind, who),
            rationale=score["reasons"] or None,
        )  # fmt: skip


@contextmanager
def _exporting_to(uri: str) -> Iterator[None]:
    """Set MLflow's tracking URI, to which it sends traces whatever client made them, within the block only."""
    import mlflow

    before = os.environ.get("MLFLOW_TRACKING_URI")  # what is set in the process stands there too
    mlflow.set_tracking_uri(uri)
    try:
        yield
    finally:
        mlflow.set_tracking_uri(cast(Any, before))
