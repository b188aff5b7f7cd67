"""Scores that are missing because of the config, not the question: they are replaced by the worst score.

Otherwise a config could improve its mean by declining the questions that it would get wrong.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.missing import ABSTAINED, NOTHING_SAID, UNDEFINED
from ragsweep.core.results import Result, Summary

Doubles = NDArray[np.float64]
Flags = NDArray[np.bool_]

OWN_REASONS = UNDEFINED | {ABSTAINED, NOTHING_SAID}
"""Reasons for a missing score that lie with the config: it declined to answer, or gave nothing to measure."""


def worst_score(summary: Summary, scores: Doubles) -> float:
    """Return the worst score of a metric without a unit whose known scores are within 0 and 1; NaN for others."""
    known = scores[~np.isnan(scores)]
    if summary.unit or not known.size or known.min() < 0 or known.max() > 1:
        return math.nan
    return 0.0 if summary.higher_is_better else 1.0


def missing_reason(result: Result, place: int, metric: str) -> str:
    """Return the reason why a question (by its row in the table of outcomes) has no score; "" if none is recorded."""
    unscored = result.outcomes.unscored
    return unscored[place].get(metric, "") if unscored else ""


def is_declined_rightly(result: Result, place: int) -> bool:
    """Return whether a question is unanswerable, so that declining is the right answer."""
    column = result.outcomes.get("answerable")
    return column is not None and not column[place]


def fill_declined(results: Sequence[Result], metric: str, ids: Sequence[str], scores: Doubles) -> Flags:
    """Fill in worst scores for missing ones with a reason in ``OWN_REASONS``; return where (configs, questions).

    Only where another config has a score, so that the metric applies to the question; for a single config wherever it
    has such a reason. Unanswerable questions, and metrics without a worst score, are left as they are.

    Args:
        results: The configs.
        metric: Its name.
        ids: The questions.
        scores: Of the metric (configs, questions), NaN where there is none; changed in place.
    """
    known, declined = ~np.isnan(scores), np.zeros(scores.shape, dtype=bool)
    worst = worst_score(results[0].summaries[metric], scores) if results else math.nan
    lacking = ~known & (known.any(axis=0) if len(results) > 1 else True)
    if math.isnan(worst):
        return declined
    for row in np.flatnonzero(lacking.any(axis=1)).tolist():
        places = {name: n for n, name in enumerate(results[row].outcomes["question_id"])}
        for n in np.flatnonzero(lacking[row]).tolist():
            place = places.get(ids[n])
            declined[row, n] = (
                place is not None
                and missing_reason(results[row], place, metric) in OWN_REASONS
                and not is_declined_rightly(results[row], place)
            )
    scores[declined] = worst
    return declined
