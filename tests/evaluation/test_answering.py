"""Requests and cases are identified by content; each answer and verdict is a row, stored as soon as it arrives."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragsweep.core.errors import ConfigError
from ragsweep.core.identity import Node, Rows, Spec, StageContext
from ragsweep.core.missing import NO_REFERENCE, TOO_LONG
from ragsweep.core.types import Answer, Case, Judgement, Passage, Question, Request, Response, Route, Turn, Usage
from ragsweep.evaluation.answering import (
    KEPT_TOGETHER,
    QuestionKey,
    ask_all,
    cacheable,
    case_key,
    packed,
    question_key,
    request_key,
    unpacked,
)
from ragsweep.services.errors import CallFailed
from ragsweep.stages.executor import Executor
from ragsweep.stages.store import Store
from ragsweep.testing.generators import GeneratorContract

WORDS = st.text(max_size=5)
NUMBERS = st.floats(allow_nan=True, allow_infinity=False)
USAGES = st.builds(Usage, st.integers(0, 9), st.integers(0, 9), st.integers(0, 9), st.booleans())
ANSWERS = st.builds(Answer, WORDS, st.booleans(), WORDS, NUMBERS, NUMBERS, USAGES, WORDS, thoughts=WORDS, money=NUMBERS)
VERDICTS = st.builds(Judgement, NUMBERS, WORDS, USAGES, st.booleans(), NUMBERS, WORDS, words=WORDS, money=NUMBERS)
TURNS = st.lists(st.builds(Turn, st.sampled_from(["user", "assistant"]), WORDS), max_size=3).map(tuple)


@given(st.lists(ANSWERS, max_size=4), st.lists(VERDICTS, max_size=4))
def test_answers_and_verdicts_are_read_as_they_were_written(answers: list[Answer], verdicts: list[Judgement]) -> None:
    assert str(unpacked(packed(answers), Answer)) == str(answers)  # as text, since NaN is not NaN
    assert str(unpacked(packed(verdicts), Judgement)) == str(verdicts)
    assert packed(answers).dtype.kind == "S"


def test_numbers_of_numpy_are_read_as_the_same_python_numbers() -> None:
    """As of a user's own generator, router or judge, which computes cosines in single precision."""
    half: Any = np.float32(0.5)
    none: Any = np.float32(np.nan)
    two: Any = np.int64(2)
    yes: Any = np.bool_(True)
    given = Answer("a", yes, support=half, seconds=none, usage=Usage(1, two, two))
    assert packed([given]).tolist() == packed([Answer("a", True, support=0.5, usage=Usage(1, 2, 2))]).tolist()
    judged = packed([Judgement(half, suspicious=yes, spread=none)])
    assert judged.tolist() == packed([Judgement(0.5, suspicious=True)]).tolist()
    assert packed([Route(~yes, half)]).tolist() == packed([Route(False, 0.5)]).tolist()


def test_half_of_an_emoji_in_a_row_of_an_older_store_is_replaced() -> None:
    for half in ("\ud83d", "\ude00"):
        answer = unpacked(packed([Answer(f"yes {half}", thoughts=half)]), Answer)[0]
        assert (answer.text, answer.thoughts) == ("yes \ufffd", "\ufffd")
        response = Response(Answer(half), (Passage(half, f"{half} a"),), (0.5,))
        replaced = Response(Answer("\ufffd"), (Passage("\ufffd", "\ufffd a"),), (0.5,))
        assert unpacked(packed([response]), Response) == [replaced]
    assert unpacked(packed([Answer("\U0001f600 \\ud83d")]), Answer)[0].text == "\U0001f600 \\ud83d"


