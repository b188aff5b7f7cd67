"""Helper functions for chunkers: cut documents into pieces, and turn the pieces into the spans of a corpus."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.types import Corpus, Spans

Piece = tuple[int, int]
"""Start and end of a chunk in its document's text."""

SURROGATES = re.compile(r"[\ud800-\udfff]")
"""Lone surrogates: legal in a Python string, but not encodable as UTF-8."""

PAUSES = (re.compile(r"\n"), re.compile(r"[.!?…]\s"), re.compile(r"\s"))
"""Patterns after which text may be cut, in order of preference: at the end of a line, of a sentence, of a word."""


def cut(corpus: Corpus, pieces: Callable[[str], Iterable[Piece]]) -> Spans:
    """Cut every document into the pieces that ``pieces`` returns for its text, and return their spans.

    Blank pieces are omitted. A document with only blank pieces becomes a single chunk, so that its title can be found
    and its labels remain valid.
    """
    rows = []
    for document, text in enumerate(corpus.texts):
        kept = [(start, end) for start, end in pieces(text) if text[start:end].strip()] or [(0, len(text))]
        rows += [(document, start, end) for start, end in kept]
    return _spans(rows)


def _spans(rows: Iterable[tuple[int, int, int]]) -> Spans:
    document, start, end = np.array(list(rows), dtype=np.int64).reshape(-1, 3).T
    return Spans(document.astype(np.int32), start.copy(), end.copy())


# --- chunks within chunks ----------------------------------------------------------------------------------------


def cut_within(corpus: Corpus, parents: Spans, split: Callable[[Corpus], Spans]) -> Spans:
    """Cut every parent chunk with ``split``, as if it were a document, and return the spans of the pieces.

    ``split`` is the method of a chunker. The spans are sorted and refer to the documents of ``corpus``. A piece that
    several parents share occurs once.
    """
    rows = list(zip(*(column.tolist() for column in parents), strict=True))
    blank = [""] * len(rows)
    children = split(Corpus(blank, blank, [corpus.texts[n][start:end] for n, start, end in rows]))
    offset = parents.start[children.document]
    columns = (parents.document[children.document], offset + children.start, offset + children.end)
    return _spans(sorted(set(zip(*(column.tolist() for column in columns), strict=True))))


def parents_of(children: Spans, parents: Spans) -> NDArray[np.int64]:
    """Return, for each child, the index of the first parent that contains it entirely (children,).

    Every child must have such a parent. Because the parents are sorted by start, this is the first parent in the same
    document that does not end before the child.
    """
    stride = int(parents.end.max(initial=0)) + 1
    reach = np.maximum.accumulate(parents.document.astype(np.int64) * stride + parents.end)
    return np.searchsorted(reach, children.document.astype(np.int64) * stride + children.end, side="left")


# --- shared by several chunkers ------------------------------------------------------------------------------------


def encodable(text: str) -> str:
    """Return ``text`` with "?" in place of lone surrogates, which libraries written in other languages reject."""
    return SURROGATES.sub("?", text)


def windows(length: int, size: int, stride: int) -> list[Piece]:
    """Return windows (start, end) of ``size`` units over ``length`` units; the last window may be shorter.

    Each window starts ``stride`` units after the previous window. For a ``length`` of 0, the only window is (0, 0).
    """
    # The first window that reaches the end is the last: any later window would lie inside it.
    starts = range(0, max(length - size + stride, 1), stride)
    return [(start, min(start + size, length)) for start in starts]


def merge_neighbours(pieces: Sequence[Piece], size: int) -> list[Piece]:
    """Return the pieces, with neighbours joined from left to right while the result has at most ``size`` characters."""
    merged: list[Piece] = []
    for start, end in pieces:
        if merged and end - merged[-1][0] <= size:
            merged[-1] = (merged[-1][0], end)
        else:
            merged.append((start, end))
    return merged


def split_long(text: str, piece: Piece, size: int) -> Iterator[Piece]:
    """Yield parts of a piece, each of at most ``size`` characters; `last_pause` determines where to cut."""
    start, end = piece
    while end - start > size:
        pause = last_pause(text, start, start + size)
        yield start, pause
        start = pause
    yield start, end


def last_pause(text: str, start: int, end: int) -> int:
    """Return the position in ``text`` at which to cut the passage ``text[start:end]``.

    Only the second half of the passage is searched. The cut follows the last line break, else the last end of a
    sentence, else the last white space. Without any of these, the position is ``end``.
    """
    for pattern in PAUSES:
        ends = [match.end() for match in pattern.finditer(text, start + (end - start) // 2, end)]
        if ends:
            return ends[-1]
    return end
