"""Summarise a sweep, with the same text and files at its end, when shown again, and when tracked later."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from ragsweep.core.errors import InputError, RagsweepError, describe_fault
from ragsweep.core.escaping import markdown_text
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
from ragsweep.report.answers import distractor_lines
from ragsweep.report.conclusion import Decision
from ragsweep.report.evidence_losses import degraded_slices
from ragsweep.report.front import front_csv, front_lines
from ragsweep.report.naming import number_configs
from ragsweep.report.page import PageSource, PastSweep, build_document, write_page
from ragsweep.report.page_texts import PageTexts
from ragsweep.report.question_rows import question_rows
from ragsweep.report.race import race_facts, race_lines, race_numbers
from ragsweep.report.sweep_table import GAP, slice_table, sweep_table, swept
from ragsweep.report.tables import headline, markdown
from ragsweep.report.terminal import Terminal, fixes
from ragsweep.report.verdict import compared_first, gap_line, holdout_use, limits
from ragsweep.report.verdict_files import numbers
from ragsweep.stats.comparison import ExcludedConfig, NoComparison, SweepComparison, list_references
from ragsweep.stats.holdout_gap import Gap, holdout_gap
from ragsweep.stats.labelled_comparison import SweepLabels, compare_labelled
from ragsweep.sweep.baseline import find_baseline
from ragsweep.sweep.finalists import SUFFIX, Finalists, choose, collect_finalists
from ragsweep.sweep.past_sweeps import goodness, past_sweeps
from ragsweep.sweep.search.summary import StudySummary, read_summary, study_folder
from ragsweep.sweep.settings import read_sweep_labels

INTERVALS = "in brackets: 95 % intervals; differences are paired by question. Expected gains below are shrunk towards 0"
"""The legend of the table's numbers."""
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
        terminal.block("LIMITS", self._limits())
        terminal.block("FIX", fixes(self.results))
        page = [(f"ragsweep report {reference}", "everything on one page")] if reference and self.results else []
        terminal.next_steps([*self._next_steps(reference), *page, (view, address or f"the runs of {reference}")])

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

    def _limits(self) -> Iterator[str]:
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

    def _next_steps(self, reference: str) -> Iterator[tuple[str, str]]:
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
        facts: dict[str, object] = {"name": name, "holdout_looks": self.holdout_views}
        facts |= {"gap": self.gap and self.gap._asdict(), **race_facts(self.results)}
        if len(self.objectives) > 1:
            facts["front"] = [result.name for result in self.front]
        if self.finalists.results:
            facts["finalists"] = self.finalists.facts()
        if study := self.study:
            facts["search"] = {"study": study.study, "sampler": study.sampler, "trials": dict(study.states),
                               "stopped": study.stopped}  # fmt: skip
        files = artifacts(facts, self.results, self.failures, headline(self.results), self.verdict, self.decision)
        if len(self.objectives) > 1:
            files["front.csv"] = front_csv(self.front, self.objectives)
        files |= study.pictures if study else {}
        files |= self._page_file(title or name, reference, texts)
        tags, metrics = self._facts()
        tags |= study.tags() if study else {}
        if self.verdict is not None and self.decision is not None:
            metrics |= numbers(self.verdict) if isinstance(self.verdict, SweepComparison) else {}
            metrics |= {"verdict_holdout_gap": self.gap.change} if self.gap else {}
            metrics |= race_numbers(self.results)
            tags |= {DESCRIPTION: self.description()}
            tags |= {VERDICT_TAG: " ".join([*self.decision.choice(), *self.decision.evidence()])}
            tags |= {RESULT_TAG: self.decision.kind}
        tabled = self._tables(texts.chunk if texts else None, tables)
        dataset = self.results[0].dataset if self.results else None
        return ParentRun(files, metrics, tags, self._children(), tabled, dataset)

    def _tables(self, chunk: Callable[[str], str] | None, tables: str) -> dict[int, bytes]:
        """Return the tables of questions by job: of all configs, or of the two compared first."""
        verdict = self.decision.verdict if self.decision else None
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
        notes = [*race_lines(self.results), *front_lines(self.front, self.objectives, len(self.results)),
                 *self.finalists.lines(), *gap_line(self.gap)]  # fmt: skip
        source = PageSource(
            title, self.results, self.failures, self.verdict, self.decision, self._blocks(), notes,
            [*self._next_steps(reference)], self.study.sampler if self.study else "", texts or PageTexts(),
            self._history(), self.baselines,
        )  # fmt: skip
        return write_page(build_document(source))

    def _history(self) -> list[PastSweep]:
        facts = self.results[0].dataset if self.results and self.objectives else None
        return self.past_sweeps(facts, self.objectives[0]) if facts else []

    def _blocks(self) -> dict[str, list[str]]:
        """Return the conclusions: a heading, and its sentences."""
        decided = {"Choice": self.decision.choice(), "Evidence": self.decision.evidence()} if self.decision else {}
        blocks = {**decided, "Limits": self._limits(), "Fix": fixes(self.results)}
        texts = {word: list(dict.fromkeys(sentences)) for word, sentences in blocks.items()}
        return {word: sentences for word, sentences in texts.items() if sentences}

    def description(self) -> str:
        """Format the result as Markdown: conclusions first, then the table."""
        shown = [result for result in self.results if result.state != DROPPED]
        table = sweep_table([*shown, *self.baselines], headline(shown), self.verdict, self.chosen, width=10_000)
        header = [name.removeprefix(">") or " " for name in table.header]
        parts = [f"**{word}.** {markdown_text(' '.join(sentences))}\n" for word, sentences in self._blocks().items()]
        return "\n".join([*parts, markdown([dict(zip(header, row, strict=True)) for row in table.rows])])

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
        ledger.holdout_views(results[0].dataset.undivided) if results else 0,
        verdict,
        excluded,
        study,
        {record.job: record.outcome for record in records if isinstance(record.outcome, Result)},
        finalists,
        partial(past_sweeps, ledger, sweep) if sweep else lambda *_: [],
        finalists.gap or _gap(ledger, [one for one in results if one.state != DROPPED], verdict),
        beside,
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
