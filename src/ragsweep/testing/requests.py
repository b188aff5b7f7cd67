"""A function that collects the results of a part that answers requests one by one."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from ragsweep.core.types import Request

Result = TypeVar("Result")


def collect(
    method: Callable[[Sequence[Request], Callable[[int, Result], None]], None], requests: Sequence[Request]
) -> list[Result]:
    """Return the result of each request, in order; raises AssertionError unless each has exactly one."""
    results: dict[int, Result] = {}

    def done(number: int, result: Result) -> None:
        assert number not in results, f"request {number} has two results"
        results[number] = result

    method(requests, done)
    assert set(results) == set(range(len(requests))), "every request, and no other number, needs a result"
    return [results[number] for number in range(len(requests))]
