"""Embed texts with WordLlama, a static model whose package contains the weights, so that nothing is downloaded."""

import importlib.metadata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from ragsweep.core.types import Embeddings, Floats, PartTraits
from ragsweep.parts.model_files import file_digest, packaged
from ragsweep.parts.unit_vectors import unit

PACKAGE = "wordllama"
WEIGHTS = "weights/l2_supercat_256.safetensors"
TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"
DIGESTS = {
    WEIGHTS: "64b47a2dc493cb8e85944076601189739852d7b64e0e1eedcb1937a251cd9fd5",
    TOKENIZER: "93248f2a9ec36c7b35f700a033d5f36228aae48db61aee31007fa49062cdeb68",
}
"""The path of each model file in the package -> its expected SHA-256; a file with a different SHA-256 is rejected."""

TABLE = "embedding.weight"
TOKENIZED_AT_ONCE = 1024


@dataclass(eq=False)
class WordLlamaEmbedder:
    """Embed English texts of any length as the average of static token vectors, without a transformer or torch.

    The result is a unit vector, or zero for a text without tokens. Only the first ``dimensions`` values of each token
    vector are used (Kusupati et al. 2022, "Matryoshka Representation Learning").
    """

    TRAITS: ClassVar[PartTraits] = PartTraits(version="1")
    trained_on: ClassVar[str] = "english"

    dimensions: Literal[64, 128, 256] = 256  # the lengths that the model was trained for

    def check(self) -> None:
        """Raise ConfigError if the model files are not installed, or differ from the expected files."""
        self._files()

    def fingerprint(self) -> Mapping[str, str]:
        """Return the hashes of the weights and the tokenizer, and the versions of wordllama and tokenizers."""
        weights, tokenizer = map(file_digest, self._files())
        versions = {name: importlib.metadata.version(name) for name in (PACKAGE, "tokenizers")}
        return {"weights": weights, "tokenizer": tokenizer, **versions}

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

        return load_file(self._files()[0])[TABLE][:, : self.dimensions].astype(np.float32)

    @cached_property
    def _tokenizer(self) -> Any:
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(self._files()[1]))
        tokenizer.no_padding()
        tokenizer.no_truncation()
        return tokenizer

    @staticmethod
    def _files() -> list[Path]:
        return packaged(PACKAGE, DIGESTS, "'ragsweep[wordllama]'")
