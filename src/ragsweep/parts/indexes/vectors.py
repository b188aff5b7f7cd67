"""Functions that several indexes share: read vectors in blocks, draw samples, rank candidates, check a setting."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.errors import ConfigError
from ragsweep.core.types import Floats, Rankings
from ragsweep.parts.ranking import arrange_ascending

BLOCK = 65_536
"""Number of vectors read at a time: they may be mapped from a file, and are never copied as a whole."""

PAIRS = 512
"""Number of pairs scored at a time: few enough for the processor's cache."""

SEED = 0


def check_pieces(key: str, number: int, dimension: int) -> None:
    """Raise ConfigError unless vectors can be cut into ``number`` equal pieces; ``key`` is the setting's name."""
    if dimension % number:
        divisors = ", ".join(str(count) for count in range(1, dimension + 1) if dimension % count == 0)
        way = f"for vectors of {dimension} numbers it must be one of {divisors}"
        raise ConfigError(f"the index's {key} is {number}; {way}")


def blocks(vectors: Floats) -> Iterator[tuple[slice, Floats]]:
    """Yield the rows (a slice) and the vectors of each block, contiguous and in float32."""
    for start in range(0, len(vectors), BLOCK):
        part = slice(start, start + BLOCK)
        yield part, np.ascontiguousarray(vectors[part], dtype=np.float32)


def sample(vectors: Floats, size: int) -> Floats:
    """Draw at most ``size`` vectors with a fixed seed, in order of position."""
    chosen = np.arange(len(vectors))
    if size < len(vectors):
        chosen = np.sort(np.random.default_rng(SEED).choice(len(vectors), size, replace=False))
    return np.ascontiguousarray(vectors[chosen], dtype=np.float32)


def rank_candidates(vectors: Floats, queries: Floats, candidates: NDArray[np.int64], depth: int) -> Rankings:
    """Rank candidates by inner product in float64, rounded to float32; ties are in order of position.

    ``candidates`` (queries, number) are positions in any order, each once per row; negative ones are padding. The score
    of a pair depends only on its two vectors, not on other queries or the index that found it.
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
