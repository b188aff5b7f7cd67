"""Embed texts with a local model in sentence-transformers format."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from ragsweep.core.errors import InputError
from ragsweep.core.types import Embeddings, Floats, Integers, PartTraits
from ragsweep.parts import model_files
from ragsweep.parts.local_model import SentenceTransformersModel
from ragsweep.parts.model_files import BUNDLED
from ragsweep.parts.unit_vectors import unit

WITH_TOKENS = "choose embedder=minilm or another transformer, or reranker=cross_encoder"
"""The remedy in messages about late interaction with a model that returns no token vectors."""

COUNTED_AT_ONCE = 1024
"""Number of texts that are tokenised at a time to count their tokens."""

PROMPT_NAMES = {"query": ("query",), "document": ("document", "passage", "corpus")}
"""Kind of text -> names under which a model's files may contain the prompt for this kind.

The first prompt that is not empty is used.
"""


@dataclass(eq=False)
class SentenceTransformerEmbedder(SentenceTransformersModel):
    """An embedder that runs a local model; its vectors are float32, even if the model has another dtype.

    If ``query_prompt`` or ``document_prompt`` is None, the prompt is read from the model's files: the prompt for
    queries or documents, else the default prompt, else none. ``max_length`` (in tokens) replaces the maximum length of
    the model. Static models (model2vec, the average of token vectors) are also supported.
    """

    TRAITS: ClassVar[PartTraits] = replace(SentenceTransformersModel.TRAITS, version="2")
    KEY: ClassVar[str] = "embedder"

    model: str
    normalize: bool = True
    query_prompt: str | None = None
    document_prompt: str | None = None

    @property
    def trained_on(self) -> str:
        """The language that the model is trained on: "english" for the bundled model, else "" (unknown)."""
        return "english" if self.model == BUNDLED else ""

    def embed_documents(self, texts: Sequence[str]) -> Embeddings:
        """Return the vectors of chunks, and the number of tokens of each chunk before and after truncation.

        The numbers include the prompt and, unless the tokenizer adds none, special tokens. Long texts are embedded
        first, so that the texts of a batch have similar lengths; results are in the order of ``texts``. Raises
        InputError if a vector contains NaN or an infinite value.
        """
        tokens = np.fromiter(self._count("document", texts), dtype=np.int32, count=len(texts))
        read: Integers = np.minimum(tokens, self._limit).astype(np.int32)
        order = np.argsort(-read, kind="stable")
        vectors = np.empty((len(texts), self._dimension), dtype=np.float32)
        for start in range(0, len(texts), self.batch_size):
            rows = order[start : start + self.batch_size]
            vectors[rows] = self._embed("document", [texts[row] for row in rows])
        return Embeddings(vectors, tokens, read)

    def embed_queries(self, queries: Sequence[str]) -> Floats:
        """Return the vectors of queries, (queries, dimension). Raises InputError if a value is NaN or infinite."""
        vectors = np.empty((len(queries), self._dimension), dtype=np.float32)
        size = 1 if self._is_half else self.batch_size  # in half precision, batching changes vectors in the third digit
        with self._same_threads():
            for start in range(0, len(queries), size):
                vectors[start : start + size] = self._embed("query", list(queries[start : start + size]))
        return vectors

    def embed_tokens(self, texts: Sequence[str], kind: str) -> list[Floats]:
        """Return one array (tokens, dimension) per text: the vectors that the transformer outputs for the tokens.

        ``kind``, "query" or "document", selects the prompt. Tokens of the prompt are included; special tokens and
        padding are not. Raises InputError if the model returns no token vectors, or a NaN or infinite value.
        """
        if self._token_part is not self:
            return self._token_part.embed_tokens(texts, kind)
        import torch

        tokenizer = self._model.tokenizer
        if _is_bare(tokenizer):
            raise InputError(f"the model {self.model} returns no token vectors; {WITH_TOKENS}")
        # The token of an unknown word is also a special token, but it is part of the text.
        added = torch.tensor(sorted({*tokenizer.all_special_ids} - {tokenizer.unk_token_id}), dtype=torch.long)
        # In a batch, the other queries change the last bits of a token's vector; nearly equal chunks may be reordered.
        size = 1 if kind == "query" else self.batch_size
        order = np.argsort([-count for count in self._count(kind, texts)], kind="stable")
        vectors: list[Floats] = [np.empty((0, 0), dtype=np.float32)] * len(texts)
        for start in range(0, len(texts), size):
            rows = order[start : start + size]
            with self._same_threads() if kind == "query" else nullcontext():
                features = self._encode(kind, [texts[row] for row in rows], output_value=None)
            for row, feature in zip(rows, features, strict=True):
                if "token_embeddings" not in feature:
                    raise InputError(f"the model {self.model} returns no token vectors; {WITH_TOKENS}")
                is_text = feature["attention_mask"].bool().cpu() & ~torch.isin(feature["input_ids"].cpu(), added)
                vectors[row] = self._as_array(feature["token_embeddings"].cpu()[is_text])
        return vectors

    def fingerprint(self) -> Mapping[str, str]:
        """Return the hashes of the model files, the compute dtypes, and the versions of the libraries.

        The dtype of ``embed_tokens`` is included only if it differs from the dtype of the other methods.
        """
        tokens = {"dtype of tokens": self._token_part.dtype} if self._token_part is not self else {}
        return {**super().fingerprint(), **tokens}

    @cached_property
    def _token_part(self) -> SentenceTransformerEmbedder:
        """The embedder that ``embed_tokens`` uses: this object or, if "auto" selects int8, a copy with another dtype.

        Late interaction yields worse rankings in int8. In bfloat16, its rankings are as good as in float32, and it
        takes less than half the time on a CPU with bfloat16 instructions.
        """
        if self.dtype != "auto" or self._resolved_dtype() != "int8":
            return self
        return replace(self, dtype="bfloat16" if "avx512_bf16" in model_files.cpu_flags() else "float32")

    @cached_property
    def _model(self) -> Any:
        from sentence_transformers import SentenceTransformer

        model = self._load(SentenceTransformer)
        if self.max_length is not None:
            if _is_bare(model.tokenizer):
                model.tokenizer.enable_truncation(self.max_length)
            else:
                model.max_seq_length = self.max_length
        return model

    @property
    def _is_half(self) -> bool:
        return self._resolved_dtype() in {"bfloat16", "float16"}

    @contextmanager
    def _same_threads(self) -> Iterator[None]:
        """In half precision, run the block in one thread; more threads would change the third digit of values."""
        if not self._is_half:
            yield
            return
        import torch

        before = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(before)

    @property
    def _limit(self) -> int:
        tokenizer = self._model.tokenizer
        limit = (tokenizer.truncation or {}).get("max_length") if _is_bare(tokenizer) else self._model.max_seq_length
        return int(limit or np.iinfo(np.int32).max)

    @property
    def _dimension(self) -> int:
        return int(self._model.get_embedding_dimension())

    def _prompt(self, kind: str) -> str:
        configured = self.query_prompt if kind == "query" else self.document_prompt
        if configured is not None:
            return configured
        prompts, default = self._own_prompts
        names = [name for name in PROMPT_NAMES[kind] if name in prompts] or [default]
        return next((prompts[name] for name in names if prompts.get(name)), "")

    @cached_property
    def _own_prompts(self) -> tuple[Mapping[str, str], str]:
        """The prompts in the model's files (name -> prompt), and the default prompt's name, or "" if there is none."""
        stated = model_files.read_mapping(self._folder() / model_files.PROMPTS)
        return stated.get("prompts") or {}, stated.get("default_prompt_name") or ""

    def _count(self, kind: str, texts: Sequence[str]) -> Iterator[int]:
        """Yield the number of tokens of each text with its prompt, including tokens beyond the maximum length."""
        prompt = self._prompt(kind)
        for start in range(0, len(texts), COUNTED_AT_ONCE):
            yield from self._counter([prompt + text for text in texts[start : start + COUNTED_AT_ONCE]])

    @cached_property
    def _counter(self) -> Callable[[list[str]], Iterable[int]]:
        tokenizer = self._model.tokenizer
        if not _is_bare(tokenizer):
            return lambda texts: map(len, tokenizer(texts, truncation=False, verbose=False)["input_ids"])
        whole = type(tokenizer).from_str(tokenizer.to_str())
        whole.no_truncation()
        return lambda texts: map(len, whole.encode_batch(texts, add_special_tokens=False))

    def _encode(self, kind: str, texts: list[str], **output: Any) -> Any:
        encode = self._model.encode_query if kind == "query" else self._model.encode_document
        return encode(texts, prompt=self._prompt(kind), batch_size=len(texts), show_progress_bar=False, **output)

    def _embed(self, kind: str, texts: list[str]) -> Floats:
        vectors = self._as_array(self._encode(kind, texts, convert_to_tensor=True))
        # In half precision, vectors that a model normalises itself have lengths from 0.997 to 1.003.
        return unit(vectors) if self.normalize else vectors

    def _as_array(self, vectors: Any) -> Floats:
        found: Floats = vectors.float().cpu().numpy()
        if not np.isfinite(found).all():
            raise InputError(
                f"the model {self.model} returned NaN or infinite values; try embedder.dtype=float32, or another model"
            )
        return found


def _is_bare(tokenizer: Any) -> bool:
    """Return whether a tokenizer is a plain object of the tokenizers library, as in static models."""
    return not callable(tokenizer)
