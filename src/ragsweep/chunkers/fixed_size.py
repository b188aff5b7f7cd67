"""Windows of one size that slide over the text."""

from __future__ import annotations

from ragsweep.errors import ConfigError
from ragsweep.spans import Piece, cut
from ragsweep.types import Corpus, Spans


class FixedSize:
    """Cut every document into windows of ``size`` characters that share ``overlap`` characters with the one before."""

    VERSION = "1"

    def __init__(self, size: int = 800, overlap: int = 0) -> None:
        """Set the window; raise ConfigError unless 0 <= overlap < size."""
        if size < 1:
            raise ConfigError(f"chunker.size is {size}; it counts characters and must be 1 or more")
        if not 0 <= overlap < size:
            raise ConfigError(f"chunker.overlap is {overlap}; it must be 0 or more and less than chunker.size, {size}")
        self.size = size
        self.overlap = overlap

    def split(self, corpus: Corpus) -> Spans:
        """Return the windows; the last of a document may be shorter, blank ones are left out."""
        return cut(corpus, self._windows)

    def _windows(self, text: str) -> list[Piece]:
        # The last window that starts is the first that reaches the end: one more would lie inside its overlap.
        starts = range(0, max(len(text) - self.overlap, 1), self.size - self.overlap)
        return [(start, min(start + self.size, len(text))) for start in starts]
