"""Count and locate tokens, to measure the length of contexts: each word, punctuation mark and symbol is a token.

In scripts without spaces, and in Hangul, each character is a token. All configs use this tokenizer. It is independent
of models, so that context lengths are comparable across configs and over time.
"""

import re
from dataclasses import dataclass

import numpy as np

from ragsweep.core.question_results import Numbers
from ragsweep.core.words import pattern

_ASCII = re.compile(r"\w+|[^\w\s]")


def count(text: str) -> int:
    """Return the number of tokens of a text."""
    return len(_tokens(text).findall(text))


@dataclass(frozen=True, eq=False)
class Offsets:
    """The start and the end of each token of a text, in characters: two ascending arrays (tokens,)."""

    start: Numbers
    end: Numbers

    def token_ranges(self, start: Numbers, end: Numbers) -> tuple[Numbers, Numbers]:
        """Return the range of tokens that overlap each span, as two indices: first, and last plus 1.

        ``start`` and ``end`` bound the spans, in characters; all four arrays are (spans,). If a span overlaps
        no token, its two indices are equal; an empty span overlaps no token.
        """
        first = np.searchsorted(self.end, start, side="right")
        last = np.searchsorted(self.start, end, side="left")
        return first, np.where(end > start, last, first)

    def count(self, start: Numbers, end: Numbers) -> Numbers:
        """Return the number of tokens that overlap each span, (spans,); a token in two spans counts in both."""
        first, last = self.token_ranges(start, end)
        return last - first


def locate(text: str) -> Offsets:
    """Return the offsets of all tokens of a text."""
    spans = np.array([match.span() for match in _tokens(text).finditer(text)], dtype=np.int64).reshape(-1, 2)
    return Offsets(spans[:, 0], spans[:, 1])


def _tokens(text: str) -> re.Pattern[str]:
    return _ASCII if text.isascii() else pattern("token")
