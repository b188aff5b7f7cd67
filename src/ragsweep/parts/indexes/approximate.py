"""Search approximately with faiss: in a graph of neighbouring vectors, or in lists of similar vectors."""

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
    """Search a graph of neighbouring vectors (HNSW: Malkov and Yashunin, arXiv:1603.09320), using faiss.

    Each vector has up to ``m`` neighbours (2m on layer 0), chosen among ``ef_construction`` candidates. A search keeps
    the best ``ef_search`` vectors that it visits; if ``depth`` is larger, the rest of a ranking is padding. Only the
    graph is stored; the candidates of a search are scored by the original vectors, as in the exact index.
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
        """Return the graph of the vectors, which does not depend on the number of threads.

        All vectors are added in one call of faiss, because vectors added later would be less well connected.
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
        number = min(self.ef_search, opened.ntotal)  # for more results, faiss would raise efSearch
        effort = library().SearchParametersHNSW(efSearch=number)
        return np.asarray(opened.search(queries, number, params=effort)[1])


LEAST = 39
"""Minimum average number of training vectors per list; faiss warns if there are fewer."""

SPARE = 32
"""Number of candidates fetched in addition to twice the depth, because one-byte codes misplace some vectors."""


@dataclass(eq=False)
class Ivf(FaissIndex):
    """Divide the vectors into ``nlist`` lists by their nearest mean, and search the ``nprobe`` nearest lists (faiss).

    The means are trained on a seeded sample of at most ``train_sample`` vectors. A small corpus has fewer lists: one
    per 39 training vectors, but at least one; for example, 400 vectors are divided into 10 lists. A list stores one
    byte per value of a vector. The candidates found by these codes are scored by the original vectors, as in the exact
    index. If the searched lists contain fewer than ``depth`` vectors, the rest of a ranking is padding.
    """

    TRAITS: ClassVar[PartTraits] = PartTraits(version="1", search_only=frozenset({"nprobe"}))

    nlist: int = 4096
    nprobe: int = 16
    train_sample: int = 262_144

    def __post_init__(self) -> None:
        """Raise ConfigError for values out of range."""
        check_at_least("index", 1, nlist=self.nlist, nprobe=self.nprobe, train_sample=self.train_sample)

    def build(self, vectors: Floats) -> Arrays:
        """Return the trained and filled lists, which do not depend on the number of threads."""
        if not len(vectors):
            return {"lists": np.empty(0, dtype=np.uint8)}
        index = self._trained(vectors)  # a separate method, so that the sample is freed here
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
        """Return the faiss index that contains the lists, and the means of the lists (lists, dimension)."""
        lists = deserialise(index["lists"], vectors)
        return lists, library().downcast_index(lists.quantizer).reconstruct_n(0, lists.nlist)

    def _candidates(self, opened: tuple[Any, Floats], queries: Floats, depth: int) -> NDArray[np.int64]:
        lists, means = opened
        # The lists are chosen exactly: if two are almost equally near, faiss may choose differently for a batch.
        chosen = Flat().search(Flat().build(means), means, queries, min(self.nprobe, len(means)))
        lists.nprobe = chosen.positions.shape[1]
        number = min(2 * depth + SPARE, lists.ntotal)
        return np.asarray(lists.search_preassigned(queries, number, chosen.positions, chosen.scores)[1])
