"""Checks beyond the deciding metric: refusals, longer contexts, hybrids against their legs, and distractors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ragsweep.stats.inference.cluster_errors import varying
from ragsweep.stats.inference.matrix import SOURCE, WEIGHT, number_clusters
from ragsweep.stats.intervals import means_with_intervals

FEWEST = 3
"""Minimum of ``losses`` minus ``wins`` for a leg's lead to count as large (see ``LegComparison.notable``)."""
LEAST = 0.1
"""Minimum difference between means for a leg's lead to count as large.

A lead by a factor of 2 is notable only if the larger of the two means is at least this value.
"""


@dataclass(frozen=True)
class LegComparison:
    """A hybrid retriever compared with one of its legs (the combined retrievers), on all questions or on one slice.

    ``difference`` is hybrid minus leg, in the metric's unit and direction; ``low`` and ``high`` are the ends of a
    simultaneous interval (NaN if unknown). ``p_holm`` is the p-value of the randomisation test, corrected over all legs
    (and slices) by Holm's method. ``worse`` and ``better`` are true if the hybrid is significantly worse or
    significantly better. ``wins`` and ``losses`` count the questions on which the hybrid scores better and those on
    which it scores worse.
    """

    leg: str
    questions: int
    hybrid: float  # mean
    alone: float  # mean of the leg
    difference: float
    low: float
    high: float
    p_holm: float
    worse: bool
    better: bool
    wins: int
    losses: int
    label: str  # label of the slice; "" for all questions
    value: str  # value of this label; "" for all questions
    small: bool  # whether the slice has fewer than 20 questions
    higher_is_better: bool

    @property
    def lead(self) -> float:
        """The amount by which the leg's mean is better than the hybrid's; negative if the leg's mean is worse."""
        return -self.difference if self.higher_is_better else self.difference

    @property
    def notable(self) -> bool:
        """Whether the leg's lead is significant, large (see ``FEWEST`` and ``LEAST``), or by a factor of 2."""
        large = self.lead >= LEAST and self.losses - self.wins >= FEWEST
        less, more = sorted((abs(self.hybrid), abs(self.alone)))
        return self.worse or large or (self.lead > 0 and more >= LEAST and less <= more / 2)


@dataclass(frozen=True)
class UniqueRecall:
    """The evidence that only one leg has among its first ``top_k`` chunks, and the part that the hybrid keeps."""

    leg: str
    evidences: int  # number of pieces
    share: float  # share of all pieces
    kept: int  # number of these pieces among the first ``top_k`` chunks of the fused ranking


@dataclass(frozen=True)
class FusionAudit:
    """A hybrid compared with its legs by one metric, as plain data (``dataclasses.asdict`` gives JSON types).

    ``oracle`` is the mean that would result if the best leg were chosen for each question. A hybrid may exceed
    ``oracle``, because a fused ranking may be better than the rankings of all legs. ``by_question`` maps each scored
    question to the scores of the hybrid (key "") and of its legs.
    """

    config: str
    metric: str
    top_k: int
    questions: int
    hybrid: float
    legs: Mapping[str, float]
    best_leg: str
    oracle: float
    headroom: float  # oracle minus hybrid, positive if the oracle is better
    differences: tuple[LegComparison, ...]  # one per leg, on all questions
    slices: tuple[LegComparison, ...]
    unique: tuple[UniqueRecall, ...]
    by_question: Mapping[str, Mapping[str, float]]

    @property
    def lost_slices(self) -> list[LegComparison]:
        """Slices where a leg's mean beats the hybrid's: significant ones first, then by decreasing total loss."""
        found = [one for one in self.slices if one.lead > 0]
        return sorted(found, key=lambda one: (not one.worse, -one.lead * one.questions))


