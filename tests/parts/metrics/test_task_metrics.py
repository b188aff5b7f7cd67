"""A user's own metrics of a task, their weighted sums and criteria, by numbers that can be added up by hand."""

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ragsweep.core.errors import ConfigError
from ragsweep.core.missing import TRUNCATED, UNEXPLAINED, UNREADABLE
from ragsweep.core.types import Answer, Answers, EvaluationView, Question
from ragsweep.evaluation.result_notes import result_warnings
from ragsweep.parts.answer_outputs import mark_cut, read_outputs
from ragsweep.parts.metrics import Latency, Recall, Results, TaskMetric, TaskSuccess, UnreadableOutput, WeightedSum
from ragsweep.parts.outputs import JsonObject
from ragsweep.stages.executor import Executor
from ragsweep.testing.metrics import MetricContract, answered, example
from support.metrics import rows


class Value(TaskMetric):
    """The number under a key; counts how often it was asked."""

    def __init__(
        self, key: str, bounds: tuple[float | None, float | None] = (0, 10), higher: bool | None = True
    ) -> None:
        self.name, self.bounds, self.higher_is_better, self.asked = key, bounds, higher, 0

    def score_output(self, question: Question, output: Any) -> float | str:
        self.asked += 1
        return output.get(self.name, "not there")


ANSWERS = (
    Answer('{"a": 4, "b": 1}', seconds=1), Answer('{"a": 8, "b": 3}', seconds=1), Answer("nonsense", seconds=1),
    Answer(failed="timed out"), Answer('{"a": 4}', seconds=1),
)  # fmt: skip


@pytest.fixture
def seen() -> EvaluationView:
    view = answered()
    count = len(ANSWERS)
    answers = Answers(ANSWERS, [()] * count, np.zeros(count, np.int64))
    return replace(view, questions=view.questions[:count], answers=answers, output=JsonObject())


def test_unreadable_output_has_no_score_and_a_failed_answer_its_reason(seen: EvaluationView) -> None:
    for made in (Value("a"), Value("a", higher=False), Value("a", (None, None)), Value("a", (0, 10), None)):
        assert rows(made, seen) == [4, 8, UNREADABLE, "timed out", 4]
    assert rows(UnreadableOutput(), seen) == [0, 0, 1, "timed out", 0]


def test_a_reply_cut_at_the_limit_of_its_tokens_is_unreadable_where_outputs_are_read(seen: EvaluationView) -> None:
    assert seen.answers is not None
    given = [Answer('{"a": 4}'), Answer(failed=TRUNCATED), Answer(failed="timed out")]
    assert mark_cut(given, None) == given
    marked = mark_cut(given, seen.output)
    assert [one.failed for one in marked] == ["", UNREADABLE, "timed out"]
    view = replace(seen, questions=seen.questions[:3], answers=seen.answers._replace(answers=marked))
    assert rows(Value("a"), view) == [4, UNREADABLE, "timed out"]
    assert rows(UnreadableOutput(), view) == [0, 1, "timed out"]


@pytest.mark.parametrize(("unread", "told"), [(UNREADABLE, True), (0.0, False)])
def test_warning_says_that_unread_replies_have_no_score_only_where_they_have_none(
    seen: EvaluationView, unread: float | str, told: bool
) -> None:
    made = Value("a")
    made.unread = unread
    config: Any = SimpleNamespace(
        graph=SimpleNamespace(located=None, embeddings=()), metrics=[made, UnreadableOutput()]
    )
    (warning,) = result_warnings(Executor(), config, [seen], {})
    assert warning.startswith("1 of 5 replies could not be read")
    assert ("have no score" in warning) is told


def test_weighted_sum_adds_up_and_lacks_what_a_term_lacks(seen: EvaluationView) -> None:
    a, b = Value("a"), Value("b", higher=False)
    total = WeightedSum("total", {"a": {"metric": a, "weight": 0.5}, "b": {"metric": b, "weight": -1}}, constant=10)
    assert rows(total, seen) == [11, 11, UNREADABLE, "timed out", "not there"]
    assert (total.needs, total.higher_is_better) == (("answer", "output"), True)


def test_a_case_is_solved_where_every_criterion_holds(seen: EvaluationView) -> None:
    criteria = {"a": {"metric": Value("a"), "at_least": 4}, "b": {"metric": Value("b"), "at_least": 1, "at_most": 2}}
    assert rows(TaskSuccess(criteria), seen) == [1, 0, UNREADABLE, "timed out", "not there"]
    narrow = {"a": {"metric": Value("a"), "at_least": 5}, "b": {"metric": Value("b"), "at_most": 2}}
    assert rows(TaskSuccess(narrow), seen)[4] == 0  # not solved, for any value of the missing criterion


