"""A retriever that ranks chunks by their vectors, and a placeholder for no retriever."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from ragsweep.core.types import Arrays, Embedder, PartTraits, Rankings, VectorIndex
from ragsweep.parts.ranking import check_min_score, empty_rankings


@dataclass(frozen=True)
class Vector:
    """A vector retriever: an embedder and an index; embedding and searching are separate stages.

    ``exact`` is the exact index with which metrics compare an approximate ``index``. The pipeline searches both only if
    they differ and a metric compares them. Chunks that score below ``min_score`` are dropped.
    """

    TRAITS: ClassVar[PartTraits] = PartTraits(
        version="2",
        filtering=frozenset({"min_score"}),
        bounds=(-1.0, 1.0),  # for unit vectors
    )

    embedder: Embedder
    index: VectorIndex
    exact: VectorIndex
    min_score: float | None = None

    def check(self) -> None:
        """Raise ConfigError if ``min_score`` is NaN."""
        check_min_score(self.min_score)


class NoRetriever:
    """Placeholder for no retriever: every ranking is empty."""

    TRAITS: ClassVar[PartTraits] = PartTraits(version="1", bounds=(0.0, None))

    def build(self, texts: Sequence[str]) -> Arrays:
        """Return an empty index."""
        return {}

    def retrieve(self, index: Arrays, queries: Sequence[str], depth: int) -> Rankings:
        """Return a ranking without chunks for each query."""
        return empty_rankings(len(queries), depth)
