"""Data classes for the results of tests and estimates; each array has one number per config."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ragsweep.core.question_results import Doubles, Flags, Numbers

TOO_SHORT = "may be too short: rare losses"
SURE = 0.05
"""The randomisation test confirms the interval of a slice if its corrected p-value is below this value."""
POWER = 0.8
LEVEL = 0.95


@dataclass(frozen=True, eq=False)
class Differences:
    """The differences of configs from the baseline: one number per config, in the metric's unit and direction.

    If less is better, a negative ``estimate`` is a gain; ``better`` and ``worse`` take the direction into account.
    ``low`` and ``high`` are the ends of intervals that hold simultaneously for all configs at ``LEVEL``.
    ``standard_error`` is the clustered standard error of each difference. ``effect`` is Cohen's d_z (1988): the
    weighted mean difference, divided by the weighted standard deviation of the differences. ``apart`` counts the
    questions whose scores differ. An unknown number is NaN, and ``notes`` has the reason.

    With ``ratios``, the scores are logarithms: exp(``estimate``) is the typical ratio to the baseline.
    """

    baseline: int
    estimate: Doubles
    low: Doubles
    high: Doubles
    standard_error: Doubles
    wilcoxon: Doubles  # two-sided p-values
    randomisation: Doubles
    wilcoxon_holm: Doubles
    randomisation_holm: Doubles
    effect: Doubles
    apart: Numbers
    notes: tuple[str, ...]
    variants: tuple[str, ...]  # variant of Wilcoxon's test: "exact", "normal", "none"
    critical: float  # half-width of each interval in standard errors
    degrees: float  # degrees of freedom of the differences' t statistics
    largest: float  # quantile of the largest resampled deviation, from which ``critical`` is computed
    higher_is_better: bool = True
    ratios: bool = False
    by_labels: bool = False  # corrected by human labels: tests of judged scores are ignored

    @property
    def better(self) -> Flags:
        """The configs whose whole interval is on the better side of 0, if the exact tests confirm it."""
        return self.confirmed & (self.low > 0 if self.higher_is_better else self.high < 0)

    @property
    def worse(self) -> Flags:
        """The configs whose whole interval is on the worse side of 0, if the exact tests confirm it."""
        return self.confirmed & (self.high < 0 if self.higher_is_better else self.low > 0)

    @property
    def confirmed(self) -> Flags:
        """The configs whose difference is confirmed by the exact tests; all configs if corrected ``by_labels``.

        The tests are the randomisation test and, with at most 25 differing questions, Wilcoxon's. With so few differing
        questions, the interval is an approximation: it may exclude 0 although random signs would often give an equally
        large difference.
        """
        if self.by_labels:
            return np.ones(len(self.estimate), dtype=bool)
        exact = np.array([variant == "exact" for variant in self.variants], dtype=bool)
        return np.asarray((self.randomisation < 1 - LEVEL) & (~exact | (self.wilcoxon < 1 - LEVEL)))

    def interval(self, row: int) -> tuple[float, float, float]:
        """Return the estimate of one config, and the ends of its interval."""
        return float(self.estimate[row]), float(self.low[row]), float(self.high[row])


class AllPairs(NamedTuple):
    """The simultaneous comparison of all pairs of configs.

    ``largest`` is the quantile, at the level of the comparison, of the largest resampled deviation of any pair, in
    standard errors; ``as_student`` corrects it for the estimation of these errors. ``may_be_best`` flags the configs
    that no other config is shown to beat; with a confidence of this level, the best config is among them.
    """

    largest: float
    may_be_best: Flags


@dataclass(frozen=True, eq=False)
class Power:
    """The smallest detectable difference of the configs from the baseline, in the metric's unit.

    ``spread`` is the standard deviation of each config's paired differences per question, including clustering: the
    standard error times the square root of the number of questions. ``typical`` is the true difference that is detected
    with the probability ``POWER``, two-sided at 1 - ``level``, for the median spread of the configs that differ from
    the baseline; ``alone`` is the same number for a comparison of only two configs. All are NaN, with the reason in
    ``note``, if there are fewer than ten effective clusters or if no difference varies. ``spread`` is NaN for a config
    whose difference does not vary. ``typical`` or ``alone`` is NaN if no simulated gain is shown often enough.
    """

    spread: Doubles
    typical: float
    alone: float
    questions: int
    clusters: int
    level: float = LEVEL
    note: str = ""


@dataclass(frozen=True, eq=False)
class Slice:
    """Each config's difference from the baseline in one slice: the questions with one value of a label.

    Differences are in the metric's unit and direction. Intervals hold simultaneously for all configs and slices; their
    ends are NaN with fewer than ten effective clusters. ``p`` has randomisation p-values; ``p_holm`` has the same
    p-values, corrected over all configs and slices. For ``exposed`` configs, a loss (of a worse config: a gain)
    too rare to have been observed could reverse the result, so neither ``better`` nor ``worse`` is true.
    """

    label: str
    value: str
    questions: int
    small: bool  # whether the slice has fewer than 20 questions
    estimate: Doubles
    low: Doubles
    high: Doubles
    p: Doubles
    p_holm: Doubles
    exposed: Flags
    higher_is_better: bool = True

    @property
    def better(self) -> Flags:
        """The configs better than the baseline in this slice, after correction over all configs and slices."""
        return self._sure(1.0) & ~self.exposed

    @property
    def worse(self) -> Flags:
        """The configs worse than the baseline in this slice, after correction over all configs and slices."""
        return self.seems_worse & ~self.exposed

    @property
    def seems_worse(self) -> Flags:
        """The configs that seem worse, including ``exposed`` ones; usable only as a warning."""
        return self._sure(-1.0)

    def interval(self, row: int) -> tuple[float, float, float]:
        """Return the estimate of one config, and the ends of its interval."""
        return float(self.estimate[row]), float(self.low[row]), float(self.high[row])

    def doubt(self, row: int) -> str:
        """Return ``TOO_SHORT`` if a loss too rare to have been observed could reverse the result; else ""."""
        return TOO_SHORT if self.exposed[row] else ""

    def _sure(self, side: float) -> Flags:
        turned = side if self.higher_is_better else -side
        low, high = (self.low, self.high) if turned > 0 else (-self.high, -self.low)
        return np.where(np.isnan(low), False, low > 0) & (high > 0) & (self.p_holm < SURE)


class Reversal(NamedTuple):
    """A config (a row number) that is better than the baseline on average but seems worse in one slice.

    ``exposed`` is true if a gain too rare to have been observed could reverse the loss in the slice.
    """

    config: int
    label: str
    value: str
    small: bool  # whether the slice has fewer than 20 questions
    exposed: bool = False


@dataclass(frozen=True, eq=False)
class Part:
    """The comparison of configs on some of the questions.

    In a part that is one cluster, each question is its own cluster: the intervals generalise to other questions on
    that document, not to other documents. The ends of the intervals are NaN with too few questions.
    """

    questions: tuple[str, ...]  # question ids
    share: float  # share of all questions, by weight
    differences: Differences


@dataclass(frozen=True, eq=False)
class Concentration:
    """The comparison on each dominating cluster, largest first, and on the rest, which has enough clusters.

    The intervals of one part hold simultaneously at their level; the intervals of all parts hold simultaneously with a
    lower probability. The difference over all questions is the mean of the parts' differences, weighted by their
    shares.
    """

    dominating: tuple[Part, ...]
    rest: Part


@dataclass(frozen=True)
class RareLosses:
    """How one config's lead over another would be affected by large losses on a few questions.

    ``survives`` is true if losses are impossible, or if the lead withstands one additional cluster that loses
    everything. If enough losses were observed, the studentised bootstrap must exclude a mean gain of 0 instead; if the
    clusters do not vary, the mean gain must be positive. ``size`` is the largest possible loss of one question, in the
    metric's unit. ``seen`` is the number of clusters whose mean loss was at least half of ``size``; ``share`` is the
    upper bound on the share of such clusters, one-sided at ``LEVEL``. ``questions`` is the effective number of
    clusters.
    """

    survives: bool
    size: float
    share: float
    seen: int
    questions: int
