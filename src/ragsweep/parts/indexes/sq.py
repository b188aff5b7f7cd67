"""Search in vectors whose numbers are rounded to a few bits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.errors import ConfigError
from ragsweep.core.ranking import nothing
from ragsweep.core.types import Arrays, Floats, Rankings
from ragsweep.parts.indexes.codes import blocks, check_oversampling, encode, open_codes, search_codes
from ragsweep.parts.indexes.serialised import LastOpened, library, require, version

BITS: Mapping[int, str] = {4: "QT_4bit", 6: "QT_6bit", 8: "QT_8bit", 16: "QT_fp16"}


class Sq:
    """Compare the query with all vectors, each number of which takes ``bits`` bits (scalar quantisation), by faiss.

    4, 6 and 8 bits divide the range of each dimension evenly, 16 are a half-precision float. The nearest by their
    codes, ``oversampling`` times the depth, are scored by the vectors themselves, as the exact index does: with 1 the
    codes alone decide what is found, and only its order is exact.
    """

    VERSION = "1"
    SEARCH_ONLY: ClassVar[frozenset[str]] = frozenset({"oversampling"})

    def __init__(self, bits: Literal[4, 6, 8, 16] = 8, oversampling: int = 2) -> None:
        """Set the bits a number and the effort; raise ConfigError for values out of range."""
        if bits not in BITS:
            raise ConfigError(f"index.bits is {bits}; it must be one of {', '.join(map(str, BITS))}")
        check_oversampling(oversampling)
        self.bits = bits
        self.oversampling = oversampling
        self._opened = LastOpened()

    def fingerprint(self) -> Mapping[str, str]:
        """Name the version of the library that makes the codes."""
        return version()

    def build(self, vectors: Floats) -> Arrays:
        """Return every vector's code, and the least and the largest number of each dimension."""
        if not len(vectors):
            return {"codes": np.empty((0, 0), dtype=np.uint8), "ranges": np.empty((0, 0), dtype=np.float32)}
        ends = [(block.min(axis=0), block.max(axis=0)) for _, block in blocks(vectors)]
        ranges = np.stack([np.min([low for low, _ in ends], axis=0), np.max([high for _, high in ends], axis=0)])
        return {"codes": encode(self._trained(ranges), vectors), "ranges": ranges}

    def search(self, index: Arrays, vectors: Floats, queries: Floats, depth: int) -> Rankings:
        """Return the ``depth`` nearest vectors of every query, as far as their codes tell."""
        if not len(vectors) or not len(queries):
            return nothing(len(queries), depth)
        codes, ranges = index["codes"], index["ranges"]
        opened = self._opened.get((codes, ranges), lambda: self._open(codes, ranges, vectors))
        return search_codes(opened, vectors, queries, depth, self.oversampling)

    def _open(self, codes: NDArray[np.uint8], ranges: Floats, vectors: Floats) -> Any:
        require(ranges.shape == (2, vectors.shape[1]), f"ranges {ranges.shape} for {vectors.shape[1]} numbers")
        return open_codes(self._trained(ranges), codes, vectors)

    def _trained(self, ranges: Floats) -> Any:
        """Make an index without codes. To faiss the ends of the ranges are all there is to train on."""
        faiss = library()
        index = faiss.IndexScalarQuantizer(
            ranges.shape[1], getattr(faiss.ScalarQuantizer, BITS[self.bits]), faiss.METRIC_INNER_PRODUCT
        )
        index.train(np.ascontiguousarray(ranges, dtype=np.float32))
        return index
