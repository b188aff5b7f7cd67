"""A contract that lacks its part, or has one of the wrong kind, says how to set it."""

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ragsweep.core.missing import NO_REFERENCE, TIMED_OUT, repeatable
from ragsweep.core.types import Answer, Passage, Request, Response, Scores
from ragsweep.parts.generators import NoGenerator
from ragsweep.parts.metrics import ContextRecall
from ragsweep.testing.contract import assert_lawful
from ragsweep.testing.generators import GeneratorContract
from ragsweep.testing.metrics import MetricContract
from ragsweep.testing.systems import SystemContract


def test_a_missing_part_or_metric_is_named() -> None:
    with pytest.raises(AttributeError, match="set part = YourClass"):
        type("Empty", (GeneratorContract,), {})().test_no_requests_no_answers()
    with pytest.raises(AttributeError, match="an instance"):
        type("Empty", (MetricContract,), {})().test_attributes_are_complete()


def test_a_part_or_metric_of_the_wrong_kind_is_refused_where_it_is_set() -> None:
    with pytest.raises(TypeError, match="set part = YourClass"):
        type("Built", (GeneratorContract,), {"part": NoGenerator()})
    with pytest.raises(TypeError, match=r"metric = ContextRecall\(\)"):
        type("Unbuilt", (MetricContract,), {"metric": ContextRecall})


def contract(score: Callable[[Any], object]) -> MetricContract:
    """Return the contract of a metric that scores like this."""
    metric = SimpleNamespace(needs=(), bounds=(0.0, 1.0), score=score)
    return type("Mine", (MetricContract,), {"metric": metric})()


def test_a_reason_of_ones_own_breaks_the_contract() -> None:
    def score(view: Any) -> Scores:
        count = len(view.questions)
        return Scores(np.full(count, np.nan), np.full(count, "too odd"))

    with pytest.raises(AssertionError, match=r"too odd.*failed measurements"):
        contract(score).test_empty_rankings_are_scored()


@pytest.mark.parametrize(
    ("scores", "fault"),
    [
        (np.full(10, 0.5), "return ragsweep.core.types.Scores"),
        (Scores(np.full(9, 0.5), np.full(9, "")), r"shape \(9,\) .* for 10 questions"),
        (Scores(np.full(10, 1.5), np.full(10, "")), "the score 1.5 is outside the metric's bounds"),
        (Scores(np.full(10, np.nan), np.full(10, "")), "a missing score has no reason"),
    ],
)
def test_error_of_a_metric_that_breaks_the_contract_names_the_remedy(scores: object, fault: str) -> None:
    with pytest.raises((TypeError, ValueError, AssertionError), match=fault):
        contract(lambda _: scores).test_empty_rankings_are_scored()


def test_error_of_a_retriever_that_returns_no_rankings_names_their_type() -> None:
    with pytest.raises(AssertionError, match="must be Rankings"):
        assert_lawful(([0], [1.0]), 1, 1)


@pytest.mark.parametrize("scores", [(float("nan"),), (1.0, 0.5)])
def test_scores_of_a_system_are_finite_and_one_per_passage(scores: tuple[float, ...]) -> None:
    class Scoring:
        def ask(self, requests: Sequence[Request], done: Callable[[int, Response], None]) -> None:
            for n in range(len(requests)):
                done(n, Response(Answer("yes"), (Passage("d", ""),), scores))

    with pytest.raises(AssertionError):
        type("Mine", (SystemContract,), {"part": Scoring})().test_every_request_is_answered_once()


def test_only_failed_calls_are_repeated() -> None:
    assert repeatable([NO_REFERENCE, TIMED_OUT])
    assert repeatable(["out of memory"], ["", "out of memory"])
    assert not repeatable([NO_REFERENCE, "too odd"], [""])


def test_a_score_that_depends_on_other_questions_breaks_the_contract() -> None:
    def score(view: Any) -> Scores:
        count = len(view.questions)
        return Scores(np.full(count, 1.0 / max(count, 1)), np.full(count, ""))

    with pytest.raises(AssertionError):
        contract(score).test_other_questions_are_irrelevant()
