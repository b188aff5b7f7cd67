"""The retriever of configs without retrieval, in which the model answers without context."""

from collections.abc import Sequence
from typing import ClassVar

from ragsweep.core.types import Arrays, PartTraits, Rankings
from ragsweep.parts.ranking import empty_rankings


class NoRetriever:
    """A retriever that finds no chunks for any query."""

    TRAITS: ClassVar[PartTraits] = PartTraits(version="1", bounds=(0.0, None))

    def build(self, texts: Sequence[str]) -> Arrays:
        """Return an empty index."""
        return {}

    def retrieve(self, index: Arrays, queries: Sequence[str], depth: int) -> Rankings:
        """Return a ranking without chunks for each query."""
        return empty_rankings(len(queries), depth)
