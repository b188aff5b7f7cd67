"""Route by patterns at the beginning of a question."""

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from ragsweep.core.errors import ConfigError
from ragsweep.core.types import PartTraits, Request, Route
from ragsweep.core.words import word_count
from ragsweep.parts.limits import check_at_least


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
