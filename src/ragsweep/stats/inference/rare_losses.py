"""Whether a lead survives losses that are rare in the sample, or too rare to have been observed.

Suppose that a config gains a little on many questions, but loses a lot on a few. If the sample contains none of these
few, the config leads by chance. The spread of the sampled scores does not reveal this risk. An estimate of the risk
needs a bound on the loss of a single question.
"""

import math
from functools import lru_cache

import numpy as np

from ragsweep.core.data import Floats
from ragsweep.core.question_results import Doubles, Flags, Numbers
from ragsweep.stats.inference.cluster_errors import effective_clusters
from ragsweep.stats.inference.estimates import LEVEL, RareLosses
from ragsweep.stats.inference.resampling import cluster_scores, cluster_sums

SEEN = 10
"""Number of losing clusters at which losses count as observed, so that the interval includes their spread."""
COMPARABLE = 0.5
"""Minimum loss that counts, as a share of the mean gain: smaller losses reveal nothing about large ones."""
DRAWS = 10_000
SEED = 20261125


def rare_losses(gains: Doubles, clusters: Numbers, largest: float, weights: Doubles | None = None) -> RareLosses:
    """Return the effect of rare large losses on one config's lead over another, and a bound on their frequency.

    The returned ``share`` is Clopper and Pearson's upper bound on the frequency of such losses (Biometrika 26, 1934),
    computed with the effective number of clusters.

    Args:
        gains: The gain on each question (questions,), positive if the config is better, times the weight.
        clusters: Cluster of each question, numbered from 0.
        largest: The largest possible loss of one question; 0 if the metric's definition excludes a loss.
        weights: Weight of each question, of mean 1; None if all weights are 1.
    """
    sizes = np.bincount(clusters, weights).astype(np.float64)
    effective = effective_clusters(sizes)
    if largest <= 0:
        return RareLosses(True, max(largest, 0.0), 0.0, 0, round(effective))
    from scipy.special import betaincinv

    seen = int(np.count_nonzero(cluster_sums(gains[None, :], clusters)[0] <= -largest / 2 * sizes))
    counted = seen * effective / len(sizes)
    share = float(betaincinv(counted + 1, effective - counted, LEVEL)) if counted < effective else 1.0
    if losses_are_seen(gains, clusters):
        low = studentised_low(gains, clusters, weights)
        survives = bool(gains.mean() > 0 if math.isnan(low) else low > 0)  # NaN: the clusters do not vary
    else:
        survives = chance_of_no_gain(gains, clusters, largest) < 1 - LEVEL
    return RareLosses(survives, largest, share, seen, round(effective))


def largest_loss(scores: Doubles, unit: str, falls: bool) -> float:
    """Return the largest possible loss of one question; scores from 0 to 1 without a ``unit`` are bounded by 0 and 1.

    The loss is the distance from the highest score to 0 if a loss is a lower score (``falls``), else from the lowest
    score to 1. For other scores, it is the largest absolute score; 0 if there are no scores.
    """
    if unit or not scores.size or scores.min() < 0 or scores.max() > 1:
        return float(np.abs(scores).max(initial=0.0))
    return float(scores.max() if falls else 1 - scores.min())


def largest_losses(scores: Doubles, unit: str) -> tuple[float, float]:
    """Return the largest fall, and the largest rise, of one question from these scores (see ``largest_loss``)."""
    return largest_loss(scores, unit, falls=True), largest_loss(scores, unit, falls=False)


def losses_are_seen(gains: Doubles, clusters: Numbers) -> bool:
    """Return whether losses count as observed: at least ``SEEN`` clusters lose, or none gains.

    A losing cluster counts if its loss is at least half of the mean gain of the gaining clusters (``COMPARABLE``).
    """
    sums = cluster_sums(gains[None, :], clusters)[0]
    if not (sums > 0).any():
        return True
    return int(np.count_nonzero(sums <= -COMPARABLE * sums[sums > 0].mean())) >= SEEN


