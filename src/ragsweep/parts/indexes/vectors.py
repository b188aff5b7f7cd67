"""Functions shared by the indexes: read vectors in blocks, draw samples, rank candidates, and check a setting."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.errors import ConfigError
from ragsweep.core.types import Floats, Rankings
from ragsweep.parts.ranking import arrange_ascending

BLOCK = 65_536
"""Number of vectors read at a time; the vectors may be mapped from a file and are never copied all at once."""

PAIRS = 512
"""Number of query-vector pairs scored at a time; their vectors fit into the cache of the CPU."""

SEED = 0


def check_pieces(key: str, number: int, dimension: int) -> None:
    """Raise ConfigError unless vectors of ``dimension`` values can be cut into ``number`` pieces of equal length.

    ``key`` is the name of the setting, used in the message.
    """
    if dimension % number:
        divisors = ", ".join(str(count) for count in range(1, dimension + 1) if dimension % count == 0)
        way = f"for vectors of {dimension} values, it must be one of {divisors}"
        raise ConfigError(f"the index's {key} is {number}; {way}")


def blocks(vectors: Floats) -> Iterator[tuple[slice, Floats]]:
    """Yield pairs (rows, block): a slice of at most BLOCK rows, and their vectors, contiguous and in float32."""
    for start in range(0, len(vectors), BLOCK):
        part = slice(start, start + BLOCK)
        yield part, np.ascontiguousarray(vectors[part], dtype=np.float32)


def sample(vectors: Floats, size: int) -> Floats:
    """Return ``size`` vectors drawn with a fixed seed, ordered by position, or all vectors if there are fewer."""
    chosen = np.arange(len(vectors))
    if size < len(vectors):
        chosen = np.sort(np.random.default_rng(SEED).choice(len(vectors), size, replace=False))
    return np.ascontiguousarray(vectors[chosen], dtype=np.float32)


def rank_candidates(vectors: Floats, queries: Floats, candidates: NDArray[np.int64], depth: int) -> Rankings:
    """Return rankings of the candidates by inner product, cut or padded to ``depth``; ties are ordered by position.

    ``candidates`` (queries, number) contains positions in any order, each once per row; negative positions are padding.
    Products are computed in float64 and rounded to float32. The score of a query and a vector depends only on this
    pair, not on other queries or on the index that found the vector.
    """
    positions = np.sort(candidates, axis=1)
    scores = np.full(positions.shape, -np.inf, dtype=np.float32)
    rows, columns = np.nonzero(positions >= 0)
    precise = queries.astype(np.float64)
    for start in range(0, len(rows), PAIRS):
        row, column = rows[start : start + PAIRS], columns[start : start + PAIRS]
        near = vectors[positions[row, column]].astype(np.float64)
        scores[row, column] = np.einsum("pd,pd->p", near, precise[row])
    return arrange_ascending(np.maximum(positions, -1), scores, depth)
