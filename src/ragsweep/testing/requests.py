"""What the contracts of parts that answer requests one by one share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from ragsweep.core.types import Request

Result = TypeVar("Result")


def collect(
    method: Callable[[Sequence[Request], Callable[[int, Result], None]], None], requests: Sequence[Request]
) -> list[Result]:
    """Return the result of every request; fail unless each has exactly one."""
    found: dict[int, Result] = {}

    def done(number: int, result: Result) -> None:
        assert number not in found, f"request {number} has two results"
        found[number] = result

    method(requests, done)
    assert set(found) == set(range(len(requests))), "not every request has a result, or others have"
    return [found[number] for number in range(len(requests))]
