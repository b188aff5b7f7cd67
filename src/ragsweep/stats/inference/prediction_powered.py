"""Correct judged means, and differences between judged means, with human labels of some of the answers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from ragsweep.core.question_results import Doubles, Flags, Numbers
from ragsweep.stats.inference.cluster_errors import effective_clusters
from ragsweep.stats.inference.matrix import Matrix
from ragsweep.stats.inference.resampling import NEGLIGIBLE, cluster_sums, student_quantile

FEWEST_LABELS = 10
"""Minimum number of labels for an estimate of the spread."""


class Corrected(NamedTuple):
    """A corrected mean, or difference between means, with its interval; NaN with too few labels.

    ``judged`` is the estimate by the judge's scores alone. ``weight`` is the weight of these scores, from 0 (labels
    only) to 1; NaN if no question needs a label. ``labels`` is the smallest number of labels of any config.
    """

    value: float
    low: float
    high: float
    judged: float
    weight: float
    labels: int


def prediction_powered(
    matrix: Matrix, labels: Doubles, signs: Sequence[float], level: float = 0.95, settled: Doubles | None = None
) -> Corrected:
    """Correct a contrast of mean scores with labels: ``signs`` (1,) for one mean, (-1, 1) for second minus first.

    The method is power-tuned prediction-powered inference (PPI++: Angelopoulos, Duchi and Zrnic, arXiv 2311.01453). The
    estimate is the mean of the labels, plus ``weight`` times the difference between the judge's means over all
    questions and over the labelled questions. The weight, between 0 and 1, minimises the estimated variance. Variances
    are computed from each question's influence, summed by cluster, so rows may be labelled on the same or on different
    questions. The labelled questions must be drawn at random.

    For marks (labels of 0 and 1), the interval is normal, with pseudo-labels added, because a few marks may agree with
    each other, or with the judge, by chance. The number of added clusters is half the squared normal quantile (about
    two at 95 %) times the number of rows; each of them has a pseudo-label in every row. The pseudo-labels are spread
    evenly over 0 and 1, and over the judge's lowest and highest score (after Agresti and Coull, American Statistician
    52, 1998, and Agresti and Caffo, 54, 2000).

    For other labels, the interval is Student's; its degrees of freedom are the number of labelled clusters minus 1. If
    these labels do not vary at all, the rule of three bounds the share of questions that might differ. Each such
    question is assumed to differ by the whole range of scores and to have the largest weight.

    Args:
        matrix: The judge's scores.
        labels: Human labels (rows, questions), on the scale of the scores; NaN if missing.
        signs: Factor of each row in the contrast, such as -1 and 1.
        level: Level of the interval.
        settled: Scores known without labels (rows, questions), NaN elsewhere; 0 in both rows if two configs gave the
        same answer. Only the other questions are corrected by labels.
    """
    case = _Case.of(matrix, labels, np.asarray(signs, dtype=np.float64)[:, None], settled)
    everything = float(case.signs[:, 0] @ matrix.values.mean(axis=1)) if matrix.questions else math.nan
    fewest = int(case.known.sum(axis=1)[case.open.any(axis=1)].min(initial=matrix.values.shape[1]))
    if matrix.questions and not case.open.any():
        return _known(case.settled_contrasts, case, level, everything)
    if fewest < FEWEST_LABELS or case.labelled < 2:
        return Corrected(math.nan, math.nan, math.nan, everything, math.nan, fewest)
    found = _estimate(case, 0.0)
    if np.isin(labels[case.known], (0, 1)).all():
        ends = _interval_of_marks(case, level)
        low, high = min(ends[0], found.value), max(ends[1], found.value)
        return Corrected(found.value, low, high, everything, found.weight, fewest)
    half = student_quantile(0.5 + level / 2, case.labelled - 1) * found.error
    if found.is_constant:
        spread = float(np.ptp(np.concatenate([matrix.scores[case.open], labels[case.known]])))
        reach = float((np.abs(case.signs) * case.part).sum())  # the contrast's change if open questions change by 1
        half += reach * float(matrix.weights_or_ones.max()) * spread * (1 - ((1 - level) / 2) ** (1 / case.labelled))
    return Corrected(found.value, found.value - half, found.value + half, everything, found.weight, fewest)


@dataclass(frozen=True, eq=False)
class _Case:
    """Scores and labels times the weights of their questions; 0 where a label, or a settled score, is unknown."""

    judged: Doubles  # (rows, questions), as are the next four arrays
    labels: Doubles
    known: Flags
    settled: Doubles
    open: Flags
    clusters: Numbers
    signs: Doubles  # (rows, 1)

    @classmethod
    def of(cls, matrix: Matrix, labels: Doubles, signs: Doubles, settled: Doubles | None) -> _Case:
        weights = matrix.weights_or_ones
        given = np.full(matrix.values.shape, np.nan) if settled is None else settled
        unsettled = np.isnan(given)
        known = ~np.isnan(labels) & unsettled
        marks, judged = np.where(known, labels * weights, 0.0), np.where(unsettled, 0.0, given * weights)
        return cls(matrix.values, marks, known, judged, unsettled, matrix.clusters, signs)

    @property
    def labelled(self) -> float:
        """The effective number of labelled clusters."""
        sizes = np.bincount(self.clusters[self.known.any(axis=0)]).astype(np.float64)
        return effective_clusters(sizes[sizes > 0])

    @property
    def part(self) -> Doubles:
        """The share of open questions (without a settled score) per row (rows, 1)."""
        return np.asarray(self.open.mean(axis=1, keepdims=True))

    @property
    def settled_contrasts(self) -> Doubles:
        """The settled part of each question's contrast."""
        return np.asarray((self.signs * self.settled).sum(axis=0))


