"""Risk and coverage: the quality of the answers that remain if those with low support are withheld.

This is the risk-coverage curve of El-Yaniv and Wiener (2010, "On the Foundations of Noise-free Selective
Classification"). The answers that a generator refused to give are unknown, so the curve ends at the generator's own
threshold.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.question_results import Flags


class CoveragePoint(NamedTuple):
    """The result of giving only answers whose support is at least ``threshold``.

    ``coverage`` is the share of all questions that would be answered. ``score_answered`` is the mean score of the given
    answers (NaN if none); ``score`` is the mean over all questions, where a refusal counts 1 for an unanswerable
    question and 0 for any other. ``hallucinated`` is the share of the unanswerable questions that would be answered
    (NaN if there are none).
    """

    threshold: float
    answered: int
    coverage: float
    score_answered: float
    score: float
    hallucinated: float


def curve(
    support: Sequence[float],
    scores: Sequence[float],
    answerable: Sequence[bool],
    refused: Sequence[bool],
    weights: Sequence[float] | None = None,
) -> list[CoveragePoint]:
    """Return the curve, from no answers to all answers of the generator.

    Questions with equal support are answered together: the first point has no answers, and each distinct support, in
    descending order, adds one point. Questions without a score, and answers without support, are left out. The list
    is empty if no answer has both.

    Args:
        support: The generator's confidence in each answer; NaN if missing.
        scores: The scores of the answers; NaN where not measured.
        answerable: Whether each question can be answered.
        refused: Whether the generator itself declined each question.
        weights: Weights of the questions in shares and averages; None means equal weights.
    """
    sure, score = np.asarray(support, dtype=np.float64), np.asarray(scores, dtype=np.float64)
    exists, declined = np.asarray(answerable, dtype=bool), np.asarray(refused, dtype=bool)
    usable = ~np.isnan(score) & (declined | ~np.isnan(sure))  # a refusal needs no support
    sure, score, exists, declined = sure[usable], score[usable], exists[usable], declined[usable]
    weight = None if weights is None else np.asarray(weights, dtype=np.float64)[usable]

    def average(values: NDArray[Any], chosen: Flags) -> float:
        if not chosen.any():
            return math.nan
        return float(np.average(values[chosen], weights=None if weight is None else weight[chosen]))

    everything = np.ones(len(score), dtype=bool)
    thresholds = np.unique(sure[~declined])[::-1].tolist()
    points = []
    for threshold in [math.inf, *thresholds] if thresholds else ():
        given = ~declined & (sure >= threshold)
        answered = int(given.sum())
        points.append(
            CoveragePoint(
                threshold=threshold,
                answered=answered,
                coverage=average(given, everything),
                score_answered=average(score, given),
                score=average(np.where(given, score, ~exists), everything),
                hallucinated=average(given, ~exists),
            )
        )
    return points


def best(points: Sequence[CoveragePoint]) -> CoveragePoint:
    """Return the point with the best score over all questions; of tied points, the one with the fewest answers.

    With other questions, the score at this threshold will usually be a little worse. ``points`` must not be empty.
    """
    return max(points, key=lambda point: (point.score, point.threshold))
