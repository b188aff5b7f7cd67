"""Exact search: every vector is compared."""

from __future__ import annotations

import numpy as np

from ragsweep.ranking import arrange
from ragsweep.types import Arrays, Floats, Integers, Rankings

SPARE = 32
"""Candidates fetched beyond the depth, so that ties for the last place can be decided."""

ERROR = 1e-5
"""What a float32 inner product may be off by, relative to the product of the two lengths."""

BLOCK = 64
"""Queries that are scored anew at a time: bounds the memory."""


class Flat:
    """Find the vectors with the largest inner product, by faiss, among all.

    faiss sums in another order for one query than for many, and leaves ties in any order. So candidates are scored anew
    in float64: a ranking never depends on the queries beside it, and equal vectors stand in the order of positions.
    """

    VERSION = "1"

    def build(self, vectors: Floats) -> Arrays:
        """Return the vectors, and the length of the longest, by which rounding is bounded."""
        kept = np.ascontiguousarray(vectors, dtype=np.float32)
        longest = np.sqrt(np.einsum("nd,nd->n", kept, kept).max(initial=0.0))
        return {"vectors": kept, "longest": np.array([longest], dtype=np.float32)}

    def search(self, index: Arrays, queries: Floats, depth: int) -> Rankings:
        """Return the ``depth`` nearest vectors of every query."""
        vectors: Floats = index["vectors"]
        queries = np.ascontiguousarray(queries, dtype=np.float32)
        fetched = min(depth + SPARE, len(vectors))
        if not len(queries) or not len(vectors):
            return arrange(np.empty((len(queries), 0), np.int64), np.empty((len(queries), 0), np.float32), depth)
        positions, scores = _nearest(vectors, queries, fetched)
        result = arrange(positions, scores, depth)
        undecided = _undecided(index, queries, scores, result)
        while fetched < len(vectors) and len(undecided):
            fetched = min(2 * fetched, len(vectors))
            positions, scores = _nearest(vectors, queries[undecided], fetched)
            part = arrange(positions, scores, depth)
            result.positions[undecided], result.scores[undecided] = part.positions, part.scores
            undecided = undecided[_undecided(index, queries[undecided], scores, part)]
        return result


def _nearest(vectors: Floats, queries: Floats, number: int) -> tuple[Integers, Floats]:
    """Let faiss find the nearest vectors, and score them anew."""
    import faiss

    found = faiss.knn(queries, vectors, number, metric=faiss.METRIC_INNER_PRODUCT)
    positions: Integers = found[1].astype(np.int32)
    scores: Floats = np.empty(positions.shape, dtype=np.float32)
    for start in range(0, len(queries), BLOCK):
        rows = slice(start, start + BLOCK)
        near = vectors[positions[rows]].astype(np.float64)
        scores[rows] = np.einsum("qnd,qd->qn", near, queries[rows].astype(np.float64))
    return positions, scores


def _undecided(index: Arrays, queries: Floats, scores: Floats, result: Rankings) -> Integers:
    """Return the queries where a vector that was not fetched could tie with, or beat, the last place."""
    error = ERROR * np.linalg.norm(queries, axis=1) * float(index["longest"][0])
    return np.flatnonzero(scores.min(axis=1) + 2 * error >= result.scores[:, -1]).astype(np.int32)
