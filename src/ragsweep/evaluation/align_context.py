"""Find in a corpus the context that an existing system used: by span, by document, or by its text."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from ragsweep.core.identity import texts_hash
from ragsweep.core.types import NO_CHUNK, Corpus, Passage, Rankings, Spans

_SPAN = re.compile(r"(.+):(\d+)-(\d+)", re.DOTALL)
_BLANK = re.compile(r"\s+")
UNKNOWN = "unknown:"
"""Begins the id of a document that stands for a context which the corpus does not hold."""


class Place(NamedTuple):
    """Where a context stands."""

    document: int
    start: int
    end: int


@dataclass(frozen=True)
class AlignedContext:
    """The passages that a system used, as chunks of the corpus, in the system's order for each question.

    ``corpus`` is the one that was searched, with a document behind it for every context that it does not hold;
    ``unknown`` counts these.
    """

    corpus: Corpus
    spans: Spans
    positions: np.ndarray  # (questions, most contexts), padded
    unknown: int

    def rankings(self, rows: Sequence[int], depth: int, address: str) -> Rankings:
        """Return some questions' contexts as rankings; scores fall from 1 by rank, as the system gives none."""
        found = np.full((len(rows), depth), NO_CHUNK, dtype=np.int32)
        width = min(depth, self.positions.shape[1])
        found[:, :width] = self.positions[list(rows), :width]
        falling = (1 / np.arange(1, depth + 1)).astype(np.float32)
        return Rankings(found, np.where(found == NO_CHUNK, -np.inf, falling).astype(np.float32), address)


def align_contexts(corpus: Corpus, contexts: Sequence[Sequence[Passage]], whole: Sequence[str] = ()) -> AlignedContext:
    """Locate every context.

    A name of the form ``document:start-end`` is a span. Under a document's id a text is looked for in that document,
    under any other name in all documents, whatever its blanks, and without the title where it begins with that. A
    document's id without a text is the whole document. What is found nowhere is a document of its own, which covers no
    evidence. A context that stands twice in one question's list counts at its first place.

    ``whole`` names documents that are chunks too, whether the system used them or not: evidence that it did not find
    has to stand somewhere.
    """
    search, strangers = _Search(corpus), dict[Passage, int]()
    known: dict[Passage, Place] = {}
    for passage in {one: None for some in contexts for one in some}:
        place = search.place(passage)
        known[passage] = place or Place(
            len(corpus.ids) + strangers.setdefault(passage, len(strangers)), 0, len(passage.text)
        )
    beside = {Place(corpus.position[one], 0, len(corpus.texts[corpus.position[one]])) for one in whole}
    places = sorted({*known.values(), *beside})
    number = {place: n for n, place in enumerate(places)}
    rows = [list(dict.fromkeys(number[known[one]] for one in some)) for some in contexts]
    positions = np.full((len(rows), max(map(len, rows), default=0)), NO_CHUNK, dtype=np.int32)
    for row, found in zip(positions, rows, strict=True):
        row[: len(found)] = found
    return AlignedContext(_with(corpus, list(strangers)), _spans(places), positions, len(strangers))


def _spans(places: Sequence[Place]) -> Spans:
    columns = np.array(places, dtype=np.int64).reshape(-1, 3).T
    return Spans(columns[0].astype(np.int32), columns[1].copy(), columns[2].copy())


def _with(corpus: Corpus, strangers: Sequence[Passage]) -> Corpus:
    """Append texts that are not in the corpus to it."""
    names = [UNKNOWN + texts_hash([one])[:12] for one in strangers]
    return Corpus(
        [*corpus.ids, *names],
        [*corpus.titles, *[""] * len(names)],
        [*corpus.texts, *(one.text for one in strangers)],
        corpus.version,
    )


@dataclass(frozen=True)
class _Search:
    """Find texts in documents, whatever their blanks."""

    corpus: Corpus

    def place(self, passage: Passage) -> Place | None:
        """Return where a context stands; None where it is not found."""
        span = _SPAN.fullmatch(passage.name)
        if span and passage.name not in self.corpus.position and span[1] in self.corpus.position:
            document = self.corpus.position[span[1]]
            start, end = int(span[2]), int(span[3])
            return Place(document, start, end) if start < end <= len(self.corpus.texts[document]) else None
        known = self.corpus.position.get(passage.name)
        if known is not None and not passage.text.strip():
            return Place(known, 0, len(self.corpus.texts[known]))
        for text in (passage.text, *self._untitled(passage, known)):
            found = self._within(known, text) if known is not None else self._anywhere(text)
            if found:
                return found
        return None

    def _untitled(self, passage: Passage, known: int | None) -> list[str]:
        """Cut off the title, which many systems put before the text."""
        if known is None:
            return []
        title, text = self.corpus.titles[known], passage.text.strip()
        return [text[len(title) :]] if title and text.startswith(title) else []

    def _within(self, document: int, text: str) -> Place | None:
        words = text.split()
        if not words:
            return None
        found = re.search(r"\s+".join(map(re.escape, words)), self.corpus.texts[document])
        return Place(document, *found.span()) if found else None

    def _anywhere(self, text: str) -> Place | None:
        plain = " ".join(text.split())
        if not plain:
            return None
        joined, starts = self._joined
        at = joined.find(plain)
        return self._within(bisect_right(starts, at) - 1, plain) if at >= 0 else None

    @cached_property
    def _joined(self) -> tuple[str, list[int]]:
        """All texts in one, blanks made alike, with a character between them that no text is looked for with."""
        plain = [_BLANK.sub(" ", text) for text in self.corpus.texts]
        return "\n".join(plain), list(accumulate((len(text) + 1 for text in plain[:-1]), initial=0))
