"""Embed texts without a model, by hashing words and their character n-grams: a baseline for trained embedders."""

import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ragsweep.core.types import Embeddings, Floats, PartTraits
from ragsweep.core.words import search_terms
from ragsweep.parts.limits import check_at_least
from ragsweep.parts.tokens import count
from ragsweep.parts.unit_vectors import unit


@dataclass(eq=False)
class HashingEmbedder:
    """An embedder that uses the hashing trick (Weinberger et al., arXiv:0902.2206).

    Each word, marked as ``<word>``, and each of its n-grams of ``ngram`` characters is a feature. A feature is hashed
    to a dimension. The square root of the feature's count in the text is added to this dimension or subtracted from it.
    One bit of the hash determines the sign, so that collisions cancel on average. The result is a unit vector, or zero
    for a text without words. Texts are never truncated.
    """

    TRAITS: ClassVar[PartTraits] = PartTraits(version="2")

    dimensions: int = 1024
    ngram: int = 4

    def check(self) -> None:
        """Raise ConfigError unless ``dimensions`` and ``ngram`` are at least 1."""
        check_at_least("embedder", 1, dimensions=self.dimensions, ngram=self.ngram)

    def embed_documents(self, texts: Sequence[str]) -> Embeddings:
        """Return the vectors of chunks, and the number of tokens of each chunk (see :mod:`ragsweep.parts.tokens`)."""
        tokens = np.array(list(map(count, texts)), dtype=np.int32)
        return Embeddings(self.embed_queries(texts), tokens, tokens)

    def embed_queries(self, queries: Sequence[str]) -> Floats:
        """Return the vectors of queries, (queries, dimensions)."""
        vectors = np.zeros((len(queries), self.dimensions), dtype=np.float32)
        for row, text in zip(vectors, queries, strict=True):
            for feature, number in Counter(self._features(text)).items():
                hashed = zlib.crc32(feature.encode())
                row[(hashed >> 1) % self.dimensions] += (1 if hashed & 1 else -1) * number**0.5
        return unit(vectors)

    def _features(self, text: str) -> Iterator[str]:
        for word in search_terms(text.casefold()):
            marked = f"<{word}>"
            yield marked
            if len(marked) > self.ngram:
                yield from (marked[start : start + self.ngram] for start in range(len(marked) - self.ngram + 1))
