"""Fuse several rankings into one: reciprocal rank fusion and convex combination, for all questions at once.

The rankings to be fused are called legs. A chunk is a candidate if at least one leg with a weight above 0 found the
chunk. Sums are computed in float64 in an order that does not depend on the order of the legs; the result is float32.

The score of a chunk is a sum with one term per leg, called the leg's share. All shares are in one dense table with a
column for each distinct chunk of a question; one sum over the table scores all chunks.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.question_results import Doubles
from ragsweep.core.types import NO_CHUNK, Rankings
from ragsweep.parts.ranking import arrange_ascending, by_position


def reciprocal_rank(
    rankings: Sequence[Rankings], k: float = 60, weights: Sequence[float] | None = None, depth: int = 100
) -> Rankings:
    """Fuse by ranks: the score of a chunk is the sum of ``weight / (k + rank)`` over the legs that found the chunk.

    Ranks begin at 1. If ``weights`` is None, every weight is 1. Return rankings of ``depth`` ranks, padded if there are
    fewer candidates. Source: Cormack, Clarke and Buettcher, "Reciprocal rank fusion outperforms Condorcet and
    individual rank learning methods", SIGIR 2009, with k = 60 and without weights.
    """
    shares = []
    weights = weights or [1.0] * len(rankings)
    for weight, leg in zip(weights, rankings, strict=True):
        by_rank = weight / (k + np.arange(1, leg.positions.shape[1] + 1, dtype=np.float64))
        shares.append(np.broadcast_to(by_rank, leg.positions.shape))
    return _fuse(rankings, weights, shares, depth)


def convex(
    rankings: Sequence[Rankings],
    weights: Sequence[float],
    depth: int = 100,
    normalisation: str = "min_max",
    lowest: Sequence[float] | None = None,
) -> Rankings:
    """Fuse by scores: the score of a chunk is the weighted sum of its normalised scores in all legs.

    A leg that did not find the chunk adds 0. ``normalisation`` is a key of NORMALISATIONS. ``lowest`` contains the
    lowest possible score of each leg (None: 0 for every leg) and is ignored unless ``normalisation`` is "theoretical".
    Return rankings of ``depth`` ranks, padded if there are fewer candidates. Source: Bruch, Gai and Ingber, "An
    analysis of fusion functions for hybrid retrieval", ACM TOIS 2023, eq. 2.
    """
    rule = NORMALISATIONS[normalisation]
    legs = zip(rankings, weights, lowest or [0.0] * len(rankings), strict=True)
    return _fuse(rankings, weights, [weight * rule(leg, low) for leg, weight, low in legs], depth)


def min_max(rankings: Rankings, lowest: float = 0.0) -> Doubles:
    """Scale each question's scores so that the lowest becomes 0 and the highest 1; return (questions, depth).

    If a question has one score or only equal scores, each becomes 1. Padding gets 0. ``lowest`` is ignored.
    """
    is_chunk, scores, low, high = _extremes(rankings)
    return _scaled(is_chunk, scores - low, high - low)


def z_score(rankings: Rankings, lowest: float = 0.0) -> Doubles:
    """Return every score's distance from the lowest score of its question, in standard deviations, (questions, depth).

    Distances are measured from the lowest score, not from the mean. A leg adds 0 for a chunk that it did not find, so 0
    must not be the value of an average candidate. Equal scores, padding and ``lowest`` are treated as in
    :func:`min_max`.
    """
    is_chunk, scores, low, _ = _extremes(rankings)
    above = np.where(is_chunk, scores - low, 0.0)
    number = np.maximum(np.count_nonzero(is_chunk, axis=1, keepdims=True), 1)
    mean = above.sum(axis=1, keepdims=True) / number
    variance = np.where(is_chunk, (above - mean) ** 2, 0.0).sum(axis=1, keepdims=True) / number
    return _scaled(is_chunk, above, np.sqrt(variance))


def theoretical(rankings: Rankings, lowest: float) -> Doubles:
    """Scale each question's scores so that ``lowest`` becomes 0 and the highest score 1; return (questions, depth).

    ``lowest`` is the lowest possible score of the leg. If no score of a question is above ``lowest``, each becomes 1.
    Padding gets 0. This is the normalisation of TM2C2 in the paper that :func:`convex` cites. Unlike
    :func:`min_max`, it does not give the last of several good candidates a low score.
    """
    is_chunk, scores, _, high = _extremes(rankings)
    return _scaled(is_chunk, scores - lowest, high - lowest)


NORMALISATIONS: Mapping[str, Callable[[Rankings, float], Doubles]] = {
    "min_max": min_max,
    "z_score": z_score,
    "theoretical": theoretical,
}


def _extremes(rankings: Rankings) -> tuple[NDArray[np.bool_], Doubles, Doubles, Doubles]:
    """Return a mask of the ranks with a chunk, all scores in float64, and each question's lowest and highest score.

    The lowest and highest scores, (questions, 1), are infinite for a question without candidates.
    """
    is_chunk = rankings.positions != NO_CHUNK
    scores = rankings.scores.astype(np.float64)
    low = np.where(is_chunk, scores, np.inf).min(axis=1, keepdims=True, initial=np.inf)
    high = np.where(is_chunk, scores, -np.inf).max(axis=1, keepdims=True, initial=-np.inf)
    return is_chunk, scores, low, high


def _scaled(is_chunk: NDArray[np.bool_], above: Doubles, scale: Doubles) -> Doubles:
    """Return ``above / scale``, but 1 for the chunks of questions whose scale is not above 0. Padding gets 0."""
    normal: Doubles = is_chunk.astype(np.float64)
    np.divide(above, scale, where=is_chunk & (scale > 0), out=normal)
    return normal


def _fuse(rankings: Sequence[Rankings], weights: Sequence[float], shares: Sequence[Doubles], depth: int) -> Rankings:
    """Rank chunks by the sum of their shares; ``shares`` has one array (questions, depth of the leg) per leg.

    Each distinct chunk of a question gets a column of ``table`` (legs, questions, columns), ordered by position. The
    column contains the share of every leg, or 0 if the leg did not find the chunk. The chunks of a leg with weight 0
    count as padding.
    """
    assert len({leg.chunks for leg in rankings}) == 1, "the legs of a hybrid must rank the same chunks"
    legs = zip(rankings, weights, strict=True)
    found = [leg.positions if weight else np.full_like(leg.positions, NO_CHUNK) for leg, weight in legs]
    positions, origin = by_position(np.concatenate(found, axis=1))
    new = np.zeros(positions.shape, dtype=np.int64)
    new[:, 1:] = positions[:, 1:] != positions[:, :-1]
    column = np.cumsum(new, axis=1)
    row = np.arange(len(positions))[:, None]
    candidates = np.full((len(positions), int(column.max(initial=-1)) + 1), NO_CHUNK, dtype=np.int32)
    candidates[row, column] = positions

    cells = np.empty_like(column)  # each rank's index into the flattened table, for all legs
    cells[row, origin] = column + row * candidates.shape[1]
    cells += np.repeat(np.arange(len(rankings)) * candidates.size, [leg.positions.shape[1] for leg in rankings])
    table = np.zeros((len(rankings), *candidates.shape))
    table.reshape(-1)[cells] = np.concatenate(shares, axis=1)
    return arrange_ascending(candidates, _sum(table), depth)._replace(chunks=rankings[0].chunks)


def _sum(table: Doubles) -> Doubles:
    """Return the sum of the shares of each chunk, (questions, columns).

    A floating-point sum of three or more numbers depends on their order; the shares are therefore sorted first.
    """
    if len(table) > 2:
        by_chunk = np.ascontiguousarray(np.moveaxis(table, 0, 2))
        by_chunk.sort(axis=2)
        total: Doubles = np.einsum("qcl->qc", by_chunk)
    else:
        total = table[0] + table[1] if len(table) == 2 else table[0]
    return total
