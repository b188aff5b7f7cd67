"""Exact search: every vector is compared."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.ranking import nothing
from ragsweep.core.types import Arrays, Floats, Rankings
from ragsweep.parts.indexes.scoring import rank_pairs

BLOCK = 16_384
"""Vectors that are read at a time: they may lie in a file, and are never copied whole."""

QUERIES = 256
"""Queries that are compared at a time: bounds the memory."""

ROUNDING = 2.0**-24
"""Unit roundoff of float32."""


class Flat:
    """Find the vectors with the largest inner product among all.

    Sums in float32 depend on the queries beside a query, and are off by a little. So they only choose candidates: all
    that could belong to the ranking by the bound on their error. Candidates are scored anew in float64: a ranking never
    depends on the queries beside it, and equal vectors stand in the order of positions.
    """

    VERSION = "2"

    def build(self, vectors: Floats) -> Arrays:
        """Return the length of the longest vector, by which rounding is bounded; the vectors are not copied."""
        squares = (np.einsum("nd,nd->n", block, block).max() for _, block in _blocks(vectors))
        return {"longest": np.sqrt([max(squares, default=0.0)]).astype(np.float32)}

    def search(self, index: Arrays, vectors: Floats, queries: Floats, depth: int) -> Rankings:
        """Return the ``depth`` nearest vectors of every query."""
        queries = np.ascontiguousarray(queries, dtype=np.float32)
        result = nothing(len(queries), depth)
        for start in range(0, len(queries), QUERIES):
            part = slice(start, start + QUERIES)
            found = _candidates(vectors, queries[part], depth, float(index["longest"][0]))
            ranking = rank_pairs(vectors, queries[part], found.rows, found.positions, depth)
            result.positions[part], result.scores[part] = ranking.positions, ranking.scores
        return result


class _Pairs(NamedTuple):
    """Pairs of query and vector, with the inner product in float32."""

    rows: NDArray[np.int64]
    positions: NDArray[np.int64]
    products: Floats

    def take(self, chosen: NDArray[Any]) -> _Pairs:
        """Return some pairs, by a mask or in an order."""
        return _Pairs(self.rows[chosen], self.positions[chosen], self.products[chosen])

    def join(self, other: _Pairs) -> _Pairs:
        """Append pairs."""
        rows, positions = np.append(self.rows, other.rows), np.append(self.positions, other.positions)
        return _Pairs(rows, positions, np.append(self.products, other.products))


def _blocks(vectors: Floats) -> Iterator[tuple[int, Floats]]:
    for start in range(0, len(vectors), BLOCK):
        yield start, np.ascontiguousarray(vectors[start : start + BLOCK], dtype=np.float32)


def _candidates(vectors: Floats, queries: Floats, depth: int, longest: float) -> _Pairs:
    """Return every pair that could stand in a ranking, ordered by query and position.

    However it is summed, a float32 inner product of n terms is off by at most about n times the unit roundoff times
    both lengths (Higham, Accuracy and Stability of Numerical Algorithms, 2002, section 3.1). Two such errors, and the
    rounding of two scores to float32, lie between a pair that is left out here and one that belongs there.
    """
    margin = (2 * (vectors.shape[1] + 2) * ROUNDING * longest * np.linalg.norm(queries, axis=1)).astype(np.float32)
    top = np.full((len(queries), depth), -np.inf, dtype=np.float32)  # of every query, the largest products so far
    held = _Pairs(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float32))
    for start, block in _blocks(vectors):
        products = queries @ block.T
        least = top.min(axis=1)
        if not np.isfinite(least).all() and products.shape[1] > depth:
            least = np.maximum(least, np.partition(products, -depth, axis=1)[:, -depth])
        new = _reaching(products, least - margin, start)
        top = _merged(top, new)
        held = held.join(new)
        held = held.take(held.products >= (top.min(axis=1) - margin)[held.rows])
    return held.take(np.argsort(held.rows, kind="stable"))  # blocks came in the order of positions


def _reaching(products: Floats, least: Floats, start: int) -> _Pairs:
    """Return the pairs of one block that reach their query's least product, ordered by query and position."""
    flat = np.flatnonzero(products >= least[:, None])
    rows, columns = np.divmod(flat, products.shape[1])
    return _Pairs(rows, columns + start, products.ravel()[flat])


def _merged(top: Floats, new: _Pairs) -> Floats:
    """Put the products of new pairs among the largest of every query."""
    counts = np.bincount(new.rows, minlength=len(top))
    width = int(counts.max(initial=0))
    if not width:
        return top
    table = np.full((len(top), width), -np.inf, dtype=np.float32)
    table[new.rows, np.arange(len(new.rows)) - (np.cumsum(counts) - counts)[new.rows]] = new.products
    both: Floats = np.partition(np.concatenate([top, table], axis=1), width, axis=1)[:, width:]
    return both
