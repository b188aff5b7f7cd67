"""The content of a sweep's parent run: files, metrics and tags, and what the whole sweep adds to its configs' runs."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ragsweep.core.results import COMPLETE, DatasetFacts, Result, Summary
from ragsweep.parts.tracking import ALL, CHOSEN, DESCRIPTION
from ragsweep.report.artifacts import artifacts
from ragsweep.report.conclusion_facts import result_texts
from ragsweep.report.front import front_csv
from ragsweep.report.page_texts import PageTexts
from ragsweep.report.question_rows import question_rows
from ragsweep.report.race import race_facts, race_numbers
from ragsweep.report.sweep_table import swept
from ragsweep.report.tables import goodness, headline
from ragsweep.report.verdict_files import numbers
from ragsweep.stats.comparison import SweepComparison
from ragsweep.stats.conclusion import compared_first
from ragsweep.sweep.concluding.sweep_page import PAGE, describe, sweep_page
from ragsweep.sweep.concluding.sweep_summary import SweepSummary, without_excluded

VERDICT_TAG, RESULT_TAG, FRONT_TAG = "ragsweep.verdict", "ragsweep.result", "ragsweep.front"
SWEPT_TAG, DATASET_TAG, BEST_TAG = "ragsweep.swept", "ragsweep.dataset", "ragsweep.best"


@dataclass(frozen=True)
class ParentRun:
    """The content of a sweep's parent run."""

    files: Mapping[str, bytes] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    children: Mapping[int, Mapping[str, str]] = field(default_factory=dict)  # job -> tags derived from the whole sweep
    tables: Mapping[int, bytes] = field(default_factory=dict)  # job -> its questions
    dataset: DatasetFacts | None = None


def parent_run(
    summary: SweepSummary,
    name: str,
    title: str = "",
    reference: str = "",
    texts: PageTexts | None = None,
    tables: str = CHOSEN,
) -> ParentRun:
    """Return the content of the parent run; ``title`` names the sweep on its page, ``reference`` in commands.

    ``texts`` are the page's additional texts. ``tables``: which configs get a table of questions.
    """
    study = summary.study
    shown = summary.results, summary.failures, headline(summary.results)
    files = artifacts(_sweep_facts(summary, name), *shown, summary.conclusion)
    if len(summary.objectives) > 1:
        files["front.csv"] = front_csv(summary.front, summary.objectives)
    files |= study.pictures if study else {}
    files |= _page_file(summary, title or name, reference, texts)
    tags, metrics = _facts(summary)
    tags |= study.tags() if study else {}
    if summary.verdict is not None:
        metrics |= numbers(summary.conclusion.compared) if summary.conclusion.compared else {}
        metrics |= {"verdict_holdout_gap": summary.gap.change} if summary.gap else {}
        metrics |= race_numbers(summary.results)
        tags |= {DESCRIPTION: describe(summary)}
        tags |= {VERDICT_TAG: " ".join(result_texts(summary.conclusion))}
        tags |= {RESULT_TAG: summary.conclusion.kind}
    tabled = _tables(summary, texts.chunk if texts else None, tables)
    dataset = summary.results[0].dataset if summary.results else None
    return ParentRun(files, metrics, tags, _children(summary), tabled, dataset)


def _sweep_facts(summary: SweepSummary, name: str) -> dict[str, object]:
    """Return the facts of the sweep as a whole in results.json."""
    facts: dict[str, object] = {"name": name, "holdout_looks": summary.conclusion.holdout_views}
    facts |= {"gap": summary.gap and summary.gap._asdict(), **race_facts(summary.results)}
    if len(summary.objectives) > 1:
        facts["front"] = [result.name for result in summary.front]
    if summary.finalists.results:
        facts["finalists"] = summary.finalists.facts()
    if study := summary.study:
        trials = {"trials": dict(study.states), "stopped": study.stopped}
        facts["search"] = {"study": study.study, "sampler": study.sampler, **trials}
    return facts


def _tables(summary: SweepSummary, chunk: Callable[[str], str] | None, tables: str) -> dict[int, bytes]:
    """Return the tables of questions by job: of all configs, or of the two compared first."""
    verdict = summary.conclusion.deciding
    pair = compared_first(verdict) if isinstance(verdict, SweepComparison) else ()
    everything = tables == ALL or len(summary.jobs) == 1
    return {job: question_rows(one, chunk) for job, one in summary.jobs.items() if everything or one.name in pair}


def _best(summary: SweepSummary) -> tuple[Result, Summary] | None:
    """Return the fully evaluated config with the best mean of the first objective."""
    ranked = [one for one in without_excluded(summary.results, summary.excluded) if one.state == COMPLETE]
    pairs = [(one, one.summaries[name]) for name in summary.objectives[:1] for one in ranked if name in one.summaries]
    known = [(one, summary) for one, summary in pairs if not math.isnan(summary.value)]
    return max(known, key=lambda pair: goodness(pair[1]), default=None)


def _facts(summary: SweepSummary) -> tuple[dict[str, str], dict[str, float]]:
    """Return tags with the swept parameters, the dataset and the best config; and its value as a metric."""
    if not summary.results:
        return {}, {}
    tags = {SWEPT_TAG: swept(summary.results), DATASET_TAG: summary.results[0].dataset.name}
    if (best := _best(summary)) is None:
        return tags, {}
    return {**tags, BEST_TAG: best[0].name}, {best[1].name: best[1].value}


def _page_file(summary: SweepSummary, title: str, reference: str, texts: PageTexts | None) -> dict[str, bytes]:
    try:
        return {PAGE: sweep_page(summary, title, reference, texts)}
    except Exception:  # a fault of the page must not lose the results
        logging.getLogger(__name__).exception("no %s", PAGE)
        return {}


def _children(summary: SweepSummary) -> dict[int, dict[str, str]]:
    """Return tags of each job: its trial, and whether it is on the Pareto front."""
    tags = summary.study.trial_tags() if summary.study else {}
    if len(summary.objectives) > 1:
        front = {result.name for result in summary.front}
        for job, result in summary.jobs.items():
            tags.setdefault(job, {})[FRONT_TAG] = "yes" if result.name in front else "no"
    return tags
