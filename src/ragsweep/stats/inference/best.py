"""The config with the highest mean, and how much of its lead is luck."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragsweep.stats.inference.cluster_errors import enough_clusters
from ragsweep.stats.inference.matrix import Matrix
from ragsweep.stats.inference.resampling import NEGLIGIBLE

Doubles = NDArray[np.float64]
Numbers = NDArray[np.int64]

FOLDS = 10
PARTITIONS = 20
"""How often the questions are cut into folds anew: the mean depends less on how they happened to be cut."""
SEED = 20261124
TIE = 1e-6
"""Means nearer than this part of the largest number tie."""


class SelectionBias(NamedTuple):
    """What choosing the highest mean makes of it. All are in the metric's unit, in its own direction.

    ``observed`` is the winner's mean, ``optimism`` how much better it looks than it is (positive where it looks too
    good, whichever direction is better), ``crossfitted`` the mean without it: both NaN where the clusters are not
    ``enough``.
    """

    winner: int
    observed: float
    optimism: float
    crossfitted: float


def winner(matrix: Matrix) -> int:
    """Return the row with the best mean, the first of those that tie (of no questions, the first of all)."""
    if not matrix.values.size:
        return 0
    means = matrix.better.mean(axis=1)
    return int(np.flatnonzero(means >= means.max() - TIE * np.abs(means).max())[0])


def selection_bias(matrix: Matrix) -> SelectionBias:
    """Estimate by how much the best of the observed means is too good.

    The questions are cut into ten folds, clusters whole. The best config of nine folds is scored on the tenth: by
    how much it is worse there, on average, times the square root of .9, because luck on nine tenths of the questions is
    that much larger than luck on all of them. The mean over 20 ways to cut.
    """
    better, best = matrix.better, winner(matrix)
    sign = 1.0 if matrix.higher_is_better else -1.0
    observed = float(matrix.values[best].mean()) if matrix.values.size else math.nan
    folds = _folds(matrix)
    if folds is None:
        return SelectionBias(best, observed, math.nan, math.nan)
    lucky = float(np.mean([_gap(better, fold) for fold in folds])) * math.sqrt(1 - 1 / FOLDS)
    lucky = 0.0 if abs(lucky) <= NEGLIGIBLE * np.abs(better).max() else lucky
    return SelectionBias(best, observed, lucky, observed - sign * lucky)


def choices_by_fold(matrix: Matrix) -> Doubles:
    """Return the share of cuts into nine folds and a tenth in which each config is the best of the nine.

    Configs that tie share a cut. The cuts are those of :func:`selection_bias`; NaN where clusters are not ``enough``.
    """
    folds = _folds(matrix)
    if folds is None:
        return np.full(len(matrix.values), np.nan)
    shares = [_best_of_nine(matrix.better, fold)[1].mean(axis=1) for fold in folds]
    return np.asarray(np.mean(shares, axis=0))


def _gap(better: Doubles, fold: Numbers) -> float:
    """Return how much worse the best of nine folds is on the tenth, weighted by the tenth's number of questions.

    Scores times weights over numbers of questions: what all configs share cancels over folds of one size, whatever
    weights they have.
    """
    gaps, first, sizes = _best_of_nine(better, fold)
    return float(((gaps * first).sum(axis=0) * sizes).sum() / sizes.sum())


def _best_of_nine(better: Doubles, fold: Numbers) -> tuple[Doubles, Doubles, Doubles]:
    """Choose the best config without each fold.

    Returned are how much worse each config is on the fold than the best without it (configs, folds), the share of the
    choice that each has, those that tie in equal parts, and the sizes of the folds.
    """
    member = np.eye(FOLDS)[fold]
    sizes = member.sum(axis=0)
    held = better @ member
    rest = (better.sum(axis=1, keepdims=True) - held) / (sizes.sum() - sizes)
    near = TIE * np.abs(better).max()
    first = rest >= rest.max(axis=0) - near
    return rest.max(axis=0) - held / sizes, first / first.sum(axis=0), sizes


def _folds(matrix: Matrix) -> list[Numbers] | None:
    """Cut the questions into ten folds of about as many, clusters whole, in twenty ways; None where there are too few.

    A cluster of a third of the questions is a fold of a third of them, which the best of the others cannot stand for.
    """
    if not enough_clusters(matrix.clusters, matrix.weights):
        return None
    sizes = np.bincount(matrix.clusters)
    generator = np.random.default_rng((SEED, len(sizes)))
    return [_dealt(sizes, generator)[matrix.clusters] for _ in range(PARTITIONS)]


def _dealt(sizes: Numbers, generator: np.random.Generator) -> Numbers:
    """Deal the clusters out, the largest first, always to a fold with the fewest questions."""
    shuffled = generator.permutation(len(sizes))
    if sizes.max() == 1:
        dealt = np.empty(len(sizes), dtype=np.int64)
        dealt[shuffled] = np.arange(len(sizes)) % FOLDS
        return dealt
    dealt, filled = np.zeros(len(sizes), dtype=np.int64), np.zeros(FOLDS)
    for cluster in shuffled[np.argsort(-sizes[shuffled], kind="stable")].tolist():
        fold = int(filled.argmin())
        dealt[cluster] = fold
        filled[fold] += sizes[cluster]
    return dealt
