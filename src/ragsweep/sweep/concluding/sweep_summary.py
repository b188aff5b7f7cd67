"""A sweep's results and conclusions, as data, including a search's finalists on the holdout."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from ragsweep.core.results import PARTIAL, Failure, Result, objectives, pareto_front
from ragsweep.golden.partition import is_held_back
from ragsweep.report.holdout import Gap, holdout_gap
from ragsweep.report.naming import short
from ragsweep.stats.comparable import is_complete
from ragsweep.stats.comparison import ExcludedConfig, NoComparison, SweepComparison
from ragsweep.stats.conclusion import SweepConclusion
from ragsweep.sweep.composing.job import SUFFIX

if TYPE_CHECKING:
    from ragsweep.records.ledger import Ledger
    from ragsweep.sweep.searching.study_summary import StudySummary


@dataclass(frozen=True)
class Finalists:
    """The configs that were evaluated on the holdout at the end of a search, the reference first.

    ``verdict`` compares them on the holdout, with simultaneous intervals for their leads over the reference.
    """

    results: Sequence[Result] = ()
    failures: Sequence[Failure] = ()
    tuned: Sequence[Result] = ()  # the same configs on the tune questions, in the same order
    metric: str = ""
    gap: Gap | None = None  # between the tune questions and the holdout
    verdict: SweepComparison | NoComparison | None = None  # None: there are fewer than two finalists

    @property
    def questions(self) -> int:
        """The number of questions in the holdout; 0 if no finalist has a result."""
        return self.results[0].run.dataset.questions if self.results else 0

    def named(self) -> tuple[list[Result], list[Failure]]:
        """Return the results and the failures under the names that the configs have in the search."""
        results = [result.renamed(plain_name(result.name)) for result in self.results]
        return results, [replace(failure, name=plain_name(failure.name)) for failure in self.failures]

    def compared(self) -> Iterator[tuple[Result, float, float]]:
        """Yield each finalist's holdout result, its value on the tune questions, and the gap: holdout minus tune."""
        for result, before in zip(self.results, self.tuned, strict=True):
            tune = before.summaries.metrics[self.metric].value
            yield result, tune, result.summaries.metrics[self.metric].value - tune

    def row(self, result: Result) -> int | None:
        """Return the row of a finalist in the verdict's matrix; None if the finalist could not be compared."""
        configs = self.verdict.matrix.configs if isinstance(self.verdict, SweepComparison) else ()
        return configs.index(plain_name(result.name)) if plain_name(result.name) in configs else None


def choose(
    results: Sequence[Result], verdict: SweepComparison | NoComparison | None, most: int | None = None
) -> list[Result]:
    """Choose the configs to evaluate on the holdout: the reference, the verdict's choice, the best config, and others.

    The reference, which is the first item, is the baseline if the baseline is a config of the search, else the first
    compared config. The others are configs that may be the best, the cheapest first. ``most`` is the maximum number of
    configs (None: no limit). The reference counts towards this maximum only if the reference may be the best, and at
    least one other config is always allowed. Return [] if ``most`` is 0, if nothing was compared, if the search used
    all questions, or if the golden set is too small for a holdout.
    """
    if not isinstance(verdict, SweepComparison) or most == 0:
        return []
    dataset = results[0].run.dataset
    if not is_held_back(dataset.partition, dataset.questions, dataset.left_out):
        return []
    kept, best = np.flatnonzero(verdict.may_be_best).tolist(), verdict.selection_bias.winner
    known, means = list(verdict.costs.values.values()), verdict.ranked
    by_name = {result.name: result for result in results}
    own = [row for row, name in enumerate(verdict.matrix.configs) if name in by_name]  # not a recorded baseline
    base = verdict.baseline if verdict.baseline in own else own[0]

    def price(row: int) -> tuple[float, ...]:
        return (*(math.inf if math.isnan(cost[row]) else float(cost[row]) for cost in known), -float(means[row]), row)

    first = [best] if verdict.choice.row is None else [verdict.choice.row, best]
    others = [row for row in dict.fromkeys([*first, *sorted(kept, key=price)]) if row in own and row != base]
    rows = others if most is None else others[: max(most - (base in kept), 1)]
    return [by_name[verdict.matrix.configs[row]] for row in (base, *rows)]


