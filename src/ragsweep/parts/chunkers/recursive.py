"""Chunks that end at natural pauses in the text."""

import importlib.metadata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from ragsweep.core.spans import check_size, cut, encodable
from ragsweep.core.types import Corpus, PartTraits, Spans


@dataclass(eq=False)
class Recursive:
    """Cut after paragraphs, and cut paragraphs longer than ``size`` characters into smaller units.

    The units are lines, or else sentences, words or characters. A unit shorter than ``min_characters`` is joined to a
    neighbour, even if the result exceeds ``size`` and is cut again; then neighbours are joined while they fit in
    ``size``. The splitter is chonkie's RecursiveChunker.
    """

    TRAITS: ClassVar[PartTraits] = PartTraits(version="1")

    size: int = 800
    min_characters: int = 24

    def __post_init__(self) -> None:
        """Raise ConfigError unless both sizes are at least 1."""
        check_size("size", self.size)
        check_size("min_characters", self.min_characters)

    def fingerprint(self) -> Mapping[str, str]:
        """Return the splitter's version, on which the cuts may depend."""
        return {"chonkie": importlib.metadata.version("chonkie")}

    def split(self, corpus: Corpus) -> Spans:
        """Return the spans of all chunks; only a blank document has a blank chunk."""
        from chonkie.chunker.recursive import RecursiveChunker
        from chonkie.types import RecursiveLevel, RecursiveRules

        levels = [
            RecursiveLevel(delimiters=["\n\n"]),
            RecursiveLevel(delimiters=["\n"]),
            RecursiveLevel(delimiters=[". ", "! ", "? "]),
            RecursiveLevel(whitespace=True),
            RecursiveLevel(),
        ]
        splitter = RecursiveChunker(
            tokenizer="character",
            chunk_size=self.size,
            rules=RecursiveRules(levels),
            min_characters_per_chunk=min(self.min_characters, self.size),
        )
        return cut(
            corpus, lambda text: [(piece.start_index, piece.end_index) for piece in splitter.chunk(encodable(text))]
        )
