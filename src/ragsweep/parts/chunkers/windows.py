"""Keep documents whole, cut them into windows of fixed size, or cut larger chunks into smaller chunks."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import ClassVar

from ragsweep.core.digests import file_digest
from ragsweep.core.errors import ConfigError
from ragsweep.core.spans import Piece, cut, cut_within, encodable, windows
from ragsweep.core.types import Chunker, Corpus, PartTraits, Spans
from ragsweep.parts import model_files
from ragsweep.parts.libraries import versions
from ragsweep.parts.limits import check_at_least
from ragsweep.parts.sentences import LANGUAGES, SentenceSplitter, check_language, sentences


class NoChunker:
    """A chunker that keeps every document whole."""

    TRAITS: ClassVar[PartTraits] = PartTraits(version="1")

    def split(self, corpus: Corpus) -> Spans:
        """Return one span per document: the whole text."""
        return cut(corpus, lambda text: [(0, len(text))])


def _check_overlap(size: int, overlap: int) -> None:
    check_at_least("chunker", 1, size=size)
    if not 0 <= overlap < size:
        raise ConfigError(f"chunker.overlap must be at least 0 and less than chunker.size ({size}), got {overlap}")


@dataclass(eq=False)
class FixedSize:
    """A chunker with windows of ``size`` characters; neighbouring windows share ``overlap`` characters."""

    TRAITS: ClassVar[PartTraits] = PartTraits(version="1")

    size: int = 800
    overlap: int = 0

    def __post_init__(self) -> None:
        _check_overlap(self.size, self.overlap)

    def split(self, corpus: Corpus) -> Spans:
        """Return the windows; blank windows are omitted, but a blank document is one chunk.

        The last window of a document may be shorter.
        """
        return cut(corpus, lambda text: windows(len(text), self.size, self.size - self.overlap))


@dataclass(eq=False)
class SentenceWindow(SentenceSplitter):
    """A chunker with windows of ``sentences`` sentences; a window starts every ``stride`` sentences.

    The number of characters in a window is not limited: text without full stops is one sentence up to the next blank
    line.
    """

    TRAITS: ClassVar[PartTraits] = PartTraits(version="1", languages=tuple(LANGUAGES))

    sentences: int = 5
    stride: int = 4
    language: str = "english"

    def __post_init__(self) -> None:
        check_at_least("chunker", 1, sentences=self.sentences)
        if not 1 <= self.stride <= self.sentences:
            raise ConfigError(
                f"chunker.stride must be at least 1 and at most chunker.sentences ({self.sentences}), so that no"
                f" sentence is skipped, got {self.stride}"
            )
        check_language(self.language)

    def split(self, corpus: Corpus) -> Spans:
        """Return the windows; the last window of a document may have fewer sentences."""
        return cut(corpus, self._windows)

    def _windows(self, text: str) -> list[Piece]:
        spans = sentences(text, self.language)
        return [(spans[first][0], spans[end - 1][1]) for first, end in windows(len(spans), self.sentences, self.stride)]


@dataclass(eq=False)
class Tokens:
    """A chunker with windows of ``size`` tokens; neighbouring windows share ``overlap`` tokens.

    Text between two tokens counts as part of the first one. Special tokens and the tokens of a prepended title are not
    counted. ``tokenizer`` is the path of a tokenizer.json, or a model that has this file: a folder, a hub id or
    "bundled".
    """

    TRAITS: ClassVar[PartTraits] = PartTraits(version="1", operational=frozenset({"tokenizer", "download"}))
    # Addresses contain the hash of the tokenizer's file (see fingerprint) instead of ``tokenizer``.

    size: int = 200
    overlap: int = 0
    tokenizer: str = "bundled"
    download: bool = False

    def __post_init__(self) -> None:
        _check_overlap(self.size, self.overlap)

    def fingerprint(self) -> Mapping[str, str]:
        """Return the hash of the tokenizer file, and the version of the tokenizers library.

        Raises ConfigError if the tokenizer file is not found.
        """
        path = model_files.locate_tokenizer(self.tokenizer, "chunker.tokenizer", self.download)
        return {"tokenizer": file_digest(path), **versions(["tokenizers"])}

    def split(self, corpus: Corpus) -> Spans:
        """Return the windows; the last window of a document may be shorter.

        Raises ConfigError if the tokenizer file is not found or cannot be loaded.
        """
        from tokenizers import Tokenizer

        path = model_files.locate_tokenizer(self.tokenizer, "chunker.tokenizer", self.download)
        with model_files.loading(self.tokenizer, "chunker.tokenizer"):
            tokenizer = Tokenizer.from_file(str(path))
        tokenizer.no_truncation()
        tokenizer.no_padding()

        def pieces(text: str) -> list[Piece]:
            offsets = [start for start, _ in tokenizer.encode(encodable(text), add_special_tokens=False).offsets]
            starts = list(accumulate(offsets, max)) or [0]
            starts[0] = 0  # text before the first token counts as part of it
            ends = [*starts[1:], len(text)]
            # Several tokens may encode one character, so that two windows may have the same span: keep one of them.
            spans = ((starts[a], ends[b - 1]) for a, b in windows(len(starts), self.size, self.size - self.overlap))
            return list(dict.fromkeys(spans))

        return cut(corpus, pieces)


@dataclass(frozen=True)
class ParentChild:
    """A chunker that cuts documents into large chunks with ``parent``, and these into small chunks with ``child``.

    Retrieval searches the small chunks. The context contains the large chunks that enclose the retrieved small chunks;
    each large chunk occurs once.
    """

    TRAITS: ClassVar[PartTraits] = PartTraits(version="1")

    parent: Chunker
    child: Chunker

    def split(self, corpus: Corpus) -> Spans:
        """Return the spans of the small chunks; a span in several large chunks occurs once."""
        return cut_within(corpus, self.parent.split(corpus), self.child.split)
