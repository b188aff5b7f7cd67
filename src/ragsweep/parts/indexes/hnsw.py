"""Approximate search in a graph of near vectors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.errors import ConfigError
from ragsweep.core.ranking import nothing
from ragsweep.core.types import Arrays, Floats, Rankings
from ragsweep.parts.indexes.scoring import rank_found
from ragsweep.parts.indexes.serialised import LastOpened, library, pack, require, unpack, version, view


class Hnsw:
    """Walk from neighbour to neighbour towards the query, by faiss (Malkov and Yashunin, arXiv:1603.09320).

    ``m`` neighbours a vector (twice as many on the ground floor) are chosen among ``ef_construction`` candidates;
    a search keeps the best ``ef_search`` it has seen and returns no more than these, however large ``depth`` is: the
    rest of a ranking is empty. Only the graph is stored: a search reads the vectors themselves, and scores what it
    found as the exact index does.
    """

    VERSION = "2"
    SEARCH_ONLY: ClassVar[frozenset[str]] = frozenset({"ef_search"})

    def __init__(self, m: int = 16, ef_construction: int = 128, ef_search: int = 128) -> None:
        """Set the graph's density and the effort; raise ConfigError for values out of range."""
        for key, value, least in (
            ("m", m, 2),
            ("ef_construction", ef_construction, 1),
            ("ef_search", ef_search, 1),
        ):
            if value < least:
                raise ConfigError(f"index.{key} is {value}; it must be {least} or more")
        self.m = m
        self.ef_construction = ef_construction
        self.ef_search = ef_search
        self._opened = LastOpened()

    def fingerprint(self) -> Mapping[str, str]:
        """Name the version of the library that builds the graph."""
        return version()

    def build(self, vectors: Floats) -> Arrays:
        """Link all vectors; the graph is the same whatever the number of threads.

        faiss gets them in one call: what it adds later it links worse.
        """
        if not len(vectors):
            return {"graph": np.empty(0, dtype=np.uint8)}
        index = self._empty(vectors.shape[1])
        index.add(np.ascontiguousarray(vectors, dtype=np.float32))
        return {"graph": pack(index, library().IO_FLAG_SKIP_STORAGE)}

    def search(self, index: Arrays, vectors: Floats, queries: Floats, depth: int) -> Rankings:
        """Return at most ``depth`` near vectors of every query, and at most ``ef_search``."""
        if not len(vectors) or not len(queries):
            return nothing(len(queries), depth)
        graph, _ = self._opened.get((index["graph"], vectors), lambda: self._open(index["graph"], vectors))
        number = min(self.ef_search, len(vectors))  # faiss searches no narrower than the number that it returns
        asked = np.ascontiguousarray(queries, dtype=np.float32)
        found = graph.search(asked, number, params=library().SearchParametersHNSW(efSearch=number))[1]
        return rank_found(vectors, asked, found, depth)

    def _empty(self, dimension: int) -> Any:
        faiss = library()
        index = faiss.IndexHNSWFlat(dimension, self.m, faiss.METRIC_INNER_PRODUCT)
        index.hnsw.efConstruction = self.ef_construction
        return index

    def _open(self, data: NDArray[np.uint8], vectors: Floats) -> tuple[Any, ...]:
        """Read the graph, check that no link leads out of it, and join it with the vectors.

        Returned with it is what must live as long.
        """
        faiss = library()
        graph = unpack(data)
        require(type(graph) is faiss.IndexHNSWFlat and graph.storage is None, "it is no graph")
        expected = (vectors.shape[1], len(vectors), faiss.METRIC_INNER_PRODUCT)
        require((graph.d, graph.ntotal, graph.metric_type) == expected, "it was built of other vectors")
        like = self._empty(graph.d)  # the graph inside dies with it
        _check_links(graph.hnsw, like.hnsw, graph.ntotal)
        storage = view(np.ascontiguousarray(vectors, dtype=np.float32))
        graph.storage = storage
        return graph, (storage, data, vectors)


def _check_links(graph: Any, like: Any, number: int) -> None:
    """Check that a graph has the shape of ``like``, and that its links lead to vectors that have the link's floor."""
    faiss = library()
    room = faiss.vector_to_array(like.cum_nneighbor_per_level)  # places for links up to a floor
    require(np.array_equal(faiss.vector_to_array(graph.cum_nneighbor_per_level), room), "m")
    floors = faiss.vector_to_array(graph.levels)  # how many floors a vector stands on
    require(len(floors) == number and floors.min() >= 1 and floors.max() < len(room), "floors")
    starts = faiss.vector_to_array(graph.offsets)
    require(len(starts) == number + 1 and starts[0] == 0, "offsets")
    require(np.array_equal(np.diff(starts), room[floors]), "offsets")
    require(graph.neighbors.size() == starts[-1], "number of links")
    top = graph.max_level
    require(0 <= graph.entry_point < number and top + 1 == floors.max() == floors[graph.entry_point], "entry")
    links = faiss.rev_swig_ptr(graph.neighbors.data(), graph.neighbors.size())
    require(links.min() >= -1 and links.max() < number, "a link leads out")
    for floor in range(1, top + 1):
        here = starts[:-1][floors > floor].astype(np.int64)
        linked = links[here[:, None] + np.arange(room[floor], room[floor + 1])]
        require(bool((floors[linked[linked >= 0]] > floor).all()), "a link leads up")
