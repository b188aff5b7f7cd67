"""The tokenizer that measures contexts: each word, and each punctuation mark or symbol, is a token.

In scripts without spaces, and in Hangul, each character is a token. All configs use this tokenizer, which is
independent of models, so that context lengths are comparable across configs and over time.
"""

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.words import pattern

Numbers = NDArray[np.int64]

_ASCII = re.compile(r"\w+|[^\w\s]")


def count(text: str) -> int:
    """Count the tokens of a text."""
    return len(_tokens(text).findall(text))


@dataclass(frozen=True, eq=False)
class Offsets:
    """The start and end, in characters, of each token of one text, as two ascending arrays (tokens,)."""

    start: Numbers
    end: Numbers

    def token_ranges(self, start: Numbers, end: Numbers) -> tuple[Numbers, Numbers]:
        """Return for each span the index of the first token that overlaps it, and the index after the last such token.

        All four arrays are (spans,). ``start`` and ``end`` are in characters; an empty span overlaps no token.
        """
        first = np.searchsorted(self.end, start, side="right")
        last = np.searchsorted(self.start, end, side="left")
        return first, np.where(end > start, last, first)

    def count(self, start: Numbers, end: Numbers) -> Numbers:
        """Return the number of tokens that overlap each span, (spans,); a word cut between two spans counts in both."""
        first, last = self.token_ranges(start, end)
        return last - first


def locate(text: str) -> Offsets:
    """Locate all tokens of a text, so that the tokens in any span of the text can be counted."""
    spans = np.array([match.span() for match in _tokens(text).finditer(text)], dtype=np.int64).reshape(-1, 2)
    return Offsets(spans[:, 0], spans[:, 1])


def _tokens(text: str) -> re.Pattern[str]:
    return _ASCII if text.isascii() else pattern("token")
