"""Search in vectors whose numbers are rounded to a few bits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from ragsweep.core.errors import ConfigError
from ragsweep.core.types import Arrays, Floats
from ragsweep.parts.indexes.codes import CodeIndex, encode
from ragsweep.parts.indexes.faiss_index import library
from ragsweep.parts.indexes.vectors import blocks, check_at_least

BITS: Mapping[int, str] = {4: "QT_4bit", 6: "QT_6bit", 8: "QT_8bit", 16: "QT_fp16"}


@dataclass(eq=False)
class Sq(CodeIndex):
    """Compare the query with all vectors, each number of which takes ``bits`` bits (scalar quantisation), by faiss.

    4, 6 and 8 bits divide the range of each dimension evenly, 16 are a half-precision float. The nearest by their
    codes, ``oversampling`` times the depth, are scored by the vectors themselves, as the exact index does: with 1 the
    codes alone decide what is found, and only its order is exact.
    """

    VERSION: ClassVar[str] = "1"
    SEARCH_ONLY: ClassVar[frozenset[str]] = frozenset({"oversampling"})

    bits: Literal[4, 6, 8, 16] = 8
    oversampling: int = 2

    def __post_init__(self) -> None:
        """Raise ConfigError for values out of range."""
        if self.bits not in BITS:
            raise ConfigError(f"index.bits is {self.bits}; it must be one of {', '.join(map(str, BITS))}")
        check_at_least(1, oversampling=self.oversampling)

    def build(self, vectors: Floats) -> Arrays:
        """Return every vector's code, and the least and the largest number of each dimension."""
        if not len(vectors):
            return {"codes": np.empty((0, 0), dtype=np.uint8), "ranges": np.empty((0, 0), dtype=np.float32)}
        ends = [(block.min(axis=0), block.max(axis=0)) for _, block in blocks(vectors)]
        ranges = np.stack([np.min([low for low, _ in ends], axis=0), np.max([high for _, high in ends], axis=0)])
        return {"codes": encode(self._trained({"ranges": ranges}, vectors.shape[1]), vectors), "ranges": ranges}

    def _trained(self, index: Arrays, dimension: int) -> Any:
        """Train on the ends of the ranges: faiss uses nothing else."""
        faiss = library()
        kind = getattr(faiss.ScalarQuantizer, BITS[self.bits])
        made = faiss.IndexScalarQuantizer(dimension, kind, faiss.METRIC_INNER_PRODUCT)
        made.train(np.ascontiguousarray(index["ranges"], dtype=np.float32))
        return made
