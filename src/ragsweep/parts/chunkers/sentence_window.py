"""Windows of whole sentences."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from ragsweep.core.errors import ConfigError
from ragsweep.core.sentences import LIBRARY, check_language, sentences
from ragsweep.core.spans import Piece, check_size, cut, windows
from ragsweep.core.types import Corpus, Spans


@dataclass(eq=False)
class SentenceWindow:
    """Cut every document into windows of so many ``sentences``, a new one every ``stride`` sentences.

    A window is as long as its sentences are: a text without full stops is one sentence, up to a blank line.
    """

    VERSION: ClassVar[str] = "1"

    sentences: int = 5
    stride: int = 4
    language: str = "english"

    def __post_init__(self) -> None:
        """Raise ConfigError unless 1 <= stride <= sentences, and for an unknown language."""
        check_size("sentences", self.sentences, "sentences")
        if not 1 <= self.stride <= self.sentences:
            raise ConfigError(
                f"chunker.stride is {self.stride}; it must be 1 or more and at most chunker.sentences, "
                f"{self.sentences}, so that no sentence is left out"
            )
        check_language(self.language)

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
