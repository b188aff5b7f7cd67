"""Count the words of chunks in blocks, to save memory, and compute BM25 weights from the counts."""

import json
import math
import tempfile
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.mapped_array import mapped_array
from ragsweep.core.types import Arrays

TEXTS = 16_384
"""Maximum number of texts in a block; at most 65,536, so that the position of a text fits in two bytes."""

CHARACTERS = 16_000_000
"""A block ends as soon as its texts have this number of characters in total."""

PAIRS = 1 << 20
"""Maximum number of (word, chunk) pairs whose weights are computed at a time, unless a single word has more pairs."""


class Words(NamedTuple):
    """The words of a block of texts, in text order, as indices into the block's vocabulary."""

    vocabulary: NDArray[np.uint8]  # a list of words in JSON
    numbers: NDArray[np.int32]
    lengths: NDArray[np.int32]  # the number of words of every text


class Counts(NamedTuple):
    """The word counts of a block: one per pair of a word and a text that contains it, sorted by word, then by text."""

    vocabulary: NDArray[np.uint8]  # a list of words in JSON
    lengths: NDArray[np.int32]  # the number of words of every text
    spread: NDArray[np.int32]  # the number of texts that contain each word
    texts: NDArray[np.uint16]  # the position of each pair's text in the block
    counts: NDArray[Any]  # the count of each pair, in as few bytes as possible


def words_of(numbers: list[list[int]], vocabulary: list[str]) -> Words:
    """Return the Words of a block of texts; ``numbers`` contains each text's words as indices into ``vocabulary``."""
    lengths = np.fromiter(map(len, numbers), dtype=np.int32, count=len(numbers))
    flat = np.fromiter((word for text in numbers for word in text), dtype=np.int32, count=int(lengths.sum()))
    return Words(packed(vocabulary), flat, lengths)


def count(words: Words) -> Counts:
    """Return the word counts of a block of texts."""
    texts = np.repeat(np.arange(len(words.lengths)), words.lengths)
    keys, counts = np.unique((words.numbers.astype(np.int64) << 16) | texts, return_counts=True)
    spread = np.bincount(keys >> 16, minlength=len(unpacked(words.vocabulary)))
    least = np.min_scalar_type(int(counts.max(initial=0)))
    places = (keys & 0xFFFF).astype(np.uint16)
    return Counts(words.vocabulary, words.lengths, spread.astype(np.int32), places, counts.astype(least))


def packed(words: list[str]) -> NDArray[np.uint8]:
    """Return a list of words as an array of bytes (JSON)."""
    return np.frombuffer(json.dumps(words).encode(), dtype=np.uint8)


def unpacked(words: NDArray[np.uint8]) -> list[str]:
    """Return the list of words in an array of bytes that ``packed`` returned."""
    read: list[str] = json.loads(words.tobytes())
    return read


def number_words(words: NDArray[np.uint8], known: dict[str, int]) -> NDArray[np.int32]:
    """Return the number in ``known`` of each word of a block's vocabulary; a new word is added with the next number."""
    return np.array([known.setdefault(word, len(known)) for word in unpacked(words)], dtype=np.int32)


def in_order(known: Mapping[str, int]) -> tuple[list[str], NDArray[np.int32]]:
    """Return the sorted words of ``known``, and an array that maps a word's number to its index in this list."""
    words = sorted(known)
    places = np.empty(len(words), dtype=np.int32)
    places[[known[word] for word in words]] = np.arange(len(words), dtype=np.int32)
    return words, places


def index(counted: Iterable[tuple[int, Counts]], k1: float, b: float) -> tuple[list[str], Arrays]:
    """Return the sorted words of all blocks, and the index as named arrays; no arrays if there are no words.

    The arrays are bit-identical to bm25s's arrays: postings ordered by word, then by chunk. ``counted`` yields pairs of
    a block's number and its counts, in any order of blocks. The counts (at least three bytes per pair) and the postings
    are kept in temporary files. In memory, only the vocabulary and the chunks' lengths grow with the number of chunks.
    """
    known: dict[str, int] = {}
    spread = np.zeros(0, dtype=np.int64)
    lengths: dict[int, NDArray[np.int32]] = {}
    starts: dict[int, int] = {}
    with tempfile.TemporaryFile() as file:
        for number, block in counted:
            own = number_words(block.vocabulary, known)
            spread = np.append(spread, np.zeros(len(known) - len(spread), dtype=np.int64))
            spread[own] += block.spread
            lengths[number], starts[number] = block.lengths, file.tell()
            for array in (own, block.spread, block.texts, block.counts):
                np.save(file, array)
        ordered, places = in_order(known)
        if not ordered:
            return ordered, {}
        first = np.concatenate([[0], np.cumsum(spread[np.argsort(places)])])
        chunks, weights = mapped_array((int(first[-1]),), np.int32), mapped_array((int(first[-1]),), np.float32)
        free, before = first[:-1].copy(), 0  # next free position of each word; number of chunks so far
        for number in sorted(starts):
            file.seek(starts[number])
            own, block_spread, texts, counts = (np.load(file) for _ in range(4))
            own = places[own]
            pairs = np.repeat(free[own] - (np.cumsum(block_spread) - block_spread), block_spread)
            pairs += np.arange(len(pairs))
            chunks[pairs] = texts.astype(np.int32) + before
            weights[pairs] = counts
            free[own] += block_spread
            before += len(lengths[number])
    _weigh(weights, chunks, first, np.concatenate([lengths[number] for number in sorted(lengths)]), k1, b)
    return ordered, {"weights": weights, "chunks": chunks, "starts": first, "size": np.array([before], np.int64)}


def _weigh(
    counts: NDArray[np.float32],
    chunks: NDArray[np.int32],
    starts: NDArray[np.int64],
    lengths: NDArray[np.int32],
    k1: float,
    b: float,
) -> None:
    """Replace every count f in place by ``idf f / (f + k1 (1 - b + b length / average))``, rounded as in bm25s.

    ``idf`` is ``ln(1 + (N - n + .5) / (n + .5))`` for a word that occurs in n of N chunks. ``length`` is the number of
    words in the chunk, and ``average`` is the mean of ``length`` over all chunks. The counts of word w are
    ``counts[starts[w]:starts[w + 1]]``, and ``chunks`` contains the chunk of each count.
    """
    saturation = k1 * ((1 - b) + b * lengths / lengths.mean())
    spread = np.diff(starts)
    # math.log, as in bm25s: numpy's logarithm may differ in the last bit.
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
