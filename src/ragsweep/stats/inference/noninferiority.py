"""The tests of a gate: a candidate against a baseline with a margin or a gain, or against an absolute bound."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from ragsweep.core.errors import InputError
from ragsweep.core.question_results import Doubles, Numbers
from ragsweep.stats.inference.cluster_errors import FEW, effective_clusters, enough_clusters
from ragsweep.stats.inference.confidence_sequence import lower_bound
from ragsweep.stats.inference.estimates import LEVEL
from ragsweep.stats.inference.matrix import Matrix
from ragsweep.stats.inference.prediction_powered import Corrected
from ragsweep.stats.inference.rare_losses import largest_loss, least_gain, losses_are_seen, studentised_low
from ragsweep.stats.inference.resampling import NEGLIGIBLE, cluster_scores, cluster_sums, student_quantile

Decision = Literal["pass", "fail", "inconclusive"]

SAME = "the same scores for every question"
SKEWED = "a few questions with large differences decide the result; add questions"
FEW_DIFFER = "very few questions differ, so rare large losses may be missing from the golden set; add questions"
UNSEEN = "the candidate is worse on very few questions, so rare large losses may be missing; add questions"
UNSEEN_GAINS = "the candidate is better on very few questions, so rare large gains may be missing; add questions"
SPARSE = 30
"""Number of differing questions below which a normal approximation underestimates rare and large losses."""


@dataclass(frozen=True)
class Gate:
    """The decision of a gate, with its numbers in the metric's unit.

    ``difference`` is candidate minus baseline. ``slack`` is the distance of the candidate from the margin, positive on
    the passing side; ``low`` and ``high`` are bounds on the slack, each one-sided at ``LEVEL``. The decision is "pass"
    if the whole interval is at or above 0, "fail" if the whole interval is below 0, and "inconclusive" otherwise.
    """

    decision: Decision
    baseline: float  # mean score, or the absolute bound
    candidate: float
    difference: float
    margin: float  # in the metric's unit, even if specified as a share (except in a question-by-question check)
    slack: float
    low: float
    high: float
    questions: int
    note: str = ""

    @classmethod
    def of(cls, matrix: Matrix, decision: Decision, margin: float, ends: tuple[float, float, float], note: str) -> Gate:
        """Make a gate with the means of a matrix of two rows; ``ends`` are the slack and the ends of its interval."""
        baseline, candidate = (float(row.mean()) if len(row) else math.nan for row in matrix.values)
        return cls(decision, baseline, candidate, candidate - baseline, margin, *ends, matrix.values.shape[1], note)


def gate(matrix: Matrix, margin: float, *, relative: bool = False) -> Gate:
    """Decide whether the second row is worse than the first by more than ``margin`` (non-inferiority).

    A margin below 0 is a gain: the second row must be better by at least the size of the gain (superiority).

    Questions are paired, and clusters are kept whole; the bounds are Student's t bounds (one side of Schuirmann's test,
    1987). A relative margin is a share of the baseline's mean. Each question's slack is then candidate - (1 - margin) x
    baseline, or (1 + margin) x baseline - candidate if less is better. The slack thus includes the uncertainty of the
    baseline (Laster and Johnson, Statistics in Medicine 22, 2003).

    If fewer than 30 questions differ, each end is computed with an additional question. The slack of this question is
    the mean slack, moved towards that end by the largest observed difference (after Agresti and Min, Statistics in
    Medicine 24, 2005). If no question differs, the rule of three bounds the share of questions that might differ
    (Hanley and Lippman-Hand, JAMA 249, 1983). With n effective clusters, the bound is 1 - .05 ** (1 / n), about 3 / n.
    Each of these questions is assumed to lose or gain as much as possible. For scores between 0 and 1, a pass must
    survive an additional cluster with the largest possible loss (see ``rare_losses``), and a fail must survive one with
    the largest possible gain. If at least ten clusters clearly contradict the decision, the studentised bootstrap is
    used instead. With fewer than ten effective clusters, the gate is inconclusive.

    Raises:
        InputError: The margin is a share of a mean of 0 or less.
    """
    if not matrix.values.shape[1]:
        return undecided(matrix, math.nan if relative else margin, "no question has a score in every config")
    baseline = float(matrix.values[0].mean())
    if relative and baseline <= 0:
        share = f"{100 * margin:g}% of the baseline's mean is not a usable margin, because the mean is {baseline:g}"
        raise InputError(f"{matrix.metric}: {share}; give an absolute margin, without %")
    allowed = margin * baseline if relative else margin
    if not enough_clusters(matrix.clusters, matrix.weights):
        return undecided(matrix, allowed, FEW)
    each = _slack(matrix, margin, relative)
    slack, low, high = float(each.mean()), _end(matrix, each, -1.0), _end(matrix, each, 1.0)
    decision = decide(slack, low, high, allowed)
    apart = matrix.values[0] != matrix.values[1]
    note = "" if apart.any() else SAME
    if decision == "inconclusive" and 0 < np.count_nonzero(apart) < SPARSE:
        seen = _bound(each, matrix.clusters, matrix.weights, -1.0)
        note = FEW_DIFFER if seen >= 0 else ""
    if decision != "inconclusive" and apart.any():
        turn = 1.0 if decision == "pass" else -1.0
        least, why = _allow_for_losses(matrix, turn, each, allowed)
        low, high = (min(low, least), high) if turn > 0 else (low, max(high, -least))
        decision = decide(slack, low, high, allowed)
        note = note if decision != "inconclusive" else why
    return Gate.of(matrix, decision, allowed, (slack, low, high), note)


def sequential_gate(matrix: Matrix, margin: float, spread: float) -> Gate:
    """Decide as :func:`gate` does, for a growing set of questions that is examined repeatedly.

    Two bets are made on each cluster's differences (see ``confidence_sequence.betting``): that the candidate is not
    worse by more than ``margin``, and the opposite. Every look must keep the questions of earlier looks, and new
    questions must come with new clusters. Then the probability that a bet on a false claim reaches a capital of 20 at
    any look is at most 1 / 20, whatever looks are chosen (Ville 1939). The order of the questions does not matter.
    ``low`` and ``high`` bound the slack simultaneously at all looks. A margin below 0 is a gain to be shown.

    ``spread`` is the metric's highest value minus its lowest. The stake of a weighted question is proportional to its
    weight relative to the largest weight, which must be the same at every look.

    Raises:
        InputError: ``spread`` is not finite, is not above the size of the margin, or is below the size of a difference.
    """
    if not abs(margin) < spread or not math.isfinite(spread):
        raise InputError(
            f"{matrix.metric}: the metric's range must be finite and larger than the margin or gain"
            f" ({abs(margin):g}), got {spread:g}; correct the bounds of the metric, or omit --sequential"
        )
    if not matrix.values.shape[1]:
        return undecided(matrix, margin, "no question has a score in every config")
    differences = matrix.sign * (matrix.scores[1] - matrix.scores[0])
    if np.abs(differences).max() > spread * (1 + 1e-9):
        most = f"{matrix.metric}: differences of up to {np.abs(differences).max():g} are beyond its range, {spread:g}"
        raise InputError(f"{most}; correct the bounds of the metric, or omit --sequential")
    weights = matrix.weights_or_ones
    sums = cluster_sums(np.stack([differences, -differences]) * (weights / weights.max()), matrix.clusters)
    sizes = cluster_sums(np.stack([weights, weights]) / weights.max(), matrix.clusters)
    low, below = lower_bound(sums, sizes, LEVEL, spread, ordered=False).tolist()
    baseline, candidate = (float(row.mean()) for row in matrix.values)
    slack = matrix.sign * (candidate - baseline) + margin
    decision: Decision = "pass" if low + margin >= 0 else "fail" if -below + margin < 0 else "inconclusive"
    ends = (slack, low + margin, -below + margin)
    return Gate.of(matrix, decision, margin, ends, "" if differences.any() else SAME)


def reaches(matrix: Matrix, bound: float) -> Gate:
    """Decide whether the mean of the only row is at least as good as ``bound``.

    The interval of a share (scores of 0 and 1) is Clopper and Pearson's (Biometrika 26, 1934); see ``_share_interval``.
    The ``baseline`` of the result is ``bound``.
    """
    found = gate(beside_bound(matrix, bound), 0.0)
    if math.isnan(found.low) or not np.isin(matrix.scores, (0, 1)).all():
        return found
    ends = [end - bound for end in _share_interval(matrix)]
    low, high = ends if matrix.higher_is_better else (-ends[1], -ends[0])
    return replace(found, decision=decide(found.slack, low, high, 0.0), low=low, high=high, note="")


def _share_interval(matrix: Matrix) -> tuple[float, float]:
    """Return bounds on a share, each one-sided at ``LEVEL``.

    The effective sample size accounts for clusters and weights (Korn and Graubard, Survey Methodology 24, 1998). It is
    the number of independent questions with which the share would have this standard error or, if all scores are equal,
    the effective number of clusters.
    """
    from scipy.special import betaincinv

    data = cluster_scores(matrix.values, matrix.clusters, matrix.weights)
    share, variance, count = float(data.means[0]), float(data.errors[0]) ** 2, len(matrix.questions)
    equal = count if matrix.weights is None else effective_clusters(matrix.weights)
    if variance > 0:
        lost = student_quantile(LEVEL, count - 1) / student_quantile(LEVEL, data.degrees)
        size = min((1 + share * (1 - share) / variance) * lost**2, equal)
    else:
        size = effective_clusters(np.bincount(matrix.clusters, matrix.weights).astype(np.float64))
    hits = size * share
    low = float(betaincinv(hits, size - hits + 1, 1 - LEVEL)) if hits > NEGLIGIBLE else 0.0
    return low, float(betaincinv(hits + 1, size - hits, LEVEL)) if size - hits > NEGLIGIBLE else 1.0


def beside_bound(matrix: Matrix, bound: float) -> Matrix:
    """Return the matrix with an added first row, the baseline, that scores ``bound`` on every question."""
    fixed = bound * matrix.weights_or_ones[None, :]
    return replace(matrix, values=np.concatenate([fixed, matrix.values]), configs=("", *matrix.configs))


def decide(slack: float, low: float, high: float, margin: float) -> Decision:
    """Decide by the interval of the slack (NaN: inconclusive); an end within rounding error of 0 counts as 0."""
    near = 1e-9 * max(abs(slack), abs(margin))
    return "pass" if low >= -near else "fail" if high < -near else "inconclusive"


def correct_gate(judged: Gate, contrast: Corrected, sign: float, offset: float) -> Gate:
    """Decide by a slack that is corrected by labels, ``sign * contrast + offset``; inconclusive with too few labels.

    ``judged`` is the gate without labels. Its interval allows for rare losses, so each half of the corrected interval
    is at least as wide as the same half of the interval of ``judged``.
    """
    slack = sign * contrast.value + offset
    low, high = sorted((sign * contrast.low, sign * contrast.high))
    low = slack - max(slack - low - offset, judged.slack - judged.low)
    high = slack + max(high + offset - slack, judged.high - judged.slack)
    return replace(judged, decision=decide(slack, low, high, judged.margin), slack=slack, low=low, high=high)


def _allow_for_losses(matrix: Matrix, turn: float, slack: Doubles, margin: float) -> tuple[float, str]:
    """Return a lower bound on the slack that allows for rare losses, and the reason for this bound.

    ``turn`` is 1 for a pass, and -1 for a fail, for which the slack is negated. The mean of scores between 0 and 1 must
    survive an additional cluster that loses everything. With enough observed losses, the studentised bootstrap gives
    the bound instead. The bound is infinite (no constraint) if the mean survives that cluster, if some score is
    outside 0 to 1, or if the metric has a unit: amounts below 1, such as costs, are not bounded by 1.
    """
    scores, turned = matrix.scores, turn * slack
    if matrix.unit or scores.min() < 0 or scores.max() > 1:
        return math.inf, ""
    loss = largest_loss(scores[0], "", falls=(turn > 0) == matrix.higher_is_better) - turn * margin
    least = least_gain(turned, matrix.clusters, loss)
    if least < 0 and losses_are_seen(turned, matrix.clusters):
        return studentised_low(turned, matrix.clusters, matrix.weights), SKEWED
    return (least, UNSEEN if turn > 0 else UNSEEN_GAINS) if least < 0 else (math.inf, "")


def _end(matrix: Matrix, slack: Doubles, side: float) -> float:
    """Return one end of the interval of the mean slack: the lower for side -1, the upper for 1."""
    apart, clusters, weights = np.abs(matrix.values[1] - matrix.values[0]), matrix.clusters, matrix.weights
    if not apart.any():
        share = 1 - (1 - LEVEL) ** (1 / effective_clusters(np.bincount(clusters, weights).astype(np.float64)))
        largest = largest_loss(matrix.scores[0], matrix.unit, (side < 0) == matrix.higher_is_better)
        return float(slack.mean() + side * share * largest)
    if np.count_nonzero(apart) < SPARSE:
        slack = np.append(slack, slack.mean() + side * apart.max())
        clusters = np.append(clusters, clusters.max() + 1)
        weights = None if weights is None else np.append(weights, 1.0)
    return _bound(slack, clusters, weights, side)


def _bound(slack: Doubles, clusters: Numbers, weights: Doubles | None, side: float) -> float:
    data = cluster_scores(slack[None, :], clusters, weights)
    return float(data.means[0] + side * student_quantile(LEVEL, data.degrees) * data.errors[0])


def _slack(matrix: Matrix, margin: float, relative: bool) -> Doubles:
    """Return the slack of each question: how much better the candidate's score is than the worst passing score."""
    baseline, candidate = matrix.better
    if not relative:
        return np.asarray(candidate - baseline + (margin if matrix.weights is None else margin * matrix.weights))
    return np.asarray(candidate - baseline * (1 - matrix.sign * margin))


def undecided(matrix: Matrix, margin: float, note: str) -> Gate:
    """Return an inconclusive gate without an interval, for the reason given as its ``note``."""
    return Gate.of(matrix, "inconclusive", margin, (math.nan, math.nan, math.nan), note)
