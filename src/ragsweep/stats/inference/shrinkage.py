"""The posterior of the configs' true means: the observed means, shrunk according to their spread."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ragsweep.core.question_results import Doubles, Numbers
from ragsweep.stats.inference.cluster_errors import enough_clusters
from ragsweep.stats.inference.matrix import Matrix
from ragsweep.stats.inference.resampling import NEGLIGIBLE, cluster_scores

SPREADS = np.append(0.0, np.geomspace(0.003, 0.25, 25))
"""Candidate standard deviations of true means, for scores between 0 and 1."""
NO_SPREAD = 0.04
"""Prior probability that the true means of a group are equal; all other spreads are equally probable."""
ONE_GROUP = 0.2
"""Prior probability that the configs are a single group."""
TYPICAL = 0.4
"""Typical standard deviation of scores between 0 and 1.

For other scores, ``SPREADS`` are multiplied by the ratio of the scores' standard deviation to this value.
"""
UNDERSTATED = 1.5
"""Factor on the observed skewness of a lead; this skewness is too small if large losses were not drawn."""
NEVER = 1e-12
"""Probability, relative to the most probable division, below which a division is dropped."""


class Groups(NamedTuple):
    """The probable divisions of the configs, ranked by mean, into an upper and a lower group.

    A division with 0 in ``uppers`` is a single group, stored as the lower one. ``kept`` (spreads,) is the share of an
    observed difference that remains for each spread of the true means; ``shares`` are the posterior means of ``kept``
    in each group. Arrays with two rows have the upper group first.
    """

    chances: Doubles  # (divisions,): posterior probability of each
    uppers: Numbers  # (divisions,): number of configs in the upper group
    centres: Doubles  # (2, divisions): mean of each group
    weights: Doubles  # (2, divisions, spreads): posterior probability of each spread
    kept: Doubles
    shares: Doubles  # (2, divisions)


@dataclass(frozen=True, eq=False)
class Posterior:
    """The posterior distribution of the configs' true means; higher is better.

    ``means`` (configs,) are in the unit of ``Matrix.better``. ``known`` is False if there are too few clusters to
    estimate a spread: then ``means`` are the observed means, and probabilities and losses are NaN except for equal
    scores.
    """

    means: Doubles
    known: bool
    ranks: Numbers  # (configs,): 0 is the highest mean; configs with equal scores share a rank
    observed: Doubles  # (ranks,): means minus the mean of all
    sums: Doubles  # (ranks, clusters): the distance between two rows is the standard error of their difference
    degrees: float
    groups: Groups

    def probability_better(self, row: int, other: int) -> float:
        """Return the probability that ``row`` has a better true mean than ``other``; ties count half."""
        if self.ranks[row] == self.ranks[other]:
            return 0.5
        if not self.known:
            return math.nan
        from scipy.special import stdtr

        weights, gains, errors = self._differences(row, other)
        return float((weights * stdtr(self.degrees, _ratio(gains, errors))).sum())

    def expected_loss(self, row: int, other: int) -> float:
        """Return the expected loss of choosing ``row`` over ``other``; a gain counts as 0.

        For a gain of z standard errors that follows Student's t with n degrees of freedom, the loss in standard errors
        is the density at z times (n + z²) / (n - 1), minus z times the probability beyond z.
        """
        if self.ranks[row] == self.ranks[other]:  # the same scores on every question, however few there are
            return 0.0
        if not self.known:
            return math.nan
        from scipy.special import gammaln, stdtr

        weights, gains, errors = self._differences(row, other)
        n = self.degrees
        ratio = np.where(errors > 0, _ratio(gains, errors), 0.0)
        height = math.exp(gammaln((n + 1) / 2) - gammaln(n / 2)) / math.sqrt(n * math.pi)
        density = height * (1 + np.square(ratio) / n) ** (-(n + 1) / 2)
        losses = errors * density * (n + np.square(ratio)) / (n - 1) - gains * stdtr(n, -ratio)
        return float((weights * np.where(errors > 0, losses, np.maximum(-gains, 0.0))).sum())

    def _differences(self, row: int, other: int) -> tuple[Doubles, Doubles, Doubles]:
        """Return, for each pair of division and spread, its probability and a difference's mean and standard error.

        The difference is ``row`` minus ``other``; all three arrays are (divisions, spreads). Within a group, the
        observed difference and its squared error are multiplied by the share kept. Between groups, each of the two
        means combines the error of its group's mean and the kept share of its own error.
        """
        first, second = sorted((int(self.ranks[row]), int(self.ranks[other])))
        chances, uppers, _, weights, kept, shares = self.groups
        sizes = np.stack([np.maximum(uppers, 1), len(self.observed) - uppers])
        apart = ((shares + (1 - shares) / sizes).sum(axis=0) / 2)[:, None]
        between = ((first < uppers) & (second >= uppers))[:, None]
        means = _means(self.groups, self.observed[[first, second]], np.array([first, second]))
        gap = (means[:, 0] - means[:, 1])[:, None]
        difference = float(self.observed[first] - self.observed[second])
        error = _error(self.sums[first] - self.sums[second], difference)
        sign = 1.0 if int(self.ranks[row]) <= int(self.ranks[other]) else -1.0
        spread = np.where((second < uppers)[:, None], weights[0], weights[1])
        gains = sign * np.where(between, gap, kept * difference)
        return chances[:, None] * spread, gains, error * np.sqrt(np.where(between, apart, kept))


def posterior(matrix: Matrix) -> Posterior:
    """Shrink the observed means of all configs towards their groups' means.

    The configs form one group or two groups, the better configs and the rest. With two groups, a bad config has no
    effect on the differences between good configs. The true means of a group vary around their mean with standard
    deviation t, one of ``SPREADS``. They are correlated as the observed means are, so configs with similar scores on
    most questions differ little (Zellner's g prior, 1986). Given the typical standard error s of a mean, the posterior
    keeps t² / (t² + s²) of each observed difference. The kept difference has the same share of the observed
    difference's variance, and its error follows Student's t. The order of the observed means is preserved.

    Probabilities of t and of each division follow from the observed means (empirical Bayes: Efron and Morris, Journal
    of the American Statistical Association 70, 1975). Configs with equal scores on every question count as one.
    """
    better, places = _distinct(matrix.better)
    questions = better.shape[1]
    known = bool(questions) and enough_clusters(matrix.clusters, matrix.weights)
    data = cluster_scores(better - better.mean(axis=0), matrix.clusters, matrix.weights)
    order = np.argsort(-data.means, kind="stable")
    observed, sums = data.means[order], data.sums[order] * (np.sqrt(data.factors) / max(questions, 1))
    ranks = np.argsort(order)[places]
    if not known:
        means = better.mean(axis=1) if questions else np.full(len(better), math.nan)
        nothing = Groups(
            np.zeros(0), np.zeros(0, np.int64), np.zeros((2, 0)), np.zeros((2, 0, 0)), np.zeros(0), np.zeros((2, 0))
        )
        return Posterior(means[places], False, ranks, observed, sums, math.nan, nothing)
    turned = better if matrix.higher_is_better else -better
    scale = _scale(turned if matrix.weights is None else turned / matrix.weights)
    variance, independent = _errors(sums)
    groups = _groups(observed, max(variance, (NEGLIGIBLE * scale) ** 2), independent, scale)
    means = groups.chances @ _means(groups, observed, np.arange(len(observed)))
    return Posterior(float(better.mean()) + means[ranks], True, ranks, observed, sums, data.degrees, groups)


def _distinct(better: Doubles) -> tuple[Doubles, Numbers]:
    """Return the distinct rows in an order independent of the configs' order, and each config's row."""
    size = float(np.abs(better).max(initial=0.0)) or 1.0
    keys = np.round(better / size, 9) + 0.0  # -0 becomes 0
    _, first, places = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    return better[first], np.asarray(places.reshape(-1), dtype=np.int64)


def _scale(scores: Doubles) -> float:
    """Return the factor on ``SPREADS``: 1 for scores between 0 and 1, else their typical deviation / ``TYPICAL``.

    If no scores vary, the factor is the largest absolute score.
    """
    if scores.min() >= 0 and scores.max() <= 1:
        return 1.0
    return float(np.sqrt(scores.var(axis=1).mean())) / TYPICAL or float(np.abs(scores).max())


def _errors(sums: Doubles) -> tuple[float, float]:
    """Return the mean error variance of differences from the overall mean, and the share of effective errors.

    The share is the effective number of independent errors, divided by their number. The effective number is the
    squared trace of the covariance matrix, divided by the trace of the squared matrix (Satterthwaite 1946). The second
    trace is estimated without the terms that pair a cluster with itself.
    """
    count, clusters = sums.shape
    products = sums @ sums.T if count <= clusters else sums.T @ sums
    trace = float(np.square(sums).sum())
    own = float(np.square(np.square(sums).sum(axis=0)).sum())
    square = (float(np.square(products).sum()) - own) * clusters / (clusters - 1)
    most = max(count - 1, 1)
    return trace / most, min(max(trace**2 / square, 1.0) / most, 1.0) if square > 0 else 1.0


def _error(sums: Doubles, difference: float) -> float:
    """Return the standard error of a difference, inflated if the sample may lack rare large losses.

    An error that is only rounding is 0. Hall's monotone transformation (Journal of the Royal Statistical Society B 54,
    1992) multiplies a skewed t statistic by 1 + u + u² / 3 and adds a constant; u is a third of the statistic times the
    skewness of the mean. This function omits the constant and divides the error by the factor, capped at 1, so the
    error never shrinks. The observed skewness is too small if losses were not drawn, so it is multiplied by
    ``UNDERSTATED``.
    """
    error = math.sqrt(float(np.square(sums).sum()))
    if error <= NEGLIGIBLE * abs(difference):
        return 0.0
    skew = UNDERSTATED * float((sums**3).sum()) / error**3
    shift = max(skew * difference / error / 3, -1.5)  # 1 + u + u² / 3 is smallest at -1.5
    return error / min(1 + shift + shift**2 / 3, 1.0)


def _groups(observed: Doubles, variance: float, independent: float, scale: float) -> Groups:
    """Return the probable divisions of the ``observed`` means (in descending order) into two groups.

    A priori, all sizes of the upper group are equally probable, as are all subsets of one size. Only the subsets with
    the highest means are computed. The distance between the groups has a normal prior with the largest of ``SPREADS``
    as standard deviation. Logarithms of densities are multiplied by the share of errors that is ``independent``. Equal
    means are never in different groups; if there are just two configs, they are one group.
    """
    from scipy.special import gammaln, logsumexp

    count = len(observed)
    uppers = np.flatnonzero(np.append(True, np.diff(observed) < -NEGLIGIBLE * np.abs(observed).max()))
    uppers = uppers if count > 2 else uppers[:1]
    sizes = np.stack([uppers, count - uppers]).astype(np.float64)
    first = np.append(0.0, np.cumsum(observed))[uppers]
    squares = np.append(0.0, np.cumsum(np.square(observed)))[uppers]
    totals = np.stack([first, observed.sum() - first])
    centres = totals / np.maximum(sizes, 1)
    inside = np.maximum(np.stack([squares, np.square(observed).sum() - squares]) - totals * centres, 0.0)
    spread = np.square(scale * SPREADS) + variance
    priors = np.log(np.append(NO_SPREAD, np.full(len(SPREADS) - 1, (1 - NO_SPREAD) / (len(SPREADS) - 1))))
    free = np.maximum(sizes - 1, 0)[:, :, None]
    logs = priors - independent / 2 * (free * np.log(spread) + inside[:, :, None] / spread)
    weights = np.exp(logs - logsumexp(logs, axis=2, keepdims=True))
    two = uppers > 0
    inverse = np.where(two, (1 / np.maximum(sizes, 1)).sum(axis=0), 1.0)
    distance = variance + (scale * SPREADS[-1]) ** 2 / inverse
    apart = np.log(distance) + np.square(centres[0] - centres[1]) / inverse / distance
    subsets = gammaln(count + 1) - gammaln(sizes + 1).sum(axis=0) + math.log(max(count - 1, 1))
    chances = np.where(two, math.log(1 - ONE_GROUP) - subsets - independent / 2 * apart, math.log(ONE_GROUP))
    chances = chances + logsumexp(logs, axis=2).sum(axis=0)
    chances = np.exp(chances - chances.max())
    likely = chances >= NEVER
    chances, weights, kept = chances[likely], weights[:, likely], np.square(scale * SPREADS) / spread
    return Groups(chances / chances.sum(), uppers[likely], centres[:, likely], weights, kept, weights @ kept)


def _means(groups: Groups, observed: Doubles, ranks: Numbers) -> Doubles:
    """Return the posterior means, as (divisions, means), of the ``observed`` means (means,) with these ranks."""
    upper = ranks < groups.uppers[:, None]
    centres = np.where(upper, groups.centres[0][:, None], groups.centres[1][:, None])
    shares = groups.shares[:, :, None]
    return np.asarray(centres + np.where(upper, shares[0], shares[1]) * (observed - centres))


def _ratio(gains: Doubles, errors: Doubles) -> Doubles:
    """Divide gains by errors; for an error of 0, return infinity with the sign of the gain, or 0 for a gain of 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(errors > 0, gains / errors, np.where(gains == 0, 0.0, np.copysign(np.inf, gains)))
