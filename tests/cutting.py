"""Cut a text with a chunker, for tests."""

from __future__ import annotations

from ragsweep.core.types import Chunker, Corpus


def corpus(*texts: str) -> Corpus:
    """Make a corpus without titles."""
    return Corpus([str(n) for n in range(len(texts))], [""] * len(texts), texts)


def cut(chunker: Chunker, text: str) -> list[str]:
    """Return the texts of a document's chunks."""
    spans = chunker.split(corpus(text))
    return [text[start:end] for start, end in zip(spans.start, spans.end, strict=True)]