def test_a_case_whose_criterion_is_nan_without_a_reason_is_not_solved(seen: EvaluationView) -> None:
    seen = replace(seen, questions=seen.questions[:1], answers=Answers([Answer('{"a": NaN}')], [()], np.zeros(1)))
    seen = replace(seen, output=SimpleNamespace(read=json.loads))
    assert rows(TaskSuccess({"a": {"metric": Value("a"), "at_least": 4}}), seen) == [UNEXPLAINED]
    assert rows(WeightedSum("s", {"a": {"metric": Value("a"), "weight": 1}}), seen) == [UNEXPLAINED]


def test_a_case_to_which_a_criterion_does_not_apply_counts_neither_as_solved_nor_as_not() -> None:
    """Otherwise, only those of these cases that miss another criterion would count."""
    view = example()
    slow, fast = (replace(view, latency={"retrieve": np.where(np.arange(10) % 2, np.nan, one)}) for one in (9.0, 0.001))
    latency = {"metric": Latency(), "at_most": 500}
    for few in (0, 100):
        criteria = {"few": {"metric": Results(), "at_most": few}, "latency": latency}
        for one in (slow, fast):
            assert rows(TaskSuccess(criteria), one)[1:8:2] == ["not probed"] * 4
    assert rows(TaskSuccess({"few": {"metric": Results(), "at_most": 0}, "latency": latency}), slow)[:8:2] == [0] * 4


def test_metric_is_computed_once_for_all_that_read_it(seen: EvaluationView) -> None:
    a = Value("a")
    for metric in (
        a, WeightedSum("s", {"a": {"metric": a, "weight": 1}}), TaskSuccess({"a": {"metric": a, "at_least": 1}}),
    ):  # fmt: skip
        metric.score(seen)
    assert a.asked == 3  # the answers that can be read


@pytest.mark.parametrize(
    ("made", "named"),
    [
        (lambda: WeightedSum("s", {"a": {"weight": 1}}), r"terms\.a\.metric"),
        (lambda: WeightedSum("s", {"a": {"metric": Value("a"), "weight": "much"}}), r"terms\.a\.weight"),
        (lambda: WeightedSum("s", {}, bounds=["low", 1]), r"bounds: must be \[LOWEST, HIGHEST\].*got \['low', 1\]"),
        (lambda: TaskSuccess({"a": {"metric": Value("a")}}), r"criteria\.a: has no limit; add at_least"),
        (lambda: TaskSuccess({"a": {"metric": Value("a"), "at_most": True}}), r"criteria\.a\.at_most"),
        (lambda: TaskSuccess({"a": {"metric": Value("a"), "at_least": 1, "at_mots": 2}}), r"\.a\.at_mots.*\"at_most\""),
        (lambda: TaskSuccess({"a": {"metric": Value("a"), "at_least": 2, "at_most": 1}}), r"criteria\.a: .* 2.* 1"),
        (lambda: TaskSuccess({}), r"criteria: must have at least one"),
        (lambda: WeightedSum("s", {"a": {"metric": Value("a"), "weight": 1, "at_most": 2}}), r"terms\.a\.at_most"),
        (lambda: WeightedSum("s", {}), r"terms: must have at least one"),
        (lambda: WeightedSum("s", {"a": {"metric": Value("a"), "weight": 1}}, bounds=[1, 0]), r"bounds: .*\[1, 0\]"),
    ],
)
def test_what_cannot_be_computed_or_met_or_would_be_ignored_is_refused_with_its_key(made: Any, named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        made()


def test_weighted_sum_outside_its_bounds_is_an_error_and_not_a_mean_outside_its_interval(seen: EvaluationView) -> None:
    def total(constant: float) -> WeightedSum:
        return WeightedSum("s", {"b": {"metric": Value("b"), "weight": 0.1}}, constant, bounds=[0, 0.3])

    assert 0.1 * 3 > 0.3  # a rounding error
    assert rows(total(0), seen) == [0.1, 0.3, UNREADABLE, "timed out", "not there"]
    with pytest.raises(ValueError, match=r"the sum 0\.4 is outside its bounds, \(0, 0\.3\)"):
        total(0.1).score(seen)


class Strict:
    """A reader of another package that does not foresee an object without the key."""

    def read(self, text: str) -> Any:
        return {"a": json.loads(text)["b"]}


def test_answer_for_which_a_reader_raises_another_error_than_value_error_is_unreadable(seen: EvaluationView) -> None:
    view = replace(seen, output=Strict())
    assert rows(Value("a"), view) == [1, 3, UNREADABLE, "timed out", UNREADABLE]
    assert view.answers is not None
    faults = [one.unreadable for one in read_outputs(view.answers, Strict())]
    assert (faults[:2], faults[3:]) == (["", ""], ["", "KeyError: 'b'"])


class TestOwnMetric(MetricContract):
    metric = Value("a", (None, None))

    @pytest.fixture(autouse=True)
    def _whole_texts_hold_no_number(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(Value, "score_output", lambda self, question, output: float(len(output)))


class TestSuccess(MetricContract):
    metric = TaskSuccess({"found": {"metric": Recall(2), "at_least": 0.5}, "few": {"metric": Results(), "at_most": 2}})
