"""Rank scored chunks, and remove chunks from rankings or replace them by larger ones.

Rankings are two arrays (questions, depth), the positions and the scores of chunks, with the best chunk first. If a
question has fewer chunks, the rest is padding, with position -1 and score -infinity (NaN if the search failed).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.errors import ConfigError
from ragsweep.core.types import NO_CHUNK, Floats, Integers, Rankings


def arrange(positions: NDArray[Any], scores: NDArray[Any], depth: int) -> Rankings:
    """Return rankings of the candidates of every question, best first, cut or padded to ``depth``.

    ``positions`` and ``scores`` are (questions, candidates), in any order. In a row, each chunk occurs once, and
    padding has position -1. Scores are compared in float32, the type in which they are stored; equal scores are in
    order of position.
    """
    ascending, column = by_position(positions)
    return arrange_ascending(ascending, np.take_along_axis(scores, column, axis=1), depth)


def arrange_ascending(positions: NDArray[Any], scores: NDArray[Any], depth: int) -> Rankings:
    """Return the same rankings as ``arrange`` for positions that ascend in every row; padding may be anywhere."""
    kept = scores.astype(np.float32)
    np.copyto(kept, -np.inf, where=positions == NO_CHUNK)
    order = _descending(kept, depth)
    width = order.shape[1]
    order += np.arange(len(order))[:, None] * kept.shape[1]  # flat indices are faster to look up
    if width == depth:
        return Rankings(positions.ravel()[order].astype(np.int32, copy=False), kept.ravel()[order])
    result = empty_rankings(len(order), depth)
    result.positions[:, :width] = positions.ravel()[order]
    result.scores[:, :width] = kept.ravel()[order]
    return result


def by_position(positions: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the positions with every row sorted, padding first, and the column from which each position comes."""
    bits = positions.shape[1].bit_length()
    keys = (positions.astype(np.int64) << bits) | np.arange(positions.shape[1])  # sort is far faster than argsort
    keys.sort(axis=1)
    return keys >> bits, keys & ((1 << bits) - 1)


def _descending(scores: Floats, depth: int) -> NDArray[np.int64]:
    """Return the columns of the ``depth`` highest scores of every row (all, if there are fewer), best first.

    Ties are ordered by column.
    """
    bits = (0.0 - scores).view(np.int32)  # 0.0 - x turns -0.0 into 0.0: equal scores get equal bits
    flips = bits >> 31
    flips &= 0x7FFFFFFF
    flips ^= bits  # IEEE 754 floats sort like integers once negative floats are flipped
    keys = flips.astype(np.int64)
    keys <<= 32
    keys |= np.arange(scores.shape[1])
    keys.sort(axis=1)
    return keys[:, :depth] & 0xFFFFFFFF


def best_chunks(scores: NDArray[Any], depth: int) -> tuple[Integers, Floats]:
    """Return the positions and scores of the best chunks of one question, best first, without padding.

    ``scores`` (chunks,) contains the scores of all chunks. At most ``depth`` chunks are returned, and only those that
    score above 0; there may be none. Ties are ordered by position.
    """
    kept = scores.astype(np.float32)
    chunks = np.flatnonzero(kept > 0)
    if len(chunks) > depth:
        least = np.partition(kept[chunks], -depth)[-depth]
        chunks = chunks[kept[chunks] >= least]  # with all ties for the last rank; the sort keeps the first of them
    order = chunks[np.argsort(-kept[chunks], kind="stable")][:depth]
    return order.astype(np.int32), kept[order]


