"""What is made of results for people and programs: tables, one JSON, one CSV, pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ragsweep.report import plots, tables
from ragsweep.report.answers import abstention_curves, answer_files
from ragsweep.results import Failure, Result

__all__ = ["artifacts", "plots", "tables"]


def artifacts(
    sweep: Mapping[str, Any] | str, results: Sequence[Result], failures: Sequence[Failure], headline: Sequence[str]
) -> dict[str, bytes]:
    """Make all files of a sweep by name: ``results.json``, ``results.csv``, pictures, and what answers come to.

    ``sweep`` is what to say of the sweep as a whole, or just its name.
    """
    facts = {"name": sweep} if isinstance(sweep, str) else sweep
    files = {
        "results.json": tables.results_json(results, failures, facts),
        "results.csv": tables.results_csv(results, failures),
    }
    shown = [name for name in headline if any(name in result.summaries for result in results)]
    if shown:
        files["plots/metric_by_config.png"] = plots.metric_by_config(results, shown)
        if any("category" in result.groups for result in results):
            files["plots/metric_by_category.png"] = plots.metric_by_label(results, shown[0], "category")
    if curves := abstention_curves(results):
        files["plots/abstention.png"] = plots.abstention(curves)
    return {**files, **answer_files(results)}
