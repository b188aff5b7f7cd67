"""A sweep's results and what it shows, as the content of its documents."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import starmap
from typing import TYPE_CHECKING

from ragsweep.core.results import DatasetFacts, Failure, Result, objectives, pareto_front
from ragsweep.report.document import Statement
from ragsweep.report.front import front_lines
from ragsweep.report.holdout import gap_line
from ragsweep.report.page_texts import PageTexts
from ragsweep.report.race import race_lines
from ragsweep.report.result_blocks import failure_lines
from ragsweep.report.sweep_document import sweep_document
from ragsweep.report.sweep_report import SweepReport
from ragsweep.report.terminal import Terminal
from ragsweep.report.writers.terminal import show
from ragsweep.stats.comparison import ExcludedConfig, NoComparison, SweepComparison
from ragsweep.stats.conclusion import SweepConclusion, compared_first
from ragsweep.sweep.concluding.finalists import Finalists, choose

if TYPE_CHECKING:
    from ragsweep.report.page_texts import PastSweep
    from ragsweep.stats.holdout_gap import Gap
    from ragsweep.sweep.concluding.study_summary import StudySummary


@dataclass(frozen=True)
class SweepSummary:
    """A sweep's results, and what it shows."""

    results: Sequence[Result]
    failures: Sequence[Failure]
    conclusion: SweepConclusion = field(default_factory=SweepConclusion)
    excluded: Sequence[ExcludedConfig] = ()  # configs that violate a constraint of the search
    study: StudySummary | None = None  # of a search
    jobs: Mapping[int, Result] = field(default_factory=dict)
    finalists: Finalists = field(default_factory=Finalists)
    past_sweeps: Callable[[DatasetFacts, str], list[PastSweep]] = lambda *_: []  # by questions and metric
    gap: Gap | None = None  # the holdout results and the tune results of the same configs
    baselines: Sequence[Result] = ()  # the declared baseline, if it is not a config of the sweep

    def show(
        self, terminal: Terminal, reference: str = "", view: str = "", address: str = "", by: str | None = None
    ) -> None:
        """Print the table, the notes of a race or a search, and the conclusions.

        Args:
            terminal: The terminal.
            reference: The reference of the sweep in commands: ``ffea9bd0``.
            view: The command that starts MLflow's UI.
            address: The page of the sweep's parent run.
            by: A label; the table is also printed for each of its values.
        """
        page = [(f"ragsweep report {reference}", "everything on one page")] if reference and self.results else []
        commands = [*page, (view, address or f"the runs of {reference}")]
        report = self.report(reference=reference)
        report = replace(report, commands=[*report.commands, *starmap(Statement, commands)])
        show(sweep_document(report, terminal.width, by), terminal)

    def report(self, title: str = "", reference: str = "", texts: PageTexts | None = None) -> SweepReport:
        """Return the content of the sweep's documents; ``reference`` names the sweep in commands."""
        return SweepReport(
            title,
            self.results,
            self.failures,
            self.conclusion,
            list(self._notes()),
            list(self._next_steps(reference)),
            reference,
            self.study.sampler if self.study else "",
            texts or PageTexts(),
            baselines=self.baselines,
        )

    def _notes(self) -> Iterator[Statement]:
        """Yield the notes of a race or a search, and of its finalists."""
        yield from race_lines(self.results)
        yield from front_lines(self.front, self.objectives, len(self.results))
        yield from failure_lines(self.finalists.failures).items
        yield from starmap(Statement, self.finalists.lines())
        yield from gap_line(self.gap)
        if self.study and self.study.stopped:
            yield Statement("stopped", f"{self.study.stopped}; with other settings the same command continues")

    def _next_steps(self, reference: str) -> Iterator[Statement]:
        """Yield commands for the next steps, with descriptions."""
        if reference and self.conclusion.compared:
            names = [one.partition(" ")[0] for one in compared_first(self.conclusion.compared)]
            names = [reference + one if one.startswith("#") else one for one in names]
            yield Statement(f"ragsweep compare {' '.join(names)}", "which questions changed")
        elif reference and self.results and self.verdict is None:  # it was interrupted
            yield Statement(f"ragsweep list {reference}", "the configs that are done, the best first")

    @property
    def chosen(self) -> str | None:
        """The name of the choice, or None."""
        return self.conclusion.chosen

    @property
    def verdict(self) -> SweepComparison | NoComparison | None:
        """The comparison of the sweep's configs; None: nothing was measured, or the sweep was interrupted."""
        return self.conclusion.comparison

    @property
    def objectives(self) -> tuple[str, ...]:
        """The names of the compared metrics."""
        return objectives(self.results[0].config) if self.results else ()

    @property
    def front(self) -> list[Result]:
        """The Pareto front of the configs that meet all constraints."""
        if len(self.objectives) < 2:
            return []
        return pareto_front(without_excluded(self.results, self.excluded), self.objectives)

    def contenders(self, most: int) -> list[Result]:
        """List the configs to evaluate on the holdout."""
        return choose(without_excluded(self.results, self.excluded), self.verdict, most)


def without_excluded(results: Sequence[Result], excluded: Sequence[ExcludedConfig]) -> list[Result]:
    """Drop configs that violate a constraint."""
    names = {config.name for config in excluded}
    return [result for result in results if result.name not in names]
