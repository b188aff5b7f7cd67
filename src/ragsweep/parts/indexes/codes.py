"""Search codes that stand for the vectors, and score what they find by the vectors themselves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.errors import ConfigError
from ragsweep.core.types import Floats, Rankings
from ragsweep.parts.indexes.scoring import rank_found
from ragsweep.parts.indexes.serialised import lend, require

BLOCK = 65_536
"""Vectors that are read at a time."""


def blocks(vectors: Floats) -> Iterator[tuple[slice, Floats]]:
    """Yield the vectors block by block, with the rows of each."""
    for start in range(0, len(vectors), BLOCK):
        part = slice(start, start + BLOCK)
        yield part, np.ascontiguousarray(vectors[part], dtype=np.float32)


def encode(index: Any, vectors: Floats) -> NDArray[np.uint8]:
    """Return the codes (vectors, bytes) that a trained faiss index gives the vectors."""
    codes = np.empty((len(vectors), index.sa_code_size()), dtype=np.uint8)
    for part, block in blocks(vectors):
        codes[part] = index.sa_encode(block)
    return codes


def open_codes(index: Any, codes: NDArray[np.uint8], vectors: Floats) -> Any:
    """Put codes into a trained faiss index; they must outlive it. Raises InputError for those of other vectors."""
    shape = (len(vectors), index.sa_code_size())
    require(codes.dtype == np.uint8 and codes.shape == shape, f"codes {codes.shape} for {shape}")
    lend(index, np.ascontiguousarray(codes))
    return index


def search_codes(index: Any, vectors: Floats, queries: Floats, depth: int, oversampling: int) -> Rankings:
    """Fetch ``oversampling`` times ``depth`` candidates a query by their codes, and rank them by their vectors."""
    asked, number = np.ascontiguousarray(queries, dtype=np.float32), min(oversampling * depth, len(vectors))
    # One by one: faiss sums in another order for many queries than for one.
    found = [index.search(asked[row : row + 1], number)[1] for row in range(len(asked))]
    return rank_found(vectors, asked, np.concatenate(found), depth)


def check_oversampling(oversampling: int) -> None:
    """Raise ConfigError for less than the depth."""
    if oversampling < 1:
        raise ConfigError(f"index.oversampling is {oversampling}; it must be 1 or more")
