"""Count which words stand in which chunks, in bounded memory, and weigh them by BM25."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragsweep.types import Arrays

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


def index(blocks: list[Block], renumbered: NDArray[np.int32], k1: float, b: float) -> Arrays:
    """Make the arrays that bm25s makes, to the bit: postings by word, in each the chunks rise. ``blocks`` is emptied.

    The pairs are put in their places first, three bytes a pair making way for five or more, and weighed afterwards:
    so that little more than the result is ever held.
    """
    spread = np.zeros(len(renumbered), dtype=np.int64)
    for block in blocks:
        spread[renumbered[block.words]] += block.spread
    starts = np.concatenate([[0], np.cumsum(spread)])
    lengths = np.concatenate([block.lengths for block in blocks])
    chunks, counts = _placed(blocks, renumbered, starts)
    weights = _weighed(chunks, counts, starts, _saturation(lengths, k1, b))
    return {"weights": weights, "chunks": chunks, "starts": starts, "size": np.array([len(lengths)], dtype=np.int64)}


def _placed(
    blocks: list[Block], renumbered: NDArray[np.int32], starts: NDArray[np.int64]
) -> tuple[NDArray[np.int32], NDArray[Any]]:
    """Put every pair where it belongs; return its chunk and its count."""
    free = starts[:-1].copy()  # where the next pair of a word goes
    chunks = np.empty(starts[-1], dtype=np.int32)
    counts = np.empty(starts[-1], dtype=max(block.counts.dtype for block in blocks))
    before = 0
    blocks.reverse()
    while blocks:
        block = blocks.pop()
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


def _weighed(
    chunks: NDArray[np.int32], counts: NDArray[Any], starts: NDArray[np.int64], saturation: NDArray[np.float64]
) -> NDArray[np.float32]:
    """Return ``idf f / (f + saturation)`` of every pair, with the idf rounded to float32 as bm25s does."""
    weights = np.empty(len(chunks), dtype=np.float32)
    spread = np.diff(starts)
    idf = _idf(spread, len(saturation))
    word = 0
    while word < len(spread):
        after = max(word + 1, int(np.searchsorted(starts, starts[word] + PAIRS, side="right")) - 1)
        part = slice(starts[word], starts[after])
        often = counts[part]
        weights[part] = np.repeat(idf[word:after], spread[word:after]) * (often / (saturation[chunks[part]] + often))
        word = after
    return weights


def _idf(spread: NDArray[np.int64], size: int) -> NDArray[np.float32]:
    """Return ``ln(1 + (N - n + .5) / (n + .5))``, by the logarithm that bm25s takes: numpy's may differ in a bit."""
    numbers, back = np.unique(spread, return_inverse=True)
    values = [math.log(1 + (size - number + 0.5) / (number + 0.5)) for number in numbers.tolist()]
    return np.array(values, dtype=np.float32)[back]
