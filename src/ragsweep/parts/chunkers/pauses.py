"""Cut documents at pauses (ends of paragraphs, lines, sentences or words), or where the subject changes."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ragsweep.core.foreign_results import embed_checked
from ragsweep.core.spans import Piece, cut, encodable, split_long
from ragsweep.core.types import Corpus, Embedder, PartTraits, Spans
from ragsweep.parts.libraries import UsesLibraries
from ragsweep.parts.limits import check_at_least, check_between
from ragsweep.parts.sentences import LANGUAGES, SentenceSplitter, check_language, sentences
from ragsweep.parts.unit_vectors import unit


@dataclass(eq=False)
class Recursive(UsesLibraries):
    """A chunker that uses chonkie's RecursiveChunker; chunks have at most ``size`` characters.

    Documents are cut after paragraphs. A paragraph longer than ``size`` is cut into lines, a longer line into
    sentences, and a longer sentence into words or characters. A piece shorter than ``min_characters`` is joined to a
    neighbour, even if the result exceeds ``size`` and must be cut again. Finally, neighbouring pieces are joined as
    long as they fit into ``size`` together.
    """

    TRAITS: ClassVar[PartTraits] = PartTraits(version="3")
    LIBRARIES = ("chonkie", "chonkie-core")  # chonkie finds the cuts with chonkie-core

    size: int = 800
    min_characters: int = 24

    def __post_init__(self) -> None:
        check_at_least("chunker", 1, size=self.size, min_characters=self.min_characters)

    def split(self, corpus: Corpus) -> Spans:
        """Return the spans of all chunks; blank chunks are omitted, but a blank document is one chunk."""
        from chonkie.chunker.recursive import RecursiveChunker
        from chonkie.types import RecursiveLevel, RecursiveRules

        levels = [
            RecursiveLevel(delimiters=["\n\n", "\n\r\n"]),
            RecursiveLevel(delimiters=["\n"]),
            RecursiveLevel(
                delimiters=[". ", "! ", "? ", "\u3002", "\uff01", "\uff1f", "\u0964 ", "\u061f ", "\u06d4 "]
            ),
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


@dataclass(eq=False)
class Semantic(SentenceSplitter):
    """A chunker that cuts between neighbouring sentences that are less similar than most neighbours in the document.

    The distance between two sentences is 1 minus the cosine of their vectors. A document is cut wherever the distance
    between neighbouring sentences exceeds the given ``percentile`` of these distances in the document. Source: Kamradt
    2024, "5 levels of text splitting", level 4, but without a buffer of neighbouring sentences. A piece longer than
    ``size`` characters is cut again where neighbouring sentences are least similar, and a sentence longer than ``size``
    is cut at pauses. Each document is embedded separately, so that its chunks depend only on its own text.
    """

    TRAITS: ClassVar[PartTraits] = PartTraits(version="1", languages=tuple(LANGUAGES))

    embedder: Embedder
    percentile: float = 90.0
    size: int = 1600
    language: str = "english"

    def __post_init__(self) -> None:
        check_between("chunker", 0, 100, percentile=self.percentile)
        check_at_least("chunker", 1, size=self.size)
        check_language(self.language)

    def split(self, corpus: Corpus) -> Spans:
        """Return the spans of all chunks; blank chunks are omitted, but a blank document is one chunk.

        Each sentence is embedded once; a document of a single sentence is not embedded.
        """
        return cut(corpus, self._pieces)

    def _pieces(self, text: str) -> list[Piece]:
        spans = sentences(text, self.language)
        if len(spans) == 1:
            return list(split_long(text, spans[0], self.size))
        vectors = embed_checked(self.embedder, [text[start:end] for start, end in spans]).vectors
        directions = unit(vectors.astype(np.float64))
        distances = 1 - (directions[:-1] * directions[1:]).sum(axis=1)  # of each sentence from the next one
        breaks = np.flatnonzero(distances > np.percentile(distances, self.percentile)) + 1
        pieces: list[Piece] = []
        runs = [*zip([0, *breaks.tolist()], [*breaks.tolist(), len(spans)], strict=True)][::-1]
        while runs:
            low, high = runs.pop()
            piece = (spans[low][0], spans[high - 1][1])
            if piece[1] - piece[0] > self.size and high - low > 1:
                middle = low + 1 + int(distances[low : high - 1].argmax())
                runs += [(middle, high), (low, middle)]
            else:
                pieces += split_long(text, piece, self.size)
        return pieces
