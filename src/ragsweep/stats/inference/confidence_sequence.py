"""The sequential test of races and gates: evidence, valid at any time, that a mean difference is above a margin.

The evidence is the logarithm of a capital. The capital starts at 1 and is multiplied by a factor for each cluster of
questions. If the mean difference is at most the margin, the mean of each factor is at most 1, and the probability that
the capital ever reaches 20 is at most 1 / 20, for any sequence of looks (Ville 1939). The capital is an e-value at any
stopping time.
"""

import math

import numpy as np

from ragsweep.core.question_results import Doubles, Flags, Numbers
from ragsweep.stats.inference.resampling import cluster_sums

STAKES = (0.3, 0.6, 0.9)
"""Shares of the capital that may be lost on one question. Each stake has its own capital; the capitals are averaged."""
LARGEST_STAKE = 0.9
"""Largest share of the capital that can be lost on one cluster, regardless of the cluster's size."""
STEPS = 50
"""Number of bisections that find a bound; its error is the range of the differences times 2^-50."""
UNKNOWN = -1e300
"""The mean assigned to a config without scores, so that this config leads only if no config has a score."""
TIE = 1e-9
"""Tolerance, relative to the largest score, within which means tie."""


def cluster_differences(differences: Doubles, clusters: Numbers) -> tuple[Doubles, Doubles]:
    """Sum differences (rows, questions) by cluster, in the order of cluster numbers; NaN values are skipped.

    Return the sums, and the number of differences in each sum, both (rows, clusters).
    """
    known = ~np.isnan(differences)
    return cluster_sums(np.where(known, differences, 0.0), clusters), cluster_sums(known.astype(np.float64), clusters)


def betting(sums: Doubles, sizes: Doubles, margin: float = 0.0, spread: float = 1.0) -> Doubles:
    """Return the logarithm of the capital after each cluster, as (rows, clusters).

    The capital is bet on a mean above the margin (Waudby-Smith and Ramdas, JRSS B 86, 2024). The stakes are fixed and
    their capitals are averaged, so the order of clusters affects the final capital only through the leader (see
    ``deficits``). A cluster is one bet: it multiplies a capital by 1 + stake x (sum - size x margin) / (spread +
    margin). The bet is scaled down if it could lose more than ``LARGEST_STAKE``. A bet is valid if clusters are
    independent draws. A bet that was scaled down is valid only if a config's gain is also independent of the size
    of the cluster.

    Args:
        sums: Sum of each cluster's differences (see ``cluster_differences``); each difference is within ``spread``.
        sizes: The number of differences in each sum, or the sum of their weights, none of which is above 1. A size of 0
        leaves the capital unchanged.
        margin: The margin in the unit of the differences; it must be above -spread.
        spread: The metric's highest value minus its lowest: a difference lies in [-spread, spread].
    """
    won = (sums - margin * sizes) / (spread + margin)
    most = LARGEST_STAKE / np.maximum(sizes, 1.0)
    capitals = [np.log1p(np.minimum(stake, most) * won).cumsum(axis=1) for stake in STAKES]
    return np.asarray(np.logaddexp.reduce(capitals, axis=0) - math.log(len(STAKES)))


def evidence(capital: Doubles) -> Doubles:
    """Return the largest log capital up to each cluster, but at least 0; ``capital`` is the result of ``betting``."""
    return np.maximum.accumulate(np.maximum(capital, 0.0), axis=1)


def lower_bound(
    sums: Doubles, sizes: Doubles, level: float = 0.95, spread: float = 1.0, *, ordered: bool = True
) -> Doubles:
    """Return a time-uniform lower bound on each row's mean difference at ``level``, as (rows,).

    The bound is the largest margin that ``betting`` has rejected so far, or -spread if there is none. For the
    arguments, see ``betting``. If the clusters are not in the order of evaluation (``ordered`` is False), only the
    final capital counts. It does not depend on the order, so a later call may insert clusters anywhere.
    """
    if not len(sums):
        return np.zeros(0)
    needed = -math.log(1 - level)
    low, high = np.full(len(sums), -spread), np.full(len(sums), spread)
    for _ in range(STEPS):
        middle = (low + high) / 2  # each row's own margin
        moved, room = sums - middle[:, None] * sizes, (spread + middle)[:, None]
        capital = betting(moved * spread / room, sizes, 0.0, spread)
        refused = (capital.max(axis=1, initial=0.0) if ordered else capital[:, -1]) >= needed
        low, high = np.where(refused, middle, low), np.where(refused, high, middle)
    return low


# --- the running leader, with which each config is compared ----------------------------------------------------------


def deficits(better: Doubles, asked: Numbers, starts: Numbers) -> Doubles:
    """Return each config's deficit to the leader on each question, as (configs, questions).

    On each question, a config is compared with its leader: of the other configs not yet dropped, the one with the
    highest mean over the earlier clusters. Tied configs lead together, with the mean of their scores; initially, all
    other configs are tied. The leader is thus fixed before the question is scored. For the best config, the expected
    deficit is at most 0, whichever config leads, so one capital needs no correction for the number of configs. A
    deficit is NaN if the score of the config or of a leader is missing, or if the config or all others have been
    dropped.

    Args:
        better: Scores (configs, questions) in the order of evaluation; higher is better; NaN if missing.
        asked: The number of questions on which each config was evaluated; fewer for dropped configs.
        starts: The index of the first question of each question's cluster.
    """
    means = _means(better)[:, starts]
    means[np.arange(better.shape[1]) >= asked[:, None]] = -np.inf
    near = _near(better)
    first = _highest(means, near)
    second = _highest(np.where(first, -np.inf, means), near)
    leaders, total = first.sum(axis=0), np.where(first, better, 0.0).sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        second_mean = np.where(second, better, 0.0).sum(axis=0) / second.sum(axis=0)
        others = np.where(leaders > 1, (total - better) / (leaders - 1), second_mean)
        return np.asarray(np.where(first, others, total / leaders) - better)


def current_leaders(better: Doubles, asked: Numbers) -> Flags:
    """Flag the configs with the highest mean, including ties, among those that have not been dropped."""
    means = _means(better)[:, -1:]
    means[asked < better.shape[1]] = -np.inf
    return _highest(means, _near(better))[:, 0]


def _near(better: Doubles) -> float:
    return TIE * float(np.fmax.reduce(np.abs(better), axis=None, initial=0.0))


def _means(better: Doubles) -> Doubles:
    """Return each config's mean before each question and, last, over all questions, as (configs, questions + 1)."""
    known = ~np.isnan(better)
    empty = np.zeros((len(better), 1))
    counts = np.concatenate([empty, known.cumsum(axis=1)], axis=1)
    sums = np.concatenate([empty, np.where(known, better, 0.0).cumsum(axis=1)], axis=1)
    return np.where(counts > 0, sums / np.maximum(counts, 1), UNKNOWN)


def _highest(means: Doubles, near: float) -> Flags:
    """Flag the maximum of each column, including ties; none in a column where all configs have been dropped."""
    return np.asarray((means >= means.max(axis=0, initial=-np.inf) - near) & (means > -np.inf))
