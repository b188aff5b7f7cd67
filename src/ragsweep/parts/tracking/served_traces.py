"""Send traces of served requests to MLflow, and read traces, including traces of other applications."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from ragsweep.core.errors import InputError, nearest
from ragsweep.parts.tracking.connection import Connection
from ragsweep.parts.tracking.contents import KINDS
from ragsweep.parts.tracking.database import ADDRESS, absolute_uri, check_exists, database_path, mask_uri

MODEL, BUNDLE = "ragsweep.model", "ragsweep.bundle"
"""Tags of a trace: the name of the registered model, and the id of its bundle (also a tag of the model version)."""

FACTS = "ragsweep.facts"
"""Name of the root span's attribute that contains, as JSON, the values to be compared with the evaluation."""

PAGE = 200

LONGEST_TEXT = 100_000
"""Maximum number of characters of each text in a trace; traces with longer texts are skipped."""

MOST_ITEMS = 1000
"""Maximum number of steps, documents or turns in a trace; traces that exceed it are skipped."""

_LARGEST = 1e15

Found = TypeVar("Found")


@dataclass(frozen=True)
class ServedStep:
    """A step of a served request: its duration and, if it ranks chunks, the top score and its lead over the next score.

    Unknown numbers are NaN. ``inputs`` and ``outputs`` are sent for display but not read back.
    """

    name: str  # as in the latencies of an evaluation: retrieve/bm25, fuse, rerank, generate
    milliseconds: float = math.nan
    top_score: float = math.nan
    gap: float = math.nan
    inputs: Any = None
    outputs: Any = None


