"""The noise of a judged metric: differences between two judgements of one config."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ragsweep.stats.statistics.calibration import Z


class Noise(NamedTuple):
    """How two judgings of the same questions differ. Without two questions that both judged, all but ``n`` is NaN."""

    n: int  # questions that both judged
    mean_difference: float
    spread: float  # standard deviation of the differences a question: the noise floor
    of_one: float  # of one verdict: spread / sqrt(2)
    of_the_mean: float  # how far two means of n questions differ by chance, in 95 of 100 cases
    changed: float  # share of questions whose score is another


def noise(first: Sequence[float], second: Sequence[float]) -> Noise:
    """Measure the noise between two judgings, question by question; NaN scores are left out, and counted by ``n``."""
    one, other = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    differences = (other - one)[~(np.isnan(one) | np.isnan(other))]
    n = len(differences)
    if n < 2:
        return Noise(n, *[math.nan] * 5)
    spread = float(differences.std(ddof=1))
    return Noise(
        n,
        float(differences.mean()),
        spread,
        spread / math.sqrt(2),
        Z * spread / math.sqrt(n),
        float((differences != 0).mean()),
    )
