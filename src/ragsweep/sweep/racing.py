"""The rule of a race: anytime-valid bets that identify inferior configs."""

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.errors import InputError
from ragsweep.stats.inference.confidence_sequence import (
    betting,
    cluster_differences,
    current_leaders,
    deficits,
    evidence,
    lower_bound,
)

Doubles = NDArray[np.float64]
Numbers = NDArray[np.int64]

WHERE = "hydra.sweeper.race"
"""The config key of a race."""

LARGEST = 700.0
"""Upper limit on the logarithm of reported evidence, which keeps the evidence finite."""


@dataclass(frozen=True)
class RaceDecision:
    """The state of a race after a block of questions, and the configs to drop.

    The rule bets that each config is worse than the best config. ``evidence`` maps each config that was still in the
    race to the largest capital that its bet has reached so far. At a capital of 1 / (1 - level), the config is dropped,
    unless it leads. ``deficit`` maps each config that is dropped now to a lower bound, with confidence ``level``, on
    the amount by which it is worse than the best.
    """

    leaders: tuple[str, ...]
    dropped: tuple[str, ...]
    evidence: Mapping[str, float]
    deficit: Mapping[str, float]


@dataclass(frozen=True)
class Betting:
    """A rule that drops the configs that anytime-valid bets show to be worse than the best by more than a margin.

    On each cluster of questions, the rule bets that a config scores worse, by more than the margin, than the config
    that led before this cluster. The best config is dropped with probability at most 1 - level, whatever the number of
    configs and decisions. The same limit applies to each single config within the margin of the best, but not to all of
    them jointly. Assumptions: configs are fixed before their questions are asked; the clusters of questions are a
    random sample; a config's gain does not depend on the size of a cluster; scores are bounded, with any distribution.

    Args:
        margin: A config is dropped only if it is shown to be worse than the best by more than this difference, in the
        metric's unit.
        level: Lower bound on the probability that the best config is not dropped.
        spread: The width of the metric's range.
        higher_is_better: Whether higher values of the metric are better.
    """

    margin: float = 0.0
    level: float = 0.95
    spread: float = 1.0
    higher_is_better: bool = True

    @property
    def guarantee(self) -> str:
        """The guarantee in words: an upper bound on the probability that the best config is dropped."""
        within = f", or one within {self.margin:g} of it," if self.margin else ""
        return (
            f"the best config{within} is dropped with probability at most {1 - self.level:.3g}, if its gain does"
            " not depend on the number of questions per document"
        )

    def decide(self, scores: Mapping[str, Sequence[float]], groups: Sequence[Hashable] | None = None) -> RaceDecision:
        """Decide from all scores so far which configs to drop; the same scores give the same decision.

        Args:
            scores: For every config of the race, one score per question in order, NaN if unscored. Configs that were
                dropped earlier have fewer scores; include them: on earlier questions, they may be the best.
            groups: The cluster of each question, in order; by default each question is its own cluster.

        Raises:
            InputError: Two scores of a question differ by more than ``spread``, or ``groups`` is too short.
        """
        asked = np.array([len(row) for row in scores.values()], dtype=np.int64)
        values = np.full((len(asked), asked.max(initial=0)), np.nan)  # NaN after the config is dropped
        for row, known in zip(values, scores.values(), strict=True):
            row[: len(known)] = known
        values *= 1.0 if self.higher_is_better else -1.0
        self._check_scores(values, groups)
        numbers, starts = _number_clusters(groups, values.shape[1])
        sums, sizes = cluster_differences(deficits(values, asked, starts), numbers)
        strength = evidence(self._capital(sums, sizes)).max(axis=1, initial=0.0)  # logarithms
        leaders, running = current_leaders(values, asked), asked == values.shape[1]
        out = running & ~leaders & (strength >= -math.log(1 - self.level))
        bounds = lower_bound(sums[out], sizes[out], self.level, self.spread)
        capital = np.exp(np.minimum(strength[running], LARGEST)).tolist()
        dropped = tuple(compress(scores, out))
        return RaceDecision(
            tuple(compress(scores, leaders)),
            dropped,
            dict(zip(compress(scores, running), capital, strict=True)),
            dict(zip(dropped, bounds.tolist(), strict=True)),
        )

    def _capital(self, sums: Doubles, sizes: Doubles) -> Doubles:
        return betting(sums, sizes, self.margin, self.spread)

    def _check_scores(self, values: Doubles, groups: Sequence[Hashable] | None) -> None:
        if groups is not None and len(groups) < values.shape[1]:
            fact = f"has the clusters of {len(groups)} questions, but {values.shape[1]} questions have scores"
            raise InputError(f"groups: {fact}; give the cluster of every question")
        apart = np.fmax.reduce(values, axis=0, initial=-np.inf) - np.fmin.reduce(values, axis=0, initial=np.inf)
        widest = float(apart.max(initial=0.0))
        if widest > self.spread * (1 + 1e-9):
            raise InputError(
                f"two scores of one question differ by {widest:g}, but the metric's range is only {self.spread:g} wide"
                " (spread); correct the metric's bounds, or race by another metric"
            )


def _number_clusters(groups: Sequence[Hashable] | None, questions: int) -> tuple[Numbers, Numbers]:
    """Return two arrays over the questions: the number of each question's cluster, and the cluster's first position."""
    if groups is None:
        return np.arange(questions), np.arange(questions)
    seen: dict[Hashable, int] = {}
    begins = np.array([seen.setdefault(each, place) for place, each in enumerate(groups[:questions])], np.int64)
    return np.unique(begins, return_inverse=True)[1].reshape(-1), begins
