"""No router: the golden set's ``needs_retrieval`` decides."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ragsweep.core.types import Request, Route


class NoRouter:
    """Make no decisions; never called."""

    VERSION = "1"
    SILENT = True

    def route(self, requests: Sequence[Request], done: Callable[[int, Route], None]) -> None:
        """Search for every request."""
        for number in range(len(requests)):
            done(number, Route())
