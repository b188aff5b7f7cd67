"""Create the content of a sweep's or a single config's run in the tracker: files, metrics, tags and tables."""

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ragsweep.core.results import COMPLETE, Result, Summary
from ragsweep.core.secrets import Secrets
from ragsweep.parts.tracking import ALL, CHOSEN, DESCRIPTION
from ragsweep.records.ledger import FAILED, FINISHED, Ledger, Record, Sweep
from ragsweep.report.artifacts import artifacts, numbers, question_rows
from ragsweep.report.conclusion_facts import result_texts
from ragsweep.report.front import front_csv
from ragsweep.report.page.data import page_document
from ragsweep.report.page.view import page_metric
from ragsweep.report.race import race_facts, race_numbers
from ragsweep.report.sweep_document import description_document
from ragsweep.report.sweep_report import PageTexts
from ragsweep.report.sweep_table import swept
from ragsweep.report.tables import goodness, headline
from ragsweep.report.writers.html import as_html
from ragsweep.report.writers.markdown import as_markdown
from ragsweep.stats.comparison import SweepComparison
from ragsweep.stats.conclusion import compared_first
from ragsweep.stats.context_effect import refuses_all
from ragsweep.sweep.composing.sweep_names import reference, sweep_title
from ragsweep.sweep.concluding.summarise import past_sweeps, summarise_sweep
from ragsweep.sweep.concluding.sweep_content import finalist_facts, sweep_content
from ragsweep.sweep.concluding.sweep_summary import SweepSummary
from ragsweep.sweep.running.recording import TrackedContent

PAGE = "report.html"
VERDICT_TAG, RESULT_TAG, FRONT_TAG = "ragsweep.verdict", "ragsweep.result", "ragsweep.front"
SWEPT_TAG, DATASET_TAG, BEST_TAG = "ragsweep.swept", "ragsweep.dataset", "ragsweep.best"


@dataclass(frozen=True)
class RecordedContents:
    """The content of runs in the tracker, derived from the records of a ledger (see mlflow_sync.RunContents)."""

    ledger: Ledger
    texts: Callable[[Sequence[Result], Secrets], PageTexts]  # returns the page content that is not in the records
    tables: str = ""  # which configs of a sweep get a table of questions: ALL or CHOSEN; "": as set in their configs

    def of_sweep(self, sweep: Sweep, trials: Sequence[Record]) -> tuple[TrackedContent, str]:
        """Return the content of a sweep's parent run, and the status of the sweep: FINISHED or FAILED.

        The status is FAILED if a job has no result, or if any config or finalist failed or is PARTIAL. Once a search
        has ended, even early, its jobs are ``trials``.
        """
        summary = summarise_sweep(self.ledger, trials)
        expected = len(trials) if summary.study and summary.study.ended else len(sweep.jobs)  # a search may end early
        status = FINISHED if len(summary.results) == expected and not summary.failed else FAILED
        recorded = [result.run.config.get("tracking") or {} for result in summary.results]
        tables = self.tables or (ALL if any(one.get("tables") == ALL for one in recorded) else CHOSEN)
        return sweep_run(summary, sweep, self.texts(summary.results, Secrets()), tables), status

    def of_config(self, result: Result) -> TrackedContent:
        """Return the content of the run of a single config."""
        views = self.ledger.holdout_views(result.run.dataset.undivided)
        return single_run(result, views, self.texts([result], Secrets()))


def single_run(result: Result, views: int, texts: PageTexts) -> TrackedContent:
    """Return the content of a single config's run in the tracker; ``views`` is how often its holdout has been used."""
    facts: dict[str, object] = {"name": result.name, "holdout_looks": views}
    files = artifacts(facts, [result], [], headline([result]))
    return TrackedContent(files, tables={0: question_rows(result, texts.chunk(result))})


