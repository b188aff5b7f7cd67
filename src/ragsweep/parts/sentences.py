"""Split texts into sentences by sentencex's rules for abbreviations, quotes and lists, and a few more for French."""

import re
from collections.abc import Iterator

from ragsweep.core.errors import ConfigError, nearest
from ragsweep.core.spans import Piece, encodable

LIBRARY = "sentencex"
LANGUAGES = {
    "english": "en",
    "french": "fr",
    "german": "de",
    "spanish": "es",
    "italian": "it",
    "dutch": "nl",
    "portuguese": "pt",
    "russian": "ru",
}
"""Languages with rules for sentences, and their codes."""

WIDE_SPACES = re.compile(r"[^\S\x00-\x7f]")
"""White space of more than one byte: sentencex 1.0.32 can panic if it precedes a full stop."""

UNFINISHED = re.compile(r"(?:^|[^\w.])(?:[A-ZÀ-Ý]|MM|M[mM]es?|Mlles?|Mgr|Dr|Pr|Stes?|Sts?)\.\s*$")
"""An abbreviation that does not end a French sentence: before or within a name (``M. Dupont``, ``J.-C.``)."""


def check_language(language: str, part: str = "chunker") -> None:
    """Raise ConfigError for a language that is not in LANGUAGES; ``part`` is the part's config key."""
    if language not in LANGUAGES:
        raise ConfigError(f"{part}.language is {language!r}{nearest(language, LANGUAGES)}")


def sentences(text: str, language: str) -> list[Piece]:
    """Return the spans of a text's sentences, each with its trailing white space; together they cover the whole text.

    A line break alone does not end a sentence, but a blank line does.
    """
    starts = [0, *_starts(encodable(text), language)]
    return list(zip(starts, [*starts[1:], len(text)], strict=True))


def _starts(text: str, language: str) -> Iterator[int]:
    """Yield the starts of all sentences except the first."""
    import sentencex

    text = WIDE_SPACES.sub(" ", text)
    is_unfinished = True  # leading white space belongs to the first sentence
    for boundary in sentencex.get_sentence_boundaries(LANGUAGES[language], text):
        piece = text[boundary["start_index"] : boundary["end_index"]]
        if piece.strip():
            if not is_unfinished:
                yield boundary["start_index"]
            is_unfinished = language == "french" and bool(UNFINISHED.search(piece))
