"""Data shared by the sections of a sweep's page: the deciding metric, the roles of configs, and their order."""

from collections.abc import Sequence

from ragsweep.core.plurals import part_shown
from ragsweep.core.results import Result, objectives
from ragsweep.report.naming import all_settings
from ragsweep.report.sweep_report import SweepReport
from ragsweep.report.sweep_table import swept
from ragsweep.report.tables import headline, rank_results
from ragsweep.stats.funnel import Funnel, funnel

SIDE_BY_SIDE = 8
"""Maximum number of configs whose questions are on the page."""


def page_metric(report: SweepReport) -> str:
    """Return a page's metric: the deciding metric, else the first measured objective or headline metric, else ""."""
    if report.conclusion.compared:
        return report.conclusion.compared.metric
    results = [*report.shown, *report.baselines]
    named = [*(objectives(results[0].run.config) if results else ()), *headline(results)]
    return next((name for name in named if any(name in one.summaries.metrics for one in results)), "")


class PageView:
    """The configs of a sweep's page, with the metrics, the roles and the losses of evidence (``funnels``).

    ``metric`` is the metric from `page_metric`; ``metrics`` are this metric and the headline metrics; ``chosen`` are
    the configs that are shown side by side.
    """

    def __init__(self, report: SweepReport) -> None:
        self.report, self.compared = report, report.conclusion.compared
        self.results, self.swept = [*report.shown, *report.baselines], swept(report.results)
        self.headline = headline(self.results)
        self.metric = page_metric(report)
        self.metrics = list(dict.fromkeys([self.metric, *self.headline]))
        names = [one.name for one in self.results]
        self.settings = dict(zip(names, all_settings(self.results), strict=True))
        self.choice = report.conclusion.chosen
        self.roles = self._roles()
        self.best_first = rank_results(
            [one for one in self.results if self.metric in one.summaries.metrics], self.metric
        )
        self.chosen = self._chosen()
        self.omission = part_shown(len(self.chosen), len(self.best_first))  # a sentence, or "" if all are chosen
        funnels = {one.name: funnel(one) for one in self.sorted(self.chosen)}
        self.funnels: dict[str, Funnel] = {name: one for name, one in funnels.items() if one}

    def _roles(self) -> dict[str, str]:
        """Map each config that has roles (choice, baseline, best mean) to these roles, joined by commas."""
        if not self.compared:
            return {}
        names, declared = self.compared.matrix.configs, self.compared.baseline
        baseline = None if declared is None else names[declared]
        best = names[self.compared.selection_bias.winner]
        roles: dict[str, str] = {}
        for role, name in (("choice", self.choice), ("baseline", baseline), ("best mean", best)):
            if name in self.settings:
                roles[name] = f"{roles[name]}, {role}" if name in roles else role
        return roles

    def _chosen(self) -> list[Result]:
        """Return up to `SIDE_BY_SIDE` configs: the baseline, the choice, the best, then the others, best first."""
        ranks = {"baseline": 0, "choice": 1, "best mean": 2}
        marked = sorted(
            (one for one in self.best_first if one.name in self.roles),
            key=lambda one: min(ranks[role] for role in self.roles[one.name].split(", ")),
        )
        return [*marked, *(one for one in self.best_first if one.name not in self.roles)][:SIDE_BY_SIDE]

    def sorted(self, some: Sequence[Result]) -> list[Result]:
        """Return the given configs that have the metric, best first."""
        names = {one.name for one in some}
        return [one for one in self.best_first if one.name in names]
