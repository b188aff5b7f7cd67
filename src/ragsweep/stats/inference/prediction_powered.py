"""A judge's scores corrected by people's labels of some of them: means, and differences of means."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragsweep.stats.inference.cluster_errors import effective_clusters
from ragsweep.stats.inference.max_t import student_quantile
from ragsweep.stats.inference.resampling import NEGLIGIBLE, cluster_sums

Doubles = NDArray[np.float64]
Numbers = NDArray[np.int64]

FEWEST_LABELS = 10
"""From fewer labels no spread is estimated."""


class Corrected(NamedTuple):
    """A corrected mean, or difference of means, with its interval; NaN from too few labels.

    ``judged`` is what the judge's scores alone give. ``weight`` is by how much these scores count, from 0 (the labels
    alone) to 1. ``labels`` counts the labelled questions, the fewest of any row.
    """

    value: float
    low: float
    high: float
    judged: float
    weight: float
    labels: int


def prediction_powered(
    judged: Doubles, labels: Doubles, clusters: Numbers, signs: Sequence[float], level: float = 0.95,
    settled: Doubles | None = None,
) -> Corrected:  # fmt: skip
    """Correct a contrast of mean scores by labels: ``signs`` (1,) for one mean, (-1, 1) for second less first.

    Power-tuned prediction-powered inference (PPI++: Angelopoulos, Duchi and Zrnic, arXiv 2311.01453): the mean of the
    labels, moved by ``weight`` times how the judge's mean over all questions differs from its mean over the labelled
    ones. The weight minimises the estimated variance, within 0 and 1. Variances are of each question's influence,
    summed by cluster, so that rows may be labelled on the same questions or on others. The labelled questions must be
    drawn at random. Where the labels show no variation at all, the share of questions that might differ is bounded by
    the rule of three, each by the whole range of scores seen.

    Args:
        judged: The judge's scores (rows, questions).
        labels: People's, on the same scale; NaN where there is none.
        clusters: Of each question, numbered from 0.
        signs: How each row counts.
        level: Of the interval, by Student's t with as many degrees of freedom as there are labelled clusters, less one.
        settled: The contrast of each question where it is known without labels (0 where two configs gave the same
            answer), NaN elsewhere. These questions are a stratum of their own: the labels correct the others.
    """
    signed = np.asarray(signs, dtype=np.float64)[:, None]
    everything = float(signed[:, 0] @ judged.mean(axis=1)) if judged.size else math.nan
    given = np.full(judged.shape[1], np.nan) if settled is None else settled
    unsettled = np.isnan(given)
    if judged.size and not unsettled.any():
        return _known(given, clusters, level, everything)
    known = ~np.isnan(labels) & unsettled
    counts = known.sum(axis=1)
    fewest = int(counts.min())
    sizes = np.bincount(clusters[known.any(axis=0)]).astype(np.float64)
    degrees = effective_clusters(sizes[sizes > 0]) - 1
    if fewest < FEWEST_LABELS or degrees < 1:
        return Corrected(math.nan, math.nan, math.nan, everything, math.nan, fewest)
    share = known / counts[:, None]
    of_labels = (np.where(known, labels, 0.0) * share).sum(axis=1, keepdims=True)
    of_labelled = (judged * share).sum(axis=1, keepdims=True)
    of_all = judged[:, unsettled].mean(axis=1, keepdims=True)
    by_people = (signed * np.where(known, labels - of_labels, 0.0) * share).sum(axis=0)
    moved = np.where(unsettled, judged - of_all, 0.0) / np.count_nonzero(unsettled)
    by_judge = (signed * ((judged - of_labelled) * share - moved)).sum(axis=0)
    people, judge = cluster_sums(np.stack([by_people, by_judge]), clusters)
    varied = float(judge @ judge) > NEGLIGIBLE**2
    weight = min(max(float(people @ judge) / float(judge @ judge), 0.0), 1.0) if varied else 0.0
    within = float((signed * (of_labels - weight * (of_labelled - of_all))).sum())
    part, contrasts = float(unsettled.mean()), np.where(unsettled, within, given)
    value = float(contrasts.mean())
    (between,) = cluster_sums((contrasts - value)[None, :] / len(contrasts), clusters)
    variance = float(np.square(part * (people - weight * judge) + between).sum()) * (degrees + 1) / degrees
    half = student_quantile(0.5 + level / 2, degrees) * math.sqrt(variance)
    if float(people @ people) <= NEGLIGIBLE**2:
        most = np.concatenate([judged[:, unsettled].ravel(), labels[known]])
        half += part * float(np.abs(signed).sum() * np.ptp(most)) * (1 - ((1 - level) / 2) ** (1 / (degrees + 1)))
    return Corrected(value, value - half, value + half, everything, weight, fewest)


def _known(contrasts: Doubles, clusters: Numbers, level: float, everything: float) -> Corrected:
    """Return the mean of contrasts that need no labels; 0 without an interval's width where all are 0."""
    value = float(contrasts.mean())
    (sums,) = cluster_sums((contrasts - value)[None, :] / len(contrasts), clusters)
    degrees = effective_clusters(np.bincount(clusters).astype(np.float64)) - 1
    spread = math.sqrt(float(sums @ sums)) if degrees >= 1 else math.nan
    half = student_quantile(0.5 + level / 2, degrees) * spread if spread else 0.0
    return Corrected(value, value - half, value + half, everything, math.nan, 0)
