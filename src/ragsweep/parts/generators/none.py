"""No answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ragsweep.core.missing import NO_ANSWERS
from ragsweep.core.types import Answer, Request


class NoGenerator:
    """Generate no answers: only retrieval is evaluated."""

    VERSION = "1"
    SILENT = True

    def generate(self, requests: Sequence[Request], done: Callable[[int, Answer], None]) -> None:
        """Return a failed answer for every request; never called, because the stage is omitted."""
        for number in range(len(requests)):
            done(number, Answer(failed=NO_ANSWERS))
