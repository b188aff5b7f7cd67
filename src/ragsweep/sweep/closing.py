"""Summarise a sweep, with the same text and files at its end, when shown again, and when tracked later."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import starmap

from ragsweep.core.errors import InputError, RagsweepError, describe_fault
from ragsweep.core.results import (
    COMPLETE,
    DROPPED,
    DatasetFacts,
    Failure,
    HumanLabel,
    Result,
    Summary,
    objectives,
    pareto_front,
)
from ragsweep.golden.partition import HOLDOUT
from ragsweep.parts.tracking import ALL, CHOSEN, DESCRIPTION
from ragsweep.records.ledger import Ledger, Record
from ragsweep.report import artifacts
from ragsweep.report.conclusion_facts import result_texts
from ragsweep.report.document import Statement
from ragsweep.report.front import front_csv, front_lines
from ragsweep.report.naming import number_configs
from ragsweep.report.page import page_document
from ragsweep.report.page_texts import PageTexts, PastSweep
from ragsweep.report.question_rows import question_rows
from ragsweep.report.race import race_facts, race_lines, race_numbers
from ragsweep.report.result_blocks import failure_lines
from ragsweep.report.sweep_document import description_document, sweep_document
from ragsweep.report.sweep_report import SweepReport
from ragsweep.report.sweep_table import swept
from ragsweep.report.tables import headline
from ragsweep.report.terminal import Terminal
from ragsweep.report.verdict import gap_line
from ragsweep.report.verdict_files import numbers
from ragsweep.report.writers.html import as_html
from ragsweep.report.writers.markdown import as_markdown
from ragsweep.report.writers.terminal import show
from ragsweep.stats.comparison import ExcludedConfig, NoComparison, SweepComparison, list_references
from ragsweep.stats.conclusion import SweepConclusion, compared_first, conclude
from ragsweep.stats.holdout_gap import Gap, holdout_gap
from ragsweep.stats.labelled_comparison import SweepLabels, compare_labelled
from ragsweep.sweep.baseline import find_baseline
from ragsweep.sweep.finalists import SUFFIX, Finalists, choose, collect_finalists
from ragsweep.sweep.past_sweeps import goodness, past_sweeps
from ragsweep.sweep.search.summary import StudySummary, read_summary, study_folder
from ragsweep.sweep.settings import read_sweep_labels

ADAPTIVE = frozenset({"tpe", "gp", "cmaes", "nsgaii", "nsgaiii"})
"""Samplers that choose configs by earlier scores."""
PAGE = "report.html"
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
        return pareto_front(_without_excluded(self.results, self.excluded), self.objectives)

    def contenders(self, most: int) -> list[Result]:
        """List the configs to evaluate on the holdout."""
        return choose(_without_excluded(self.results, self.excluded), self.verdict, most)

    def parent(
        self, name: str, title: str = "", reference: str = "", texts: PageTexts | None = None, tables: str = CHOSEN
    ) -> ParentRun:
        """Return the content of the parent run; ``title`` names the sweep on its page, ``reference`` in commands.

        ``texts`` are the page's additional texts. ``tables``: which configs get a table of questions.
        """
        facts: dict[str, object] = {"name": name, "holdout_looks": self.conclusion.holdout_views}
        facts |= {"gap": self.gap and self.gap._asdict(), **race_facts(self.results)}
        if len(self.objectives) > 1:
            facts["front"] = [result.name for result in self.front]
        if self.finalists.results:
            facts["finalists"] = self.finalists.facts()
        if study := self.study:
            facts["search"] = {"study": study.study, "sampler": study.sampler, "trials": dict(study.states),
                               "stopped": study.stopped}  # fmt: skip
        files = artifacts(facts, self.results, self.failures, headline(self.results), self.conclusion)
        if len(self.objectives) > 1:
            files["front.csv"] = front_csv(self.front, self.objectives)
        files |= study.pictures if study else {}
        files |= self._page_file(title or name, reference, texts)
        tags, metrics = self._facts()
        tags |= study.tags() if study else {}
        if self.verdict is not None:
            metrics |= numbers(self.conclusion.compared) if self.conclusion.compared else {}
            metrics |= {"verdict_holdout_gap": self.gap.change} if self.gap else {}
            metrics |= race_numbers(self.results)
            tags |= {DESCRIPTION: self.description()}
            tags |= {VERDICT_TAG: " ".join(result_texts(self.conclusion))}
            tags |= {RESULT_TAG: self.conclusion.kind}
        tabled = self._tables(texts.chunk if texts else None, tables)
        dataset = self.results[0].dataset if self.results else None
        return ParentRun(files, metrics, tags, self._children(), tabled, dataset)

    def _tables(self, chunk: Callable[[str], str] | None, tables: str) -> dict[int, bytes]:
        """Return the tables of questions by job: of all configs, or of the two compared first."""
        verdict = self.conclusion.deciding
        pair = compared_first(verdict) if isinstance(verdict, SweepComparison) else ()
        everything = tables == ALL or len(self.jobs) == 1
        return {job: question_rows(one, chunk) for job, one in self.jobs.items() if everything or one.name in pair}

    def _best(self) -> tuple[Result, Summary] | None:
        """Return the fully evaluated config with the best mean of the first objective."""
        ranked = [one for one in _without_excluded(self.results, self.excluded) if one.state == COMPLETE]
        pairs = [(one, one.summaries[name]) for name in self.objectives[:1] for one in ranked if name in one.summaries]
        known = [(one, summary) for one, summary in pairs if not math.isnan(summary.value)]
        return max(known, key=lambda pair: goodness(pair[1]), default=None)

    def _facts(self) -> tuple[dict[str, str], dict[str, float]]:
        """Return tags with the swept parameters, the dataset and the best config; and its value as a metric."""
        if not self.results:
            return {}, {}
        tags = {SWEPT_TAG: swept(self.results), DATASET_TAG: self.results[0].dataset.name}
        if (best := self._best()) is None:
            return tags, {}
        return {**tags, BEST_TAG: best[0].name}, {best[1].name: best[1].value}

    def _page_file(self, title: str, reference: str, texts: PageTexts | None) -> dict[str, bytes]:
        try:
            return {PAGE: self.page(title, reference, texts)}
        except Exception:  # a fault of the page must not lose the results
            logging.getLogger(__name__).exception("no %s", PAGE)
            return {}

    def page(self, title: str, reference: str = "", texts: PageTexts | None = None) -> bytes:
        """Write the sweep as one self-contained HTML file."""
        report = replace(self.report(title, reference, texts), history=self._history())
        return as_html(page_document(report), report.texts.secrets)

    def _history(self) -> list[PastSweep]:
        facts = self.results[0].dataset if self.results and self.objectives else None
        return self.past_sweeps(facts, self.objectives[0]) if facts else []

    def description(self) -> str:
        """Format the result as Markdown: conclusions first, then the table."""
        return as_markdown(description_document(self.report()))

    def _children(self) -> dict[int, dict[str, str]]:
        """Return tags of each job: its trial, and whether it is on the Pareto front."""
        tags = self.study.trial_tags() if self.study else {}
        if len(self.objectives) > 1:
            front = {result.name for result in self.front}
            for job, result in self.jobs.items():
                tags.setdefault(job, {})[FRONT_TAG] = "yes" if result.name in front else "no"
        return tags


def summarise_sweep(
    ledger: Ledger, records: Sequence[Record], missed: Sequence[Failure] = (), weighed: bool = True,
    labels: Sequence[HumanLabel] | None = None, declared: object = None,
) -> SweepSummary:  # fmt: skip
    """Summarise the records of a sweep, and the jobs without one; ``weighed``: with a verdict.

    ``labels`` are human labels, which correct judged scores; None: those of the sweep's file. ``declared`` is the
    declared baseline; None: that of the sweep.
    """
    labels = _recorded_labels(records) if labels is None else labels
    sweep = records[0].sweep if records else None
    stored = {record.job: record.outcome.name for record in records}
    names = number_configs(stored)
    records = [_renamed(record, names[record.job]) for record in records]
    results = [record.outcome for record in records if isinstance(record.outcome, Result)]
    failures = [*(record.outcome for record in records if isinstance(record.outcome, Failure)), *missed]
    study = read_summary(study_folder(ledger.path, sweep)) if sweep else None
    broken = study.broken() if study else {}
    excluded = [ExcludedConfig(one.outcome.name, f"beyond {broken[one.job]}") for one in records if one.job in broken]
    excluded += list_references(results)
    allowed = _without_excluded(results, excluded)
    adaptive = study is not None and study.sampler in ADAPTIVE
    people = SweepLabels(labels, {record.outcome.name: record.run or "" for record in records})
    baseline = find_baseline(declared, names, results, ledger)
    beside = [baseline] if baseline and all(baseline is not one for one in results) else []
    today = baseline.name if baseline else None
    verdict = _compare([*allowed, *beside], failures, excluded, people, today) if weighed and results else None
    if adaptive and isinstance(verdict, SweepComparison):
        verdict = replace(verdict, adaptive=True)
    evaluated = ledger.finalists(sweep) if sweep else []
    by_stored = {stored[job]: names[job] for job in stored}
    finalists = collect_finalists(
        _numbered_finalists(evaluated, by_stored),
        choose(allowed, verdict),
        verdict.metric if isinstance(verdict, SweepComparison) else "",
    )
    if finalists.verdict is None and len(finalists.results) + len(finalists.failures) > 1:
        plain = [record.outcome.name.removesuffix(SUFFIX) for record in evaluated]
        runs = {by_stored.get(name, name): record.run or "" for name, record in zip(plain, evaluated, strict=True)}
        finalists = replace(finalists, verdict=_compare(*finalists.named(), (), SweepLabels(labels, runs), today))
    return SweepSummary(
        results,
        failures,
        _conclude(ledger, verdict, results, finalists, study is not None),
        excluded,
        study,
        {record.job: record.outcome for record in records if isinstance(record.outcome, Result)},
        finalists,
        partial(past_sweeps, ledger, sweep) if sweep else lambda *_: [],
        finalists.gap or _gap(ledger, [one for one in results if one.state != DROPPED], verdict),
        beside,
    )


def _conclude(
    ledger: Ledger,
    verdict: SweepComparison | NoComparison | None,
    results: Sequence[Result],
    finalists: Finalists,
    is_search: bool,
) -> SweepConclusion:
    """Conclude a sweep, from the holdout where a search evaluated its finalists there."""
    where = "on the questions by which the search chose" if is_search else ""
    if finalists.verdict:
        where = f"on {finalists.questions:,} questions that the search has not seen"
    return replace(
        conclude(verdict, results, finalists.verdict, finalists.results, where),
        holdout_views=ledger.holdout_views(results[0].dataset.undivided) if results else 0,
        holdout_configs=sum(one.dataset.partition == HOLDOUT for one in (*results, *finalists.results)),
    )


def _recorded_labels(records: Sequence[Record]) -> list[HumanLabel]:
    """Read the human labels of a sweep; none if the file is missing."""
    results = [record.outcome for record in records if isinstance(record.outcome, Result)]
    named = {(result.config.get("judge") or {}).get("labels"): result.config for result in results}
    try:
        return read_sweep_labels([config for path, config in named.items() if path])
    except RagsweepError as fault:
        logging.getLogger(__name__).warning("the verdict is as judged: %s", fault)
        return []


def _renamed(record: Record, name: str) -> Record:
    return replace(record, outcome=replace(record.outcome, name=name))


def _numbered_finalists(records: Sequence[Record], names: Mapping[str, str]) -> list[Result | Failure]:
    """Return holdout outcomes under the names of their trials."""
    plain = [record.outcome.name.removesuffix(SUFFIX) for record in records]
    return [
        _renamed(record, names.get(name, name) + SUFFIX).outcome for record, name in zip(records, plain, strict=True)
    ]


def _without_excluded(results: Sequence[Result], excluded: Sequence[ExcludedConfig]) -> list[Result]:
    """Drop configs that violate a constraint."""
    names = {config.name for config in excluded}
    return [result for result in results if result.name not in names]


def _gap(ledger: Ledger, results: Sequence[Result], verdict: SweepComparison | NoComparison | None) -> Gap | None:
    if verdict is None or not results or any(one.dataset.partition != HOLDOUT for one in results):
        return None
    metric = verdict.metric if isinstance(verdict, SweepComparison) else objectives(results[0].config)[0]
    tuned = [record.outcome for record in ledger.tune_records(results[0].dataset.undivided)]
    return holdout_gap(results, [one for one in tuned if isinstance(one, Result)], metric)


def _compare(
    results: Sequence[Result], failures: Sequence[Failure], excluded: Sequence[ExcludedConfig], labels: SweepLabels,
    baseline: str | None,
) -> SweepComparison | NoComparison:  # fmt: skip
    try:
        return compare_labelled(results, labels, failures, excluded, baseline)
    except InputError as fault:
        return NoComparison(str(fault))
    except Exception as fault:  # a fault of the conclusions must not lose the results
        logging.getLogger(__name__).exception("no verdict")
        return NoComparison(f"could not be made: {describe_fault(fault)}; please report it")
