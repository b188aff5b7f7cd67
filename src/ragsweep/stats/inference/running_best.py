"""The running leader, comparator of the sequential test."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]
Numbers = NDArray[np.int64]
Flags = NDArray[np.bool_]

UNKNOWN = -1e300
"""The mean of a config that nothing is known of yet: it leads only where nothing is known of any."""
TIE = 1e-9
"""Means nearer than this part of the largest score tie."""


def deficits(better: Doubles, asked: Numbers, starts: Numbers) -> Doubles:
    """Return how far each config lies behind the leader, question by question: (configs, questions).

    The leader of a question is the config with the highest mean over the questions before its cluster, among the
    others that are asked this question; those that tie lead together, with the mean of their scores, and at first all
    do. So who leads is known before the question is asked, and for the best config of all the expected difference is
    at most 0 whoever leads: one capital on these differences needs no correction for the number of rivals. NaN where
    a score is missing, a config is not asked any more, or no other one is.

    Args:
        better: Scores (configs, questions) of which more is better, in the order of asking; NaN where there is none.
        asked: How many questions each config was asked; a config that was dropped was asked fewer.
        starts: The place of the first question of each question's cluster.
    """
    means = _means(better)[:, starts]
    means[np.arange(better.shape[1]) >= asked[:, None]] = -np.inf
    near = _near(better)
    first = _highest(means, near)
    second = _highest(np.where(first, -np.inf, means), near)
    leaders, total = first.sum(axis=0), np.where(first, better, 0.0).sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        second_mean = np.where(second, better, 0.0).sum(axis=0) / second.sum(axis=0)
        others = np.where(leaders > 1, (total - better) / (leaders - 1), second_mean)
        return np.asarray(np.where(first, others, total / leaders) - better)


def leading(better: Doubles, asked: Numbers) -> Flags:
    """Return the current leaders: the highest mean among configs with all questions, several where tied."""
    means = _means(better)[:, -1:]
    means[asked < better.shape[1]] = -np.inf
    return _highest(means, _near(better))[:, 0]


def _near(better: Doubles) -> float:
    return TIE * float(np.fmax.reduce(np.abs(better), axis=None, initial=0.0))


def _means(better: Doubles) -> Doubles:
    """Return the means over the scores before each question, and at last over all: (configs, questions + 1)."""
    known = ~np.isnan(better)
    empty = np.zeros((len(better), 1))
    counts = np.concatenate([empty, known.cumsum(axis=1)], axis=1)
    sums = np.concatenate([empty, np.where(known, better, 0.0).cumsum(axis=1)], axis=1)
    return np.where(counts > 0, sums / np.maximum(counts, 1), UNKNOWN)


def _highest(means: Doubles, near: float) -> Flags:
    """Mark the highest of each column, with those that tie; none where none is asked."""
    return np.asarray((means >= means.max(axis=0, initial=-np.inf) - near) & (means > -np.inf))
