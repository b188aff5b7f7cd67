"""Route without a language model: by patterns at the beginning of a question, by similarity to examples, or not."""

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ragsweep.core.errors import ConfigError
from ragsweep.core.types import Embedder, Floats, PartTraits, Request, Route
from ragsweep.core.words import word_count
from ragsweep.parts.limits import check_at_least
from ragsweep.parts.unit_vectors import unit


class NoRouter:
    """Stand for the absence of a router; it is never called."""

    TRAITS: ClassVar[PartTraits] = PartTraits(version="1", silent=True)

    def route(self, requests: Sequence[Request], done: Callable[[int, Route], None]) -> None:
        """For every request, decide to search."""
        for number in range(len(requests)):
            done(number, Route())


@dataclass(eq=False)
class Rule:
    """Classify short texts that begin with one of the patterns as conversation; any other text leads to a search.

    Patterns are regular expressions; a match begins at the start of the text and stops at the end of a word, ignoring
    case and accents. A text of more than ``most_words`` words always leads to a search, because a question may follow a
    greeting; a character of a script without spaces counts as half a word.
    """

    TRAITS: ClassVar[PartTraits] = PartTraits(version="3")

    conversation: list[str]
    most_words: int = 6

    def check(self) -> None:
        """Raise ConfigError for missing or invalid patterns, and for ``most_words`` below 1."""
        if not isinstance(self.conversation, list) or not self.conversation:
            raise ConfigError(f"router.conversation must be a list of one or more patterns, got {self.conversation!r}")
        for number, pattern in enumerate(self.conversation):
            fact = f"router.conversation[{number}]: {pattern!r}"
            try:
                re.compile(pattern)
            except (re.error, TypeError) as fault:
                raise ConfigError(f"{fact} is not a regular expression: {fault}; correct it") from None
            try:
                re.compile(_folded(pattern))
            except re.error as fault:
                raise ConfigError(f"{fact}: {fault}; omit flags such as (?i), as case is ignored anyway") from None
        check_at_least("router", 1, most_words=self.most_words)

    def route(self, requests: Sequence[Request], done: Callable[[int, Route], None]) -> None:
        """Route every request by its question alone."""
        begins = re.compile("(?:" + "|".join(map(_folded, self.conversation)) + r")(?!\w)")
        for number, request in enumerate(requests):
            text = _bare(request.question).strip()
            chat = word_count(text) <= self.most_words and begins.match(text) is not None
            done(number, Route(search=not chat, score=float(chat)))


def _folded(pattern: str) -> str:
    r"""Return a pattern as a group, folded like a text; escapes are unchanged, because ``\W`` differs from ``\w``."""
    parts = re.split(r"(\\.|\(\?P?)", pattern)
    return f"(?:{''.join(part if n % 2 else _bare(part) for n, part in enumerate(parts))})"


def _bare(text: str) -> str:
    """Remove accents and case."""
    characters = unicodedata.normalize("NFD", text)
    return "".join(character for character in characters if not unicodedata.combining(character)).casefold()


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
