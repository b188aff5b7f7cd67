"""A sweep's results and the conclusions from them, and how they are shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ragsweep.core.results import DROPPED, DatasetFacts, Failure, Result, objectives, pareto_front
from ragsweep.golden.partition import HOLDOUT
from ragsweep.report.answers import distractor_lines
from ragsweep.report.conclusion import Decision
from ragsweep.report.evidence_losses import degraded_slices
from ragsweep.report.front import front_lines
from ragsweep.report.race import race_lines
from ragsweep.report.sweep_table import GAP, slice_table, sweep_table, swept
from ragsweep.report.tables import headline
from ragsweep.report.terminal import Terminal, fixes
from ragsweep.report.verdict import compared_first, gap_line, holdout_use, limits
from ragsweep.stats.comparison import ExcludedConfig, NoComparison, SweepComparison
from ragsweep.sweep.concluding.finalists import Finalists, choose

if TYPE_CHECKING:
    from ragsweep.report.page import PastSweep
    from ragsweep.stats.holdout_gap import Gap
    from ragsweep.sweep.concluding.study_summary import StudySummary

INTERVALS = "in brackets: 95 % intervals; differences are paired by question. Expected gains below are shrunk towards 0"
"""The legend of the table's numbers."""


@dataclass(frozen=True)
class SweepSummary:
    """A sweep's results, and the conclusions from them."""

    results: Sequence[Result]
    failures: Sequence[Failure]
    holdout_views: int = 0  # uses of these holdout questions so far
    verdict: SweepComparison | NoComparison | None = None  # None: nothing was measured, or the sweep was interrupted
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
        shown = [result for result in self.results if result.state != DROPPED]
        if shown:
            same = shown[0].name if len(shown) == 1 else "the same config"
            name = f"{given}: " if (given := shown[0].config.get("name")) else ""
            terminal.heading(f"{name}{swept(shown) or same}", shown[0].dataset)
            self._show_table(terminal, shown, reference, by)
            terminal.details(shown, headline(shown))
        terminal.failures(self.failures)
        terminal.lines(race_lines(self.results))
        terminal.lines(front_lines(self.front, self.objectives, len(self.results)))
        terminal.failures(self.finalists.failures)
        terminal.lines(self.finalists.lines())
        terminal.lines(gap_line(self.gap))
        if self.study and self.study.stopped:
            terminal.line("stopped", f"{self.study.stopped}; with other settings the same command continues")
        if self.decision:
            terminal.block("CHOICE", self.decision.choice())
            terminal.block("EVIDENCE", self.decision.evidence())
        terminal.block("LIMITS", self.limits())
        terminal.block("FIX", fixes(self.results))
        page = [(f"ragsweep report {reference}", "everything on one page")] if reference and self.results else []
        terminal.next_steps([*self.next_steps(reference), *page, (view, address or f"the runs of {reference}")])

    def _show_table(self, terminal: Terminal, shown: Sequence[Result], reference: str, by: str | None) -> None:
        rows = [*shown, *self.baselines]
        table = sweep_table(rows, headline(shown), self.verdict, self.chosen, terminal.width)
        terminal.table(table.header, table.rows, GAP, terminal.width)
        terminal.block("", [INTERVALS])
        for line in table.omissions(reference):
            terminal.line("", line)
        if by:
            metric = self.verdict.metric if isinstance(self.verdict, SweepComparison) else self.objectives[0]
            terminal.block("", [f"{metric} by {by}:"])
            slices = slice_table(rows, by, metric, [row[0] for row in table.rows], terminal.width)
            terminal.table(slices.header, slices.rows, GAP)

    def limits(self) -> Iterator[str]:
        """Yield the limits of the results."""
        if isinstance(self.verdict, SweepComparison):
            yield from limits(self.verdict)
            yield from self._degraded_slices(self.verdict)
        yield from distractor_lines(self.results)
        everything = (*self.results, *self.finalists.results)
        on_holdout = sum(result.dataset.partition == HOLDOUT for result in everything)
        yield from holdout_use(self.holdout_views, on_holdout)

    def _degraded_slices(self, verdict: SweepComparison) -> Iterator[str]:
        """Yield slices where the choice, or else the config with the best mean, is worse than one of its legs."""
        name = self.chosen or verdict.matrix.configs[verdict.selection_bias.winner]
        everything = (*self.finalists.results, *self.results)
        if chosen := next((result for result in everything if result.name == name), None):
            yield from degraded_slices(chosen)

    def next_steps(self, reference: str) -> Iterator[tuple[str, str]]:
        """Yield commands for the next steps, with descriptions."""
        if reference and isinstance(self.verdict, SweepComparison):
            names = [one.partition(" ")[0] for one in compared_first(self.verdict)]
            names = [reference + one if one.startswith("#") else one for one in names]
            yield f"ragsweep compare {' '.join(names)}", "which questions changed"
        elif reference and self.results and self.verdict is None:  # it was interrupted
            yield f"ragsweep list {reference}", "the configs that are done, the best first"

    @property
    def chosen(self) -> str | None:
        """The name of the choice, or None."""
        return self.decision.chosen if self.decision else None

    @property
    def decision(self) -> Decision | None:
        """The deciding comparison: that of a search's finalists on held-out questions, if measured."""
        if self.verdict is None:
            return None
        if self.finalists.verdict is not None:
            return Decision(
                self.finalists.verdict, f"on {self.finalists.questions:,} questions that the search has not seen"
            )
        return Decision(self.verdict, "on the questions by which the search chose" if self.study else "")

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