@given(WORDS, TURNS, st.booleans(), st.booleans(), WORDS, WORDS)
def test_key_of_a_question_says_all_that_is_asked(
    text: str, history: tuple[Turn, ...], needs: bool, searched: bool, right: str, query: str
) -> None:
    question = Question("q", text, needs_retrieval=needs, history=history, references=(right, "other"))
    written = query if searched and query != text else ""
    judged = question_key(question, searched, query, reference=True)
    assert judged == QuestionKey(text, history, needs, right, searched, written)
    assert (judged.text, judged.history, judged.needs_retrieval) == (text, history, needs)
    assert (judged.reference, judged.searched, judged.query) == (right, searched, written)
    turns = [{"role": turn.role, "text": turn.text} for turn in history]
    stored = [text, turns, needs, right, searched, *([written] if written else [])]
    assert judged == json.dumps(stored), "stored rows are found by this text"
    assert judged.unjudged == question_key(question, searched, query)
    assert judged.wording == judged.unjudged.wording == QuestionKey(text, history)


def test_request_is_known_by_question_history_and_passages_and_their_order() -> None:
    one, two = Passage("a", "x"), Passage("b", "y")
    requests = [
        Request("q"), Request("r"), Request("q", (one,)), Request("q", (one, two)), Request("q", (two, one)),
        Request("q", (Passage("c", "x"),)), Request("q", (), (Turn("user", "x"),)),
        Request("q", (), (Turn("assistant", "x"),)),
    ]  # fmt: skip
    assert len({request_key(request) for request in requests}) == len(requests)
    assert request_key(Request("q", (Passage("a", "x"),))) == request_key(Request("q", (one,)))
    assert case_key(Case("q", "a")) != case_key(Case("q", "", ("a",)))


def test_what_failed_does_not_last_and_what_is_lacking_does() -> None:
    assert cacheable(Answer)(packed([Answer("x"), Answer(failed="timed out"), Answer(abstained=True)])).tolist() == [
        True, False, True,
    ]  # fmt: skip
    verdicts = [Judgement(0.5), Judgement(reason=NO_REFERENCE), Judgement(reason="timed out")]
    assert cacheable(Judgement)(packed(verdicts)).tolist() == [True, True, False]


# --- rows by content, in a store ---------------------------------------------------------------------------------

Ask = Callable[[list[str], Callable[[int, Answer], None]], None]


def node(ask: Ask) -> Node:
    """A node whose keys are hashes of what is asked; here, each stands for itself in capitals."""

    def compute(work: StageContext, rows: Rows) -> Any:
        return ask_all(work, rows, {key: key.upper() for key in rows}, ask)

    return Node("generate", Spec("g", "1"), (), compute, "rows", result=np.ndarray, cacheable=cacheable(Answer))


def texts(rows: Any) -> list[str]:
    return [answer.text or answer.failed for answer in unpacked(rows, Answer)]


def test_what_failed_is_returned_and_asked_again_by_the_next_process_only(tmp_path: Path) -> None:
    asked: list[str] = []

    def ask(requests: list[str], done: Callable[[int, Answer], None]) -> None:
        asked.extend(requests)
        for n in reversed(range(len(requests))):
            done(n, Answer(failed="timed out") if requests[n] == "B" and asked.count("B") == 1 else Answer(requests[n]))

    here = Executor(Store(tmp_path, pytest.fail))
    for _ in range(2):
        assert texts(here.get(node(ask), ["a", "b", "c"])) == ["A", "timed out", "C"]
    assert asked == ["A", "B", "C"]
    there = Executor(Store(tmp_path, pytest.fail))
    assert not there.known(node(ask), ["a", "b", "c"])
    assert there.known(node(ask), ["a", "c"])
    assert texts(there.get(node(ask), ["a", "b", "c"])) == ["A", "B", "C"]
    assert asked == ["A", "B", "C", "B"]
    assert Executor(Store(tmp_path, pytest.fail)).known(node(ask), ["a", "b", "c"])


