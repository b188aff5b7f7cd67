"""Score candidates anew, the one way that all indexes share: so their scores compare, and ties fall alike."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.ranking import best, nothing
from ragsweep.core.types import Floats, Rankings

PAIRS = 512
"""Pairs that are scored at a time: few enough to stay in the processor's cache."""


def rank_pairs(
    vectors: Floats, queries: Floats, rows: NDArray[np.int64], positions: NDArray[np.int64], depth: int
) -> Rankings:
    """Rank candidates by inner product in float64, rounded to float32; ties stand in the order of positions.

    ``rows`` and ``positions`` name (query, vector) pairs, each once, ordered by row and then by position. The score of
    a pair depends on nothing but its two vectors: not on the queries beside it, nor on how the pair was found.
    """
    scores, asked = np.empty(len(rows), dtype=np.float32), queries.astype(np.float64)
    for start in range(0, len(rows), PAIRS):
        part = slice(start, start + PAIRS)
        near = vectors[positions[part]].astype(np.float64)
        scores[part] = np.einsum("pd,pd->p", near, asked[rows[part]])
    bounds = np.searchsorted(rows, np.arange(len(queries) + 1))
    result = nothing(len(queries), depth)
    for row, (start, end) in enumerate(pairwise(bounds)):
        order, kept = best(scores[start:end], depth, above=-np.inf)
        result.positions[row, : len(order)] = positions[start:end][order]
        result.scores[row, : len(order)] = kept
    return result


def rank_found(vectors: Floats, queries: Floats, found: NDArray[np.int64], depth: int) -> Rankings:
    """Rank candidates given as (queries, candidates) positions, in any order, each once; below 0 stands nothing."""
    ordered = np.sort(found, axis=1)
    rows, columns = np.nonzero(ordered >= 0)
    return rank_pairs(vectors, queries, rows, ordered[rows, columns], depth)