def plain_name(name: str) -> str:
    """Return a finalist's name in the search: ``name`` without the suffix for the holdout."""
    return name.removesuffix(SUFFIX)


def collect_finalists(outcomes: Sequence[Result | Failure], chosen: Sequence[Result], metric: str) -> Finalists:
    """Collect the holdout outcomes of the currently chosen configs; outcomes of an earlier choice are omitted.

    ``chosen`` are the configs' results on the tune questions, the reference first. The verdict is a NoComparison if any
    config has an outcome but the reference has no result. Otherwise it is None, and the caller compares the finalists.
    """
    by_name = {plain_name(outcome.name): outcome for outcome in outcomes}
    pairs = [(by_name[before.name], before) for before in chosen if before.name in by_name]
    failures = [after for after, _ in pairs if isinstance(after, Failure)]
    both = [(after, before) for after, before in pairs if isinstance(after, Result)]
    tuned = [before for _, before in both]
    found = Finalists([after for after, _ in both], failures, tuned, metric)
    if both:
        found = replace(found, gap=holdout_gap(found.named()[0], tuned, metric))
    if pairs and (not tuned or tuned[0] is not chosen[0]):
        fact = f"the reference, {short(chosen[0].name)}, was not measured on the holdout"
        found = replace(found, verdict=NoComparison(fact))
    return found


@dataclass(frozen=True)
class SweepSummary:
    """A sweep's results, its failures, and the conclusions drawn from them."""

    results: Sequence[Result]
    failures: Sequence[Failure]
    conclusion: SweepConclusion = field(default_factory=SweepConclusion)
    excluded: Sequence[ExcludedConfig] = ()  # configs that violate a constraint of the search, or are only references
    study: StudySummary | None = None  # None if the sweep is not a search, or its summary is unreadable
    jobs: Mapping[int, Result] = field(default_factory=dict)  # job index -> result
    finalists: Finalists = field(default_factory=Finalists)
    gap: Gap | None = None  # between the holdout and tune results of the same configs
    baselines: Sequence[Result] = ()  # the declared baseline, if it is not a config of the sweep
    ledger: Ledger | None = None  # contains the sweep

    @property
    def verdict(self) -> SweepComparison | NoComparison | None:
        """The comparison of the sweep's configs; None if nothing was measured, or the sweep is not yet concluded."""
        return self.conclusion.comparison

    @property
    def objectives(self) -> tuple[str, ...]:
        """The names of the objectives; () without results."""
        return objectives(self.results[0].run.config) if self.results else ()

    @property
    def minimized(self) -> set[str]:
        """The objectives that a search minimizes; the empty set for other sweeps."""
        directions = self.study.directions if self.study else ()
        return {name for name, direction in zip(self.objectives, directions, strict=False) if direction == "minimize"}

    @property
    def front(self) -> list[Result]:
        """The Pareto front of the configs that are neither excluded nor `unscored`; [] for a single objective."""
        if len(self.objectives) < 2:
            return []
        return pareto_front(without_excluded(self.allowed, self.unscored), self.objectives, self.minimized)

    @property
    def unscored(self) -> list[ExcludedConfig]:
        """The configs that are not excluded, but have too few questions with a score for one of the objectives."""
        return [
            ExcludedConfig(result.name, PARTIAL)
            for result in self.allowed
            if not all(is_complete(result, name) for name in self.objectives)
        ]

    @property
    def failed(self) -> bool:
        """Whether a config or a finalist failed, or is PARTIAL."""
        partly = any(result.run.state == PARTIAL for result in (*self.results, *self.finalists.results))
        return partly or bool(self.failures or self.finalists.failures)

    @property
    def allowed(self) -> list[Result]:
        """The results of the configs that are not excluded."""
        return without_excluded(self.results, self.excluded)


def without_excluded(results: Sequence[Result], excluded: Sequence[ExcludedConfig]) -> list[Result]:
    """Return the results of the configs that are not excluded."""
    names = {config.name for config in excluded}
    return [result for result in results if result.name not in names]