@pytest.mark.parametrize("kind", [Answer, Judgement, Response, Route])
def test_call_that_fails_within_a_part_fails_its_request_alone(kind: Any) -> None:
    results = {Answer: Answer("x"), Judgement: Judgement(0.5), Response: Response(Answer("x")), Route: Route(False)}

    def ask(requests: list[str], done: Callable[[int, Any], None]) -> None:
        for n in range(len(requests)):
            if "B" in requests[n:]:  # as with texts that are embedded together
                raise CallFailed("no vectors", TOO_LONG)
            done(n, results[kind])

    def compute(work: StageContext, rows: Rows) -> Any:
        return ask_all(work, rows, {key: key.upper() for key in rows}, ask, kind)

    made = replace(node(ask), compute=compute, cacheable=cacheable(kind))
    found = unpacked(Executor().get(made, ["a", "b", "c"]), kind)
    assert [found[0], found[2]] == [results[kind]] * 2
    assert cacheable(kind)(packed(found)).tolist() == [True, False, True]
    assert TOO_LONG in str(found[1])


class Died(BaseException):
    """A kill, as far as the process can tell."""


@pytest.mark.parametrize(("calls", "lost"), [(1, 0), (0, KEPT_TOGETHER - 1)])
def test_kill_loses_no_answer_that_was_paid_for(calls: int, lost: int, tmp_path: Path) -> None:
    keys = [str(n) for n in range(200)]
    store = Store(tmp_path, pytest.fail)
    seen: list[int] = []

    def ask(requests: list[str], done: Callable[[int, Answer], None]) -> None:
        for n, request in enumerate(requests[:150]):
            done(n, Answer(request, usage=Usage(calls)))
            stored = sum(len(segment.keys) for segment in store.segments(node(ask)))
            seen.append(n + 1 - stored)
        raise Died

    with pytest.raises(Died):
        Executor(store).get(node(ask), keys)
    assert max(seen) <= lost  # had it been killed without a word at any of these moments
    left = Executor(Store(tmp_path, pytest.fail))
    assert [left.known(node(ask), [key]) for key in keys] == [True] * 150 + [False] * 50


@pytest.mark.parametrize(
    ("numbers", "fault"),
    [
        ([0], r"no result for 1 of 2 requests; call done\(number, result\) for each"),
        ([0, 0, 1], "done was called twice for request 0"),
        ([0, 1, 2], "done was called for request 2, but the requests are 0 to 1"),
    ],
)
def test_error_of_a_part_that_breaks_its_contract_names_its_class(numbers: list[int], fault: str) -> None:
    class Counting:
        def generate(self, requests: list[str], done: Callable[[int, Answer], None]) -> None:
            for number in numbers:
                done(number, Answer("x"))

    with pytest.raises(ConfigError, match=f"^Counting: {fault}$"):
        Executor().get(node(Counting().generate), ["a", "b"])


class Wrong:
    """A generator whose results are of the wrong type."""

    def __init__(self, result: Any) -> None:
        self.result = result

    def generate(self, requests: list[str], done: Callable[[int, Answer], None]) -> None:
        for n in range(len(requests)):
            done(n, self.result)


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (Answer(failed=True), r"Answer\.failed must be of the type str, got True"),  # type: ignore[arg-type]
        (Answer(None, seconds=1.0), r"Answer\.text must be of the type str, got None"),  # type: ignore[arg-type]
        (Answer("a", seconds=None), r"Answer\.seconds must be of the type float, got None"),  # type: ignore[arg-type]
        (Answer("a", seconds=-1.0), r"Answer\.seconds must not be negative, got -1\.0"),
        ("text", r"a result must be of the type ragsweep\.core\.types\.Answer, got 'text'"),
    ],
)
def test_result_of_the_wrong_type_is_refused(result: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=f"^Wrong: {message}$"):
        Executor().get(node(Wrong(result).generate), ["a"])
    with pytest.raises(AssertionError, match=message):
        type("Mine", (GeneratorContract,), {"part": lambda _: Wrong(result)})().test_every_request_is_answered_once()


def test_numbers_that_are_not_finite_are_as_unknown() -> None:
    (answer,) = unpacked(packed([Answer("x", support=math.inf)]), Answer)
    assert math.isnan(answer.support)
