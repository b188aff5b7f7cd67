"""The config with the best mean, and the selection bias of this mean."""

import math
from typing import NamedTuple

import numpy as np

from ragsweep.core.question_results import Doubles, Numbers
from ragsweep.stats.inference.cluster_errors import enough_clusters
from ragsweep.stats.inference.matrix import Matrix, has_ratios, transform_amounts
from ragsweep.stats.inference.resampling import NEGLIGIBLE

FOLDS = 10
PARTITIONS = 20
"""Number of divisions into folds; averaging over several reduces the dependence on any one division."""
SEED = 20261124
TIE = 1e-6
"""Two means are tied if they differ by at most this fraction of the largest mean or score."""


class SelectionBias(NamedTuple):
    """The selection bias of the best mean, in the metric's unit.

    ``winner`` is the row with the best mean, ``observed`` is its mean, and ``crossfitted`` is this mean without the
    bias. ``optimism`` is the bias, positive if the observed mean is too good, for metrics of either direction. With too
    few clusters, ``optimism`` and ``crossfitted`` are NaN.
    """

    winner: int
    observed: float
    optimism: float
    crossfitted: float


def winner(matrix: Matrix) -> int:
    """Return the row with the best mean (the first of tied rows); 0 without questions."""
    if not matrix.values.size:
        return 0
    means = matrix.better.mean(axis=1)
    return int(np.flatnonzero(means >= means.max() - TIE * np.abs(means).max())[0])


def selection_bias(matrix: Matrix) -> SelectionBias:
    """Estimate the selection bias of the best observed mean.

    The questions are divided into ten folds of whole clusters. The config that is best on nine folds is scored on the
    tenth, where its mean is usually worse. The bias is this loss, averaged over the folds of 20 divisions and
    multiplied by the square root of .9. The factor converts the bias on nine tenths of the questions to the smaller
    bias on all questions. The bias is capped at the distance from the best mean to the worst score, because no expected
    mean is worse than this score. Each question's mean over all configs is subtracted first. Otherwise, this mean would
    appear as a loss or a gain if the folds have unequal sizes.
    """
    better, best = matrix.better, winner(matrix)
    observed = float(matrix.values[best].mean()) if matrix.values.size else math.nan
    folds = _folds(matrix)
    if folds is None:
        return SelectionBias(best, observed, math.nan, math.nan)
    apart = better - better.mean(axis=0)
    gaps = []  # mean loss, weighted by fold size, of the best config of nine folds on the tenth
    for fold in folds:
        lost, share, sizes = _best_of_nine(apart, fold)
        gaps.append(float(((lost * share).sum(axis=0) * sizes).sum() / sizes.sum()))
    lucky = float(np.mean(gaps)) * math.sqrt(1 - 1 / FOLDS)
    lucky = 0.0 if abs(lucky) <= NEGLIGIBLE * np.abs(better).max() else lucky
    lucky = min(lucky, matrix.sign * observed - float((matrix.sign * matrix.scores).min()))
    return SelectionBias(best, observed, lucky, observed - matrix.sign * lucky)


def amounts_bias(matrix: Matrix, unit: str) -> SelectionBias:
    """Estimate the selection bias in the metric's unit, from logarithms if amounts are compared by ratios.

    With ratios, the winner has the best mean logarithm, and the bias is a factor on the winner's mean. See
    :func:`selection_bias` and ``matrix.transform_amounts``.
    """
    found = selection_bias(transform_amounts(matrix, unit))
    if not has_ratios(matrix, unit):
        return found
    mean = float(matrix.values[found.winner].mean())
    expected = mean * math.exp(-matrix.sign * found.optimism)
    return SelectionBias(found.winner, mean, matrix.sign * (mean - expected), expected)


def choices_by_fold(matrix: Matrix) -> Doubles:
    """Return the share of folds for which each config is the best on the other nine folds.

    Tied configs share a fold equally. The folds are the same as in :func:`selection_bias`; all shares are NaN with too
    few clusters.
    """
    folds = _folds(matrix)
    if folds is None:
        return np.full(len(matrix.values), np.nan)
    shares = [_best_of_nine(matrix.better, fold)[1].mean(axis=1) for fold in folds]
    return np.asarray(np.mean(shares, axis=0))


def _best_of_nine(better: Doubles, fold: Numbers) -> tuple[Doubles, Doubles, Doubles]:
    """Choose, for each fold, the best config on the other nine folds.

    Return each config's loss (configs, folds): the best mean on the other nine folds minus its own mean on the fold.
    Also return each config's share of the choice (configs, folds; ties share equally), and the sizes of the folds. A
    fold's mean is its sum of weighted scores, divided by its number of questions rather than by its sum of weights.
    """
    member = np.eye(FOLDS)[fold]
    sizes = member.sum(axis=0)
    held = better @ member
    rest = (better.sum(axis=1, keepdims=True) - held) / (sizes.sum() - sizes)
    near = TIE * np.abs(better).max()
    first = rest >= rest.max(axis=0) - near
    return rest.max(axis=0) - held / sizes, first / first.sum(axis=0), sizes


def _folds(matrix: Matrix) -> list[Numbers] | None:
    """Divide the questions into ten folds of whole clusters, in twenty ways; None with too few clusters.

    The folds are about as equal in size as whole clusters allow. A cluster with a third of the questions also counts as
    too few clusters, because the other folds could not represent its fold.
    """
    if not enough_clusters(matrix.clusters, matrix.weights):
        return None
    sizes = np.bincount(matrix.clusters)
    generator = np.random.default_rng((SEED, len(sizes)))
    return [_dealt(sizes, generator)[matrix.clusters] for _ in range(PARTITIONS)]


def _dealt(sizes: Numbers, generator: np.random.Generator) -> Numbers:
    """Assign each cluster, in order of decreasing size, to the fold that has the fewest questions so far."""
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
