"""Search in vectors cut into pieces, each named by the nearest of a few typical ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.errors import ConfigError
from ragsweep.core.ranking import nothing
from ragsweep.core.types import Arrays, Floats, Rankings
from ragsweep.parts.indexes.codes import check_oversampling, encode, open_codes, search_codes
from ragsweep.parts.indexes.sampling import sample
from ragsweep.parts.indexes.serialised import LastOpened, library, require, version

LEAST = 4
"""Bits a piece: faiss searches by 8 means and more."""

A_MEAN = 64
"""Vectors that a mean is trained on at most: 256 were measured to find no more, and to take three times as long."""


class Pq:
    """Compare the query with all vectors by product quantisation (Jégou et al., TPAMI 2011), by faiss.

    A vector is cut into ``m`` pieces of one length; of each piece it is kept which of 2^``nbits`` means is nearest, so
    8 bits make it ``m`` bytes. The means are trained on a seeded sample; a small corpus gets fewer: no more than it has
    vectors, but 16. The nearest by their codes, ``oversampling`` times the depth, are scored by the vectors themselves,
    as the exact index does: with 1 the codes alone decide what is found, and only its order is exact.
    """

    VERSION = "1"
    SEARCH_ONLY: ClassVar[frozenset[str]] = frozenset({"oversampling"})

    def __init__(self, m: int = 48, nbits: int = 8, oversampling: int = 4) -> None:
        """Set the size of a code and the effort; raise ConfigError for values out of range."""
        if m < 1:
            raise ConfigError(f"index.m is {m}; it must be 1 or more")
        if not LEAST <= nbits <= 8:
            raise ConfigError(f"index.nbits is {nbits}; it must lie between {LEAST} and 8")
        check_oversampling(oversampling)
        self.m = m
        self.nbits = nbits
        self.oversampling = oversampling
        self._opened = LastOpened()

    def fingerprint(self) -> Mapping[str, str]:
        """Name the version of the library that trains the means."""
        return version()

    def build(self, vectors: Floats) -> Arrays:
        """Train the means (m, means, numbers a piece) and return them with every vector's code.

        Raises:
            ConfigError: The vectors cannot be cut into ``m`` pieces of one length.
        """
        if not len(vectors):
            return {"codes": np.empty((0, 0), dtype=np.uint8), "means": np.empty((0, 0, 0), dtype=np.float32)}
        self._check_pieces(vectors.shape[1])
        some = sample(vectors, A_MEAN << self.nbits)
        some = np.resize(some, (max(len(some), 1 << LEAST), some.shape[1]))  # means may be equal
        index = self._empty(vectors.shape[1], min(self.nbits, len(some).bit_length() - 1))
        index.pq.cp.min_points_per_centroid = 1
        index.train(some)
        shape = (self.m, index.pq.ksub, index.pq.dsub)
        means = library().vector_to_array(index.pq.centroids).reshape(shape)
        return {"codes": encode(index, vectors), "means": means}

    def search(self, index: Arrays, vectors: Floats, queries: Floats, depth: int) -> Rankings:
        """Return the ``depth`` nearest vectors of every query, as far as their codes tell."""
        if not len(vectors) or not len(queries):
            return nothing(len(queries), depth)
        codes, means = index["codes"], index["means"]
        opened = self._opened.get((codes, means), lambda: self._open(codes, means, vectors))
        return search_codes(opened, vectors, queries, depth, self.oversampling)

    def _open(self, codes: NDArray[np.uint8], means: Floats, vectors: Floats) -> Any:
        number, dimension = means.shape[1], vectors.shape[1]
        allowed = {1 << bits for bits in range(LEAST, self.nbits + 1)}
        whole = number in allowed and means.shape == (self.m, number, dimension / self.m)
        require(means.dtype == np.float32 and whole, f"means {means.shape}")
        index = self._empty(dimension, number.bit_length() - 1)
        library().copy_array_to_vector(np.ascontiguousarray(means).ravel(), index.pq.centroids)
        index.is_trained = True
        return open_codes(index, codes, vectors)

    def _empty(self, dimension: int, bits: int) -> Any:
        faiss = library()
        return faiss.IndexPQ(dimension, self.m, bits, faiss.METRIC_INNER_PRODUCT)

    def _check_pieces(self, dimension: int) -> None:
        if dimension % self.m:
            known = ", ".join(str(number) for number in range(1, dimension + 1) if dimension % number == 0)
            raise ConfigError(f"index.m is {self.m}; vectors of {dimension} numbers can be cut into {known} pieces")
