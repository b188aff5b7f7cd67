"""Make one ranking of several: reciprocal rank fusion and convex combination, for all questions at once.

A chunk is a candidate if any leg found it. Sums are made in float64 and in one order whatever the order of the legs, so
fusion does not depend on it; the result is float32.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ragsweep.errors import ConfigError
from ragsweep.ranking import arrange_ascending, by_position
from ragsweep.types import NO_CHUNK, Rankings

Doubles = NDArray[np.float64]


def reciprocal_rank(
    rankings: Sequence[Rankings], k: float = 60, weights: Sequence[float] | None = None, depth: int = 100
) -> Rankings:
    """Fuse by ranks: a chunk scores the sum of ``weight / (k + rank)`` over the legs that found it, ranks from 1.

    Source: Cormack, Clarke and Buettcher, "Reciprocal rank fusion outperforms Condorcet and individual rank learning
    methods", SIGIR 2009 (there k = 60 and no weights; without weights all are 1).
    """
    shares = []
    for weight, leg in zip(weights or [1.0] * len(rankings), rankings, strict=True):
        by_rank = weight / (k + np.arange(1, leg.positions.shape[1] + 1, dtype=np.float64))
        shares.append(np.broadcast_to(by_rank, leg.positions.shape))
    return _sum(rankings, shares, depth)


def convex(rankings: Sequence[Rankings], weights: Sequence[float], depth: int = 100) -> Rankings:
    """Fuse by scores: a chunk scores the weighted sum of its normalised scores; a leg that did not find it gives 0.

    Source: Bruch, Gai and Ingber, "An analysis of fusion functions for hybrid retrieval", ACM TOIS 2023, eq. 2, with
    the normalisation of :func:`min_max`.
    """
    shares = [weight * min_max(leg) for weight, leg in zip(weights, rankings, strict=True)]
    return _sum(rankings, shares, depth)


def min_max(rankings: Rankings) -> Doubles:
    """Bring the scores of every question to 0 (its last candidate) .. 1 (its best), (questions, depth).

    Where all candidates score the same, a single one included, each gets 1; padding gets 0.
    """
    found = rankings.positions != NO_CHUNK
    scores = rankings.scores.astype(np.float64)
    low = np.where(found, scores, np.inf).min(axis=1, keepdims=True, initial=np.inf)
    high = np.where(found, scores, -np.inf).max(axis=1, keepdims=True, initial=-np.inf)
    normal: Doubles = found.astype(np.float64)
    np.divide(scores - low, high - low, where=found & (high > low), out=normal)
    return normal


def _sum(rankings: Sequence[Rankings], shares: Sequence[Doubles], depth: int) -> Rankings:
    """Add up each chunk's shares, one a leg, and put the chunks in order."""
    assert len({leg.chunks for leg in rankings}) == 1, "legs of one hybrid rank the same chunks"
    legs = np.repeat(np.arange(len(rankings)), [leg.positions.shape[1] for leg in rankings])
    positions, column = by_position(np.concatenate([leg.positions for leg in rankings], axis=1))
    place = _places(positions)
    row = np.arange(len(positions))[:, None]

    candidates = np.full(positions.shape, NO_CHUNK, dtype=np.int64)
    candidates[row, place] = positions
    table = np.zeros((*positions.shape, len(rankings)))
    table[row, place, legs[column]] = np.take_along_axis(np.concatenate(shares, axis=1), column, axis=1)
    if len(rankings) > 2:
        table.sort(axis=2)  # a floating-point sum of three depends on their order
    return arrange_ascending(candidates, np.einsum("qcl->qc", table), depth)._replace(chunks=rankings[0].chunks)


def _places(positions: NDArray[np.int64]) -> NDArray[np.int64]:
    """Number the distinct positions of every sorted row from 0."""
    new = np.zeros(positions.shape, dtype=np.int64)
    new[:, 1:] = positions[:, 1:] != positions[:, :-1]
    return np.cumsum(new, axis=1)


def weights_of(legs: Mapping[str, object], weights: Mapping[str, float]) -> dict[str, float]:
    """Return one weight a leg; raise ConfigError unless there are legs and each has one weight, of 0 or more."""
    if not legs:
        raise ConfigError("retriever.legs is empty; a hybrid needs at least one leg")
    if set(weights) != set(legs):
        raise ConfigError(f"retriever.weights names {', '.join(weights)}; it must name the legs: {', '.join(legs)}")
    if any(not weight >= 0 for weight in weights.values()) or not any(weights.values()):
        raise ConfigError(f"retriever.weights is {dict(weights)}; weights must be 0 or more, at least one of them more")
    return {name: float(weights[name]) for name in legs}
