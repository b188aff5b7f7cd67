"""Route by similarity to examples."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ragsweep.core.errors import ConfigError
from ragsweep.core.types import Embedder, Floats, PartTraits, Request, Route
from ragsweep.parts.unit_vectors import unit


@dataclass(eq=False)
class Similarity:
    """Classify texts as conversation by their similarity to examples of conversation and of questions.

    A text is conversation if its cosine to the nearest example of conversation is at least ``threshold`` and exceeds
    its cosine to the nearest example of a question. If there are no examples of questions, ``threshold`` replaces the
    second cosine. The score is the first cosine minus the second.
    """

    TRAITS: ClassVar[PartTraits] = PartTraits(version="1")

    embedder: Embedder
    conversation: list[str]
    questions: list[str]
    threshold: float = 0.5

    def check(self) -> None:
        """Raise ConfigError for invalid examples, and for a threshold outside -1 to 1."""
        for name, least in (("conversation", 1), ("questions", 0)):
            examples = getattr(self, name)
            if not isinstance(examples, list) or len(examples) < least or not all(map(_is_text, examples)):
                number = "one or more " if least else ""
                raise ConfigError(f"router.{name} must be a list of {number}non-blank texts, got {examples!r}")
        if not -1 <= self.threshold <= 1:
            raise ConfigError(f"router.threshold must be between -1 and 1, got {self.threshold}")

    def route(self, requests: Sequence[Request], done: Callable[[int, Route], None]) -> None:
        """Route every request by its question alone."""
        if not requests:
            return
        texts = unit(self.embedder.embed_queries([request.question for request in requests]))
        chats = self._nearest(texts, self.conversation)
        questions = self._nearest(texts, self.questions) if self.questions else np.full(len(texts), self.threshold)
        for number, (chat, question) in enumerate(zip(chats.tolist(), questions.tolist(), strict=True)):
            done(number, Route(not (chat >= self.threshold and chat > question), chat - question))

    def _nearest(self, texts: Floats, examples: Sequence[str]) -> Floats:
        """Return each text's cosine to the most similar example, (texts,)."""
        return np.asarray((texts @ unit(self.embedder.embed_queries(examples)).T).max(axis=1))


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())
