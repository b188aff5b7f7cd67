"""No answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ragsweep.core.reasons import NO_ANSWERS
from ragsweep.core.types import Answer, Request


class NoGenerator:
    """Answer nothing: only retrieval is evaluated."""

    VERSION = "1"
    SILENT = True

    def generate(self, requests: Sequence[Request], done: Callable[[int, Answer], None]) -> None:
        """Say of every request that nothing was asked; nobody asks, since the stage is left out."""
        for number in range(len(requests)):
            done(number, Answer(failed=NO_ANSWERS))
