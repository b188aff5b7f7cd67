"""What the true means of configs may be, given that all of them are drawn from one distribution of unknown spread."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ragsweep.stats.inference.cluster_errors import enough_clusters
from ragsweep.stats.inference.matrix import Matrix
from ragsweep.stats.inference.max_t import student_quantile
from ragsweep.stats.inference.resampling import NEGLIGIBLE, ClusteredScores, cluster_scores

Doubles = NDArray[np.float64]
Numbers = NDArray[np.int64]

SPREADS = np.append(0.0, np.geomspace(0.003, 0.25, 25))
"""Standard deviations of the true means that are weighed against each other, for scores within 0 and 1."""
NO_SPREAD = 0.04
"""Prior probability that all true means are equal; the other spreads share the rest evenly."""
TYPICAL = 0.4
"""Standard deviation of the scores of questions within 0 and 1; ``SPREADS`` scale with that of other metrics."""
WIDENED_AT = 0.95
"""The normal errors are widened so that this quantile of theirs is that of Student's t."""


@dataclass(frozen=True, eq=False)
class Posterior:
    """Posterior of the configs' true means; more is better.

    ``means`` (configs,) are in the unit of ``Matrix.better``. ``known`` is False where the clusters are too few for a
    spread: then ``means`` are the observed means and all probabilities and losses are NaN.

    Given the spread of the true means, they are normal with a covariance that is diagonal along ``directions``.
    """

    means: Doubles
    known: bool
    places: Numbers  # (configs,): row of directions; configs with equal scores share a row
    directions: Doubles  # (distinct configs, directions)
    observed: Doubles  # (directions,): differences of the observed means along each direction
    variances: Doubles  # (directions,): of the errors of ``observed``
    spreads: Doubles  # (spreads,)
    weights: Doubles  # (spreads,): posterior probability of each spread

    def probability_better(self, row: int, other: int) -> float:
        """Return the probability that the true mean of ``row`` is above that of ``other``; ties count half."""
        if not self.known:
            return math.nan
        from scipy.special import ndtr

        gains, errors = self._differences(row, other)
        return float(self.weights @ ndtr(_ratio(gains, errors)))

    def expected_gain(self, row: int, other: int) -> float:
        """Return by how much the true mean of ``row`` is above that of ``other`` on average."""
        return float(self.means[row] - self.means[other])

    def expected_loss(self, row: int, other: int) -> float:
        """Return how much choosing ``row`` loses on average against ``other``: the mean of losses, gains being 0."""
        if not self.known:
            return math.nan
        from scipy.special import ndtr

        gains, errors = self._differences(row, other)
        ratio = _ratio(gains, errors)
        density = np.exp(-np.square(ratio) / 2) / math.sqrt(2 * math.pi)
        with np.errstate(invalid="ignore"):
            tails = np.where(errors > 0, errors * density - gains * ndtr(-ratio), np.maximum(-gains, 0.0))
        return float(self.weights @ tails)

    def _differences(self, row: int, other: int) -> tuple[Doubles, Doubles]:
        """Return mean and standard deviation of ``row`` less ``other`` given each spread: (spreads,) each."""
        between = self.directions[self.places[row]] - self.directions[self.places[other]]
        kept = _kept(self.spreads, self.variances)
        return kept @ (between * self.observed), np.sqrt(kept @ (np.square(between) * self.variances))


