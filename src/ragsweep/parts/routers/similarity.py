"""Route by nearness to examples."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ragsweep.core.errors import ConfigError
from ragsweep.core.types import Embedder, Floats, Request, Route


class Similarity:
    """Take for conversation what is nearer to an example of it than to any example of a question, and near enough.

    Nearness is the cosine of the embedder's vectors. The score is the nearness to conversation less that to questions
    (less ``threshold`` where no example of a question is given).
    """

    VERSION = "1"

    def __init__(
        self, embedder: Embedder, conversation: list[str], questions: list[str], threshold: float = 0.5
    ) -> None:
        """Take the embedder, examples of both kinds, and the least nearness of conversation."""
        self.embedder = embedder
        self.conversation = conversation
        self.questions = questions
        self.threshold = threshold

    def check(self) -> None:
        """Raise ConfigError for examples that are none, and a threshold that no cosine reaches."""
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
        asked = self._vectors([request.question for request in requests])
        near = self._nearest(asked, self.conversation)
        other = self._nearest(asked, self.questions) if self.questions else np.full(len(requests), self.threshold)
        for number, (chat, question) in enumerate(zip(near.tolist(), other.tolist(), strict=True)):
            done(number, Route(not (chat >= self.threshold and chat > question), chat - question))

    def _nearest(self, asked: Floats, examples: Sequence[str]) -> Floats:
        nearest: Floats = (asked @ self._vectors(examples).T).max(axis=1)
        return nearest

    def _vectors(self, texts: Sequence[str]) -> Floats:
        vectors = self.embedder.embed_queries(texts)
        unit: Floats = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.float32(1e-12))
        return unit


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())
