"""The files of a sweep: JSON, CSV, charts, the verdict, and files about answers."""

from collections.abc import Mapping, Sequence
from typing import Any

from ragsweep.core.results import DROPPED, Failure, Result
from ragsweep.report import plots, tables
from ragsweep.report.answers import answer_files
from ragsweep.report.conclusion_facts import result_facts, verdict_facts
from ragsweep.report.verdict_files import verdict_files
from ragsweep.stats.answer_outcomes import abstention_curves
from ragsweep.stats.conclusion import SweepConclusion


def artifacts(
    sweep: Mapping[str, Any] | str,
    results: Sequence[Result],
    failures: Sequence[Failure],
    headline: Sequence[str],
    conclusion: SweepConclusion | None = None,
) -> dict[str, bytes]:
    """Return the files made of a sweep's results, by name: ``results.json``, ``results.csv``, charts, verdict, answers.

    ``sweep`` is a mapping of facts about the sweep as a whole, or just its name. ``conclusion`` is None for a single
    config; a conclusion whose ``comparison`` is None is ignored.
    """
    facts = {"name": sweep} if isinstance(sweep, str) else sweep
    found = conclusion if conclusion and conclusion.comparison else None
    judged = {"verdict": verdict_facts(found)} if found else {}
    result = result_facts(found) if found else None
    files = {
        "results.json": tables.results_json(results, failures, {**facts, **judged}, result),
        "results.csv": tables.results_csv(results, failures),
    }
    results = [one for one in results if one.run.state != DROPPED]  # scored on fewer questions
    shown = [name for name in headline if any(name in result.summaries.metrics for result in results)]
    if shown:
        files |= plots.metric_by_config(results, shown).files("plots/metric_by_config")
        if any("category" in result.summaries.groups for result in results):
            first = plots.deciding(results, shown)
            files |= plots.metric_by_label(results, first, "category").files("plots/metric_by_category")
    if curves := abstention_curves(results):
        files |= plots.abstention(curves).files("plots/abstention")
    return {**files, **(verdict_files(found) if found else {}), **answer_files(results)}
