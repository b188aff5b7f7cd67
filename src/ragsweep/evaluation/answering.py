"""Make keys for questions, requests and cases; obtain results from parts; and pack the results as rows to store."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.answers import describe_wrong_type
from ragsweep.core.errors import ConfigError
from ragsweep.core.escaping import well_formed
from ragsweep.core.identity import Node, Rows, Spec, StageContext, content_hash, key_check
from ragsweep.core.missing import failed
from ragsweep.core.types import Answer, Case, Judgement, Passage, Question, Request, Response, Route, Turn, Usage
from ragsweep.services.errors import CallFailed

Packed = NDArray[np.bytes_]
"""One ASCII JSON object per row."""

Item = TypeVar("Item", bound=Answer | Judgement | Route | Response)

KEPT_TOGETHER = 64
KEPT_WITHIN = 1.0
"""The number of results, and the seconds since results were last stored, after which all waiting results are stored.

Both limits are checked when a result arrives; a result that needed a call to a service is stored at once.
"""


# --- keys --------------------------------------------------------------------------------------------------------


class QuestionKey(str):
    """The identity of a question in one config: everything that its answer and verdicts depend on, except the config.

    Its string form is the stored key of the question's row. ``needs_retrieval`` is from the golden set. ``searched`` is
    from the router or, if there is none, from the golden set. ``reference`` is set only for judges. ``query`` is the
    search query; it is empty if the query is the text of the question, or if nothing is searched.
    """

    text: str
    history: tuple[Turn, ...]
    needs_retrieval: bool
    reference: str
    searched: bool
    query: str

    def __new__(
        cls,
        text: str,
        history: Sequence[Turn] = (),
        needs_retrieval: bool = True,
        reference: str = "",
        searched: bool = True,
        query: str = "",
    ) -> QuestionKey:
        """Make a key from these fields; the defaults describe a question without history, reference or query."""
        turns, written = [vars(turn) for turn in history], [query] if query else []
        key = super().__new__(cls, json.dumps([text, turns, needs_retrieval, reference, searched, *written]))
        key.text, key.history, key.needs_retrieval = text, tuple(history), needs_retrieval
        key.reference, key.searched, key.query = reference, searched, query
        return key

    @property
    def wording(self) -> QuestionKey:
        """The key of the question's text and history alone."""
        return QuestionKey(self.text, self.history)

    @property
    def unjudged(self) -> QuestionKey:
        """This key without the reference: the key of the question's answer."""
        return QuestionKey(self.text, self.history, self.needs_retrieval, "", self.searched, self.query)


def question_key(question: Question, searched: bool, query: str, reference: bool = False) -> QuestionKey:
    """Return the key of a question; with ``reference``, it includes the first correct answer, if there is one."""
    answer = question.expected[0] if reference and question.expected else ""
    written = query if searched and query != question.text else ""
    return QuestionKey(question.text, question.history, question.needs_retrieval, answer, searched, written)


def may_be_judged(key: str, uses: Sequence[str]) -> bool:
    """Return whether the question with the string key ``key`` may need a judgement of a metric with these ``uses``."""
    _, _, needs_retrieval, reference, *_ = json.loads(key)
    return needs_retrieval and ("reference" not in uses or bool(reference))


def question_keys(rows: Rows) -> Sequence[QuestionKey]:
    """Return ``rows``, the row keys of a node, unchanged but typed as question keys."""
    return cast(Sequence[QuestionKey], rows)


def request_key(request: Request) -> str:
    """Return the hash of a request; equal requests, even of different configs, share one answer."""
    return content_hash([request.question, request.passages, [[turn.role, turn.text] for turn in request.history]])


def case_key(case: Case) -> str:
    """Return the hash of a case; equal cases share one judgement."""
    return content_hash(case._asdict())


# --- rows: one JSON object each, so that a store can keep them ---------------------------------------------------


def packed(items: Sequence[Answer | Judgement | Route | Response]) -> Packed:
    """Pack results as JSON, one per row; fields that are NaN, infinite or equal to their default are omitted.

    NumPy numbers become Python numbers.
    """
    rows = [json.dumps(_plain(item), allow_nan=False).encode("ascii") for item in items]
    return np.array(rows, dtype=np.bytes_) if rows else np.empty(0, dtype="S1")


def unpacked(rows: Packed, kind: type[Item]) -> list[Item]:
    """Return the results of the type ``kind`` in rows that :func:`packed` wrote; their texts are made well-formed."""
    return [_item(_plain_row(row), kind) for row in rows.tolist()]


def _plain_row(row: bytes) -> Any:
    """Return the object in a row; rows of earlier versions may contain lone surrogates, which are replaced."""
    plain = json.loads(row)
    return json.loads(well_formed(json.dumps(plain, ensure_ascii=False))) if rb"\ud" in row else plain


def configured_model(node: Node) -> str:
    """Return the model, or the URL of the external system, of a node of answers or queries; "" if there is neither."""
    made = node.inputs[-1].spec if node.stage == "answer" else node.spec
    nested = made.parameters.get("llm")  # a query writer's llm
    parameters = (nested if isinstance(nested, Spec) else made).parameters
    return str(parameters.get("model") or parameters.get("url") or "")


def cacheable(kind: type[Answer | Judgement | Route | Response]) -> Callable[[Packed], NDArray[np.bool_]]:
    """Return a function that flags the packed results that may be stored: those that did not fail.

    ``kind`` is the type of the results.
    """
    return lambda rows: np.array([not _has_failed(item) for item in unpacked(rows, kind)], dtype=bool)


def _has_failed(item: Answer | Judgement | Route | Response) -> bool:
    if isinstance(item, Judgement):
        return failed(item.reason)
    return bool(item.answer.failed if isinstance(item, Response) else item.failed)


