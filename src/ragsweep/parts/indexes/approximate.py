"""Approximate search with faiss: in a graph of neighbouring vectors, or in lists of similar vectors."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.types import Arrays, Floats, PartTraits
from ragsweep.parts.indexes.faiss_index import FaissIndex, Flat, deserialise, lend, library
from ragsweep.parts.indexes.vectors import blocks, sample
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
        """Add all vectors in one call, because vectors of a later call would be less well connected.

        The graph does not depend on the number of threads.
        """
        if not len(vectors):
            return {"graph": np.empty(0, dtype=np.uint8)}
        faiss = library()
        index = faiss.IndexHNSWFlat(vectors.shape[1], self.m, faiss.METRIC_INNER_PRODUCT)
        index.hnsw.efConstruction = self.ef_construction
        index.add(np.ascontiguousarray(vectors, dtype=np.float32))
        return {"graph": faiss.serialize_index(index, faiss.IO_FLAG_SKIP_STORAGE)}

    def _open(self, index: Arrays, vectors: Floats) -> Any:
        graph = deserialise(index["graph"], vectors)
        storage = lend(library().IndexFlatIP(graph.d), np.ascontiguousarray(vectors, dtype=np.float32))
        graph.storage = storage
        graph.referenced_objects.append(storage)
        return graph

    def _candidates(self, opened: Any, queries: Floats, depth: int) -> NDArray[np.int64]:
        number = min(self.ef_search, opened.ntotal)  # faiss searches at least as widely as the number of results
        effort = library().SearchParametersHNSW(efSearch=number)
        return np.asarray(opened.search(queries, number, params=effort)[1])


LEAST = 39
"""Minimum training vectors per list, on average; with fewer, faiss warns."""

SPARE = 32
"""Candidates fetched beyond twice the depth, because one-byte codes misplace some."""


@dataclass(eq=False)
class Ivf(FaissIndex):
    """Divide the vectors into ``nlist`` lists around means, using faiss, and search the ``nprobe`` nearest lists.

    The means are trained on a seeded sample of up to ``train_sample`` vectors. A small corpus has fewer lists: one
    per 39 training vectors, but at least one, so that 400 vectors make 10 lists. A list stores one byte per value of a
    vector; the candidates found by these codes are scored by the vectors themselves, as in the exact index. Fewer than
    ``depth`` vectors are found if the searched lists contain fewer.
    """

    TRAITS: ClassVar[PartTraits] = PartTraits(version="1", search_only=frozenset({"nprobe"}))

    nlist: int = 4096
    nprobe: int = 16
    train_sample: int = 262_144

    def __post_init__(self) -> None:
        """Raise ConfigError for values out of range."""
        check_at_least("index", 1, nlist=self.nlist, nprobe=self.nprobe, train_sample=self.train_sample)

    def build(self, vectors: Floats) -> Arrays:
        """Train the lists and fill them; the result is independent of the number of threads."""
        if not len(vectors):
            return {"lists": np.empty(0, dtype=np.uint8)}
        index = self._trained(vectors)  # frees the sample before the lists are filled
        for _, block in blocks(vectors):
            index.add(block)
        return {"lists": library().serialize_index(index)}

    def _trained(self, vectors: Floats) -> Any:
        faiss = library()
        chosen = sample(vectors, self.train_sample)
        number = max(1, min(self.nlist, len(chosen) // LEAST))
        means = faiss.IndexFlatIP(vectors.shape[1])
        index = faiss.IndexIVFScalarQuantizer(
            means, vectors.shape[1], number, faiss.ScalarQuantizer.QT_8bit, faiss.METRIC_INNER_PRODUCT
        )
        index.cp.min_points_per_centroid = 1  # no warning if a small corpus has one list of fewer than LEAST vectors
        index.train(chosen)
        return index

    def _open(self, index: Arrays, vectors: Floats) -> tuple[Any, Floats]:
        """Return the lists and their means."""
        lists = deserialise(index["lists"], vectors)
        return lists, library().downcast_index(lists.quantizer).reconstruct_n(0, lists.nlist)

    def _candidates(self, opened: tuple[Any, Floats], queries: Floats, depth: int) -> NDArray[np.int64]:
        lists, means = opened
        # The lists are chosen exactly: if two are almost equally near, faiss may choose differently for a batch.
        chosen = Flat().search(Flat().build(means), means, queries, min(self.nprobe, len(means)))
        lists.nprobe = chosen.positions.shape[1]
        number = min(2 * depth + SPARE, lists.ntotal)
        return np.asarray(lists.search_preassigned(queries, number, chosen.positions, chosen.scores)[1])