class _Estimate(NamedTuple):
    value: float
    error: float  # standard error
    weight: float
    is_constant: bool  # whether the labels show no variation


def _estimate(case: _Case, pseudo: float) -> _Estimate:
    """Estimate the contrast from the labels and from ``pseudo`` added clusters, each with one pseudo-label per row.

    The added clusters are spread evenly over all kinds. A kind combines, in each row, one of the two marks with the
    judge's lowest or highest score.
    """
    lowest, highest = case.judged.min(axis=1, keepdims=True), case.judged.max(axis=1, keepdims=True)
    marks, guesses = np.split(np.array(list(product((0.0, 1.0), repeat=2 * len(case.judged)))).T, 2)
    guesses = lowest + (highest - lowest) * guesses
    total = case.labelled + pseudo
    each = pseudo / marks.shape[1] / total  # the weight of each kind of pseudo-label in the mean
    share = case.known / np.maximum(case.known.sum(axis=1, keepdims=True), 1) * (case.labelled / total)
    of_labels = (case.labels * share).sum(axis=1, keepdims=True) + marks.sum(axis=1, keepdims=True) * each
    of_labelled = (case.judged * share).sum(axis=1, keepdims=True) + guesses.sum(axis=1, keepdims=True) * each
    open_share = case.open / np.maximum(case.open.sum(axis=1, keepdims=True), 1)
    of_all = (case.judged * open_share).sum(axis=1, keepdims=True)
    scale = case.signs * case.part
    by_people = (scale * (case.labels - of_labels) * share).sum(axis=0)
    by_judge = (scale * ((case.judged - of_labelled) * share - (case.judged - of_all) * open_share)).sum(axis=0)
    summed = cluster_sums(np.stack([by_people, by_judge]), case.clusters)
    added = np.stack([(scale * (marks - of_labels)).sum(axis=0), (scale * (guesses - of_labelled)).sum(axis=0)])
    people, judge = np.concatenate([summed, added * math.sqrt(each / total)], axis=1)
    varied = float(judge @ judge) > NEGLIGIBLE**2
    weight = min(max(float(people @ judge) / float(judge @ judge), 0.0), 1.0) if varied else 0.0
    within = of_labels - weight * (of_labelled - of_all)
    contrasts = case.settled_contrasts + (case.signs * within * case.open).sum(axis=0)
    value = float(contrasts.mean())
    (between,) = cluster_sums((contrasts - value)[None, :] / len(contrasts), case.clusters)
    influences = people - weight * judge
    influences[: len(between)] += between
    variance = float(np.square(influences).sum()) * total / (total - 1)
    return _Estimate(value, math.sqrt(variance), weight, float(people @ people) <= NEGLIGIBLE**2)


def _interval_of_marks(case: _Case, level: float) -> tuple[float, float]:
    """Return the interval from labels of 0 and 1 and pseudo-labels, cut to the range of possible contrasts."""
    quantile = NormalDist().inv_cdf(0.5 + level / 2)
    pseudo = quantile**2 / 2 * int(np.count_nonzero(case.part * case.signs))
    found = _estimate(case, pseudo)
    half = quantile * found.error
    lowest, highest = float(np.minimum(case.signs, 0).sum()), float(np.maximum(case.signs, 0).sum())
    return max(found.value - half, lowest), min(found.value + half, highest)


def _known(contrasts: Doubles, case: _Case, level: float, everything: float) -> Corrected:
    """Return the mean of contrasts that need no labels, with Student's interval.

    With fewer than two effective clusters, the ends are NaN; otherwise both equal the mean if all contrasts are equal.
    """
    value = float(contrasts.mean())
    (sums,) = cluster_sums((contrasts - value)[None, :] / len(contrasts), case.clusters)
    degrees = effective_clusters(np.bincount(case.clusters).astype(np.float64)) - 1
    spread = math.sqrt(float(sums @ sums)) if degrees >= 1 else math.nan
    half = student_quantile(0.5 + level / 2, degrees) * spread if spread else 0.0
    return Corrected(value, value - half, value + half, everything, math.nan, 0)