def widen(narrow: Rankings, wide: NDArray[np.int64], chunks: str = "") -> Rankings:
    """Return rankings in which chunks are replaced by the larger chunks that contain them.

    Each larger chunk occurs once, with the score of the best chunk that it contains, in the order of these best chunks;
    the end of each ranking is padded. ``wide`` (questions, depth) contains the positions of the larger chunks, and
    NO_CHUNK where ``narrow`` has padding. ``chunks`` is the address of the larger chunks.
    """
    order = np.argsort(wide, axis=1, kind="stable")
    ordered = np.take_along_axis(wide, order, axis=1)
    first = np.empty(wide.shape, dtype=bool)
    np.put_along_axis(first, order, np.diff(ordered, axis=1, prepend=NO_CHUNK) != 0, axis=1)
    order = np.argsort(~first, axis=1, kind="stable")
    kept = np.take_along_axis(first, order, axis=1)
    positions = np.where(kept, np.take_along_axis(wide, order, axis=1), NO_CHUNK).astype(np.int32)
    scores = np.where(kept, np.take_along_axis(narrow.scores, order, axis=1), -np.inf).astype(np.float32)
    return mark_failed(Rankings(positions, scores, chunks), narrow.failed)


def drop_below(rankings: Rankings, least: float) -> Rankings:
    """Return rankings in which all chunks that score below ``least`` are replaced by padding."""
    return pad_where_not(rankings.scores >= least, rankings)


def drop_documents(rankings: Rankings, document: Integers, dropped: Sequence[Sequence[int]]) -> Rankings:
    """Return rankings without the chunks of given documents; later chunks move up, and the end of each row is padded.

    ``document`` (chunks,) contains the index of each chunk's document. ``dropped`` (questions,) lists the indices of
    the documents to remove from each question's ranking.
    """
    of_ranks = np.where(rankings.positions == NO_CHUNK, NO_CHUNK, np.append(document, NO_CHUNK)[rankings.positions])
    kept = np.ones(of_ranks.shape, dtype=bool)
    for row, documents in enumerate(dropped):
        if documents:
            kept[row] = ~np.isin(of_ranks[row], documents)
    order = np.argsort(~kept, axis=1, kind="stable")
    positions = np.take_along_axis(rankings.positions, order, axis=1)
    moved = Rankings(positions, np.take_along_axis(rankings.scores, order, axis=1), rankings.chunks)
    return pad_where_not(np.take_along_axis(kept, order, axis=1), moved)


def cut_to_budget(rankings: Rankings, tokens: NDArray[np.int64], budget: int) -> Rankings:
    """Cut each ranking so that its chunks have at most ``budget`` tokens in total; the rest is padding.

    Each ranking is cut before the first chunk that would raise the total above ``budget``, even if a later chunk is
    short enough. ``tokens`` (chunks,) contains the number of tokens of each chunk.
    """
    spent = np.cumsum(np.append(tokens, 0)[rankings.positions], axis=1)  # NO_CHUNK (-1) selects the appended 0
    return pad_where_not((spent <= budget) & (rankings.positions != NO_CHUNK), rankings)


def pad_where_not(kept: NDArray[np.bool_], rankings: Rankings) -> Rankings:
    """Return rankings with padding where ``kept`` (questions, depth or 1) is false; failed rankings stay failed."""
    positions = np.where(kept, rankings.positions, np.int32(NO_CHUNK))
    padded = Rankings(positions, np.where(kept, rankings.scores, np.float32(-np.inf)), rankings.chunks)
    return mark_failed(padded, rankings.failed)


def mark_failed(rankings: Rankings, failed: NDArray[np.bool_]) -> Rankings:
    """Return rankings that have only padding, with score NaN, for questions where ``failed`` (questions,) is true."""
    if not failed.any():
        return rankings
    positions = np.where(failed[:, None], np.int32(NO_CHUNK), rankings.positions)
    return Rankings(positions, np.where(failed[:, None], np.float32(np.nan), rankings.scores), rankings.chunks)


def check_min_score(least: float | None, part: str = "retriever") -> None:
    """Raise ConfigError if ``least``, the setting ``min_score``, is NaN; ``part`` is the config key of the part."""
    if least is not None and np.isnan(least):
        raise ConfigError(f"{part}.min_score is NaN; use a number, or null for no threshold")


def empty_rankings(questions: int, depth: int) -> Rankings:
    """Return rankings that consist of padding: position -1 and score -infinity."""
    positions = np.full((questions, depth), NO_CHUNK, dtype=np.int32)
    return Rankings(positions, np.full((questions, depth), -np.inf, dtype=np.float32))
