"""Count which words stand in which chunks, in bounded memory, and weigh them by BM25."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.mapped_array import mapped_array
from ragsweep.core.types import Arrays

TEXTS = 16_384
"""Texts whose words are split at a time; below 65,536, so that a text's place among them takes two bytes."""

CHARACTERS = 16_000_000
"""Characters of texts that are split at a time, but for the last text."""

PAIRS = 1 << 20
"""(Word, chunk) pairs that are weighed at a time, but for those of one word."""

Split = Callable[[list[str]], tuple[list[list[int]], list[str]]]
"""Split texts into words: numbers for every text, and what these mean."""


class Words(NamedTuple):
    """The words of some texts in their order, as numbers of a vocabulary, and how many words each text has."""

    numbers: NDArray[np.int32]
    lengths: NDArray[np.int32]


class Block(NamedTuple):
    """How often every word stands in every one of some texts, by word and then by text."""

    words: NDArray[np.int32]  # each once
    spread: NDArray[np.int32]  # in how many texts it stands
    texts: NDArray[np.uint16]  # for every pair, the text's place among these texts
    counts: NDArray[Any]  # for every pair, how often; in as few bytes as will do
    lengths: NDArray[np.int32]


def read_words(texts: Sequence[str], split: Split, vocabulary: dict[str, int]) -> Iterator[Words]:
    """Split texts block by block; new words are added to the vocabulary."""
    for block in _blocks(texts):
        numbers, meaning = split(block)
        known = np.array([vocabulary.setdefault(word, len(vocabulary)) for word in meaning], dtype=np.int32)
        lengths = np.fromiter(map(len, numbers), dtype=np.int32, count=len(numbers))
        flat = np.fromiter((word for text in numbers for word in text), dtype=np.int32, count=int(lengths.sum()))
        yield Words(known[flat], lengths)


def _blocks(texts: Sequence[str]) -> Iterator[list[str]]:
    block: list[str] = []
    characters = 0
    for text in texts:
        block.append(text)
        characters += len(text)
        if len(block) == TEXTS or characters >= CHARACTERS:
            yield block
            block, characters = [], 0
    if block:
        yield block


def in_order(vocabulary: dict[str, int]) -> tuple[list[str], NDArray[np.int32]]:
    """Sort a vocabulary, and say for every old number which one its word gets."""
    words = sorted(vocabulary)
    renumbered = np.empty(len(words), dtype=np.int32)
    renumbered[[vocabulary[word] for word in words]] = np.arange(len(words), dtype=np.int32)
    return words, renumbered


def count(words: Words) -> Block:
    """Count the pairs of one block."""
    texts = np.repeat(np.arange(len(words.lengths)), words.lengths)
    keys, counts = np.unique((words.numbers.astype(np.int64) << 16) | texts, return_counts=True)
    found, spread = np.unique(keys >> 16, return_counts=True)
    least = np.min_scalar_type(int(counts.max(initial=0)))
    return Block(
        found.astype(np.int32),
        spread.astype(np.int32),
        (keys & 0xFFFF).astype(np.uint16),
        counts.astype(least),
        words.lengths,
    )


def index(read: Iterable[Words], vocabulary: dict[str, int], k1: float, b: float) -> tuple[list[str], Arrays]:
    """Make the arrays that bm25s makes, to the bit: postings by word, in each the chunks rise.

    Returned before them are the words they stand for, in order. ``read`` adds to ``vocabulary`` as it goes. What was
    counted waits in a temporary file, three bytes a pair and more, and the result lies in another: what is held in
    memory does not grow with the number of chunks, but for their lengths and the vocabulary.
    """
    with tempfile.TemporaryFile() as file:
        blocks, spread = _spilt(read, vocabulary, file)
        words, renumbered = in_order(vocabulary)
        if not words:
            return words, {}
        ordered = np.empty_like(spread)
        ordered[renumbered] = spread
        starts = np.concatenate([[0], np.cumsum(ordered)])
        file.seek(0)
        chunks, weights = _placed((block.load(file) for block in blocks), renumbered, starts)
    lengths = np.concatenate([block.lengths for block in blocks])
    _weigh(weights, chunks, starts, _saturation(lengths, k1, b))
    return words, {"weights": weights, "chunks": chunks, "starts": starts, "size": np.array([len(lengths)], np.int64)}


