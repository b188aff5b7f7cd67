"""Find anchor quotes in a document: white space counts as one space, however it was wrapped."""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

_LONG_RUN = re.compile(r"\s\s+")


class _Collapsed(NamedTuple):
    """A text with every run of white space made one space, and how far that moved what follows a longer run."""

    text: str
    after: list[int]  # positions in the collapsed text where a run of several characters has just ended
    shift: list[int]  # characters left out up to there


@lru_cache(maxsize=128)
def _collapse(text: str) -> _Collapsed:
    runs = [match.span() for match in _LONG_RUN.finditer(text)]
    shift = list(accumulate(end - start - 1 for start, end in runs))
    after = [end - left_out for (_, end), left_out in zip(runs, shift, strict=True)]
    return _Collapsed(re.sub(r"\s+", " ", text), after, shift)


def resolve(text: str, anchor: str, start: int | None = None) -> list[tuple[int, int]]:
    """Find all occurrences of an anchor in a document's text.

    Runs of white space, in both, count as one space; those at the anchor's ends do not count. Occurrences may overlap.
    The collapsed form of the last 128 texts is remembered: with many anchors and many texts, let the texts be the outer
    loop.

    Args:
        text: The document's text.
        anchor: The quote to find.
        start: Where the quote begins in the text; keeps only the occurrence that begins exactly there.

    Returns:
        Spans of characters in the text as it was given, in their order; none for a blank anchor.
    """
    quote = " ".join(anchor.split())
    if not quote:
        return []
    collapsed = _collapse(text)
    spans = []
    position = collapsed.text.find(quote)
    while position >= 0:
        spans.append((_original(collapsed, position), _original(collapsed, position + len(quote))))
        position = collapsed.text.find(quote, position + 1)
    return [span for span in spans if start is None or span[0] == start]


def _original(collapsed: _Collapsed, position: int) -> int:
    passed = bisect_right(collapsed.after, position)
    return position + (collapsed.shift[passed - 1] if passed else 0)
