"""Risk and coverage: the quality of answers when only the surest are given.

The curve of coverage and quality of El-Yaniv and Wiener 2010, "On the Foundations of Noise-free Selective
Classification". What a generator refused by itself is not known otherwise: the curve ends at its own threshold.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]


class Point(NamedTuple):
    """What would come of answering only from this support on.

    ``coverage`` is the share of all questions that would be answered. ``score_answered`` averages the score over these
    (NaN where there are none), ``score`` over all questions, a refusal counting 1 where there is no answer and 0
    elsewhere. ``hallucinated`` is the share of the unanswerable questions that would be answered (NaN without any).
    """

    threshold: float
    answered: int
    coverage: float
    score_answered: float
    score: float
    hallucinated: float


def curve(
    support: Sequence[float], scores: Sequence[float], answerable: Sequence[bool], refused: Sequence[bool]
) -> list[Point]:
    """Return the curve, from no answers to all answers of the generator.

    Questions of one support are answered together or not at all: there is one point for each support that occurs, and
    none between. Empty where no answer has a support.

    Args:
        support: The generator's confidence in each answer; NaN where it has none.
        scores: What its answers scored; NaN where that was not measured.
        answerable: Whether there is an answer.
        refused: Whether the generator declined by itself.
    """
    sure, score = np.asarray(support, dtype=np.float64), np.asarray(scores, dtype=np.float64)
    exists, declined = np.asarray(answerable, dtype=bool), np.asarray(refused, dtype=bool)
    usable = ~np.isnan(score) & (declined | ~np.isnan(sure))  # a refusal needs no support to be one
    sure, score, exists, declined = sure[usable], score[usable], exists[usable], declined[usable]
    thresholds = np.unique(sure[~declined])[::-1]
    if not len(thresholds):
        return []
    given = [np.zeros(len(sure), dtype=bool), *(~declined & (sure >= threshold) for threshold in thresholds)]
    return [_point(*one, score, exists) for one in zip([np.inf, *thresholds.tolist()], given, strict=True)]


def best(points: Sequence[Point]) -> Point:
    """Return the point with the best score over all questions; of equal ones that which answers least.

    It is the best in hindsight: on other questions the same threshold does a little worse.
    """
    return max(points, key=lambda point: (point.score, point.threshold))


def _point(threshold: float, given: NDArray[np.bool_], score: Doubles, exists: NDArray[np.bool_]) -> Point:
    answered = int(given.sum())
    return Point(
        threshold,
        answered,
        answered / len(given),
        float(score[given].mean()) if answered else float("nan"),
        float(np.where(given, score, ~exists).mean()),
        float(given[~exists].mean()) if (~exists).any() else float("nan"),
    )