class _Spilt(NamedTuple):
    """How much of the file is one block's, and what of the block is kept."""

    words: int
    pairs: int
    counts: np.dtype[Any]
    lengths: NDArray[np.int32]

    def load(self, file: IO[bytes]) -> Block:
        """Read the block that begins where the file stands."""
        sizes = ((np.int32, self.words), (np.int32, self.words), (np.uint16, self.pairs), (self.counts, self.pairs))
        words, spread, texts, counts = (np.fromfile(file, dtype, size) for dtype, size in sizes)
        return Block(words, spread, texts, counts, self.lengths)


def _spilt(
    read: Iterable[Words], vocabulary: dict[str, int], file: IO[bytes]
) -> tuple[list[_Spilt], NDArray[np.int64]]:
    """Count block by block into a file; return what is where, and in how many chunks every word stands."""
    blocks: list[_Spilt] = []
    spread = np.zeros(0, dtype=np.int64)
    for words in read:
        block = count(words)
        spread = np.append(spread, np.zeros(len(vocabulary) - len(spread), dtype=np.int64))
        spread[block.words] += block.spread
        for array in (block.words, block.spread, block.texts, block.counts):
            array.tofile(file)
        blocks.append(_Spilt(len(block.words), len(block.texts), block.counts.dtype, block.lengths))
    return blocks, spread


def _placed(
    blocks: Iterable[Block], renumbered: NDArray[np.int32], starts: NDArray[np.int64]
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Put every pair where it belongs; return its chunk and its count."""
    free = starts[:-1].copy()  # where the next pair of a word goes
    chunks = mapped_array((int(starts[-1]),), np.int32)
    counts = mapped_array((int(starts[-1]),), np.float32)
    before = 0
    for block in blocks:
        words = renumbered[block.words]
        shift = free[words] - (np.cumsum(block.spread) - block.spread)
        places = np.repeat(shift, block.spread) + np.arange(len(block.texts))
        chunks[places] = block.texts.astype(np.int32) + before
        counts[places] = block.counts
        free[words] += block.spread
        before += len(block.lengths)
    return chunks, counts


def _saturation(lengths: NDArray[np.int32], k1: float, b: float) -> NDArray[np.float64]:
    """Return ``k1 (1 - b + b length / average)`` of every chunk, summed as bm25s does."""
    saturation: NDArray[np.float64] = k1 * ((1 - b) + b * lengths / lengths.mean())
    return saturation


def _weigh(
    counts: NDArray[np.float32], chunks: NDArray[np.int32], starts: NDArray[np.int64], saturation: NDArray[np.float64]
) -> None:
    """Turn every count f into ``idf f / (f + saturation)``, with the idf rounded to float32 as bm25s does."""
    spread = np.diff(starts)
    idf = _idf(spread, len(saturation))
    word = 0
    while word < len(spread):
        after = max(word + 1, int(np.searchsorted(starts, starts[word] + PAIRS, side="right")) - 1)
        part = slice(starts[word], starts[after])
        often = counts[part]
        often[:] = np.repeat(idf[word:after], spread[word:after]) * (often / (saturation[chunks[part]] + often))
        word = after


def _idf(spread: NDArray[np.int64], size: int) -> NDArray[np.float32]:
    """Return ``ln(1 + (N - n + .5) / (n + .5))``, by the logarithm that bm25s takes: numpy's may differ in a bit."""
    numbers, back = np.unique(spread, return_inverse=True)
    values = [math.log(1 + (size - number + 0.5) / (number + 0.5)) for number in numbers.tolist()]
    return np.array(values, dtype=np.float32)[back]
