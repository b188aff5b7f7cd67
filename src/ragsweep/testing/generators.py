"""Contract tests for a generator; to apply them, write ``class TestMine(GeneratorContract): part = Mine``."""

from collections.abc import Callable
from typing import ClassVar

import pytest

from ragsweep.core.answers import describe_wrong_type
from ragsweep.core.traits import traits_of
from ragsweep.core.types import Answer, CostEstimator, Generator, Passage, Request, RequestSize, Turn
from ragsweep.testing.contract import Contract, collect

CATS = Passage("cats", "The cat sleeps on the warm mat. Nobody else may sit there.")
SHIPS = Passage("ships:0-50", "Ships carry goods across the sea; {braces} and \U0001f680 \u00e9 are text.")
REQUESTS = (
    Request("Where does the cat sleep?", (CATS, SHIPS)),
    Request("Where does the cat sleep?", (SHIPS,)),
    Request("Where does the cat sleep?"),
    Request(
        "And where does it eat?", (CATS,), (Turn("user", "Where does the cat sleep?"), Turn("assistant", "There."))
    ),
    Request("", (CATS,)),
    Request("What carries goods?", (SHIPS, CATS, Passage("empty", ""))),
    Request("Where does the cat sleep?", (CATS, SHIPS)),
)


def content(answer: Answer) -> tuple[object, ...]:
    """Return the fields of an answer that must be equal in all batches: text, abstention, failure, rounded support."""
    support = None if answer.support != answer.support else round(answer.support, 5)
    return answer.text, answer.abstained, answer.failed, support


class GeneratorContract(Contract):
    """Contract tests for a generator: set ``part`` to your class, or to a method that returns an instance.

    Set ``repeatable = False`` if the answer to a request may vary, for example because it is sampled.
    """

    repeatable: ClassVar[bool] = True

    part: Callable[[], Generator]  # it may return the same instance for every test

    def test_every_request_is_answered_once(self) -> None:
        """Check that each request has exactly one valid answer, even without context or with an empty question."""
        for answer in collect(self.part().generate, REQUESTS):
            assert not (fault := describe_wrong_type(answer, Answer)), fault
            assert not (answer.failed and answer.text)
            assert answer.usage.calls >= 0
            assert min(answer.usage.tokens_in, answer.usage.tokens_out) >= 0
            assert answer.failed or answer.seconds >= 0, "answer.seconds must be set to the duration of the answer"

    def test_no_requests_no_answers(self) -> None:
        """Check that an empty batch gives no answers and no error."""
        assert collect(self.part().generate, []) == []

    def test_answer_depends_on_its_request_alone(self) -> None:
        """Check that a request has the same answer in any batch and order, because answers are stored by request."""
        if not self.repeatable:
            pytest.skip("answers are sampled")
        part = self.part()
        together = list(map(content, collect(part.generate, REQUESTS)))
        assert together[0] == together[-1], "equal requests have different answers"
        alone = [content(collect(part.generate, [request])[0]) for request in REQUESTS]
        assert alone == together, "a request has a different answer when it is alone"
        turned = list(map(content, collect(part.generate, REQUESTS[::-1])))[::-1]
        assert turned == together, "a request has a different answer in a different order"

    def test_generator_that_needs_context_abstains_without_it(self) -> None:
        """Check that, without context, a generator with the trait ``needs_context`` abstains with an empty text."""
        part = self.part()
        if traits_of(part).needs_context:
            (answer,) = collect(part.generate, [Request("Where does the cat sleep?")])
            assert answer.abstained
            assert answer.text == ""

    def test_estimated_cost_is_no_less_than_the_cost_of_one_answer(self) -> None:
        """Check that the estimate, if there is one and it is not NaN, is at least the cost of an answer."""
        part = self.part()
        if isinstance(part, CostEstimator):
            usage = collect(part.generate, REQUESTS[:1])[0].usage
            estimate = part.estimate_cost(RequestSize(passages=9, context=10_000, rest=1_000))
            assert not estimate.calls < usage.calls
            assert not estimate.tokens_in < usage.tokens_in
            assert not estimate.tokens_out < usage.tokens_out
