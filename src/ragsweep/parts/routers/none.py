"""No router: the golden set's ``needs_retrieval`` decides."""

from collections.abc import Callable, Sequence
from typing import ClassVar

from ragsweep.core.types import PartTraits, Request, Route


class NoRouter:
    """Stand for the absence of a router; it is never called."""

    TRAITS: ClassVar[PartTraits] = PartTraits(version="1", silent=True)

    def route(self, requests: Sequence[Request], done: Callable[[int, Route], None]) -> None:
        """For every request, decide to search."""
        for number in range(len(requests)):
            done(number, Route())
