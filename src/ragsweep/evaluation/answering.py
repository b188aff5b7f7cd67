"""What stands between a context and its scores: requests and cases by their content, answers and verdicts as rows."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.identity import Rows, StageContext, content_hash
from ragsweep.core.missing import failed
from ragsweep.core.types import Answer, Case, Judgement, Passage, Question, Request, Response, Route, Turn, Usage

Packed = NDArray[np.bytes_]
"""One JSON object in ASCII a row."""

Item = TypeVar("Item", Answer, Judgement, Route, Response)

KEPT_TOGETHER = 64
KEPT_WITHIN = 1.0
"""How many results that cost no call are kept together, and within how many seconds."""


# --- keys: what is asked, and nothing else -----------------------------------------------------------------------


class QuestionKey(NamedTuple):
    """What an answer depends on beside the config."""

    text: str
    history: tuple[Turn, ...]
    needs_retrieval: bool  # by the golden set
    reference: str = ""  # read by judges only
    searched: bool = True  # whether it gets a context: by a router, where there is one
    query: str = ""  # what is searched with, where that is not the text

    @property
    def key(self) -> str:
        """Spell it as the key of a row."""
        written = [self.query] if self.query else []
        return json.dumps([self.text, [vars(turn) for turn in self.history], *self[2:5], *written])


def question_key(question: Question, searched: bool, query: str, reference: bool = False) -> QuestionKey:
    """Return a question's key, with the first of its right answers for a judge."""
    said = question.expected[0] if reference and question.expected else ""
    written = query if searched and query != question.text else ""
    return QuestionKey(question.text, question.history, question.needs_retrieval, said, searched, written)


def wording_key(question: Question) -> QuestionKey:
    """Return the key of a question's wording alone."""
    return QuestionKey(question.text, question.history, needs_retrieval=True)


def read_question_key(key: str) -> QuestionKey:
    """Read a key."""
    text, history, *rest = json.loads(key)
    return QuestionKey(text, tuple(Turn(**turn) for turn in history), *rest)


def request_key(request: Request) -> str:
    """Hash a request: whatever config leads to it, its answer is one."""
    return content_hash([request.question, request.passages, [[turn.role, turn.text] for turn in request.history]])


def case_key(case: Case) -> str:
    """Hash a case."""
    return content_hash(case._asdict())


# --- rows: one JSON object each, so that a store can keep them ---------------------------------------------------


def packed(items: Sequence[Answer | Judgement | Route | Response]) -> Packed:
    """Pack answers, verdicts and the like as rows, without default values and NaN."""
    rows = [json.dumps(_plain(item), allow_nan=False).encode("ascii") for item in items]
    return np.array(rows, dtype=np.bytes_) if rows else np.empty(0, dtype="S1")


def answers_in(rows: Packed) -> list[Answer]:
    """Read answers."""
    return [Answer(**_with_usage(json.loads(row))) for row in rows.tolist()]


def verdicts_in(rows: Packed) -> list[Judgement]:
    """Read verdicts."""
    return [Judgement(**_with_usage(json.loads(row))) for row in rows.tolist()]


def routes_in(rows: Packed) -> list[Route]:
    """Read routes."""
    return [Route(**_with_usage(json.loads(row))) for row in rows.tolist()]


def responses_in(rows: Packed) -> list[Response]:
    """Read responses."""
    found = [json.loads(row) for row in rows.tolist()]
    return [
        Response(Answer(**_with_usage(one["answer"])), tuple(Passage(*passage) for passage in one["contexts"]))
        for one in found
    ]


def cacheable_routes(rows: Packed) -> NDArray[np.bool_]:
    """Return which routes may be stored."""
    return np.array([not route.failed for route in routes_in(rows)], dtype=bool)


def cacheable_responses(rows: Packed) -> NDArray[np.bool_]:
    """Return which responses may be stored."""
    return np.array([not response.answer.failed for response in responses_in(rows)], dtype=bool)


def cacheable_answers(rows: Packed) -> NDArray[np.bool_]:
    """Return which answers may be stored."""
    return np.array([not answer.failed for answer in answers_in(rows)], dtype=bool)


def cacheable_verdicts(rows: Packed) -> NDArray[np.bool_]:
    """Return which verdicts may be stored."""
    return np.array([not failed(verdict.reason) for verdict in verdicts_in(rows)], dtype=bool)


def _plain(item: Answer | Judgement | Route | Response) -> dict[str, Any]:
    if isinstance(item, Response):
        return {"answer": _plain(item.answer), "contexts": item.contexts}
    usual = type(item)._field_defaults
    kept = {name: value for name, value in item._asdict().items() if not _same(value, usual[name])}
    return {name: list(value) if isinstance(value, Usage) else value for name, value in kept.items()}


def _same(value: Any, usual: Any) -> bool:
    return bool(value == usual) or (isinstance(value, float) and not math.isfinite(value))


def _with_usage(plain: dict[str, Any]) -> dict[str, Any]:
    return {**plain, "usage": Usage(*plain["usage"])} if "usage" in plain else plain


# --- asking many at once -----------------------------------------------------------------------------------------


class ResultCollector(Generic[Item]):
    """Collect results in order of arrival and store them at once: a paid result is not paid twice."""

    def __init__(self, work: StageContext, rows: Rows) -> None:
        self._work = work
        self._rows = rows
        self._found: dict[int, Item] = {}
        self._waiting: list[int] = []
        self._kept = time.monotonic()

    def done(self, number: int, item: Item) -> None:
        """Take the result of one row."""
        assert 0 <= number < len(self._rows), f"there is no request {number}"
        assert number not in self._found, f"request {number} was answered twice"
        self._found[number] = item
        self._waiting.append(number)
        late = len(self._waiting) >= KEPT_TOGETHER or time.monotonic() - self._kept >= KEPT_WITHIN
        usage = item.answer.usage if isinstance(item, Response) else item.usage
        if usage.calls or late:
            self.keep()
        self._work.progress(len(self._found), len(self._rows))

    def keep(self) -> None:
        """Store the results that have arrived."""
        if self._waiting:
            self._work.keep([self._rows[n] for n in self._waiting], packed([self._found[n] for n in self._waiting]))
        self._waiting, self._kept = [], time.monotonic()

    def all(self) -> Packed:
        """Return the results of all rows. Raises AssertionError where one is missing: its part broke its contract."""
        missing = [n for n in range(len(self._rows)) if n not in self._found]
        assert not missing, f"{len(missing)} of {len(self._rows)} requests were left without a result"
        return packed([self._found[n] for n in range(len(self._rows))])


def ask_all(
    work: StageContext,
    rows: Rows,
    contents: Mapping[str, Any],
    ask: Callable[[list[Any], Callable[[int, Any], None]], None],
) -> Packed:
    """Request all rows; ``contents`` maps keys to requests. Results before a failure are kept."""
    asked: ResultCollector[Any] = ResultCollector(work, rows)
    try:
        ask([contents[key] for key in rows], asked.done)
    finally:
        asked.keep()
    return asked.all()
