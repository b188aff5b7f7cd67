"""The comparison of a sweep's configs, as data.

``compare_configs`` creates the comparison; the modules in ``report`` turn it into text, tables and charts.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ragsweep.core.question_results import Doubles, Flags
from ragsweep.core.results import Result
from ragsweep.stats.inference.best import SelectionBias
from ragsweep.stats.inference.estimates import AllPairs, Concentration, Differences, Power, Reversal, Slice
from ragsweep.stats.inference.matrix import Matrix
from ragsweep.stats.repetition import VarianceShares
from ragsweep.stats.verdict import LIKELY, Beliefs, PairVerdict, pair_verdict

if TYPE_CHECKING:
    from ragsweep.stats.choice import Choice, ConfigCosts

FIELD_OF_CASE = "ragsweep.parts.generators.Baseline"
"""The class path, as in configs, of the generator that returns fields of a case as its answer."""


class ExcludedConfig(NamedTuple):
    """A config that is excluded from the comparison, and the reason."""

    name: str
    why: str


def count_reasons(excluded: Iterable[ExcludedConfig]) -> str:
    """Return the number of configs excluded for each reason: ``5 excluded by context_tokens <= 20; 1 failed``."""
    return "; ".join(f"{count} {why}" for why, count in Counter(config.why for config in excluded).items())


def list_references(results: Sequence[Result]) -> list[ExcludedConfig]:
    """List the configs that are shown only for reference (see ``is_reference``); [] if no other configs remain."""
    found = [one.name for one in results if is_reference(one)]
    return [ExcludedConfig(name, "for reference") for name in found if len(found) < len(results)]


def is_reference(result: Result) -> bool:
    """Return whether a config only returns fields of each case as its answers (see ``FIELD_OF_CASE``)."""
    return (result.run.config.get("llm") or {}).get("_target_") == FIELD_OF_CASE


class NoComparison(NamedTuple):
    """The reason why a sweep has no comparison."""

    why: str


@dataclass(frozen=True, eq=False)
class Correction:
    """The correction of one metric by human labels: the corrected means, and the differences before the correction."""

    means: Doubles
    judged: Differences
    labels: int  # smallest number of labels of any config
    note: str  # why labels are unused, and ``MARKS`` if it applies; "" if neither


@dataclass(frozen=True, eq=False)
class SweepComparison:
    """The comparison of a sweep. Rows of arrays (except in ``slices``) are the configs of ``matrix``, in sweep order.

    Differences, slices and reversals refer to the row ``reference``: the declared ``baseline`` or, without one, by
    default the choice.
    """

    matrix: Matrix
    compared: Matrix  # the compared scores: logarithms if ratios are compared, else the matrix itself
    objective: str  # the configured objective; if it is not comparable, the matrix has another metric
    unit: str
    baseline: int | None  # the declared baseline; None if there is none or it is not comparable
    reference: int
    beliefs: Beliefs
    choice: Choice
    differences: Differences
    pairs: AllPairs
    selection_bias: SelectionBias
    power: Power
    margin: float
    results: Sequence[Result]
    costs: ConfigCosts
    sliced: tuple[int, ...]  # the configs compared by slice, the reference first
    slices: tuple[Slice, ...]  # each with one row per config of `sliced`
    reversals: tuple[Reversal, ...]  # configs (rows of `matrix`) that are better on average but worse in a slice
    rises_with: tuple[str, ...]  # keys that lengthen the choice's context, if this lowers no score
    others: Mapping[str, tuple[Matrix, Differences]]  # by metric, without the deciding metric
    skipped: Mapping[str, str]  # metric -> why it is not compared
    left_out: tuple[ExcludedConfig, ...]
    declared: str | None  # the name of the declared baseline, even if it is left out
    concentration: Concentration | None  # None unless a few documents or questions dominate
    variance: Mapping[int, VarianceShares]  # by row; empty if nothing is repeated
    adaptive: bool = False  # whether a search chose configs by earlier scores (the bias is a lower bound)
    corrections: Mapping[str, Correction] = field(default_factory=dict)  # by metric with human labels
    uncorrected: Mapping[str, str] = field(default_factory=dict)  # labelled metric -> why it is not corrected

    @property
    def metric(self) -> str:
        """The deciding metric: the one by which a config is chosen."""
        return self.matrix.metric

    @property
    def chosen(self) -> Result | None:
        """The chosen config; None if no config is within the limits."""
        return None if self.choice.row is None else self.results[self.choice.row]

    @property
    def may_be_best(self) -> Flags:
        """Flags (configs,) that mark the configs that may be the best: those not shown to be worse than another.

        A config can be excluded by the comparison of all pairs or by the comparison with the reference. The best config
        is flagged with 95 % confidence: the error probabilities of the two comparisons add up to at most 5 %.
        """
        mask = self.pairs.may_be_best & ~self.differences.worse
        if self.differences.better.any():
            mask &= self.differences.apart > 0  # excludes the reference and configs with equal scores
        return np.asarray(mask)

    @cached_property
    def verdicts(self) -> list[PairVerdict]:
        """The verdict on every config against the reference."""
        return [pair_verdict(self.differences, row, self.beliefs, self.margin) for row in range(len(self.results))]

    @property
    def is_better(self) -> bool:
        """Whether the choice is likely better than the declared baseline and its lead would survive rare losses.

        An interval alone is not enough: only the posterior allows for skewed differences. The result is False if no
        baseline is declared.
        """
        row, losses = self.choice.row, self.choice.losses
        if self.baseline is None or row is None:
            return False
        return self.verdicts[row].probability > LIKELY and (losses is None or losses.survives)

    @property
    def means(self) -> Doubles:
        """The configs' means over the questions with a score in every config, corrected if there are labels."""
        found = self.corrections.get(self.metric)
        return np.asarray(self.matrix.values.mean(axis=1)) if found is None else found.means

    @property
    def ranked(self) -> Doubles:
        """The values that rank configs (higher is better): corrected means if any, else means of compared scores."""
        if self.metric not in self.corrections:
            return np.asarray(self.compared.better.mean(axis=1))
        return self.matrix.sign * self.means


def best_first(verdict: SweepComparison, rows: Iterable[int]) -> list[int]:
    """Sort rows by their means, with the best row first."""
    return sorted(rows, key=lambda row: (-verdict.ranked[row], row))


def plain_size(verdict: SweepComparison, value: float) -> float:
    """Return a difference in the metric's unit; for ratios, convert the logarithm of a ratio to ratio - 1."""
    return math.expm1(value) if verdict.differences.ratios else value


def plain_lead(verdict: SweepComparison, value: float) -> float:
    """Return a lead (a deficit if negative) in the metric's unit or, for ratios, as a share of the rival's mean.

    If less is better, a lead is a reduction, so its share is below 1.
    """
    return verdict.matrix.sign * plain_size(verdict, verdict.matrix.sign * value)