@dataclass(frozen=True)
class ServedTrace:
    """A served request.

    ``results`` is the number of chunks in the context, and ``documents`` are the distinct ids of their documents, in
    context order. If no answer was generated, ``answer`` and ``abstained`` are None; in a trace that was read back,
    ``answer`` is always None. ``failed`` is the reason for a failure or the name of an exception; "" on success.
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
    generator: str = field(default="", compare=False)  # the service's name for the model

    @property
    def facts(self) -> dict[str, Any]:
        """The value of the attribute FACTS, with JSON types only; numbers that are not finite are omitted."""
        numbers = {}
        for step in self.steps:
            values = {key: getattr(step, key) for key in ("milliseconds", "top_score", "gap")}
            numbers[step.name] = {key: value for key, value in values.items() if math.isfinite(value)}
        one = {name: getattr(self, name) for name in _READ}
        return {**one, **({"money": self.money} if math.isfinite(self.money) else {}), "steps": numbers}


_READ = ("milliseconds", "query", "results", "documents", "abstained", "failed", "tokens_in", "tokens_out")


def is_traced() -> bool:
    """Return whether traces of this process can be stored: a tracking URI is set, or the default database exists."""
    import mlflow

    path = database_path(mlflow.get_tracking_uri())
    return path is None or path.exists() or bool(mlflow.is_tracking_uri_set())  # type: ignore[no-untyped-call]


def send_served(trace: ServedTrace) -> None:
    """Send a trace to MLflow's current tracking URI and experiment.

    MLflow may drop the trace, according to its sampling ratio, and logs errors as warnings.
    """
    import mlflow

    begun = round(trace.began * 1e9)
    root = mlflow.start_span_no_context(
        "question",
        "CHAIN",
        inputs={"question": trace.question, **({"history": list(trace.history)} if trace.history else {})},
        attributes=cast(Any, {FACTS: trace.facts}),
        tags={MODEL: trace.model, BUNDLE: trace.bundle},
        start_time_ns=begun,
    )
    now = begun
    for step in trace.steps:
        kind = KINDS.get(step.name.partition("/")[0], "CHAIN")
        numbers = {key: value for key in ("top_score", "gap") if math.isfinite(value := getattr(step, key))}
        part = mlflow.start_span_no_context(
            step.name.replace("/", " ", 1), kind, root, step.inputs, cast(Any, numbers), start_time_ns=now
        )
        if step.name == "generate" and trace.tokens_in + trace.tokens_out:
            usage = {"input_tokens": trace.tokens_in, "output_tokens": trace.tokens_out}
            part.set_attribute("mlflow.chat.tokenUsage", {**usage, "total_tokens": trace.tokens_in + trace.tokens_out})
        now += round(step.milliseconds * 1e6) if math.isfinite(step.milliseconds) else 0
        part.end(step.outputs, end_time_ns=now)
    outputs = trace.documents if trace.answer is None else trace.answer
    ended = max(begun + round(trace.milliseconds * 1e6), now)
    root.end(outputs, status="ERROR" if trace.failed else "OK", end_time_ns=ended)


def read_served_traces(
    connection: Connection,
    tags: Mapping[str, str],
    since: float,
    skip: Callable[[str], None],
    experiment: str | None = None,
) -> Iterator[ServedTrace]:
    """Yield the served requests with these tags that began at ``since`` (seconds since 1970) or later, newest first.

    For each trace that cannot be read, ``skip`` is called with the reason. ``experiment`` is the name of the experiment
    to read; None means all experiments that are not deleted. Raises InputError if the experiment does not exist or
    there are no experiments, and TrackingError if MLflow is unusable.
    """
    conditions = [f"tags.`{name}` = '{value}'" for name, value in tags.items()]
    conditions.append(f"trace.timestamp_ms >= {round(since * 1000)}")
    return _read_all(connection, experiment, " AND ".join(conditions), lambda trace: read_served(trace, skip))


def read_root_inputs(uri: str, experiment: str) -> list[Any]:
    """Return the inputs of the root span of every trace in an experiment.

    Raises InputError if the database or the experiment does not exist, and TrackingError if MLflow is unusable.
    """
    place = absolute_uri(uri)
    check_exists(place, "set traces to sqlite:///FILE or a server's address")
    return [root.inputs for root in _read_all(Connection.to(place), experiment, None, _root)]


def _root(trace: Any) -> Any:
    return next((span for span in trace.data.spans if span.parent_id is None), None)


def _read_all(
    connection: Connection, experiment: str | None, condition: str | None, read: Callable[[Any], Found | None]
) -> Iterator[Found]:
    """Yield the results of ``read``, except None, for the traces of an experiment that meet ``condition``."""
    with connection.opened():
        client, token = connection.client, None
        places = _places(connection, experiment)
    while True:
        with connection.opened():  # once per page, because ``opened`` limits the total time of its block
            page = client.search_traces(locations=places, filter_string=condition, max_results=PAGE, page_token=token)
            found = [one for trace in page if (one := read(trace)) is not None]
        yield from found
        token = page.token
        if not token:
            return


def _places(connection: Connection, experiment: str | None) -> list[str]:
    page = connection.client.search_experiments()
    found = list(page)
    while page.token:
        page = connection.client.search_experiments(page_token=page.token)
        found += page
    chosen = [str(one.experiment_id) for one in found if experiment in (None, one.name)]
    if not chosen:
        known = nearest(experiment or "", [one.name for one in found])
        fact = f'no experiment "{experiment}"{known}' if known else f"no experiments; correct {ADDRESS}"
        raise InputError(f"{mask_uri(connection.uri)}: {fact}")
    return chosen


def read_served(trace: Any, skip: Callable[[str], None]) -> ServedTrace | None:
    """Return the served request in a trace; if it is unreadable, call ``skip`` with the reason and return None."""
    try:
        return _as_served(trace)
    except _Unreadable as fault:
        skip(str(fault))
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):  # MLflow decodes a span on access
        skip("an unreadable span")
    return None


class _Unreadable(Exception):
    """Raised if a trace cannot be read; the message is the reason that is passed to ``skip``."""


def _as_served(trace: Any) -> ServedTrace:
    root = _root(trace)
    facts = root and root.attributes.get(FACTS)
    if not root or not isinstance(facts, dict):
        raise _Unreadable(f"no object in the root span's attribute {FACTS}")
    given = root.inputs
    if not isinstance(given, dict):
        raise _Unreadable("no question")
    if (abstained := facts.get("abstained")) is not None and type(abstained) is not bool:
        raise _Unreadable("abstained is not true, false or null")
    steps = facts.get("steps")
    if not isinstance(steps, dict) or len(steps) > MOST_ITEMS:
        raise _Unreadable(f"steps is not an object with at most {MOST_ITEMS:,} entries")
    return ServedTrace(
        model=_text(trace.info.tags, MODEL, ""),
        bundle=_text(trace.info.tags, BUNDLE, ""),
        question=_text(given, "question"),
        began=_number({"began": trace.info.request_time}, "began", least=0) / 1000,
        milliseconds=_number(facts, "milliseconds", least=0),
        steps=[_step(name, numbers) for name, numbers in steps.items()],
        history=[{name: _text(turn, name) for name in ("role", "text")} for turn in _items(given, "history")],
        query=_text(facts, "query", ""),
        results=_count(facts, "results"),
        documents=[_text({"documents": one}, "documents") for one in _items(facts, "documents")],
        abstained=abstained,
        failed=_text(facts, "failed", ""),
        tokens_in=_count(facts, "tokens_in"),
        tokens_out=_count(facts, "tokens_out"),
        money=_number(facts, "money", math.nan, 0),
    )


def _step(name: str, numbers: Any) -> ServedStep:
    if not isinstance(numbers, dict):
        raise _Unreadable("a step is not an object with numeric values")
    return ServedStep(
        _text({"steps": name}, "steps"),
        _number(numbers, "milliseconds", math.nan, 0),
        _number(numbers, "top_score", math.nan),
        _number(numbers, "gap", math.nan),
    )


def _text(values: Any, name: str, default: str | None = None) -> str:
    value = values.get(name, default)
    if not isinstance(value, str):
        raise _Unreadable(f"{name} is not text")
    if len(value) > LONGEST_TEXT:
        raise _Unreadable(f"{name} is longer than {LONGEST_TEXT:,} characters")
    value.encode()  # raises ValueError for an unpaired surrogate: it could not be written
    return value


def _number(values: Any, name: str, default: float | None = None, least: float = -_LARGEST) -> float:
    value = values.get(name, default)
    if value is not default and not (type(value) in (int, float) and least <= value <= _LARGEST):
        raise _Unreadable(f"{name} is not a number from {least:g} to {_LARGEST:g}")
    if value is None:
        raise _Unreadable(f"no {name}")
    return float(value)


def _count(values: Any, name: str) -> int:
    value = values.get(name, 0)
    if type(value) is not int or not 0 <= value <= _LARGEST:
        raise _Unreadable(f"{name} is not a whole number from 0 to {_LARGEST:g}")
    return value


def _items(values: Any, name: str) -> list[Any]:
    value = values.get(name, [])
    if not isinstance(value, list) or len(value) > MOST_ITEMS:
        raise _Unreadable(f"{name} is not a list of at most {MOST_ITEMS:,} items")
    return value
