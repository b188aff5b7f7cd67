"""No answers."""

from collections.abc import Callable, Sequence
from typing import ClassVar

from ragsweep.core.missing import NO_ANSWERS
from ragsweep.core.types import Answer, PartTraits, Request


class NoGenerator:
    """Generate no answers: only retrieval is evaluated."""

    TRAITS: ClassVar[PartTraits] = PartTraits(version="1", silent=True)

    def generate(self, requests: Sequence[Request], done: Callable[[int, Answer], None]) -> None:
        """Report a failed answer for every request; never called, because the stage is omitted."""
        for number in range(len(requests)):
            done(number, Answer(failed=NO_ANSWERS))
