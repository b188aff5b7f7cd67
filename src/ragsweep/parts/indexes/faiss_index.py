"""Search with faiss: the exact index, and a base class of indexes that rank their candidates as it does."""

import importlib.metadata
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from operator import is_not
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.errors import InputError
from ragsweep.core.types import Arrays, Floats, PartTraits, Rankings
from ragsweep.parts.indexes.vectors import blocks, rank_candidates
from ragsweep.parts.ranking import empty_rankings


class FaissIndex(ABC):
    """Base class: find candidates with a faiss index, and rank them by the vectors themselves, like the exact index."""

    _opened: tuple[tuple[NDArray[Any], ...], Any] | None = None

    def fingerprint(self) -> Mapping[str, str]:
        """Return the version of the indexing library."""
        return {"faiss-cpu": importlib.metadata.version("faiss-cpu")}

    def search(self, index: Arrays, vectors: Floats, queries: Floats, depth: int) -> Rankings:
        """Return at most ``depth`` nearby vectors for every query. Raises InputError if the index has a wrong shape."""
        if not len(vectors) or not len(queries):
            return empty_rankings(len(queries), depth)
        queries = np.ascontiguousarray(queries, dtype=np.float32)
        candidates = self._candidates(self._open_once(index, vectors), queries, depth)
        return rank_candidates(vectors, queries, candidates, depth)

    @abstractmethod
    def _open(self, index: Arrays, vectors: Floats) -> Any:
        """Build, from the stored arrays, the object that ``_candidates`` searches."""

    @abstractmethod
    def _candidates(self, opened: Any, queries: Floats, depth: int) -> NDArray[np.int64]:
        """Return positions (queries, number) in any order, padded with -1."""

    def _open_once(self, index: Arrays, vectors: Floats) -> Any:
        """Open an index, and cache it for the next call: queries may come one by one."""
        arrays = (*index.values(), vectors)
        if self._opened is None or any(map(is_not, self._opened[0], arrays)):
            self._opened = None  # free the previous one first
            self._opened = (arrays, self._open(index, vectors))
        return self._opened[1]


def library() -> Any:
    """Return the module faiss, untyped because its published types are incomplete."""
    import faiss

    return faiss


def deserialise(data: NDArray[np.uint8], vectors: Floats) -> Any:
    """Read a faiss index, whose arrays are views of ``data``. Raises InputError if ``vectors`` has another shape."""
    faiss = library()
    data = np.ascontiguousarray(data, dtype=np.uint8)
    index = faiss.read_index(faiss.ZeroCopyIOReader(faiss.swig_ptr(data), data.nbytes))
    check_shape((index.ntotal, index.d), vectors.shape)
    index.referenced_objects = [data]
    return index


def check_shape(shape: tuple[int, ...], expected: tuple[int, ...]) -> None:
    """Raise InputError unless a stored index has the shape that its vectors imply."""
    if shape != expected:
        raise InputError(
            f"the stored index belongs to other vectors ({shape}, not {expected}); remove the"
            " stored indexes with: ragsweep store evict --stage index"
        )


def lend(index: Any, rows: NDArray[Any]) -> Any:
    """Make a flat faiss index read ``rows`` (contiguous, one per vector) in place, and return it."""
    codes, address = index.codes, library().swig_ptr(np.ndarray(rows.nbytes, np.uint8, rows))
    codes.is_owned = False
    codes.view_data = codes.c_ptr = address
    codes.view_size = codes.c_size = rows.nbytes
    index.ntotal = len(rows)
    index.referenced_objects = [rows]
    return index


SPARE = 32
"""Candidates fetched beyond the depth; more are fetched only if rounding could lift others into the ranking."""

ROUNDING = 2.0**-24
"""Unit roundoff of float32."""


class Flat:
    """Compare the query with all vectors, using faiss, and return those with the largest inner products.

    Sums in float32 have rounding errors that depend on the other queries of a batch. Such sums therefore only select
    candidates: all vectors that the error bound does not exclude from the ranking. The candidates are rescored in
    float64, so that a ranking never depends on the other queries, and equal vectors are in order of position.
    """

    TRAITS: ClassVar[PartTraits] = PartTraits(version="2")

    def build(self, vectors: Floats) -> Arrays:
        """Return the norm of the longest vector, which bounds rounding errors; the vectors are not copied."""
        squares = (np.einsum("nd,nd->n", block, block).max() for _, block in blocks(vectors))
        return {"longest": np.sqrt([max(squares, default=0.0)]).astype(np.float32)}

    def search(self, index: Arrays, vectors: Floats, queries: Floats, depth: int) -> Rankings:
        """Return the ``depth`` vectors nearest to every query, or all vectors if there are fewer."""
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
    """Return a margin (queries,): a vector whose float32 product is further below the last rank's cannot be ranked.

    In any order of summation, a float32 inner product of n terms is off by at most about n times the unit roundoff
    times the lengths of both vectors (Higham, Accuracy and Stability of Numerical Algorithms, 2002, section 3.1). The
    margin covers two such errors, and the rounding of two scores to float32.
    """
    return np.asarray(2 * (queries.shape[1] + 2) * ROUNDING * longest * np.linalg.norm(queries, axis=1))


def _reaching(vectors: Floats, query: Floats, least: np.float32) -> NDArray[np.int64]:
    """Return the positions (1, number) of all vectors whose product with the query is ``least`` or more."""
    below = np.nextafter(least, np.float32(-np.inf))
    index = lend(library().IndexFlatIP(vectors.shape[1]), vectors)
    return np.asarray(index.range_search(query, float(below))[2][None])


@contextmanager
def _matrix_products(dimension: int) -> Iterator[None]:
    """Configure faiss to multiply matrices in large blocks for more than one query: see docs/measurements.md.

    By default it compares up to 128,000 / dimension queries one by one. With more queries, it multiplies blocks of
    1,024 vectors, with a thread barrier after each block. The blocks here take 32 MiB.
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
