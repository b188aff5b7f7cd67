"""Rank sentences for a question by BM25, in its language."""

from __future__ import annotations

from ragsweep.core.words import word_count
from ragsweep.parts.sentences import sentences
from ragsweep.parts.text_ranking import rank_texts
from ragsweep_golden.building.extractive import LANGUAGES
from ragsweep_golden.evidence.quotes import FEWEST_WORDS


def best_sentence(question: str, text: str, place: tuple[int, int], code: str) -> tuple[int, int] | None:
    """Return the span of the best sentence by BM25 in a part of a text; the first if no sentence shares a word."""
    begin, end = place
    found = sentences(text[begin:end], LANGUAGES.get(code, "english"))
    inside = [(begin + start, begin + stop) for start, stop in found]
    # a heading resembles a question, but does not answer it
    inside = [one for one in inside if word_count(text[slice(*one)]) >= FEWEST_WORDS] or inside
    (ranked,) = rank_texts([question], [text[start:stop] for start, stop in inside], code, 1)
    return inside[ranked[0] if ranked else 0] if inside else None
