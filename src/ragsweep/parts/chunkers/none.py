"""One chunk a document."""

from __future__ import annotations

from ragsweep.core.spans import cut
from ragsweep.core.types import Corpus, Spans


class NoChunker:
    """Leave every document whole."""

    VERSION = "1"

    def split(self, corpus: Corpus) -> Spans:
        """Return one span a document, over all of its text."""
        return cut(corpus, lambda text: [(0, len(text))])
