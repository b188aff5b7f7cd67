"""No router: the golden set's own word, ``needs_retrieval``, decides."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ragsweep.core.types import Request, Route


class NoRouter:
    """Decide nothing: nobody asks it."""

    VERSION = "1"
    SILENT = True

    def route(self, requests: Sequence[Request], done: Callable[[int, Route], None]) -> None:
        """Search for everything."""
        for number in range(len(requests)):
            done(number, Route())
