"""The change of a metric with a distractor in the context, on questions where only some contexts have one."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ragsweep.stats.audits import DistractorLoss
from ragsweep.stats.intervals import means_with_intervals

RATE = "distractor_rate"
FEWEST = 10
"""Minimum number of questions for a conclusion."""

Columns = Mapping[str, Sequence[Any]]
"""A table of outcomes by column (see results.Result)."""


def distractor_loss(tables: Sequence[Columns], metric: str) -> DistractorLoss | None:
    """Compare each question's scores with and without a distractor in its context.

    A question counts if some configs have one of its distractors in the context and others have none; its change is the
    difference between the means of these two groups of configs. The configs also differ in other ways, so the change
    does not prove a cause. Questions on one document count as independent. None for fewer than ten such questions.
    """
    scores: dict[str, tuple[list[float], list[float]]] = {}
    for table in tables:
        if RATE not in table or metric not in table:
            continue
        for name, rate, score in zip(table["question_id"], table[RATE], table[metric], strict=True):
            if rate is not None and score is not None and not np.isnan(rate) and not np.isnan(score):
                scores.setdefault(name, ([], []))[rate > 0].append(float(score))
    changes = [np.mean(tainted) - np.mean(clean) for clean, tainted in scores.values() if clean and tainted]
    if len(changes) < FEWEST:
        return None
    unbounded = np.array([np.nan])
    mean, low, high = means_with_intervals(np.array([changes]), unbounded, unbounded)
    return DistractorLoss(metric, len(changes), float(mean[0]), float(low[0]), float(high[0]))