def find_exposed(rows: Doubles, clusters: Numbers, shown: Flags, most: tuple[float, float], allowed: float) -> Flags:
    """Flag the rows where a loss too rare to have been observed could reverse the mean difference.

    Args:
        rows: Differences on each question (rows, questions).
        clusters: Cluster of each question, numbered from 0.
        shown: Flags of the rows to examine; other rows are not flagged.
        most: The largest fall and the largest rise of one question (``largest_losses``).
        allowed: A row is flagged only if its one-sided p-value (``chance_of_no_gain``) is at least this value.
    """
    exposed = np.zeros(len(rows), dtype=bool)
    for n in np.flatnonzero(shown):
        rises = bool(rows[n].mean() > 0)
        gains, loss = (rows[n], most[0]) if rises else (-rows[n], most[1])
        exposed[n] = not losses_are_seen(gains, clusters) and chance_of_no_gain(gains, clusters, loss) >= allowed
    return exposed


def chance_of_no_gain(gains: Doubles, clusters: Numbers, loss: float) -> float:
    """Return the p-value of the hypothesis that the mean gain is not above 0, allowing for an unobserved loss.

    One cluster of mean size that loses ``loss`` per question is added to the observed clusters. The p-value is the
    share of random weightings in which the weighted gain is not above 0. The weights of all clusters, including the
    added one, are independent and exponential. The p-value is Gaffke's bound on the mean of a bounded variable
    (Mathematical Methods of Statistics 14, 2005; its coverage: Learned-Miller and Thomas, arXiv 1905.06208): a Bayesian
    bootstrap with one more observation, at the worst value.
    """
    sums = cluster_sums(gains[None, :], clusters)[0]
    weights = _weights(len(sums))
    lost = loss * len(gains) / len(sums) * weights[:, -1]
    return float((np.count_nonzero(weights[:, :-1] @ sums.astype(np.float32) <= lost) + 1) / (DRAWS + 1))


def least_gain(gains: Doubles, clusters: Numbers, loss: float) -> float:
    """Return the bound below which a mean gain lies with probability 1 - ``LEVEL`` (see ``chance_of_no_gain``).

    The bound is below 0 if the chance of no gain is above 1 - ``LEVEL``.
    """
    sums = cluster_sums(gains[None, :], clusters)[0]
    weights, size = _weights(len(sums)), len(gains) / len(sums)
    totals = weights[:, :-1] @ sums.astype(np.float32) - loss * size * weights[:, -1]
    return float(np.quantile(totals / (size * weights.sum(axis=1)), 1 - LEVEL))


@lru_cache(maxsize=4)
def _weights(clusters: int) -> Floats:
    """Draw weights of the clusters and of one more cluster, as (draws, clusters + 1)."""
    return np.random.default_rng((SEED, clusters)).exponential(size=(DRAWS, clusters + 1)).astype(np.float32)


STUDENTISED_DRAWS = 4_000
STUDENTISED_SEED = 20261126


def studentised_low(values: Doubles, clusters: Numbers, weights: Doubles | None) -> float:
    """Return a mean's lower bound, one-sided at ``LEVEL`` (Efron 1979; Hall, Annals of Statistics 16, 1988).

    This is a bootstrap-t over clusters. The deviation of each resample is divided by the resample's own standard error,
    which is small if the resample contains no rare large loss. With ``weights``, ``values`` are scores times weights.
    Return NaN if the clusters do not vary, and -infinity if the share of resamples with a standard error of 0 is above
    1 - ``LEVEL``.
    """
    data = cluster_scores(values[None, :], clusters, weights)
    sums, sizes, error = data.sums[0], data.sizes, float(data.errors[0])
    if not sums.any():
        return math.nan
    columns = np.stack([sums, sizes, sums**2, sums * sizes, sizes**2], axis=1).astype(np.float32)
    total, size, squares, products, of_sizes = (_counts(len(sizes)) @ columns).T.astype(np.float64)
    moved = total / size
    errors = np.sqrt(np.maximum(squares - 2 * moved * products + moved**2 * of_sizes, 0.0)) / size
    with np.errstate(divide="ignore", invalid="ignore"):
        statistics = np.where(errors > 0, moved / errors, math.inf)
        most = float(np.quantile(statistics, LEVEL))  # NaN between two infinities
    return float(data.means[0]) - (math.inf if math.isnan(most) else most) * error


@lru_cache(maxsize=4)
def _counts(clusters: int) -> Floats:
    """Draw the count of each cluster in each resample, as (draws, clusters)."""
    generator = np.random.default_rng((STUDENTISED_SEED, clusters))
    shares = np.full(clusters, 1 / clusters)
    return generator.multinomial(clusters, shares, size=STUDENTISED_DRAWS).astype(np.float32)
