"""The exact index, and a base class of indexes that find candidates with faiss and score them exactly."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from operator import is_not
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.errors import InputError
from ragsweep.core.types import Arrays, Floats, PartTraits, Rankings
from ragsweep.parts.indexes.vectors import blocks, rank_candidates
from ragsweep.parts.libraries import UsesLibraries
from ragsweep.parts.ranking import empty_rankings


class FaissIndex(UsesLibraries, ABC):
    """Base class of indexes that find candidates with faiss and, like ``Flat``, score them by the original vectors."""

    LIBRARIES = ("faiss-cpu",)

    _opened: tuple[tuple[NDArray[Any], ...], Any] | None = None

    def search(self, index: Arrays, vectors: Floats, queries: Floats, depth: int) -> Rankings:
        """Return rankings of at most ``depth`` vectors near each query, padded to ``depth``.

        Raises InputError if the shape of the stored index does not match the vectors.
        """
        if not len(vectors) or not len(queries):
            return empty_rankings(len(queries), depth)
        queries = np.ascontiguousarray(queries, dtype=np.float32)
        candidates = self._candidates(self._open_once(index, vectors), queries, depth)
        return rank_candidates(vectors, queries, candidates, depth)

    @abstractmethod
    def _open(self, index: Arrays, vectors: Floats) -> Any:
        """Return the object that ``_candidates`` searches, built from the stored arrays and the vectors."""

    @abstractmethod
    def _candidates(self, opened: Any, queries: Floats, depth: int) -> NDArray[np.int64]:
        """Return the positions of the candidates for each query, (queries, any width), in any order, padded with -1."""

    def _open_once(self, index: Arrays, vectors: Floats) -> Any:
        """Return ``_open(index, vectors)``; the last result is cached, because queries may be searched one by one."""
        arrays = (*index.values(), vectors)
        if self._opened is None or any(map(is_not, self._opened[0], arrays)):
            self._opened = None  # free the previous index before the next is opened
            self._opened = (arrays, self._open(index, vectors))
        return self._opened[1]


def library() -> Any:
    """Return the faiss module, with type Any because its type hints are incomplete."""
    import faiss

    return faiss


def deserialise(data: NDArray[np.uint8], vectors: Floats) -> Any:
    """Return the faiss index serialised in ``data``, without a copy of its arrays.

    Raises InputError if the vectors from which the index was built had a different shape from ``vectors``.
    """
    faiss = library()
    data = np.ascontiguousarray(data, dtype=np.uint8)
    index = faiss.read_index(faiss.ZeroCopyIOReader(faiss.swig_ptr(data), data.nbytes))
    check_shape((index.ntotal, index.d), vectors.shape)
    index.referenced_objects = [data]
    return index


def check_shape(shape: tuple[int, ...], expected: tuple[int, ...]) -> None:
    """Raise InputError unless a stored index's ``shape`` equals the shape ``expected`` for its vectors."""
    if shape != expected:
        raise InputError(
            f"the stored index was built from different vectors (shape {shape}, not {expected}); remove the"
            " stored indexes with: ragsweep store evict --stage index"
        )


def lend(index: Any, rows: NDArray[Any]) -> Any:
    """Return ``index``, a flat faiss index, changed to read its vectors or codes from ``rows`` without a copy.

    ``rows`` is contiguous, with one row per vector.
    """
    codes, address = index.codes, library().swig_ptr(np.ndarray(rows.nbytes, np.uint8, rows))
    codes.is_owned = False
    codes.view_data = codes.c_ptr = address
    codes.view_size = codes.c_size = rows.nbytes
    index.ntotal = len(rows)
    index.referenced_objects = [rows]
    return index


SPARE = 32
"""Number of candidates fetched in addition to the depth.

More are fetched only if, because of rounding errors, other vectors may be in the ranking.
"""

ROUNDING = 2.0**-24
"""Unit roundoff of float32 (half of the machine epsilon)."""


class Flat:
    """The exact index: it compares the query with all vectors and returns the largest inner products, using faiss.

    The rounding errors of inner products in float32 depend on the other queries of a batch. Therefore, these products
    only select the candidates: all vectors that may be in the ranking, given the bound on the errors. The candidates
    are scored again in float64, so that a ranking never depends on other queries, and ties are ordered by position.
    """

    TRAITS: ClassVar[PartTraits] = PartTraits(version="2")

    def build(self, vectors: Floats) -> Arrays:
        """Return the length of the longest vector (0 without vectors), to bound rounding errors."""
        squares = (np.einsum("nd,nd->n", block, block).max() for _, block in blocks(vectors))
        return {"longest": np.sqrt([max(squares, default=0.0)]).astype(np.float32)}

    def search(self, index: Arrays, vectors: Floats, queries: Floats, depth: int) -> Rankings:
        """Return rankings of the ``depth`` vectors nearest to each query; if there are fewer, the rest is padding."""
        if not len(vectors) or not len(queries):
            return empty_rankings(len(queries), depth)
        vectors, queries = (np.ascontiguousarray(given, dtype=np.float32) for given in (vectors, queries))
        number = min(depth + SPARE, len(vectors))
        with _matrix_products(queries.shape[1]):
            products, candidates = library().knn(queries, vectors, number, metric=library().METRIC_INNER_PRODUCT)
        result = rank_candidates(vectors, queries, candidates, depth)
        if number == len(vectors):
            return result
        least = products[:, depth - 1] - _margin(queries, float(index["longest"][0]))
        for row in np.flatnonzero(products[:, -1] >= least):
            query = queries[row : row + 1]
            ranking = rank_candidates(vectors, query, _reaching(vectors, query, least[row]), depth)
            result.positions[row], result.scores[row] = ranking.positions[0], ranking.scores[0]
        return result


def _margin(queries: Floats, longest: float) -> Floats:
    """Return the margin of each query, (queries,), for comparisons of float32 inner products.

    A vector whose product is below the product at the last rank by more than the margin cannot be in the ranking. In
    any order of summation, the error of a float32 inner product of n terms is at most about n times the unit roundoff
    times the lengths of both vectors. Source: Higham, Accuracy and Stability of Numerical Algorithms, 2002, section
    3.1. The margin covers two such errors, and the rounding of two scores to float32.
    """
    return np.asarray(2 * (queries.shape[1] + 2) * ROUNDING * longest * np.linalg.norm(queries, axis=1))


def _reaching(vectors: Floats, query: Floats, least: np.float32) -> NDArray[np.int64]:
    """Return the positions (1, number) of all vectors whose inner product with ``query`` is at least ``least``."""
    below = np.nextafter(least, np.float32(-np.inf))
    index = lend(library().IndexFlatIP(vectors.shape[1]), vectors)
    return np.asarray(index.range_search(query, float(below))[2][None])


@contextmanager
def _matrix_products(dimension: int) -> Iterator[None]:
    """Make faiss compute the products of several queries by multiplying large matrices, within a ``with`` block.

    By default, faiss compares up to 128,000 / ``dimension`` queries one by one. For more queries, it multiplies
    matrices of 1,024 vectors, with a thread barrier after each product. With the settings of this function, the
    products of two matrices take 32 MiB. Measured speeds are in benchmarks/results/exact.json. The previous settings
    are restored at the end.
    """
    settings = library().cvar
    values = {
        "distance_compute_blas_threshold": 2 * dimension,
        "distance_compute_blas_query_bs": 1_024,
        "distance_compute_blas_database_bs": 8_192,
    }
    before = {name: getattr(settings, name) for name in values}
    try:
        for name, value in values.items():
            setattr(settings, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(settings, name, value)
