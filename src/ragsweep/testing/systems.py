"""Contract tests for an external system; to apply them, write ``class TestMine(SystemContract): part = Mine``."""

import math
from collections.abc import Callable

from ragsweep.core.answers import describe_wrong_type
from ragsweep.core.types import Passage, Request, Response, System, Turn
from ragsweep.testing.contract import Contract, collect

REQUESTS = (
    Request("How do I define a decorator?"),
    Request("Why?", history=(Turn("user", "Is a tuple a list?"), Turn("assistant", "No."))),
    Request('quotes " and {braces} and \u00e9'),
    Request("How do I define a decorator?"),
)


class SystemContract(Contract):
    """Contract tests for an external system: set ``part`` to your class, or to a method that returns an instance."""

    part: Callable[[], System]  # it may return the same instance for every test

    def test_every_request_is_answered_once(self) -> None:
        """Check that each request has one response: an answer, an abstention, or the reason for a failure.

        Each passage must have a name or a text. If there are scores, there must be one finite score per passage.
        """
        for response in collect(self.part().ask, REQUESTS):
            assert not (fault := describe_wrong_type(response, Response)), fault
            assert all(isinstance(passage, Passage) and (passage.name or passage.text) for passage in response.contexts)
            assert len(response.scores) in (0, len(response.contexts))
            assert all(map(math.isfinite, response.scores))
            assert response.answer.text or response.answer.abstained or response.answer.failed

    def test_no_requests_no_responses(self) -> None:
        """Check that an empty batch gives no responses and no error."""
        assert collect(self.part().ask, []) == []