def posterior(matrix: Matrix) -> Posterior:
    """Weigh the observed means of all configs against what such means are likely to be.

    True means are N(m, t²) with flat m; t is one of ``SPREADS``. Observed means are normal around them, with the
    covariance between the sums of clusters. Configs with equal scores on every question count as one. All is computed
    from differences to the mean of the configs: along the eigenvectors of their covariance the posterior given t is
    diagonal (Lindley and Smith, Journal of the Royal Statistical Society B 34, 1972; Efron and Morris, Journal of the
    American Statistical Association 70, 1975), and the likelihood of t is a product.
    """
    better, places = _distinct(matrix.better)
    questions = better.shape[1]
    level = float(better.mean()) if better.size else math.nan
    centred = better - better.mean(axis=0)
    if not questions or not enough_clusters(matrix.clusters, matrix.weights):
        none = np.zeros((len(better), 0))
        means = better.mean(axis=1) if questions else np.full(len(better), math.nan)
        return Posterior(means[places], False, places, none, none[0], none[0], SPREADS, np.full(len(SPREADS), math.nan))
    data = cluster_scores(centred, matrix.clusters, matrix.weights)
    scale = _scale(matrix)
    variances, directions = np.linalg.eigh(_covariance(data, questions))
    variances, directions = variances[1:], directions[:, 1:]  # the first direction is the mean of all configs
    variances = np.maximum(variances, (NEGLIGIBLE * scale) ** 2)
    observed = directions.T @ data.means
    spreads = scale * SPREADS
    weights = _spread_weights(spreads, observed, variances)
    means = level + directions @ ((weights @ _kept(spreads, variances)) * observed)
    return Posterior(means[places], True, places, directions, observed, variances, spreads, weights)


def _distinct(better: Doubles) -> tuple[Doubles, Numbers]:
    """Return the distinct rows in an order that is theirs, not that of the configs, and each config's row."""
    size = float(np.abs(better).max(initial=0.0)) or 1.0
    keys = np.round(better / size, 9) + 0.0
    _, first, places = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    return better[first], np.asarray(places.reshape(-1), dtype=np.int64)


def _scale(matrix: Matrix) -> float:
    """Return the unit of ``SPREADS``: 1 within 0 and 1, else what makes the scores of questions vary as much there."""
    scores = matrix.scores
    if scores.min() >= 0 and scores.max() <= 1:
        return 1.0
    return float(np.sqrt(scores.var(axis=1).mean())) / TYPICAL or float(np.abs(scores).max())


def _covariance(data: ClusteredScores, questions: int) -> Doubles:
    """Return the covariance of the means, less the mean of all: (configs, configs).

    Of many configs and few clusters the smallest eigenvalues of such a covariance are much too small, and those of
    more configs than clusters 0: it is mixed with one of equal and independent errors as far as its own error demands
    (Ledoit and Wolf, Journal of Multivariate Analysis 88, 2004). The direction in which all configs rise has no
    variance and is shifted below 0, so that it is the first of the eigenvectors.
    """
    count, clusters = data.sums.shape
    scaled = data.sums * (np.sqrt(data.factors) / questions)
    found = scaled @ scaled.T
    equal = (np.eye(count) - 1 / count) * (np.trace(found) / max(count - 1, 1))
    apart = float(np.square(found - equal).sum())
    error = float(np.square(np.square(scaled).sum(axis=0)).sum() - np.square(found).sum() / clusters)
    share = min(error / apart, 1.0) if count > 2 and apart > 0 else 0.0
    widened = (student_quantile(WIDENED_AT, data.degrees) / student_quantile(WIDENED_AT, math.inf)) ** 2
    mixed = widened * ((1 - share) * found + share * equal)
    return np.asarray(mixed - (np.trace(mixed) or 1.0) / count)


def _kept(spreads: Doubles, variances: Doubles) -> Doubles:
    """Return the share of a difference that is kept given each spread: (spreads, directions)."""
    squares = np.square(spreads)[:, None]
    return np.asarray(squares / (squares + variances))


def _spread_weights(spreads: Doubles, observed: Doubles, variances: Doubles) -> Doubles:
    """Return the posterior probability of each spread."""
    total = np.square(spreads)[:, None] + variances
    priors = np.full(len(spreads), (1 - NO_SPREAD) / (len(spreads) - 1))
    priors[0] = NO_SPREAD
    logs = np.log(priors) - 0.5 * (np.log(total) + np.square(observed) / total).sum(axis=1)
    weights = np.exp(logs - logs.max())
    return np.asarray(weights / weights.sum())


def _ratio(gains: Doubles, errors: Doubles) -> Doubles:
    """Divide; without an error infinite in the direction of the gain, and 0 of no gain."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(errors > 0, gains / errors, np.where(gains == 0, 0.0, np.copysign(np.inf, gains)))
