"""Windows of whole sentences."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping

from ragsweep.core.errors import ConfigError
from ragsweep.core.sentences import LIBRARY, check_language, sentences
from ragsweep.core.spans import Piece, check_size, cut, windows
from ragsweep.core.types import Corpus, Spans


class SentenceWindow:
    """Cut every document into windows of so many ``sentences``, a new one every ``stride`` sentences.

    A window is as long as its sentences are: a text without full stops is one sentence, up to a blank line.
    """

    VERSION = "1"

    def __init__(self, sentences: int = 5, stride: int = 4, language: str = "english") -> None:
        """Set the window; raise ConfigError unless 1 <= stride <= sentences, and for a language that is not known."""
        check_size("sentences", sentences, "sentences")
        if not 1 <= stride <= sentences:
            raise ConfigError(
                f"chunker.stride is {stride}; it must be 1 or more and at most chunker.sentences, {sentences}, "
                "so that no sentence is left out"
            )
        check_language(language)
        self.sentences = sentences
        self.stride = stride
        self.language = language

    def fingerprint(self) -> Mapping[str, str]:
        """Name the version of the library that finds sentences: another one may find others."""
        return {LIBRARY: importlib.metadata.version(LIBRARY)}

    def split(self, corpus: Corpus) -> Spans:
        """Return the windows; the last of a document may hold fewer sentences."""
        return cut(corpus, self._windows)

    def _windows(self, text: str) -> list[Piece]:
        found = sentences(text, self.language)
        return [
            (found[first][0], found[behind - 1][1])
            for first, behind in windows(len(found), self.sentences, self.stride)
        ]
