"""Find the sentences of a text: the rules of sentencex for abbreviations, quotes and lists, and a few for French."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ragsweep.core.errors import ConfigError, nearest
from ragsweep.core.spans import Piece, encodable

LIBRARY = "sentencex"
LANGUAGES = {"english": "en", "french": "fr"}

WIDE_SPACES = re.compile(r"[^\S\x00-\x7f]")
"""White space of more than one byte: sentencex 1.0.32 breaks off where it stands before a full stop."""

UNFINISHED = re.compile(r"(?:^|[^\w.])(?:[A-ZÀ-Ý]|MM|M[mM]es?|Mlles?|Mgr|Dr|Pr|Stes?|Sts?)\.\s*$")
"""How a French sentence does not end: before a name (``M. Dupont``), or within one (``J.-C.``)."""


def check_language(language: str) -> None:
    """Raise ConfigError for a language without rules for sentences."""
    if language not in LANGUAGES:
        raise ConfigError(f"chunker.language is {language!r}{nearest(language, LANGUAGES)}")


def sentences(text: str, language: str) -> list[Piece]:
    """Cut a text into its sentences, each with the white space behind it; together they are the whole text.

    A line that ends without a full stop ends no sentence, but a blank line does.
    """
    starts = [0, *_starts(encodable(text), language)]
    return list(zip(starts, [*starts[1:], len(text)], strict=True))


def _starts(text: str, language: str) -> Iterator[int]:
    """Yield where sentences begin, the first one left out."""
    import sentencex

    text = WIDE_SPACES.sub(" ", text)
    goes_on = True  # whatever stands first belongs to the first sentence
    for found in sentencex.get_sentence_boundaries(LANGUAGES[language], text):
        piece = text[found["start_index"] : found["end_index"]]
        if piece.strip():
            if not goes_on:
                yield found["start_index"]
            goes_on = language == "french" and bool(UNFINISHED.search(piece))
