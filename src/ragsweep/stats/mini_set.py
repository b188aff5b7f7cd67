"""Choose a few questions that rank configs as all questions do, and estimate the quality of the ranking."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragsweep.stats.inference.matrix import Matrix

Doubles = NDArray[np.float64]
Numbers = NDArray[np.int64]
Flags = NDArray[np.bool_]

DIVISIONS, RANDOM = 20, 100
"""The number of ways to halve the configs, and the number of random sets for each."""
_SHRINKAGE = 0.5
"""Shrinkage of each covariance: with few configs many correlations occur by chance."""
_SEED = 20261125
_TINY = 1e-9


class Agreement(NamedTuple):
    """Correlations between the configs' means on some questions and on all: Kendall's tau-b and Pearson's."""

    tau: float
    pearson: float


class Estimate(NamedTuple):
    """How well a set that was chosen on one half of the configs ranks the other half.

    ``chosen`` and ``random`` are means over the divisions, for the chosen sets and for random sets of the same size;
    90 % of the random sets are between ``low`` and ``high``.
    """

    chosen: Agreement
    random: Agreement
    low: Agreement
    high: Agreement
    configs: int  # in the ranked half


def choose_mini(matrix: Matrix, categories: Sequence[str], size: int, given: Sequence[int] = ()) -> list[int]:
    """Greedily choose ``size`` questions whose summed scores correlate, over the configs, with the sum of all scores.

    Returns their sorted indices. Covariances of different questions are halved. Each category has its share of the
    places; a cluster has at most its share, rounded up, while questions of other clusters are available.
    ``categories`` has each question's category, ``given`` the indices of questions to include.
    """
    scores = matrix.values - matrix.values.mean(axis=0)
    variances, columns = np.square(scores).sum(axis=0), np.ascontiguousarray(scores.T)
    with_all = columns @ ((1 - _SHRINKAGE) * scores.sum(axis=1)) + _SHRINKAGE * variances
    kinds = np.unique(np.array(categories), return_inverse=True)[1]
    places = quotas(Counter(kinds.tolist()), size)
    room = np.array([places[n] for n in range(len(places))], dtype=np.int64)
    caps = np.ceil(np.bincount(matrix.clusters) * size / len(kinds) - _TINY).astype(np.int64)
    left, total, covariance, variance = np.ones(len(kinds), dtype=bool), np.zeros(len(scores)), 0.0, 0.0
    chosen: list[int] = []
    while len(chosen) < size:
        possible = left & (room[kinds] > 0)
        possible = capped if (capped := possible & (caps[matrix.clusters] > 0)).any() else possible
        top = covariance + with_all
        bottom = variance + variances + columns @ (2 * (1 - _SHRINKAGE) * total)
        with np.errstate(invalid="ignore", divide="ignore"):
            gain = np.where(bottom > _TINY, top / np.sqrt(np.maximum(bottom, 0)), 0.0)
        is_given = len(chosen) < len(given)
        best = given[len(chosen)] if is_given else int(np.argmax(np.where(possible, gain, -np.inf)))
        chosen.append(best)
        left[best] = False
        room[kinds[best]] -= 1
        caps[matrix.clusters[best]] -= 1
        total, covariance, variance = total + scores[:, best], float(top[best]), float(bottom[best])
    return sorted(chosen)


def quotas(counts: Counter[int], size: int) -> dict[int, int]:
    """Divide ``size`` places into whole numbers in proportion to ``counts``, by the largest remainder method."""
    total = counts.total()
    exact = {kind: size * count / total for kind, count in counts.items()}
    found = {kind: math.floor(share + _TINY) for kind, share in exact.items()}
    order = sorted(exact, key=lambda kind: (found[kind] - exact[kind], kind))
    for kind in order[: size - sum(found.values())]:
        found[kind] += 1
    return found


def estimate_mini(matrix: Matrix, categories: Sequence[str], size: int, given: Sequence[int] = ()) -> Estimate:
    """Estimate the quality of a set that is chosen on one half of the configs and ranks the other (20 divisions)."""
    generator = np.random.default_rng(_SEED)
    configs, questions = matrix.values.shape
    chosen, drawn = list[Doubles](), list[Doubles]()
    for _ in range(DIVISIONS):
        order = generator.permutation(configs)
        one, other = order[: configs // 2].tolist(), matrix.values[order[configs // 2 :]]
        picked = other[:, choose_mini(matrix.select_configs(one), categories, size, given)].sum(axis=1)
        parts = [other[:, generator.permutation(questions)[:size]].sum(axis=1) for _ in range(RANDOM)]
        chosen.append(agreements(other.sum(axis=1), picked[None]))
        drawn.append(agreements(other.sum(axis=1), np.array(parts)))
    all_drawn = np.concatenate(drawn)
    low, high = np.nanquantile(all_drawn, (0.05, 0.95), axis=0)
    means = (np.nanmean(np.concatenate(rows), axis=0) for rows in (chosen, drawn))
    first, second = (Agreement(*mean.tolist()) for mean in means)
    return Estimate(first, second, Agreement(*low.tolist()), Agreement(*high.tolist()), configs - configs // 2)


def agreements(whole: Doubles, parts: Doubles) -> Doubles:
    """Return Kendall's tau-b and Pearson's correlation of each part (parts, configs) with the whole (configs,).

    The result is (parts, 2). A correlation is 0 for a part without differences between configs, NaN if the whole has
    none.
    """
    one, other = np.triu_indices(len(whole), 1)
    rank = np.sign(np.round(whole[one] - whole[other], 9))
    ranks = np.sign(np.round(parts[:, one] - parts[:, other], 9))
    line, lines = whole - whole.mean(), parts - parts.mean(axis=1, keepdims=True)
    return np.stack([_cosines(rank, ranks), _cosines(line, lines)], axis=1)


def _cosines(one: Doubles, others: Doubles) -> Doubles:
    length, lengths = np.sqrt(one @ one), np.sqrt(np.square(others).sum(axis=1))
    if length <= _TINY:
        return np.full(len(others), np.nan)
    return np.asarray(np.where(lengths > _TINY, others @ one / np.maximum(length * lengths, _TINY), 0.0))
