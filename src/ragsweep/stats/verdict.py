"""The verdict on a pair of configs: the one function that every command, table, page and file takes it from."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import numpy as np

from ragsweep.stats.inference.differences import Differences
from ragsweep.stats.inference.shrinkage import Posterior

Kind = Literal["the same", "shown better", "likely better", "equal", "open", "likely worse", "shown worse"]

THE_SAME: Kind = "the same"
SHOWN_BETTER: Kind = "shown better"
LIKELY_BETTER: Kind = "likely better"
EQUAL: Kind = "equal"
OPEN: Kind = "open"
LIKELY_WORSE: Kind = "likely worse"
SHOWN_WORSE: Kind = "shown worse"

LIKELY = 0.9
"""Posterior probability of a better true mean from which on a config is called likely better."""


class PairVerdict(NamedTuple):
    """How a config compares with another.

    "the same": equal scores on every question. "shown better", "shown worse": the interval, which holds for all
    comparisons of the sweep together, excludes 0, and the exact tests agree. "likely better", "likely worse": the
    probability of a better true mean is above .9, or below .1. "equal": the interval lies within the margin, that is
    ``within``. Else "open". ``probability`` is NaN where there are too few clusters.
    """

    kind: Kind
    probability: float = math.nan
    within: float = math.nan

    @property
    def is_better(self) -> bool:
        """Whether the config is shown or likely better."""
        return self.kind in (SHOWN_BETTER, LIKELY_BETTER)

    @property
    def is_worse(self) -> bool:
        """Whether the config is shown or likely worse."""
        return self.kind in (SHOWN_WORSE, LIKELY_WORSE)


def pair_verdict(found: Differences, row: int, posterior: Posterior | None, margin: float) -> PairVerdict:
    """Return the verdict on a row of ``found`` against its baseline; ``margin`` in the unit of the differences."""
    if not found.apart[row]:
        return PairVerdict(THE_SAME, 0.5)
    probability = math.nan if posterior is None else posterior.probability_better(row, found.baseline)
    low, high = float(found.low[row]), float(found.high[row])
    within = max(abs(low), abs(high))
    if found.better[row]:
        return PairVerdict(SHOWN_BETTER, probability)
    if found.worse[row]:
        return PairVerdict(SHOWN_WORSE, probability)
    if probability > LIKELY:
        return PairVerdict(LIKELY_BETTER, probability)
    if probability < 1 - LIKELY:
        return PairVerdict(LIKELY_WORSE, probability)
    if within <= margin:
        return PairVerdict(EQUAL, probability, within)
    return PairVerdict(OPEN, probability)


def count_kinds(verdicts: list[PairVerdict]) -> dict[Kind, int]:
    """Count verdicts by kind."""
    kinds, counts = np.unique([one.kind for one in verdicts], return_counts=True)
    return dict(zip(kinds.tolist(), counts.tolist(), strict=True))
