"""Quote evidence by the shortest run of its words that occurs once in the document."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from functools import lru_cache
from itertools import groupby

from ragsweep.core.words import pattern, word_count
from ragsweep.golden.anchors import resolve

FEWEST_WORDS = 5
"""Fewest words of a quote: a shorter quote may be unique by chance, and the next edit may repeat it.

Two characters of a script without spaces count as one word.
"""

_MOST_WORDS = 40  # most words of a quote of evidence that is shorter than the fewest
_BREAK = re.compile(r"[.!?:;]\s|[\u3002\uff01\uff1a\uff1b\uff1f]|\n")  # a likely boundary of chunks


def shortest_anchor(text: str, start: int, end: int) -> tuple[str, int | None]:
    """Return the shortest quote of evidence that is unique in a document, and None.

    It lies within the evidence, or around evidence of fewer than five words. Evidence that is repeated is
    quoted as a whole, with its start.

    Args:
        text: The document's text.
        start: Where the evidence begins; a word that the span cuts is included.
        end: Where it ends.
    """
    words = _words(text)
    first = bisect_right(words, start, key=lambda word: word[1])
    last = bisect_left(words, end, key=lambda word: word[0])

    def quote(begin: int, stop: int) -> str:
        return text[words[begin][0] : words[stop - 1][1]]

    whole = quote(first, last)
    enough = min(FEWEST_WORDS, word_count(text))
    if word_count(whole) < FEWEST_WORDS:
        windows = _around(first, last, len(words))
    else:
        windows = _inside(first, last) if _is_unique(text, whole) else iter(())
    for _, same_length in groupby(windows, key=lambda window: window[1] - window[0]):
        # of equally long quotes, the least likely to be cut by a chunker
        for one in sorted((quote(*window) for window in same_length), key=lambda one: len(_BREAK.findall(one))):
            if word_count(one) >= enough and _is_unique(text, one):
                return " ".join(one.split()), None
    return " ".join(whole.split()), words[first][0]


def _inside(first: int, last: int) -> Iterator[tuple[int, int]]:
    for length in range(FEWEST_WORDS, last - first + 1):
        yield from ((begin, begin + length) for begin in range(first, last - length + 1))


def _around(first: int, last: int, count: int) -> Iterator[tuple[int, int]]:
    for length in range(min(FEWEST_WORDS, count), min(_MOST_WORDS, count) + 1):
        for begin in range(max(0, last - length), min(first, count - length) + 1):
            yield begin, begin + length


def _is_unique(text: str, quote: str) -> bool:
    return len(resolve(text, quote)) == 1


@lru_cache(maxsize=16)
def _words(text: str) -> list[tuple[int, int]]:
    return [match.span() for match in pattern("quoted").finditer(text)]
