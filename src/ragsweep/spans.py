"""Make the spans of a corpus from the pieces of each document."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from ragsweep.types import Corpus, Spans

Piece = tuple[int, int]
"""Start and end of a chunk in its document's text."""


def cut(corpus: Corpus, pieces: Callable[[str], Iterable[Piece]]) -> Spans:
    """Cut every document into the pieces that ``pieces`` finds in its text.

    Blank pieces are left out, but a document that is blank as a whole is kept as one chunk: it can still be found by
    its title, and a label that names it does not vanish.
    """
    rows = [(n, start, end) for n, text in enumerate(corpus.texts) for start, end in _worthwhile(text, pieces)]
    document, start, end = np.array(rows, dtype=np.int64).reshape(-1, 3).T
    return Spans(document.astype(np.int32), start.copy(), end.copy())


def _worthwhile(text: str, pieces: Callable[[str], Iterable[Piece]]) -> list[Piece]:
    return [(start, end) for start, end in pieces(text) if text[start:end].strip()] or [(0, len(text))]
