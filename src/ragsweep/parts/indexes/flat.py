"""Exact search: every vector is compared."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.types import Arrays, Floats, PartTraits, Rankings
from ragsweep.parts.indexes.faiss_index import lend, library
from ragsweep.parts.indexes.vectors import blocks, rank_candidates
from ragsweep.parts.ranking import empty_rankings

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
    margin: Floats = 2 * (queries.shape[1] + 2) * ROUNDING * longest * np.linalg.norm(queries, axis=1)
    return margin


def _reaching(vectors: Floats, query: Floats, least: np.float32) -> NDArray[np.int64]:
    """Return the positions (1, number) of all vectors whose product with the query is ``least`` or more."""
    below = np.nextafter(least, np.float32(-np.inf))
    index = lend(library().IndexFlatIP(vectors.shape[1]), vectors)
    positions: NDArray[np.int64] = index.range_search(query, float(below))[2][None]
    return positions


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
