"""A sweep's results and conclusions, as data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ragsweep.core.results import DatasetFacts, Failure, Result, objectives, pareto_front
from ragsweep.stats.comparison import ExcludedConfig, NoComparison, SweepComparison
from ragsweep.stats.conclusion import SweepConclusion
from ragsweep.sweep.concluding.finalists import Finalists, choose

if TYPE_CHECKING:
    from ragsweep.report.page_texts import PastSweep
    from ragsweep.stats.holdout_gap import Gap
    from ragsweep.sweep.searching.study_summary import StudySummary


@dataclass(frozen=True)
class SweepSummary:
    """A sweep's results and conclusions."""

    results: Sequence[Result]
    failures: Sequence[Failure]
    conclusion: SweepConclusion = field(default_factory=SweepConclusion)
    excluded: Sequence[ExcludedConfig] = ()  # configs that violate a constraint of the search, or are for reference
    study: StudySummary | None = None  # None if the sweep is not a search, or its summary is unreadable
    jobs: Mapping[int, Result] = field(default_factory=dict)  # results by job index
    finalists: Finalists = field(default_factory=Finalists)
    past_sweeps: Callable[[DatasetFacts, str], list[PastSweep]] = lambda *_: []  # by questions and metric
    gap: Gap | None = None  # between the holdout and tune results of the same configs
    baselines: Sequence[Result] = ()  # the declared baseline, if it is not a config of the sweep
    ledger: Path | None = None  # the file that contains the sweep

    @property
    def chosen(self) -> str | None:
        """The name of the chosen config; None if there is no choice."""
        return self.conclusion.chosen

    @property
    def verdict(self) -> SweepComparison | NoComparison | None:
        """The comparison of the sweep's configs; None if nothing was measured, or the sweep is not yet concluded."""
        return self.conclusion.comparison

    @property
    def objectives(self) -> tuple[str, ...]:
        """The names of the objectives; empty without results."""
        return objectives(self.results[0].run.config) if self.results else ()

    @property
    def front(self) -> list[Result]:
        """The Pareto front of the configs that are not excluded; empty for a single objective."""
        if len(self.objectives) < 2:
            return []
        return pareto_front(self.allowed, self.objectives)

    @property
    def allowed(self) -> list[Result]:
        """The results of the configs that are not excluded."""
        return without_excluded(self.results, self.excluded)

    def contenders(self, most: int) -> list[Result]:
        """List the configs to evaluate on the holdout; for ``most`` see `finalists.choose`."""
        return choose(self.allowed, self.verdict, most)


def without_excluded(results: Sequence[Result], excluded: Sequence[ExcludedConfig]) -> list[Result]:
    """Return the results without those of excluded configs."""
    names = {config.name for config in excluded}
    return [result for result in results if result.name not in names]
