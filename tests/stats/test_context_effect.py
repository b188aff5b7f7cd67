"""With and without context: every question is of one kind, and the paired test is exact."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from ragsweep.core.errors import ConfigError
from ragsweep.core.results import Result
from ragsweep.core.types import Metric
from ragsweep.parts.judges import NoJudge
from ragsweep.parts.metrics import (
    AnswerFate,
    AnswerLength,
    CitationRecall,
    CitationsCorrect,
    ContextNdcg,
    ExactMatch,
    GroundingLexical,
    GroundingRougeL,
    RagasFaithfulness,
    SuccessRate,
    TokenF1,
)
from ragsweep.stats.context_effect import KINDS, Success, compare, exact_mcnemar, refuses_all, resolve_success
from support.results import scored

NAN = math.nan


def table(**rows: tuple[float, bool]) -> dict[str, list[Any]]:
    """Make a table of outcomes: question id -> (score, refused)."""
    return {
        "question_id": list(rows), "success_rate": [score for score, _ in rows.values()],
        "abstained": [refused for _, refused in rows.values()], "answer_failed": [""] * len(rows),
    }  # fmt: skip


def test_every_kind_once() -> None:
    without = table(a=(0, False), b=(1, False), c=(1, False), d=(0, True), e=(0, False), f=(1, True), g=(NAN, False))
    with_context = table(a=(1, False), b=(0, True), c=(1, False), d=(0, False), e=(0, True), f=(0, False), h=(1, False))
    found = compare(without, with_context)
    assert found.kinds == {
        "a": "helped", "b": "hurt", "c": "known already", "d": "never solved", "e": "abstained", "f": "hurt",
    }  # fmt: skip
    assert found.counts == {"helped": 1, "hurt": 2, "known already": 1, "never solved": 1, "abstained": 1}
    assert found.left_out == 2  # g has no score, h was not asked without context
    assert not found.always_abstains
    assert found.p_value == 1.0


def test_questions_are_paired_by_id_and_scored_from_a_threshold_on() -> None:
    without, with_context = table(a=(0.4, False), b=(0.6, False)), table(b=(0.4, False), a=(0.6, False))
    assert compare(without, with_context).kinds == {"a": "helped", "b": "hurt"}
    low = Success(threshold=0.3)
    assert compare(without, with_context, low).kinds == {"a": "known already", "b": "known already"}
    less = Success(higher_is_better=False)
    assert compare(without, with_context, less).kinds == {"a": "hurt", "b": "helped"}
    assert Success(threshold=0.9).solves(0.7 + 0.2)  # a rounding error below .9, as the score of a WeightedSum may be
    assert Success(threshold=0.3, higher_is_better=False).solves(0.1 + 0.2)


def metrics(*more: Metric) -> dict[str, Metric]:
    return {one.name: one for one in (ContextNdcg(), TokenF1(), SuccessRate(), ExactMatch(), *more)}


@pytest.mark.parametrize(
    ("objective", "success", "metric"),
    [
        ("token_f1", {}, "token_f1"),
        ("exact_match", {"metric": None, "threshold": 0.9}, "exact_match"),
        (["exact_match", "token_f1"], {}, "exact_match"),
        ("hallucinated_answer", {}, "hallucinated_answer"),
        ("context_ndcg", {}, "success_rate"),  # without context it is 0: that says nothing of answers
        ("answer_length", {}, "success_rate"),  # neither more nor less is better
        ("context_ndcg", {"metric": "token_f1"}, "token_f1"),
        ("exact_match", {"metric": "success_rate"}, "success_rate"),
    ],
)
def test_solved_is_of_the_objective_or_named_metric(objective: object, success: dict[str, Any], metric: str) -> None:
    known = metrics(AnswerLength(), AnswerFate("hallucinated_answer"))
    found = resolve_success({"objective": objective, "success": success}, known)
    assert found == {"metric": metric, "threshold": success.get("threshold", 0.5), "unanswerable": None}


@pytest.mark.parametrize(
    "metric",
    [RagasFaithfulness(NoJudge()), GroundingLexical(), GroundingRougeL(), CitationsCorrect(), CitationRecall()],
)
def test_metric_that_reads_the_context_does_not_define_solved_by_default(metric: Any) -> None:
    assert "contexts" in metric.uses
    assert resolve_success({"objective": metric.name}, metrics(metric))["metric"] == "success_rate"


@pytest.mark.parametrize(
    ("success", "fault"),
    [
        ({"metric": "token_f"}, r'success\.metric: no metric "token_f"; did you mean "token_f1"'),
        ({"metric": "answer_length"}, r"success\.metric: neither higher nor lower values of answer_length"),
        ({"metric": ["mrr"]}, r"success\.metric: must be the name of a metric, or null, got \['mrr'\]"),
        ({"threshold": "high"}, r"success\.threshold: must be a finite number, got 'high'"),
        ({"treshold": 0.5}, r'success\.treshold: unknown key; did you mean "threshold"'),
    ],
)
def test_invalid_definition_of_success_is_refused(success: dict[str, Any], fault: str) -> None:
    with pytest.raises(ConfigError, match=fault):
        resolve_success({"objective": "token_f1", "success": success}, metrics(AnswerLength()))


def test_generator_that_needs_context_always_abstains_without() -> None:
    without = table(a=(0, True), b=(1, True))  # b is unanswerable: to refuse it is right
    found = compare(without, table(a=(1, False), b=(0, False)))
    assert found.always_abstains
    assert found.kinds == {"a": "helped", "b": "hurt"}
    failed = {**without, "abstained": [True, False], "answer_failed": ["", "timed out"]}
    assert compare(failed, without).always_abstains  # what failed says nothing
    assert not compare({**failed, "answer_failed": ["", ""]}, without).always_abstains
    assert not compare({**failed, "answer_failed": ["x", "x"]}, without).always_abstains


def told(*rows: tuple[bool, str, bool, str]) -> Result:
    """Make a result of questions: answerable, the answer, abstained, why it failed."""
    columns = zip(("answerable", "answer", "abstained", "answer_failed"), zip(*rows, strict=True), strict=True)
    return scored({"success_rate": [1.0]}, questions={name: list(column) for name, column in columns})


REFUSAL, BLANK, ANSWER = (True, "I do not know", True, ""), (True, " ", False, ""), (True, "a cat", False, "")
FAILED, WELCOME, INVENTED = (True, "", False, "timed out"), (False, "no", True, ""), (False, "a cat", False, "")


@pytest.mark.parametrize(
    ("rows", "refused"),
    [
        ([REFUSAL, BLANK, WELCOME], 2),
        ([REFUSAL, FAILED], 1),
        ([REFUSAL, INVENTED], 1),  # it answers only what has no answer
        ([REFUSAL, ANSWER], 0),
        ([FAILED], 0),
        ([WELCOME], 0),
    ],
)
def test_config_that_refuses_every_answerable_question_is_known_by_their_number(rows: Any, refused: int) -> None:
    assert refuses_all(told(*rows)) == refused


def test_config_without_answers_refuses_nothing() -> None:
    retrieves = scored({"context_recall": [1.0]})
    assert refuses_all(retrieves) == 0


@given(st.integers(0, 400), st.integers(0, 400))
def test_mcnemar_is_the_binomial_test(helped: int, hurt: int) -> None:
    expected = binomtest(helped, helped + hurt, 0.5).pvalue if helped + hurt else 1.0
    assert exact_mcnemar(helped, hurt) == pytest.approx(expected, rel=1e-9)
    assert exact_mcnemar(helped, hurt) == exact_mcnemar(hurt, helped)


def test_mcnemar_by_hand_and_of_very_many_questions() -> None:
    assert (exact_mcnemar(0, 0), exact_mcnemar(1, 0), exact_mcnemar(4, 1)) == (1, 1, 3 / 8)
    assert 0 < exact_mcnemar(5600, 5000) < 1e-8
    assert exact_mcnemar(20_000, 0) == 0.0


ROWS = st.dictionaries(st.sampled_from("abcdef"), st.tuples(st.sampled_from([0.0, 1.0, NAN]), st.booleans()))


@given(ROWS, ROWS)
def test_kinds_add_up_and_turning_round_swaps_helped_and_hurt(one: dict, other: dict) -> None:
    there, back = compare(table(**one), table(**other)), compare(table(**other), table(**one))
    assert sum(there.counts.values()) + there.left_out == len(one.keys() | other.keys())
    assert set(there.kinds.values()) <= set(KINDS)
    assert (there.counts["helped"], there.counts["hurt"]) == (back.counts["hurt"], back.counts["helped"])
    assert there.p_value == back.p_value