@dataclass(frozen=True)
class BetterLeg:
    """A leg that has a better mean than its hybrid in one metric.

    ``difference`` is leg minus hybrid; ``low`` and ``high`` are the ends of an interval that is simultaneous over all
    legs (NaN if unknown). ``overrides`` run the leg as the only retriever, without a reranker.
    """

    leg: str
    metric: str
    questions: int
    alone: float  # mean of the leg
    hybrid: float
    difference: float
    low: float
    high: float
    overrides: tuple[str, ...]

    @property
    def shown(self) -> bool:
        """Whether the leg's lead is significant, that is, whether the interval excludes 0."""
        return self.low > 0 or self.high < 0


class DegradedSlices(NamedTuple):
    """The slices where a leg alone is notably better than its hybrid: the worst, then up to two significant ones."""

    config: str
    metric: str
    slices: Sequence[LegComparison]


@dataclass(frozen=True)
class LongerContext:
    """The mean context tokens of two configs, and the differing keys that may explain the longer context.

    ``equal`` has overrides that give both configs contexts of about the same length; it is empty if such contexts would
    need more chunks than the config key ``depth`` allows.
    """

    tokens_before: float
    tokens_after: float
    keys: tuple[str, ...]
    equal: tuple[str, ...]


class DistractorLoss(NamedTuple):
    """A metric's mean with a distractor in the context minus its mean without one, and the 95 % interval."""

    metric: str
    questions: int
    change: float
    low: float
    high: float


class Audits(NamedTuple):
    """Checks beyond the deciding metric, mostly of the choice; rows refer to ``SweepConclusion.deciding``."""

    refusing: Mapping[int, int] = {}  # row that refuses all answerable questions -> number of these questions
    worse: tuple[str, int] | None = None  # a metric, and the row of the choice (shown worse) or of a better config
    longer: tuple[int, LongerContext] | None = None  # a row with a shorter context than the choice
    leg: BetterLeg | None = None  # a leg that is better than the whole choice
    slices: DegradedSlices | None = None  # where a leg is better than the choice, or than the best config
    distractors: DistractorLoss | None = None  # None if its interval contains 0


RATE = "distractor_rate"
FEWEST_CHANGES = 10
"""Minimum number of questions for ``distractor_loss`` to return a result."""


def distractor_loss(tables: Sequence[Mapping[str, Sequence[Any]]], metric: str) -> DistractorLoss | None:
    """Compare each question's scores with and without a distractor in its context.

    ``tables`` has the columns of each config's results. A question counts if some configs have one of its distractors
    in the context and others have none; its change is the difference between the means of these two groups of configs.
    The configs also differ in other ways, so the change does not prove a cause. Each change has its question's weight
    and cluster. Return None if fewer than ten questions count.
    """
    weights: dict[str, float] = {}
    sources: dict[str, str] = {}
    scores: dict[str, tuple[list[float], list[float]]] = {}
    for table in tables:
        if RATE not in table or metric not in table:
            continue
        weights |= zip(table["question_id"], table.get(WEIGHT) or [1.0] * len(table["question_id"]), strict=True)
        sources |= zip(table["question_id"], table.get(SOURCE) or table["question_id"], strict=True)
        for name, rate, score in zip(table["question_id"], table[RATE], table[metric], strict=True):
            if rate is not None and score is not None and not np.isnan(rate) and not np.isnan(score):
                scores.setdefault(name, ([], []))[rate > 0].append(float(score))
    scores = {name: groups for name, groups in scores.items() if all(groups)}
    changes = [np.mean(tainted) - np.mean(clean) for clean, tainted in scores.values()]
    if len(changes) < FEWEST_CHANGES:
        return None
    unbounded = np.array([np.nan])
    weighted = varying(np.array([weights[name] for name in scores], dtype=np.float64))
    clusters = number_clusters(np.array([sources[name] for name in scores], dtype=np.str_))
    mean, low, high = means_with_intervals(np.array([changes]), unbounded, unbounded, weighted, clusters)
    return DistractorLoss(metric, len(changes), float(mean[0]), float(low[0]), float(high[0]))
