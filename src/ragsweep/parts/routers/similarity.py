"""Route by similarity to examples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ragsweep.core.errors import ConfigError
from ragsweep.core.types import Embedder, Floats, Request, Route


@dataclass(eq=False)
class Similarity:
    """Classify texts as conversation that are more similar to an example of it than to any question, and enough so.

    Similarity is the cosine of the embedder's vectors. The score is the similarity to conversation minus that to
    questions (minus ``threshold`` where no example of a question is given).
    """

    VERSION: ClassVar[str] = "1"

    embedder: Embedder
    conversation: list[str]
    questions: list[str]
    threshold: float = 0.5

    def check(self) -> None:
        """Raise ConfigError for invalid examples, and for a threshold that no cosine reaches."""
        for name, least in (("conversation", 1), ("questions", 0)):
            given = getattr(self, name)
            if not isinstance(given, list) or len(given) < least or not all(_is_text(one) for one in given):
                raise ConfigError(f"router.{name} must be a list of examples, given {given!r}")
        if not -1 <= self.threshold <= 1:
            raise ConfigError(f"router.threshold is {self.threshold}; it must be between -1 and 1")

    def route(self, requests: Sequence[Request], done: Callable[[int, Route], None]) -> None:
        """Decide every request by its question alone."""
        if not requests:
            return
        vectors = self._vectors([request.question for request in requests])
        near = self._nearest(vectors, self.conversation)
        other = self._nearest(vectors, self.questions) if self.questions else np.full(len(requests), self.threshold)
        for number, (chat, question) in enumerate(zip(near.tolist(), other.tolist(), strict=True)):
            done(number, Route(not (chat >= self.threshold and chat > question), chat - question))

    def _nearest(self, vectors: Floats, examples: Sequence[str]) -> Floats:
        nearest: Floats = (vectors @ self._vectors(examples).T).max(axis=1)
        return nearest

    def _vectors(self, texts: Sequence[str]) -> Floats:
        vectors = self.embedder.embed_queries(texts)
        unit: Floats = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.float32(1e-12))
        return unit


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())
