"""Rank texts and sentences for a question by BM25, in its language."""

from __future__ import annotations

from collections.abc import Sequence

from ragsweep.core.types import NO_CHUNK
from ragsweep.core.words import word_count
from ragsweep.curation.evidence_quotes import FEWEST_WORDS
from ragsweep.curation.extractive import LANGUAGES
from ragsweep.parts.retrievers.bm25 import Bm25
from ragsweep.parts.sentences import sentences


def best_sentence(question: str, text: str, place: tuple[int, int], code: str) -> tuple[int, int] | None:
    """Return the place of the best sentence by BM25 in a part of a text, the first where none has a word in common."""
    begin, end = place
    found = sentences(text[begin:end], LANGUAGES.get(code, "english"))
    inside = [(begin + start, begin + stop) for start, stop in found]
    # headings, which resemble questions most, answer none
    inside = [one for one in inside if word_count(text[slice(*one)]) >= FEWEST_WORDS] or inside
    (ranked,) = rank_texts([question], [text[start:stop] for start, stop in inside], code, 1)
    return inside[ranked[0] if ranked else 0] if inside else None


def rank_texts(queries: Sequence[str], texts: Sequence[str], code: str, depth: int) -> list[list[int]]:
    """Return the positions of the best texts by BM25 for each query."""
    retriever = Bm25(language=LANGUAGES.get(code, "none"))
    found = retriever.retrieve(retriever.build(texts), queries, depth).positions
    return [[int(one) for one in row if one != NO_CHUNK] for row in found]
