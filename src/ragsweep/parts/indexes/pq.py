"""Search in vectors cut into pieces, each replaced by the nearest of a few means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ragsweep.core.errors import ConfigError
from ragsweep.core.types import Arrays, Floats
from ragsweep.parts.indexes.codes import CodeIndex, encode
from ragsweep.parts.indexes.faiss_index import library
from ragsweep.parts.indexes.vectors import check_at_least, sample

LEAST = 4
"""Bits a piece: faiss searches by 8 means and more."""

A_MEAN = 64
"""Vectors that a mean is trained on at most: 256 were measured to find no more, and to take three times as long."""


@dataclass(eq=False)
class Pq(CodeIndex):
    """Compare the query with all vectors by product quantisation (Jégou et al., TPAMI 2011), by faiss.

    A vector is cut into ``m`` pieces of one length, and each piece is replaced by the number of the nearest of
    2^``nbits`` means, so that 8 bits make it ``m`` bytes. The means are trained on a seeded sample; a small corpus gets
    fewer: no more than it has vectors, but 16. The nearest by their codes, ``oversampling`` times the depth, are scored
    by the vectors themselves, as the exact index does: with 1 the codes alone decide what is found, and only its order
    is exact.
    """

    VERSION: ClassVar[str] = "1"
    SEARCH_ONLY: ClassVar[frozenset[str]] = frozenset({"oversampling"})

    m: int = 48
    nbits: int = 8
    oversampling: int = 4

    def __post_init__(self) -> None:
        """Raise ConfigError for values out of range."""
        check_at_least(1, m=self.m, oversampling=self.oversampling)
        if not LEAST <= self.nbits <= 8:
            raise ConfigError(f"index.nbits is {self.nbits}; it must lie between {LEAST} and 8")

    def build(self, vectors: Floats) -> Arrays:
        """Train the means (m, means, numbers a piece) and return them with every vector's code.

        Raises:
            ConfigError: The vectors cannot be cut into ``m`` pieces of one length.
        """
        if not len(vectors):
            return {"codes": np.empty((0, 0), dtype=np.uint8), "means": np.empty((0, 0, 0), dtype=np.float32)}
        dimension = vectors.shape[1]
        if dimension % self.m:
            known = ", ".join(str(number) for number in range(1, dimension + 1) if dimension % number == 0)
            raise ConfigError(f"index.m is {self.m}; vectors of {dimension} numbers can be cut into {known} pieces")
        some = sample(vectors, A_MEAN << self.nbits)
        some = np.resize(some, (max(len(some), 1 << LEAST), dimension))  # means may be equal
        index = self._empty(dimension, min(self.nbits, len(some).bit_length() - 1))
        index.pq.cp.min_points_per_centroid = 1
        index.train(some)
        means = library().vector_to_array(index.pq.centroids).reshape(self.m, index.pq.ksub, index.pq.dsub)
        return {"codes": encode(index, vectors), "means": means}

    def _trained(self, index: Arrays, dimension: int) -> Any:
        means = np.ascontiguousarray(index["means"])
        made = self._empty(dimension, means.shape[1].bit_length() - 1)
        library().copy_array_to_vector(means.ravel(), made.pq.centroids)
        made.is_trained = True
        return made

    def _empty(self, dimension: int, bits: int) -> Any:
        faiss = library()
        return faiss.IndexPQ(dimension, self.m, bits, faiss.METRIC_INNER_PRODUCT)
