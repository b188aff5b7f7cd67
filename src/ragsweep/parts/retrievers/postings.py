"""Count which words stand in which chunks, in bounded memory, and weigh them by BM25."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

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
"""Split texts into words: numbers for every text, and the words that these stand for."""


class Words(NamedTuple):
    """The words of some texts in their order, as numbers of a vocabulary, and how many words each text has."""

    numbers: NDArray[np.int32]
    lengths: NDArray[np.int32]


class Counts(NamedTuple):
    """How often every word stands in every text of a block: pairs ordered by word and then by text."""

    words: NDArray[np.int32]  # each once
    spread: NDArray[np.int32]  # the texts that a word stands in
    texts: NDArray[np.uint16]  # of every pair: the text's place in the block
    counts: NDArray[Any]  # of every pair, in as few bytes as possible


def read_words(texts: Sequence[str], split: Split, vocabulary: dict[str, int]) -> Iterator[Words]:
    """Split texts block by block; new words are added to the vocabulary."""
    for block in _blocks(texts):
        numbers, meaning = split(block)
        codes = np.array([vocabulary.setdefault(word, len(vocabulary)) for word in meaning], dtype=np.int32)
        lengths = np.fromiter(map(len, numbers), dtype=np.int32, count=len(numbers))
        flat = np.fromiter((word for text in numbers for word in text), dtype=np.int32, count=int(lengths.sum()))
        yield Words(codes[flat], lengths)


def sort_vocabulary(vocabulary: dict[str, int]) -> tuple[list[str], NDArray[np.int32]]:
    """Return the words in order, and for every old number the new one of its word."""
    words = sorted(vocabulary)
    renumbered = np.empty(len(words), dtype=np.int32)
    renumbered[[vocabulary[word] for word in words]] = np.arange(len(words), dtype=np.int32)
    return words, renumbered


def index(read: Iterable[Words], vocabulary: dict[str, int], k1: float, b: float) -> tuple[list[str], Arrays]:
    """Make the arrays that bm25s makes, to the bit: postings by word, in each the chunks rise.

    Returned before them are the words in order. ``read`` adds to ``vocabulary`` while it is read. Counts are kept in a
    temporary file, three bytes a pair and more, and the result in another: memory does not grow with the number of
    chunks, but for their lengths and the vocabulary.
    """
    lengths: list[NDArray[np.int32]] = []
    spread = np.zeros(0, dtype=np.int64)
    with tempfile.TemporaryFile() as file:
        for words in read:
            block = _count(words)
            spread = np.append(spread, np.zeros(len(vocabulary) - len(spread), dtype=np.int64))
            spread[block.words] += block.spread
            lengths.append(words.lengths)
            for array in block:
                np.save(file, array)
        ordered, renumbered = sort_vocabulary(vocabulary)
        if not ordered:
            return ordered, {}
        starts = np.concatenate([[0], np.cumsum(spread[np.argsort(renumbered)])])
        file.seek(0)
        chunks, weights = mapped_array((int(starts[-1]),), np.int32), mapped_array((int(starts[-1]),), np.float32)
        free, before = starts[:-1].copy(), 0  # where the next pair of a word goes; the chunks of earlier blocks
        for number in map(len, lengths):
            block = Counts(*(np.load(file) for _ in Counts._fields))
            own = renumbered[block.words]
            places = np.repeat(free[own] - (np.cumsum(block.spread) - block.spread), block.spread)
            places += np.arange(len(places))
            chunks[places] = block.texts.astype(np.int32) + before
            weights[places] = block.counts
            free[own] += block.spread
            before += number
    _weigh(weights, chunks, starts, np.concatenate(lengths), k1, b)
    return ordered, {"weights": weights, "chunks": chunks, "starts": starts, "size": np.array([before], np.int64)}


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


def _count(words: Words) -> Counts:
    texts = np.repeat(np.arange(len(words.lengths)), words.lengths)
    keys, counts = np.unique((words.numbers.astype(np.int64) << 16) | texts, return_counts=True)
    words_found, spread = np.unique(keys >> 16, return_counts=True)
    least = np.min_scalar_type(int(counts.max(initial=0)))
    return Counts(
        words_found.astype(np.int32), spread.astype(np.int32), (keys & 0xFFFF).astype(np.uint16), counts.astype(least)
    )


def _weigh(
    counts: NDArray[np.float32],
    chunks: NDArray[np.int32],
    starts: NDArray[np.int64],
    lengths: NDArray[np.int32],
    k1: float,
    b: float,
) -> None:
    """Turn every count f into ``idf f / (f + k1 (1 - b + b length / average))``, rounded as bm25s does.

    ``idf`` is ``ln(1 + (N - n + .5) / (n + .5))`` for a word in n of N chunks.
    """
    saturation = k1 * ((1 - b) + b * lengths / lengths.mean())
    spread = np.diff(starts)
    # By the logarithm that bm25s takes: numpy's may differ in a bit.
    numbers, inverse = np.unique(spread, return_inverse=True)
    values = [math.log(1 + (len(lengths) - number + 0.5) / (number + 0.5)) for number in numbers.tolist()]
    idf = np.array(values, dtype=np.float32)[inverse]
    word = 0
    while word < len(spread):
        after = max(word + 1, int(np.searchsorted(starts, starts[word] + PAIRS, side="right")) - 1)
        part = slice(starts[word], starts[after])
        often = counts[part]
        often[:] = np.repeat(idf[word:after], spread[word:after]) * (often / (saturation[chunks[part]] + often))
        word = after
