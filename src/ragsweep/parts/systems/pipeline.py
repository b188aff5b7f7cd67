"""The pipeline of this config's retriever, reranker and LLM."""

from collections.abc import Callable, Sequence
from typing import ClassVar

from ragsweep.core.types import PartTraits, Request, Response


class Pipeline:
    """Represent the pipeline described by the rest of the config; this part is never called."""

    TRAITS: ClassVar[PartTraits] = PartTraits(version="1", silent=True)

    def ask(self, requests: Sequence[Request], done: Callable[[int, Response], None]) -> None:
        """Report an empty response to every request."""
        for number in range(len(requests)):
            done(number, Response())
