"""Search codes that stand for the vectors."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.types import Arrays, Floats
from ragsweep.parts.indexes.faiss_index import FaissIndex, check_shape, lend
from ragsweep.parts.indexes.vectors import blocks


class CodeIndex(FaissIndex):
    """Compare the query with a code of every vector, and fetch ``oversampling`` times the depth."""

    oversampling: int

    @abstractmethod
    def _trained(self, index: Arrays, dimension: int) -> Any:
        """Make a trained faiss index without codes."""

    def _open(self, index: Arrays, vectors: Floats) -> Any:
        opened = self._trained(index, vectors.shape[1])
        check_shape(index["codes"].shape, (len(vectors), opened.sa_code_size()))
        return lend(opened, np.ascontiguousarray(index["codes"]))

    def _candidates(self, opened: Any, queries: Floats, depth: int) -> NDArray[np.int64]:
        number = min(self.oversampling * depth, opened.ntotal)
        # One by one: faiss sums in another order for many queries than for one.
        return np.concatenate([opened.search(queries[row : row + 1], number)[1] for row in range(len(queries))])


def encode(index: Any, vectors: Floats) -> NDArray[np.uint8]:
    """Return the codes (vectors, bytes) that a trained faiss index gives the vectors."""
    codes = np.empty((len(vectors), index.sa_code_size()), dtype=np.uint8)
    for part, block in blocks(vectors):
        codes[part] = index.sa_encode(block)
    return codes
