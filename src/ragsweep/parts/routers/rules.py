"""Decide without a language model whether to search: by the golden set, patterns, or similarity to examples."""

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ragsweep.core.errors import ConfigError
from ragsweep.core.foreign_results import embed_queries_checked
from ragsweep.core.types import Embedder, Floats, PartTraits, Request, Route
from ragsweep.core.words import word_count
from ragsweep.parts.limits import check_at_least, check_between
from ragsweep.parts.prompts import APOSTROPHES
from ragsweep.parts.unit_vectors import unit


class NoRouter:
    """Placeholder for no router: the golden set's ``needs_retrieval`` applies, and this part is never called."""

    TRAITS: ClassVar[PartTraits] = PartTraits(version="1", silent=True)

    def route(self, requests: Sequence[Request], done: Callable[[int, Route], None]) -> None:
        """Report, for every request, the decision to search."""
        for number in range(len(requests)):
            done(number, Route())


@dataclass(eq=False)
class Rule:
    """A router that searches for every question except short conversational messages, such as greetings.

    A conversational message matches one of the regular expressions in ``conversation``. A match starts at the beginning
    of the question and stops at the end of a word; case, accents and the form of apostrophes are ignored. A text of
    more than ``most_words`` words always leads to a search, because a question may follow the greeting. In scripts
    without spaces, a character counts as half a word.
    """

    TRAITS: ClassVar[PartTraits] = PartTraits(version="5")

    conversation: list[str]
    most_words: int = 6

    def check(self) -> None:
        """Raise ConfigError if there are no patterns, if a pattern is invalid, or if ``most_words`` is below 1."""
        if not isinstance(self.conversation, list) or not self.conversation:
            raise ConfigError(f"router.conversation must be a list of one or more patterns, got {self.conversation!r}")
        for number, pattern in enumerate(self.conversation):
            fact = f"router.conversation[{number}]: {pattern!r}"
            try:
                re.compile(pattern)
            except (re.error, TypeError) as fault:
                raise ConfigError(f"{fact} is not a regular expression: {fault}; correct the pattern") from None
            try:
                re.compile(_folded(pattern))
            except re.error as fault:
                raise ConfigError(f"{fact}: {fault}; omit flags such as (?i), because case is ignored anyway") from None
        check_at_least("router", 1, most_words=self.most_words)

    def route(self, requests: Sequence[Request], done: Callable[[int, Route], None]) -> None:
        """Report a decision for every request, based only on its question; the score is 1 for conversation, else 0."""
        # Compiled one by one: in a joint pattern, the groups of all patterns would share their numbers and names.
        patterns = [re.compile(_folded(pattern) + r"(?!\w)") for pattern in self.conversation]
        for number, request in enumerate(requests):
            text = _bare(request.question).strip()
            chat = word_count(text) <= self.most_words and any(pattern.match(text) for pattern in patterns)
            done(number, Route(search=not chat, score=float(chat)))


def _folded(pattern: str) -> str:
    r"""Return a pattern as a group, without accents and in lower case, like the text that it is matched against.

    Escapes are unchanged, because ``\W`` and ``\w`` have different meanings.
    """
    parts = re.split(r"(\\.|\(\?P?)", pattern)
    return f"(?:{''.join(part if n % 2 else _bare(part) for n, part in enumerate(parts))})"


def _bare(text: str) -> str:
    """Return a text in lower case, without accents, and with ASCII apostrophes; a Hangul syllable is one character."""
    characters = unicodedata.normalize("NFD", text.translate(APOSTROPHES))
    bare = "".join(character for character in characters if not unicodedata.combining(character))
    return unicodedata.normalize("NFC", bare).casefold()


@dataclass(eq=False)
class Similarity:
    """A router that searches unless a message is more similar to conversational examples than to example questions.

    A message is conversation if its cosine to the nearest example in ``conversation`` is at least ``threshold`` and
    greater than its cosine to the nearest example in ``questions``. If ``questions`` is empty, ``threshold`` takes the
    place of the second cosine. The score is the first cosine minus the second.
    """

    TRAITS: ClassVar[PartTraits] = PartTraits(version="1")

    embedder: Embedder
    conversation: list[str]
    questions: list[str]
    threshold: float = 0.5

    def check(self) -> None:
        """Raise ConfigError for invalid examples, and for a threshold that is not between -1 and 1."""
        for name, least in (("conversation", 1), ("questions", 0)):
            examples = getattr(self, name)
            if not isinstance(examples, list) or len(examples) < least or not all(map(_is_text, examples)):
                number = "one or more " if least else ""
                raise ConfigError(f"router.{name} must be a list of {number}non-blank strings, got {examples!r}")
        check_between("router", -1, 1, threshold=self.threshold)

    def route(self, requests: Sequence[Request], done: Callable[[int, Route], None]) -> None:
        """Report a decision for every request, based only on its question, by calling ``done(index, route)``."""
        if not requests:
            return
        texts = unit(embed_queries_checked(self.embedder, [request.question for request in requests]))
        chats = self._nearest(texts, self.conversation)
        questions = self._nearest(texts, self.questions) if self.questions else np.full(len(texts), self.threshold)
        for number, (chat, question) in enumerate(zip(chats.tolist(), questions.tolist(), strict=True)):
            done(number, Route(not (chat >= self.threshold and chat > question), chat - question))

    def _nearest(self, texts: Floats, examples: Sequence[str]) -> Floats:
        """Return the cosine of each text to the most similar example, (texts,); ``texts`` are unit vectors."""
        return np.asarray((texts @ unit(embed_queries_checked(self.embedder, examples)).T).max(axis=1))


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())