def _plain(item: Answer | Judgement | Route | Response) -> dict[str, Any]:
    if isinstance(item, Response):
        return {"answer": _plain(item.answer), "contexts": item.contexts, "scores": item.scores}
    plain = {}
    for name, value in zip(item._fields, map(_python, item), strict=True):
        is_nan = isinstance(value, float) and not math.isfinite(value)
        if value != type(item)._field_defaults[name] and not is_nan:
            plain[name] = list(map(_python, value)) if isinstance(value, Usage) else value
    return plain


def _python(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _item(plain: dict[str, Any], kind: type[Any]) -> Any:
    if kind is Response:
        contexts = tuple(Passage(*passage) for passage in plain["contexts"])
        return Response(_item(plain["answer"], Answer), contexts, tuple(plain.get("scores", ())))
    if "usage" in plain:
        plain = {**plain, "usage": Usage(*plain["usage"])}
    return kind(**plain)


# --- many requests at once -----------------------------------------------------------------------------------------


def ask_all(
    work: StageContext,
    rows: Rows,
    contents: Mapping[str, Any],
    ask: Callable[[list[Any], Callable[[int, Any], None]], None],
    kind: type[Any] = Answer,
) -> Packed:
    """Request the results of all rows and return them packed, in the order of the rows.

    A result that needed a call to a service is stored as soon as it arrives, so that the call is paid for only once.
    ``contents`` maps the keys of rows to requests. ``ask`` is the part's method, such as ``generate``; its arguments
    are the requests and a callback that receives the index of each request and its result. If ``ask`` raises
    CallFailed, for example because an embedding service failed, missing results are requested in ever smaller parts; a
    request that fails on its own gets a failed result of ``kind``. Raises ConfigError, which names the part, unless
    each request has exactly one result, of the type ``kind``.
    """
    requests, results, waiting, kept = [contents[key] for key in rows], dict[int, Any](), list[int](), time.monotonic()

    def keep() -> None:
        nonlocal kept
        if waiting:
            work.keep([rows[n] for n in waiting], packed([results[n] for n in waiting]))
        waiting.clear()
        kept = time.monotonic()

    def done(number: int, item: Any) -> None:
        if wrong := _describe_fault(number, item, len(rows), results, kind):
            raise _fault(ask, wrong)
        results[number] = item
        waiting.append(number)
        late = len(waiting) >= KEPT_TOGETHER or time.monotonic() - kept >= KEPT_WITHIN
        usage = item.answer.usage if isinstance(item, Response) else item.usage
        if usage.calls or late:
            keep()
        work.progress(len(results), len(rows))
        work.arrived(requests[number], item)

    def ask_parts(numbers: list[int]) -> None:
        """Request missing results in two parts; divide a part in which a call fails, down to single requests."""
        for part in filter(None, (numbers[::2], numbers[1::2])):
            try:
                ask([requests[n] for n in part], _within(part, done))
            except CallFailed as failure:
                if len(part) == 1:
                    done(part[0], _failed(kind, failure.reason))
                else:
                    ask_parts([n for n in part if n not in results])

    try:
        ask(requests, done)
    except CallFailed:
        ask_parts([n for n in range(len(rows)) if n not in results])
    finally:
        keep()
    if missing := len(rows) - len(results):
        raise _fault(ask, f"no result for {missing} of {len(rows)} requests; call done(number, result) for each")
    return packed([results[n] for n in range(len(rows))])


def _within(part: Sequence[int], done: Callable[[int, Any], None]) -> Callable[[int, Any], None]:
    """Return a callback that takes an index into ``part`` and a result, and calls ``done`` with ``part[index]``."""
    return lambda place, item: done(part[place], item)


def _describe_fault(number: int, item: Any, requests: int, results: Mapping[int, Any], kind: type[Any]) -> str:
    """Return what is wrong with a call of ``done`` (see :func:`ask_all`); "" if the call is valid."""
    if not 0 <= number < requests:
        return f"done was called for request {number}, but the requests are 0 to {requests - 1}"
    if number in results:
        return f"done was called twice for request {number}"
    return describe_wrong_type(item, kind)


def _fault(ask: Callable[..., None], fault: str) -> ConfigError:
    """Return a ConfigError with the message ``fault``, preceded by the class of the part whose method is ``ask``."""
    owner = getattr(ask, "__self__", None)
    return ConfigError(f"{type(owner).__name__}: {fault}" if owner is not None else fault)


def _failed(kind: type[Any], reason: str) -> Any:
    if kind is Response:
        return Response(Answer(failed=reason))
    return Judgement(reason=reason) if kind is Judgement else kind(failed=reason)


def packed_node(
    stage: str,
    spec: Spec,
    inputs: tuple[Node, ...],
    compute: Callable[[StageContext, Rows], Packed],
    kind: type[Any],
    **further: Any,
) -> Node:
    """Make a node of packed results of the type ``kind``; failed rows are not stored. ``further`` sets more fields."""
    return Node(stage, spec, inputs, compute, "rows", result=np.ndarray, cacheable=cacheable(kind), **further)


def wording_node(
    stage: str, spec: Spec, part: Any, ask: Callable[[list[Any], Callable[[int, Any], None]], None], kind: type[Any]
) -> Node:
    """Return the node that computes a part's result for each question; its rows are keyed by `QuestionKey.wording`.

    ``ask`` is the part's method, such as ``route``, and ``kind`` is the type of its results.
    """

    def compute(work: StageContext, rows: Rows) -> Packed:
        contents: dict[str, Request] = {key: Request(key.text, (), key.history) for key in question_keys(rows)}
        return ask_all(work, rows, contents, ask, kind)

    return packed_node(stage, spec, (), compute, kind, check=key_check(part))
