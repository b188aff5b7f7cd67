"""Split texts into sentences with the sentencex library and additional rules for French abbreviations."""

import re
from collections.abc import Iterator

from ragsweep.core.errors import ConfigError, nearest
from ragsweep.core.spans import Piece, encodable
from ragsweep.parts.libraries import UsesLibraries

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
"""The languages with rules for sentences -> their codes in sentencex."""

WIDE_SPACES = re.compile(r"[^\S\x00-\x7f]")
"""White space of more than one byte in UTF-8; before a full stop, it can make sentencex 1.0.32 panic."""

UNFINISHED = re.compile(r"(?:^|[^\w.])(?:[A-ZÀ-Ý]|MM|M[mM]es?|Mlles?|Mgr|Dr|Pr|Stes?|Sts?)\.\s*$")
"""Matches, at the end of a text, an abbreviation that French uses in names (``M. Dupont``, ``J.-C.``).

The abbreviation does not end a sentence.
"""


class SentenceSplitter(UsesLibraries):
    """Base class of parts that split texts into sentences."""

    LIBRARIES = ("sentencex",)


def check_language(language: str, part: str = "chunker") -> None:
    """Raise ConfigError for a language that is not in LANGUAGES; ``part`` is the config key of the part."""
    if language not in LANGUAGES:
        raise ConfigError(f"{part}.language is {language!r}{nearest(language, LANGUAGES)}")


def sentences(text: str, language: str) -> list[Piece]:
    """Return the spans of the sentences of a text, in order; together they cover the whole text.

    A sentence includes the white space after it. A line break alone does not end a sentence, but a blank line does. A
    text without a sentence boundary, even an empty one, is one sentence.
    """
    starts = [0, *_starts(encodable(text), language)]
    return list(zip(starts, [*starts[1:], len(text)], strict=True))


def _starts(text: str, language: str) -> Iterator[int]:
    """Yield the start of each sentence except the first."""
    import sentencex

    text = WIDE_SPACES.sub(" ", text)
    is_unfinished = True  # leading white space is part of the first sentence
    for boundary in sentencex.get_sentence_boundaries(LANGUAGES[language], text):
        piece = text[boundary["start_index"] : boundary["end_index"]]
        if piece.strip():
            if not is_unfinished:
                yield boundary["start_index"]
            is_unfinished = language == "french" and bool(UNFINISHED.search(piece))