def sweep_run(summary: SweepSummary, sweep: Sweep, texts: PageTexts, tables: str) -> TrackedContent:
    """Return the content of a sweep's parent run in the tracker; ``texts`` is page content that is not in the records.

    ``tables`` determines which configs get a table of questions: ALL, or CHOSEN for the two that are compared first.
    """
    study, tags, metrics = summary.study, dict[str, str](), dict[str, float]()
    children = study.trial_tags() if study else {}
    shown = summary.results, summary.failures, headline(summary.results)
    files = artifacts(_sweep_facts(summary, sweep.name), *shown, summary.conclusion)
    if len(summary.objectives) > 1:
        files["front.csv"] = front_csv(summary.front, summary.objectives)
        front = {result.name for result in summary.front}
        for job, result in summary.jobs.items():
            children.setdefault(job, {})[FRONT_TAG] = "yes" if result.name in front else "no"
    files |= study.pictures if study else {}
    try:
        files[PAGE] = sweep_page(summary, sweep, texts)
    except Exception:  # if the page fails, the results must still be kept
        logging.getLogger(__name__).exception("%s could not be created", PAGE)
    dataset = summary.results[0].run.dataset if summary.results else None
    if dataset:
        tags = {SWEPT_TAG: swept(summary.results), DATASET_TAG: dataset.name}
    if best := _best(summary):
        tags[BEST_TAG], metrics[best[1].name] = best[0].name, best[1].value
    tags |= study.tags() if study else {}
    if summary.verdict is not None:
        metrics |= numbers(summary.conclusion.compared) if summary.conclusion.compared else {}
        metrics |= {"verdict_holdout_gap": summary.gap.change} if summary.gap else {}
        metrics |= race_numbers(summary.results)
        tags |= {DESCRIPTION: describe(summary)}
        tags |= {VERDICT_TAG: " ".join(result_texts(summary.conclusion))}
        tags |= {RESULT_TAG: summary.conclusion.kind}
    return TrackedContent(files, metrics, tags, children, _tables(summary, texts, tables), dataset)


def _sweep_facts(summary: SweepSummary, name: str) -> dict[str, object]:
    facts: dict[str, object] = {"name": name, "holdout_looks": summary.conclusion.holdout_views}
    facts |= {"gap": summary.gap and summary.gap._asdict(), **race_facts(summary.results)}
    if len(summary.objectives) > 1:
        facts["front"] = [result.name for result in summary.front]
    if summary.finalists.results:
        facts["finalists"] = finalist_facts(summary.finalists)
    if study := summary.study:
        trials = {"trials": dict(study.states), "stopped": study.stopped}
        facts["search"] = {"study": study.study, "sampler": study.sampler, **trials}
    return facts


def _tables(summary: SweepSummary, texts: PageTexts, tables: str) -> dict[int, bytes]:
    """Map jobs to tables of questions, for all configs or only for the two that are compared first.

    All configs get a table if ``tables`` is ALL or the sweep has only one config.
    """
    verdict = summary.conclusion.deciding
    pair = compared_first(verdict) if isinstance(verdict, SweepComparison) else ()
    everything = tables == ALL or len(summary.jobs) == 1
    chosen = ((job, one) for job, one in summary.jobs.items() if everything or one.name in pair)
    return {job: question_rows(one, texts.chunk(one)) for job, one in chosen}


def _best(summary: SweepSummary) -> tuple[Result, Summary] | None:
    """Return the best config by the first objective, and its summary of that objective; None if no config is eligible.

    Configs that are excluded, not completely evaluated or without a value of the objective are not eligible. Configs
    that refuse every answerable question are eligible only if all the remaining configs refuse them.
    """
    ranked = [one for one in summary.allowed if one.run.state == COMPLETE]
    ranked = [one for one in ranked if not refuses_all(one)] or ranked
    first = summary.objectives[0] if summary.objectives else ""
    pairs = [(one, one.summaries.metrics[first]) for one in ranked if first in one.summaries.metrics]
    known = [(one, found) for one, found in pairs if not math.isnan(found.value)]
    if first in summary.minimized:
        return min(known, key=lambda pair: pair[1].value, default=None)
    return max(known, key=lambda pair: goodness(pair[1]), default=None)


def sweep_page(summary: SweepSummary, sweep: Sweep, texts: PageTexts) -> bytes:
    """Return the page of a sweep as the bytes of one self-contained HTML file."""
    content = sweep_content(summary, sweep_title(sweep), reference(sweep), texts)
    if summary.ledger and (metric := page_metric(content)):
        past = past_sweeps(summary.ledger, sweep.id, summary.results[0].run.dataset, metric)
        content = replace(content, history=past)
    return as_html(page_document(content), content.texts.secrets)


def describe(summary: SweepSummary) -> str:
    """Return the description of a sweep's parent run in Markdown: the conclusions, then the table of configs."""
    return as_markdown(description_document(sweep_content(summary)))
