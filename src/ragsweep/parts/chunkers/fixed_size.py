"""Windows of one size that slide over the text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ragsweep.core.spans import Piece, check_overlap, check_size, cut, windows
from ragsweep.core.types import Corpus, Spans


@dataclass(eq=False)
class FixedSize:
    """Cut every document into windows of ``size`` characters that share ``overlap`` characters with the one before."""

    VERSION: ClassVar[str] = "1"

    size: int = 800
    overlap: int = 0

    def __post_init__(self) -> None:
        """Raise ConfigError unless 0 <= overlap < size."""
        check_size("size", self.size)
        check_overlap(self.size, self.overlap)

    def split(self, corpus: Corpus) -> Spans:
        """Return the windows; the last of a document may be shorter, blank ones are left out."""
        return cut(corpus, self._windows)

    def _windows(self, text: str) -> list[Piece]:
        return windows(len(text), self.size, self.size - self.overlap)
