"""Make the spans of a corpus from the pieces of each document."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.errors import ConfigError
from ragsweep.core.types import Chunker, Corpus, Spans

Piece = tuple[int, int]
"""Start and end of a chunk in its document's text."""

SURROGATES = re.compile(r"[\ud800-\udfff]")
"""Lone surrogates: legal in a Python string, but without the UTF-8 form that libraries need."""

PAUSES = (re.compile(r"\n"), re.compile(r"[.!?…]\s"), re.compile(r"\s"))
"""Where a text may be cut, the best first: after a line, a sentence, a word."""


def cut(corpus: Corpus, pieces: Callable[[str], Iterable[Piece]]) -> Spans:
    """Cut every document into the pieces that ``pieces`` finds in its text.

    Blank pieces are left out, but a document that is blank as a whole is kept as one chunk: it can still be found by
    its title, and a label that names it does not vanish.
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


def cut_within(corpus: Corpus, parents: Spans, chunker: Chunker) -> Spans:
    """Cut every chunk as if it were a document; a piece that two overlapping chunks share is one chunk."""
    rows = list(zip(*(column.tolist() for column in parents), strict=True))
    blank = [""] * len(rows)
    children = chunker.split(Corpus(blank, blank, [corpus.texts[n][start:end] for n, start, end in rows]))
    offset = parents.start[children.document]
    columns = (parents.document[children.document], offset + children.start, offset + children.end)
    return _spans(sorted(set(zip(*(column.tolist() for column in columns), strict=True))))


def parents_of(children: Spans, parents: Spans) -> NDArray[np.int64]:
    """Find for each child (children,) the first parent that contains all of it.

    Parents are ordered by start, so this is the first parent that ends no earlier than the child.
    """
    stride = int(parents.end.max(initial=0)) + 1
    reach = np.maximum.accumulate(parents.document.astype(np.int64) * stride + parents.end)
    return np.searchsorted(reach, children.document.astype(np.int64) * stride + children.end, side="left")


# --- shared by several chunkers ------------------------------------------------------------------------------------


def encodable(text: str) -> str:
    """Replace lone surrogates by question marks, one for one: other languages' libraries refuse them."""
    return SURROGATES.sub("?", text)


def windows(length: int, size: int, stride: int) -> list[Piece]:
    """Slide a window of ``size`` over a number of units; the last window may be shorter."""
    # The last window is the first that reaches the end: another one would lie inside it.
    starts = range(0, max(length - size + stride, 1), stride)
    return [(start, min(start + size, length)) for start in starts]


def merge_neighbours(pieces: Sequence[Piece], size: int) -> list[Piece]:
    """Join neighbours as long as they fit in ``size`` characters together."""
    merged: list[Piece] = []
    for start, end in pieces:
        if merged and end - merged[-1][0] <= size:
            merged[-1] = (merged[-1][0], end)
        else:
            merged.append((start, end))
    return merged


def split_long(text: str, piece: Piece, size: int) -> Iterator[Piece]:
    """Cut a piece into pieces of at most ``size`` characters, if possible at the end of a line, sentence or word."""
    start, end = piece
    while end - start > size:
        pause = last_pause(text, start, start + size)
        yield start, pause
        start = pause
    yield start, end


def last_pause(text: str, start: int, end: int) -> int:
    """Find where to cut the second half of a piece: after a line, a sentence or a word, else at its end."""
    for pattern in PAUSES:
        ends = [match.end() for match in pattern.finditer(text, start + (end - start) // 2, end)]
        if ends:
            return ends[-1]
    return end


def check_size(name: str, value: int, counts: str = "characters") -> None:
    """Raise ConfigError unless a chunker's parameter is at least 1."""
    if value < 1:
        raise ConfigError(f"chunker.{name} is {value}; it counts {counts} and must be 1 or more")


def check_overlap(size: int, overlap: int) -> None:
    """Raise ConfigError unless windows of ``size`` that share ``overlap`` move on."""
    if not 0 <= overlap < size:
        raise ConfigError(f"chunker.overlap is {overlap}; it must be 0 or more and less than chunker.size, {size}")
