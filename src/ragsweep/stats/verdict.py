"""The verdict on one config against another, which all commands, tables, pages and files share."""

import math
from typing import Literal, NamedTuple, Protocol

from ragsweep.core.question_results import Doubles
from ragsweep.stats.inference.estimates import Differences

Kind = Literal["the same", "shown better", "likely better", "equal", "open", "likely worse", "shown worse"]

THE_SAME: Kind = "the same"
SHOWN_BETTER: Kind = "shown better"
LIKELY_BETTER: Kind = "likely better"
EQUAL: Kind = "equal"
OPEN: Kind = "open"
LIKELY_WORSE: Kind = "likely worse"
SHOWN_WORSE: Kind = "shown worse"

LIKELY = 0.9
"""Posterior probability of a better true mean above which the verdict is "likely better"."""


class Beliefs(Protocol):
    """Estimates of the true means of configs: a posterior, or corrected means with their errors."""

    @property
    def means(self) -> Doubles:
        """The expected true means (configs,); higher is better."""

    def probability_better(self, row: int, other: int) -> float:
        """Return the probability that ``row`` has a better true mean than ``other``."""

    def expected_loss(self, row: int, other: int) -> float:
        """Return the expected loss of choosing ``row`` over ``other``; a gain counts as 0."""


class PairVerdict(NamedTuple):
    """The verdict on one config against another: the first of these kinds that applies.

    "the same": equal scores on every question. "shown better", "shown worse": the interval, which is simultaneous for
    all comparisons of the sweep, excludes 0, and the exact tests confirm it. "likely better", "likely worse": the
    interval excludes 0, but the exact tests do not confirm it; or the probability of a better true mean is above .9, or
    below .1. "equal": the whole interval is within the margin on both sides of 0. "open": none of these.

    ``probability`` is the probability of a better true mean, NaN with too few clusters. ``within`` is, for "equal", the
    distance of the interval's farther end from 0; NaN for other kinds.
    """

    kind: Kind
    probability: float = math.nan
    within: float = math.nan

    @property
    def is_better(self) -> bool:
        """Whether the config is shown or likely better."""
        return self.kind in (SHOWN_BETTER, LIKELY_BETTER)


def shown_kind(better: bool, worse: bool, same: bool) -> Kind:
    """Return the verdict that an interval alone implies, for example on a slice or on a leg against its hybrid."""
    return SHOWN_BETTER if better else SHOWN_WORSE if worse else THE_SAME if same else OPEN


def pair_verdict(found: Differences, row: int, beliefs: Beliefs, margin: float) -> PairVerdict:
    """Return the verdict on a row of ``found`` against its baseline; ``margin`` is in the unit of the differences."""
    if math.isnan(found.estimate[row]):  # no question has a score in both configs
        return PairVerdict(OPEN)
    if not found.apart[row]:
        return PairVerdict(THE_SAME, 0.5)
    probability = beliefs.probability_better(row, found.baseline)
    low, high = float(found.low[row]), float(found.high[row])
    within = max(abs(low), abs(high))
    if found.better[row]:
        return PairVerdict(SHOWN_BETTER, probability)
    if found.worse[row]:
        return PairVerdict(SHOWN_WORSE, probability)
    sign = 1.0 if found.higher_is_better else -1.0
    beyond = (low > 0) - (high < 0)  # nonzero if the interval excludes 0 without confirmation by the exact tests
    if probability > LIKELY or beyond * sign > 0:
        return PairVerdict(LIKELY_BETTER, probability)
    if probability < 1 - LIKELY or beyond * sign < 0:
        return PairVerdict(LIKELY_WORSE, probability)
    if within <= margin:
        return PairVerdict(EQUAL, probability, within)
    return PairVerdict(OPEN, probability)
