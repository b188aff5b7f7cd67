"""Route by what a question begins with."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence

from ragsweep.core.errors import ConfigError
from ragsweep.core.types import Request, Route


class Rule:
    """Take for conversation what is short and begins as one of the patterns says; search for everything else.

    Patterns are regular expressions, matched at the beginning, at the end of a word, whatever the case and the accents.
    A long text is searched for whatever it begins with: people greet before they ask.
    """

    VERSION = "1"

    def __init__(self, conversation: list[str], most_words: int = 6) -> None:
        """Take the patterns, and how many words conversation has at most."""
        self.conversation = conversation
        self.most_words = most_words

    def check(self) -> None:
        """Raise ConfigError for patterns that are none."""
        if not isinstance(self.conversation, list) or not self.conversation:
            raise ConfigError(f"router.conversation must be a list of patterns, given {self.conversation!r}")
        for number, pattern in enumerate(self.conversation):
            try:
                re.compile(pattern)
            except (re.error, TypeError) as fault:
                raise ConfigError(f"router.conversation[{number}]: {pattern!r} is no pattern: {fault}") from None
        if self.most_words < 1:
            raise ConfigError(f"router.most_words is {self.most_words}; it must be 1 or more")

    def route(self, requests: Sequence[Request], done: Callable[[int, Route], None]) -> None:
        """Decide every request by its question alone."""
        begins = re.compile("(?:" + "|".join(f"(?:{_bare(one)})" for one in self.conversation) + r")(?!\w)")
        for number, request in enumerate(requests):
            said = _bare(request.question).strip()
            chat = len(re.findall(r"[\w']+", said)) <= self.most_words and begins.match(said) is not None
            done(number, Route(search=not chat, score=float(chat)))


def _bare(text: str) -> str:
    """Write without accents and capitals."""
    parts = unicodedata.normalize("NFD", text)
    return "".join(one for one in parts if not unicodedata.combining(one)).casefold()
