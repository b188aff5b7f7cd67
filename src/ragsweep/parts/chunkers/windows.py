"""Whole documents, windows that slide over them, and small chunks inside larger ones."""

import importlib.metadata
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import ClassVar

from ragsweep.core.errors import ConfigError
from ragsweep.core.spans import Piece, check_overlap, check_size, cut, cut_within, encodable, windows
from ragsweep.core.types import Chunker, Corpus, PartTraits, Spans
from ragsweep.parts import model_files
from ragsweep.parts.sentences import LANGUAGES, LIBRARY, check_language, sentences


class NoChunker:
    """Keep every document whole."""

    TRAITS: ClassVar[PartTraits] = PartTraits(version="1")

    def split(self, corpus: Corpus) -> Spans:
        """Return one span per document, covering all of its text."""
        return cut(corpus, lambda text: [(0, len(text))])


@dataclass(eq=False)
class FixedSize:
    """Cut every document into windows of ``size`` characters, each with ``overlap`` characters of the previous one."""

    TRAITS: ClassVar[PartTraits] = PartTraits(version="1")

    size: int = 800
    overlap: int = 0

    def __post_init__(self) -> None:
        """Raise ConfigError unless 0 <= overlap < size."""
        check_size("size", self.size)
        check_overlap(self.size, self.overlap)

    def split(self, corpus: Corpus) -> Spans:
        """Return all windows that are not blank, and blank documents whole; a document's last window may be shorter."""
        return cut(corpus, lambda text: windows(len(text), self.size, self.size - self.overlap))


@dataclass(eq=False)
class SentenceWindow:
    """Cut every document into windows of ``sentences`` sentences, a new one every ``stride`` sentences.

    A window's length depends on its sentences: a text without full stops is one sentence, up to a blank line.
    """

    TRAITS: ClassVar[PartTraits] = PartTraits(version="1", languages=tuple(LANGUAGES))

    sentences: int = 5
    stride: int = 4
    language: str = "english"

    def __post_init__(self) -> None:
        """Raise ConfigError unless 1 <= stride <= sentences, and for an unknown language."""
        check_size("sentences", self.sentences, "sentences")
        if not 1 <= self.stride <= self.sentences:
            raise ConfigError(
                f"chunker.stride must be at least 1 and at most chunker.sentences ({self.sentences}), so that no"
                f" sentence is skipped, got {self.stride}"
            )
        check_language(self.language)

    def fingerprint(self) -> Mapping[str, str]:
        """Return the sentence splitter's version, on which the sentences may depend."""
        return {LIBRARY: importlib.metadata.version(LIBRARY)}

    def split(self, corpus: Corpus) -> Spans:
        """Return the windows; the last of a document may have fewer sentences."""
        return cut(corpus, self._windows)

    def _windows(self, text: str) -> list[Piece]:
        spans = sentences(text, self.language)
        return [(spans[first][0], spans[end - 1][1]) for first, end in windows(len(spans), self.sentences, self.stride)]


@dataclass(eq=False)
class Tokens:
    """Cut every document into windows of ``size`` tokens, each with ``overlap`` tokens of the previous one.

    Text between two tokens belongs to the first of them. Special tokens that a model adds to a text are not counted,
    nor is the title prepended to a chunk. ``tokenizer`` is a tokenizer.json, or a model with one: a folder, a hub id or
    "bundled".
    """

    TRAITS: ClassVar[PartTraits] = PartTraits(version="1", operational=frozenset({"tokenizer", "download"}))
    # Addresses contain the hash of the tokenizer's file instead: see fingerprint.

    size: int = 200
    overlap: int = 0
    tokenizer: str = "bundled"
    download: bool = False

    def __post_init__(self) -> None:
        """Raise ConfigError unless 0 <= overlap < size."""
        check_size("size", self.size, "tokens")
        check_overlap(self.size, self.overlap)

    def fingerprint(self) -> Mapping[str, str]:
        """Return the hash of the tokenizer's file, and the version of the tokenizer library."""
        path = model_files.locate_tokenizer(self.tokenizer, "chunker.tokenizer", self.download)
        return {"tokenizer": model_files.file_digest(path), "tokenizers": importlib.metadata.version("tokenizers")}

    def split(self, corpus: Corpus) -> Spans:
        """Return the windows; the last of a document may be shorter."""
        from tokenizers import Tokenizer

        path = model_files.locate_tokenizer(self.tokenizer, "chunker.tokenizer", self.download)
        tokenizer = Tokenizer.from_file(str(path))
        tokenizer.no_truncation()
        tokenizer.no_padding()

        def pieces(text: str) -> list[Piece]:
            offsets = [start for start, _ in tokenizer.encode(encodable(text), add_special_tokens=False).offsets]
            starts = list(accumulate(offsets, max)) or [0]
            starts[0] = 0  # text before the first token belongs to it
            ends = [*starts[1:], len(text)]
            # Several tokens may encode one character: windows that differ only within it are merged.
            spans = ((starts[a], ends[b - 1]) for a, b in windows(len(starts), self.size, self.size - self.overlap))
            return list(dict.fromkeys(spans))

        return cut(corpus, pieces)


@dataclass(frozen=True)
class ParentChild:
    """Cut each chunk of ``parent`` with ``child``.

    The small chunks are searched; the context contains the larger chunks around those that were found, each once.
    """

    TRAITS: ClassVar[PartTraits] = PartTraits(version="1")

    parent: Chunker
    child: Chunker

    def split(self, corpus: Corpus) -> Spans:
        """Return the spans of the small chunks in their documents."""
        return cut_within(corpus, self.parent.split(corpus), self.child)
