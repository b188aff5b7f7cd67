"""Quote evidence: its best sentence, and the shortest run of its words that occurs once in the document."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import groupby

from ragsweep.core.words import pattern, word_count
from ragsweep.golden.anchors import resolve
from ragsweep.parts.sentences import sentences
from ragsweep.parts.text_ranking import rank_texts
from ragsweep_golden.sets.entries import LANGUAGES

FEWEST_WORDS = 5
"""Minimum words of a quote: a shorter quote may be unique by chance, and the next edit may repeat it.

Two characters of a script without spaces count as one word.
"""

_MOST_WORDS = 40  # maximum words of a quote around evidence with too few words
_BREAK = re.compile(r"[.!?:;]\s|[\u3002\uff01\uff1a\uff1b\uff1f]|\n")  # a likely boundary of chunks


def shortest_anchor(text: str, start: int, end: int) -> tuple[str, int | None]:
    """Return an anchor for evidence, and the anchor's start, which is None if the anchor occurs once in the document.

    The anchor is the shortest quote that occurs once. It has at least FEWEST_WORDS words, or all words of a shorter
    document, and is within the evidence or, if the evidence has too few words, around it; a word that the span cuts is
    included. If no such quote occurs once, the anchor is the whole evidence.
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
        windows = _inside(first, last) if len(resolve(text, whole)) == 1 else iter(())
    for _, same_length in groupby(windows, key=lambda window: window[1] - window[0]):
        # among equally long quotes, the least likely to be cut by a chunker
        for one in sorted((quote(*window) for window in same_length), key=lambda one: len(_BREAK.findall(one))):
            if word_count(one) >= enough and len(resolve(text, one)) == 1:
                return " ".join(one.split()), None
    return " ".join(whole.split()), words[first][0]


def best_sentence(question: str, text: str, place: tuple[int, int], code: str) -> tuple[int, int] | None:
    """Return the span of a passage's best sentence by BM25, or of its first if none matches; None without sentences."""
    begin, end = place
    found = sentences(text[begin:end], LANGUAGES.get(code, "english"))
    inside = [(begin + start, begin + stop) for start, stop in found]
    # a heading resembles the question, but does not answer it
    inside = [one for one in inside if word_count(text[slice(*one)]) >= FEWEST_WORDS] or inside
    (ranked,) = rank_texts([question], [text[start:stop] for start, stop in inside], code, 1)
    return inside[ranked[0] if ranked else 0] if inside else None


def rank_by_language(
    questions: Sequence[str], codes: Sequence[str], texts: Sequence[str], depth: int
) -> list[list[int]]:
    """Return the indices of the ``depth`` best texts by BM25 for each question; ``codes``: the questions' languages."""
    ranked: list[list[int]] = [[] for _ in questions]
    for code in dict.fromkeys(codes):
        rows = [n for n, one in enumerate(codes) if one == code]
        for n, best in zip(rows, rank_texts([questions[n] for n in rows], texts, code, depth), strict=True):
            ranked[n] = best
    return ranked


def _inside(first: int, last: int) -> Iterator[tuple[int, int]]:
    for length in range(FEWEST_WORDS, last - first + 1):
        yield from ((begin, begin + length) for begin in range(first, last - length + 1))


def _around(first: int, last: int, count: int) -> Iterator[tuple[int, int]]:
    for length in range(min(FEWEST_WORDS, count), min(_MOST_WORDS, count) + 1):
        for begin in range(max(0, last - length), min(first, count - length) + 1):
            yield begin, begin + length


@lru_cache(maxsize=16)
def _words(text: str) -> list[tuple[int, int]]:
    return [match.span() for match in pattern("quoted").finditer(text)]
