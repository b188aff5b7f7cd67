"""Search with the last turn alone: the question as it was asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ragsweep.core.types import Answer, Request


class Last:
    """Take the question."""

    VERSION = "1"
    SILENT = True

    def write(self, requests: Sequence[Request], done: Callable[[int, Answer], None]) -> None:
        """Return each question."""
        for number, request in enumerate(requests):
            done(number, Answer(request.question))
