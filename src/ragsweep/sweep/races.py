"""The race rules that a config may name: the options of ``hydra/sweeper/race``."""

import math
from dataclasses import dataclass
from typing import ClassVar

from ragsweep.core.errors import ConfigError
from ragsweep.core.types import Metric, PartTraits
from ragsweep.sweep.racing import WHERE, Betting


@dataclass(frozen=True)
class BettingRace:
    """The rule that drops a config if anytime-valid bets show it to be worse than the best (see racing.Betting).

    Args:
        margin: A config is dropped only if it is shown to be worse than the best by more than this difference, in the
        metric's unit.
        level: Lower bound on the probability that the best config is not dropped.
        block: Number of questions between two decisions.
    """

    margin: float = 0.0
    level: float = 0.95
    block: int = 16

    TRAITS: ClassVar[PartTraits] = PartTraits(version="1")

    def betting(self, metric: Metric, heaviest: float = 1.0) -> Betting:
        """Return the rule for a metric whose scores are multiplied by the weights of their questions.

        ``heaviest`` is the largest of these weights; it multiplies the width of the metric's range. Raises ConfigError
        if the metric has no finite bounds, or if the margin or the level is invalid.
        """
        low, high = metric.bounds
        if low is None or high is None or not 0 < high - low < math.inf:
            raise ConfigError(f"{WHERE}: {metric.name} has no bounds, so it cannot be raced; choose another objective")
        if not 0 <= self.margin < high - low:
            raise ConfigError(f"{WHERE}.margin: must be at least 0 and less than {high - low:g}, got {self.margin!r}")
        if not 0 < self.level < 1:
            raise ConfigError(f"{WHERE}.level: must be above 0 and below 1, got {self.level!r}")
        return Betting(self.margin, self.level, (high - low) * heaviest, bool(metric.higher_is_better))
