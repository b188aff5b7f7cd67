"""The contract of an existing system, as tests: ``class TestMine(SystemContract): part = Mine``."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ragsweep.core.types import Passage, Request, Response, System, Turn

REQUESTS = (
    Request("How do I define a decorator?"),
    Request("Why?", history=(Turn("user", "Is a tuple a list?"), Turn("assistant", "No."))),
    Request('quotes " and {braces} and \u00e9'),
    Request("How do I define a decorator?"),
)


class SystemContract:
    """Inherit, and set ``part`` to your class, or override it with a method that returns an instance."""

    part: Callable[[], System]  # it may return the same instance for every test

    def test_every_request_is_answered_once(self) -> None:
        """Each has one response: an answer, an abstention, or the reason of its failure."""
        found = responses(self.part(), REQUESTS)
        assert sorted(found) == list(range(len(REQUESTS)))
        for response in found.values():
            assert all(isinstance(one, Passage) and (one.name or one.text) for one in response.contexts)
            assert response.answer.text or response.answer.abstained or response.answer.failed

    def test_no_requests_no_responses(self) -> None:
        """An empty batch is not an error."""
        assert responses(self.part(), []) == {}


def responses(part: System, requests: Sequence[Request]) -> dict[int, Response]:
    """Return a system's responses by request; fail on a second one for a request."""
    found: dict[int, Response] = {}

    def done(number: int, response: Response) -> None:
        assert number not in found
        found[number] = response

    part.ask(requests, done)
    return found
