"""Our own pipeline: what the config describes by retriever, reranker and LLM."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ragsweep.core.types import Request, Response


class Pipeline:
    """Stand for what the rest of the config describes: nobody asks it."""

    VERSION = "1"
    SILENT = True

    def ask(self, requests: Sequence[Request], done: Callable[[int, Response], None]) -> None:
        """Say nothing."""
        for number in range(len(requests)):
            done(number, Response())
