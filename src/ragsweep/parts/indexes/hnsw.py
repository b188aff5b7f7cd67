"""Approximate search in a graph of neighbouring vectors."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.types import Arrays, Floats, PartTraits
from ragsweep.parts.indexes.faiss_index import FaissIndex, deserialise, lend, library, serialise
from ragsweep.parts.limits import check_at_least


@dataclass(eq=False)
class Hnsw(FaissIndex):
    """Walk from neighbour to neighbour towards the query, using faiss (Malkov and Yashunin, arXiv:1603.09320).

    ``m`` neighbours per vector (2m on layer 0) are chosen among ``ef_construction`` candidates; a search keeps the best
    ``ef_search`` visited vectors and returns no more, even if ``depth`` is larger: the rest of a ranking is empty. Only
    the graph is stored: a search reads the vectors themselves, and scores its candidates like the exact index.
    """

    TRAITS: ClassVar[PartTraits] = PartTraits(version="2", search_only=frozenset({"ef_search"}))

    m: int = 16
    ef_construction: int = 128
    ef_search: int = 128

    def __post_init__(self) -> None:
        """Raise ConfigError for values out of range."""
        check_at_least("index", 2, m=self.m)
        check_at_least("index", 1, ef_construction=self.ef_construction, ef_search=self.ef_search)

    def build(self, vectors: Floats) -> Arrays:
        """Link all vectors; the graph is independent of the number of threads.

        All vectors are passed to faiss in one call: vectors added later would be less well connected.
        """
        if not len(vectors):
            return {"graph": np.empty(0, dtype=np.uint8)}
        faiss = library()
        index = faiss.IndexHNSWFlat(vectors.shape[1], self.m, faiss.METRIC_INNER_PRODUCT)
        index.hnsw.efConstruction = self.ef_construction
        index.add(np.ascontiguousarray(vectors, dtype=np.float32))
        return {"graph": serialise(index, faiss.IO_FLAG_SKIP_STORAGE)}

    def _open(self, index: Arrays, vectors: Floats) -> Any:
        """Join the graph with the vectors."""
        graph = deserialise(index["graph"], vectors)
        storage = lend(library().IndexFlatIP(graph.d), np.ascontiguousarray(vectors, dtype=np.float32))
        graph.storage = storage
        graph.referenced_objects.append(storage)
        return graph

    def _candidates(self, opened: Any, queries: Floats, depth: int) -> NDArray[np.int64]:
        number = min(self.ef_search, opened.ntotal)  # faiss searches at least as widely as the number of results
        effort = library().SearchParametersHNSW(efSearch=number)
        positions: NDArray[np.int64] = opened.search(queries, number, params=effort)[1]
        return positions
