"""Traces of served requests: written to MLflow beside the answers, and read back to watch them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from ragsweep.core.errors import InputError
from ragsweep.parts.tracking.connection import Connection
from ragsweep.parts.tracking.database import database_path, mask_uri
from ragsweep.parts.tracking.traces import KINDS

MODEL, BUNDLE = "ragsweep.model", "ragsweep.bundle"
"""Tags of a trace: the name of the registered model, and the id of the bundle, which a version has as its tag, too."""

FACTS = "ragsweep.facts"
"""The attribute of a root span with what is compared with the evaluation, as JSON."""

PAGE = 200


@dataclass(frozen=True)
class ServedStep:
    """A step of a served request: its milliseconds, and of a step that ranks the top score and its gap to the second.

    ``inputs`` and ``outputs`` are shown, and not read back; a gap or a score that there is not is NaN.
    """

    name: str  # as in the latencies of an evaluation: retrieve/bm25, fuse, rerank, generate
    milliseconds: float = math.nan
    top_score: float = math.nan
    gap: float = math.nan
    inputs: Any = None
    outputs: Any = None


@dataclass(frozen=True)
class ServedTrace:
    """One served request. ``results`` counts the chunks of its context, and ``documents`` lists theirs, best first.

    ``abstained`` is None where the config has no generator; ``failed`` is a reason, or the name of an exception.
    """

    model: str
    bundle: str
    question: str
    began: float  # seconds since 1970
    milliseconds: float
    steps: Sequence[ServedStep] = ()
    history: Sequence[Mapping[str, str]] = ()
    query: str = ""
    results: int = 0
    documents: Sequence[str] = ()
    answer: str | None = None
    abstained: bool | None = None
    failed: str = ""
    tokens_in: int = 0
    tokens_out: int = 0
    money: float = math.nan
    generator: str = field(default="", compare=False)  # the model as the service names it

    @property
    def facts(self) -> dict[str, Any]:
        """What is read back, in JSON types; what was not measured is left out."""
        numbers = {name: {key: value for key in ("milliseconds", "top_score", "gap")
                          if math.isfinite(value := getattr(step, key))}
                   for step in self.steps for name in [step.name]}  # fmt: skip
        one = {name: getattr(self, name) for name in _READ}
        return {**one, **({"money": self.money} if math.isfinite(self.money) else {}), "steps": numbers}


_READ = ("milliseconds", "query", "results", "documents", "abstained", "failed", "tokens_in", "tokens_out")


def is_traced() -> bool:
    """Return whether this process has a place for traces: a tracking URI, or MLflow's own database in the folder."""
    import mlflow

    path = database_path(mlflow.get_tracking_uri())
    return path is None or path.exists() or bool(mlflow.is_tracking_uri_set())  # type: ignore[no-untyped-call]


def send_served(trace: ServedTrace) -> None:
    """Send a trace to MLflow's tracking URI and experiment, by its sampling; MLflow's errors are its own warnings."""
    import mlflow

    begun = round(trace.began * 1e9)
    root = mlflow.start_span_no_context(
        "question", "CHAIN",
        inputs={"question": trace.question, **({"history": list(trace.history)} if trace.history else {})},
        attributes=cast(Any, {FACTS: trace.facts}),
        tags={MODEL: trace.model, BUNDLE: trace.bundle},
        start_time_ns=begun,
    )  # fmt: skip
    now = begun
    for step in trace.steps:
        kind = KINDS.get(step.name.partition("/")[0], "CHAIN")
        numbers = {key: value for key in ("top_score", "gap") if math.isfinite(value := getattr(step, key))}
        part = mlflow.start_span_no_context(
            step.name.replace("/", " ", 1), kind, root, step.inputs, cast(Any, numbers), start_time_ns=now
        )
        if step.name == "generate" and trace.tokens_in + trace.tokens_out:
            part.set_attribute("mlflow.chat.tokenUsage", {
                "input_tokens": trace.tokens_in, "output_tokens": trace.tokens_out,
                "total_tokens": trace.tokens_in + trace.tokens_out,
            })  # fmt: skip
        now += round(step.milliseconds * 1e6) if math.isfinite(step.milliseconds) else 0
        part.end(step.outputs, end_time_ns=now)
    outputs = trace.documents if trace.answer is None else trace.answer
    ended = max(begun + round(trace.milliseconds * 1e6), now)
    root.end(outputs, status="ERROR" if trace.failed else "OK", end_time_ns=ended)


@dataclass(frozen=True)
class ServedTraces:
    """The traces of served requests in one MLflow database or server."""

    connection: Connection

    def read(self, tags: Mapping[str, str], since: float, experiment: str | None = None) -> Iterator[ServedTrace]:
        """Yield the traces with these tags that began at ``since`` (seconds since 1970) or later, newest first.

        ``experiment``: only its traces; None: those of all that are not deleted. Raises InputError where there is no
        such experiment, and TrackingError where MLflow cannot be used.
        """
        conditions = [f"tags.`{name}` = '{value}'" for name, value in tags.items()]
        conditions.append(f"trace.timestamp_ms >= {round(since * 1000)}")
        with self.connection.opened():
            client, token = self.connection.client(), None
            places = self._places(experiment)
            while True:
                page = client.search_traces(
                    locations=places, filter_string=" AND ".join(conditions), max_results=PAGE, page_token=token
                )
                yield from (found for one in page if (found := _as_served(one)))
                token = page.token
                if not token:
                    return

    def _places(self, experiment: str | None) -> list[str]:
        client = self.connection.client()
        found = client.search_experiments()
        chosen = [str(one.experiment_id) for one in found if experiment in (None, one.name)]
        if not chosen:
            names = ", ".join(f'"{one.name}"' for one in found)
            raise InputError(f'{mask_uri(self.connection.uri)}: no experiment "{experiment}"; there are {names}')
        return chosen


def _as_served(trace: Any) -> ServedTrace | None:
    """Return a trace of MLflow as it was sent; None for one that is not whole."""
    root = next((span for span in trace.data.spans if span.parent_id is None), None)
    facts = root and root.attributes.get(FACTS)
    if not root or not isinstance(facts, dict):
        return None
    facts = dict(facts)
    steps = [ServedStep(name, **numbers) for name, numbers in facts.pop("steps").items()]
    given = root.inputs or {}
    return ServedTrace(
        model=trace.info.tags.get(MODEL, ""),
        bundle=trace.info.tags.get(BUNDLE, ""),
        question=str(given.get("question", "")),
        began=trace.info.request_time / 1000,
        steps=steps,
        history=given.get("history", ()),
        **facts,
    )
