"""Search approximately with faiss: in a graph of neighbouring vectors, in lists of similar vectors, or in codes."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.types import Arrays, Floats, PartTraits
from ragsweep.parts.indexes.faiss_index import FaissIndex, Flat, check_shape, deserialise, lend, library
from ragsweep.parts.indexes.vectors import blocks, check_pieces, sample
from ragsweep.parts.limits import check_at_least, check_between


@dataclass(eq=False)
class Hnsw(FaissIndex):
    """A faiss index with a graph of neighbouring vectors (HNSW: Malkov and Yashunin, arXiv:1603.09320).

    Each vector has up to ``m`` neighbours (2m on layer 0), chosen from ``ef_construction`` candidates. A search keeps
    the best ``ef_search`` vectors that it visits; if ``depth`` is larger, the rest of a ranking is padding. Only the
    graph is stored; the candidates of a search are scored by the original vectors, as in the exact index.
    """

    TRAITS: ClassVar[PartTraits] = PartTraits(version="2", search_only=frozenset({"ef_search"}))

    m: int = 16
    ef_construction: int = 128
    ef_search: int = 128

    def __post_init__(self) -> None:
        check_at_least("index", 2, m=self.m)
        check_at_least("index", 1, ef_construction=self.ef_construction, ef_search=self.ef_search)

    def build(self, vectors: Floats) -> Arrays:
        """Return the graph of the vectors; it does not depend on the number of threads.

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
    """A faiss index that assigns vectors to ``nlist`` lists by nearest mean; a search reads the ``nprobe`` nearest.

    The means are trained on a seeded sample of at most ``train_sample`` vectors. A small corpus has fewer lists: one
    per 39 training vectors, but at least one; for example, 400 vectors are divided into 10 lists. A list stores a code
    of each vector, with one byte per value. The candidates found by these codes are scored by the original vectors, as
    in the exact index. If the searched lists contain fewer than ``depth`` vectors, the rest of a ranking is padding.
    """

    TRAITS: ClassVar[PartTraits] = PartTraits(version="1", search_only=frozenset({"nprobe"}))

    nlist: int = 4096
    nprobe: int = 16
    train_sample: int = 262_144

    def __post_init__(self) -> None:
        check_at_least("index", 1, nlist=self.nlist, nprobe=self.nprobe, train_sample=self.train_sample)

    def build(self, vectors: Floats) -> Arrays:
        """Return the trained and filled lists; they do not depend on the number of threads."""
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


BITS: Mapping[int, str] = {4: "QT_4bit", 6: "QT_6bit", 8: "QT_8bit", 16: "QT_fp16"}

LEAST_BITS = 4
"""Minimum number of bits per piece; with 2 bits or fewer, faiss cannot search pieces of two values."""

A_MEAN = 64
"""Maximum number of training vectors per mean; 256 would take three times as long without better results."""


class CodeIndex(FaissIndex):
    """Base class of indexes that compare the query with the codes of all vectors.

    The candidates are the ``oversampling * depth`` vectors whose codes are nearest to the query.
    """

    oversampling: int

    @abstractmethod
    def _trained(self, index: Arrays, dimension: int) -> Any:
        """Return a faiss index without codes, trained from the arrays in ``index``."""

    def _open(self, index: Arrays, vectors: Floats) -> Any:
        opened = self._trained(index, vectors.shape[1])
        check_shape(index["codes"].shape, (len(vectors), opened.sa_code_size()))
        return lend(opened, np.ascontiguousarray(index["codes"]))

    def _candidates(self, opened: Any, queries: Floats, depth: int) -> NDArray[np.int64]:
        number = min(self.oversampling * depth, opened.ntotal)
        # One query at a time: for several queries, faiss sums in a different order and therefore rounds differently.
        return np.concatenate([opened.search(queries[row : row + 1], number)[1] for row in range(len(queries))])


@dataclass(eq=False)
class Sq(CodeIndex):
    """A faiss index that compares the query with all vectors at ``bits`` bits per value (scalar quantisation).

    Codes of 4, 6 and 8 bits divide the range of each dimension evenly; a code of 16 bits is a half-precision float. The
    ``oversampling * depth`` vectors with the nearest codes are scored by the original vectors, as in the exact index.
    If ``oversampling`` is 1, the codes alone select the vectors, and only their order is exact.
    """

    TRAITS: ClassVar[PartTraits] = PartTraits(version="1", search_only=frozenset({"oversampling"}))

    bits: Literal[4, 6, 8, 16] = 8
    oversampling: int = 2

    def __post_init__(self) -> None:
        check_at_least("index", 1, oversampling=self.oversampling)

    def build(self, vectors: Floats) -> Arrays:
        """Return the codes (vectors, bytes), and the lowest and the highest value of each dimension (2, dimension)."""
        if not len(vectors):
            return {"codes": np.empty((0, 0), dtype=np.uint8), "ranges": np.empty((0, 0), dtype=np.float32)}
        ends = [(block.min(axis=0), block.max(axis=0)) for _, block in blocks(vectors)]
        ranges = np.stack([np.min([low for low, _ in ends], axis=0), np.max([high for _, high in ends], axis=0)])
        return {"codes": _encode(self._trained({"ranges": ranges}, vectors.shape[1]), vectors), "ranges": ranges}

    def _trained(self, index: Arrays, dimension: int) -> Any:
        """Return a faiss index trained on the ends of the ranges, the only values that faiss uses for training."""
        faiss = library()
        kind = getattr(faiss.ScalarQuantizer, BITS[self.bits])
        trained = faiss.IndexScalarQuantizer(dimension, kind, faiss.METRIC_INNER_PRODUCT)
        trained.train(np.ascontiguousarray(index["ranges"], dtype=np.float32))
        return trained


@dataclass(eq=False)
class Pq(CodeIndex):
    """A faiss index that compares the query with all vectors by product quantisation (Jégou et al., TPAMI 2011).

    A vector is cut into ``m`` pieces of equal length. For each of the ``m`` subspaces, 2^``nbits`` means are trained,
    and a piece is replaced by the index of the nearest mean. With 8 bits, a vector takes ``m`` bytes. The means are
    trained on a seeded sample. A small corpus has fewer means per subspace: at most one per vector, but at least 16.
    The ``oversampling * depth`` vectors with the nearest codes are scored by the original vectors, as in the exact
    index. If ``oversampling`` is 1, the codes alone select the vectors, and only their order is exact.
    """

    TRAITS: ClassVar[PartTraits] = PartTraits(version="1", search_only=frozenset({"oversampling"}))

    m: int = 48
    nbits: int = 8
    oversampling: int = 4

    def __post_init__(self) -> None:
        check_at_least("index", 1, m=self.m, oversampling=self.oversampling)
        check_between("index", LEAST_BITS, 8, nbits=self.nbits)

    def build(self, vectors: Floats) -> Arrays:
        """Return the codes of the vectors (vectors, bytes), and the trained means (m, means per subspace, values).

        Raises ConfigError if the vectors cannot be cut into ``m`` pieces of equal length.
        """
        if not len(vectors):
            return {"codes": np.empty((0, 0), dtype=np.uint8), "means": np.empty((0, 0, 0), dtype=np.float32)}
        dimension = vectors.shape[1]
        check_pieces("m", self.m, dimension)
        drawn = sample(vectors, A_MEAN << self.nbits)
        drawn = np.resize(drawn, (max(len(drawn), 1 << LEAST_BITS), dimension))  # repeats vectors if there are too few
        index = self._empty(dimension, min(self.nbits, len(drawn).bit_length() - 1))
        index.pq.cp.min_points_per_centroid = 1
        index.train(drawn)
        means = library().vector_to_array(index.pq.centroids).reshape(self.m, index.pq.ksub, index.pq.dsub)
        return {"codes": _encode(index, vectors), "means": means}

    def _trained(self, index: Arrays, dimension: int) -> Any:
        means = np.ascontiguousarray(index["means"])
        trained = self._empty(dimension, means.shape[1].bit_length() - 1)
        library().copy_array_to_vector(means.ravel(), trained.pq.centroids)
        trained.is_trained = True
        return trained

    def _empty(self, dimension: int, bits: int) -> Any:
        return library().IndexPQ(dimension, self.m, bits, library().METRIC_INNER_PRODUCT)


def _encode(index: Any, vectors: Floats) -> NDArray[np.uint8]:
    """Return the codes of the vectors, (vectors, bytes), computed by a trained faiss index."""
    codes = np.empty((len(vectors), index.sa_code_size()), dtype=np.uint8)
    for part, block in blocks(vectors):
        codes[part] = index.sa_encode(block)
    return codes
