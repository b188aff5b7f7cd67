"""Summarise a recorded sweep with its verdict, and find the best config of each past sweep."""

import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from ragsweep.core.errors import InputError, RagsweepError, describe_fault
from ragsweep.core.results import COMPLETE, DROPPED, DatasetFacts, Failure, HumanLabel, Result, Summary, objectives
from ragsweep.golden.partition import HOLDOUT
from ragsweep.records.ledger import Ledger, Record, Sweep, results_by_job
from ragsweep.report.holdout import Gap, holdout_gap
from ragsweep.report.naming import number_configs
from ragsweep.report.sweep_report import PastSweep
from ragsweep.report.tables import goodness, headline
from ragsweep.stats.comparable import reason_incomparable
from ragsweep.stats.compare_configs import deciding_metric
from ragsweep.stats.comparison import ExcludedConfig, NoComparison, SweepComparison, is_reference, list_references
from ragsweep.stats.conclude import conclude
from ragsweep.stats.conclusion import SweepConclusion
from ragsweep.stats.context_effect import refuses_all
from ragsweep.stats.inference.matrix import score_matrix
from ragsweep.stats.labelled_comparison import SweepLabels, compare_labelled
from ragsweep.sweep.composing.job import SUFFIX
from ragsweep.sweep.composing.settings import read_sweep_labels
from ragsweep.sweep.composing.sweep_names import reference, sweep_title
from ragsweep.sweep.concluding.recorded_runs import find_baseline, sweep_results
from ragsweep.sweep.concluding.sweep_summary import Finalists, SweepSummary, choose, collect_finalists, without_excluded
from ragsweep.sweep.searching.study_summary import StudySummary, broken_trials, read_summary

ADAPTIVE = frozenset({"tpe", "gp", "cmaes", "nsgaii", "nsgaiii"})
"""Samplers that choose configs on the basis of earlier scores."""


def summarise_sweep(
    ledger: Ledger, records: Sequence[Record], missed: Sequence[Failure] = (), weighed: bool = True,
    labels: Sequence[HumanLabel] | None = None, declared: object = None,
) -> SweepSummary:  # fmt: skip
    """Summarise the records of a sweep; if ``weighed`` is true, compare its configs and conclude with a verdict.

    ``missed`` are the failures of jobs without a record. ``labels`` are human labels, which correct judged scores; if
    None, they are read from the file that the sweep's configs name. ``declared`` is the declared baseline; if None, the
    baseline in the configs is used.
    """
    given = records
    sweep = records[0].sweep if records else None
    stored = {record.job: record.outcome.name for record in records}
    names = number_configs(stored)
    records = [replace(record, outcome=record.outcome.renamed(names[record.job])) for record in records]
    jobs = results_by_job(records)
    results = list(jobs.values())
    labels = _recorded_labels(results) if labels is None else labels
    failures = [*(record.outcome for record in records if isinstance(record.outcome, Failure)), *missed]
    study = read_summary(ledger.path, sweep) if sweep else None
    broken = study.broken() if study else {}
    excluded = [
        ExcludedConfig(one.outcome.name, f"excluded by {broken[one.job]}") for one in records if one.job in broken
    ]
    excluded += list_references(results)
    baseline, today = find_baseline(declared, names, results, ledger)
    allowed = without_excluded(results, excluded)
    people = SweepLabels(labels, {record.outcome.name: record.run or "" for record in records})
    beside = [baseline] if baseline and all(baseline is not one for one in results) else []
    verdict = _compare([*allowed, *beside], failures, excluded, people, today) if weighed and results else None
    if study and study.sampler in ADAPTIVE and isinstance(verdict, SweepComparison):
        verdict = replace(verdict, adaptive=True)
    evaluated = ledger.finalists(sweep) if sweep else []
    chosen, metric = choose(allowed, verdict), verdict.metric if isinstance(verdict, SweepComparison) else ""
    if evaluated and (labels or declared is not None):  # neither affects the choice of finalists
        own = summarise_sweep(ledger, given, missed, weighed, labels=())
        chosen, metric = choose(own.allowed, own.verdict), own.finalists.metric
    finalists = _finalists(
        evaluated, {stored[job]: names[job] for job in stored}, chosen, metric, (labels, today), study
    )
    return SweepSummary(
        results,
        failures,
        _conclude(ledger, verdict, results, finalists, study is not None, _missing(ledger, sweep, records, missed)),
        excluded,
        study,
        jobs,
        finalists,
        finalists.gap or _gap(ledger, [one for one in results if one.run.state != DROPPED], verdict),
        beside,
        ledger,
    )


def _finalists(
    evaluated: Sequence[Record],
    names: Mapping[str, str],
    chosen: Sequence[Result],
    metric: str,
    compared: tuple[Sequence[HumanLabel], str | None],
    study: StudySummary | None,
) -> Finalists:
    """Collect the holdout results of the ``chosen`` configs, and compare those that meet the search's constraints.

    ``evaluated`` are all records of finalists, and ``names`` maps configs' names in the ledger to their numbered names.
    ``compared`` contains the human labels and the name of the declared baseline.
    """
    plain = [record.outcome.name.removesuffix(SUFFIX) for record in evaluated]
    numbered = [names.get(name, name) for name in plain]
    renamed = [record.outcome.renamed(name + SUFFIX) for name, record in zip(numbered, evaluated, strict=True)]
    found, (labels, baseline) = collect_finalists(renamed, chosen, metric), compared
    if found.verdict is not None or len(found.results) + len(found.failures) < 2:
        return found
    people = SweepLabels(labels, {name: record.run or "" for name, record in zip(numbered, evaluated, strict=True)})
    results, failures = found.named()
    broken = {one.name: study.broken_on_holdout(one) if study else "" for one in results}
    excluded = [ExcludedConfig(name, f"excluded by {which}") for name, which in broken.items() if which]
    return replace(found, verdict=_compare(without_excluded(results, excluded), failures, excluded, people, baseline))


def _missing(ledger: Ledger, identifier: str | None, records: Sequence[Record], missed: Sequence[Failure]) -> int:
    """Return how many of a sweep's configs are in neither ``records`` nor ``missed``; 0 for a search."""
    planned = [len(sweep.jobs) for sweep in ledger.sweeps() if sweep.id == identifier and any(sweep.jobs)]
    return max(sum(planned) - len(records) - len(missed), 0)


def choose_finalists(ledger: Ledger, most: int, sweep: Sweep) -> list[tuple[str, Result]]:
    """Choose the finalists of a search (see `choose`); return their names in the ledger, and their search results.

    The choice uses scores without corrections by human labels. Otherwise, labels that are added later could lead to
    different finalists, whose evaluation would use the holdout again.
    """
    records = ledger.records(sweep.id)
    names = {record.job: record.outcome.name for record in records}
    summary = summarise_sweep(ledger, records, labels=())
    stored = {result.name: names[job] for job, result in summary.jobs.items()}
    return [(stored[result.name], result) for result in choose(summary.allowed, summary.verdict, most)]


def _conclude(
    ledger: Ledger,
    verdict: SweepComparison | NoComparison | None,
    results: Sequence[Result],
    finalists: Finalists,
    is_search: bool,
    missing: int,
) -> SweepConclusion:
    """Return a sweep's conclusion; it is based on the holdout if a search evaluated its finalists there."""
    where = "on the questions that the search used" if is_search else ""
    if finalists.verdict:
        where = f"on {finalists.questions:,} questions that the search did not use" if finalists.questions else ""
    return replace(
        conclude(verdict, results, finalists.verdict, where),
        holdout_views=ledger.holdout_views(results[0].run.dataset.undivided) if results else 0,
        holdout_configs=sum(one.run.dataset.partition == HOLDOUT for one in (*results, *finalists.results)),
        missing=missing,
    )


def _recorded_labels(results: Sequence[Result]) -> list[HumanLabel]:
    """Read the human labels named in a sweep's configs; if they cannot be read, log a warning and return []."""
    try:
        return read_sweep_labels([one.run.config for one in results])
    except RagsweepError as fault:
        logging.getLogger(__name__).warning("the verdict uses scores without corrections by human labels: %s", fault)
        return []


def _gap(ledger: Ledger, results: Sequence[Result], verdict: SweepComparison | NoComparison | None) -> Gap | None:
    if verdict is None or not results or any(one.run.dataset.partition != HOLDOUT for one in results):
        return None
    names = [*objectives(results[0].run.config), *headline(results), ""]  # the objective may be null
    metric = verdict.metric if isinstance(verdict, SweepComparison) else names[0]
    tuned = [record.outcome for record in ledger.tune_records(results[0].run.dataset.undivided)]
    return holdout_gap(results, [one for one in tuned if isinstance(one, Result)], metric)


def _compare(
    results: Sequence[Result], failures: Sequence[Failure], excluded: Sequence[ExcludedConfig], labels: SweepLabels,
    baseline: str | None,
) -> SweepComparison | NoComparison:  # fmt: skip
    try:
        return compare_labelled(results, labels, failures, excluded, baseline)
    except InputError as fault:
        return NoComparison(str(fault))
    except Exception as fault:  # if the comparison fails, the results must still be kept
        logging.getLogger(__name__).exception("the configs could not be compared")
        return NoComparison(f"the comparison failed: {describe_fault(fault)}; please report this error")


MOST_PAST = 50
"""Maximum number of past sweeps that a report page lists."""


def past_sweeps(ledger: Ledger, until: str, facts: DatasetFacts, metric: str) -> list[PastSweep]:
    """List the sweeps on a dataset's questions, from the oldest to the latest, each with its best config by a metric.

    Sweeps without a best config, and sweeps after the sweep with the id ``until``, are omitted. At most the latest
    `MOST_PAST` sweeps are listed.
    """
    found, past = ledger.summaries(facts.undivided, facts.partition, metric), []
    for sweep in ledger.sweeps():
        known = {job: one for job, one in found.get(sweep.id, {}).items() if math.isfinite(one[1].value)}
        ranked = _best_first({job: one[1] for job, one in known.items()}, partial(ledger.record, sweep.id))
        if best := _first_allowed(ledger, sweep.id, ranked):
            name = number_configs({job: label for job, (label, *_) in known.items()})[best.job]
            title, value = sweep_title(sweep), known[best.job][1]
            past.append(PastSweep(reference(sweep), title, sweep.created, len(known), name, value))
        if sweep.id == until:
            break
    return past[-MOST_PAST:]


def best_of(ledger: Ledger, sweep: str, records: Sequence[Record]) -> tuple[str, Result, Summary] | None:
    """Return a sweep's best config by its deciding metric: the numbered name, the result and the metric's summary.

    Configs that are not completely evaluated, or have no value of the metric, are ignored. So are configs that the
    sweep excludes (trials that violate a constraint, and configs for reference). Configs that refuse every answerable
    question are ignored unless all the remaining configs refuse them, too. Return None if no config remains, or if
    configs have different questions.
    """
    if len(_by_questions(records)) > 1:
        return None
    names = number_configs({record.job: record.outcome.name for record in records})
    results = results_by_job(records)
    metric = deciding_metric(list(results.values()))
    summaries = {job: one.summaries.metrics.get(metric) for job, one in results.items() if one.run.state == COMPLETE}
    valued = {job: one for job, one in summaries.items() if one and math.isfinite(one.value)}
    by_job = {record.job: record for record in records}
    best = _first_allowed(ledger, sweep, _best_first(valued, by_job.__getitem__))
    return (names[best.job], results[best.job], valued[best.job]) if best else None


def _best_first(summaries: Mapping[int, Summary], read: Callable[[int], Record]) -> Iterator[Record]:
    """Yield the records of the jobs in ``summaries``, best value first; each is read with ``read`` when it is needed.

    If a config failed on a question, the summaries cover different questions. Comparable configs are then ordered by
    their means over the questions on which all of them were scored; declined answers are scored as in the verdict.
    """
    jobs = sorted(summaries, key=lambda job: goodness(summaries[job]), reverse=True)
    if any(one.n_failed for one in summaries.values()):
        known = [outcome for job in jobs if isinstance(outcome := read(job).outcome, Result)]
        metric = summaries[jobs[0]].name
        if len(known) == len(jobs) and not reason_incomparable(known, metric):
            means = score_matrix(known, metric).better
            jobs = [jobs[n] for n in np.argsort(-means.mean(axis=1), kind="stable")] if means.size else jobs
    yield from map(read, jobs)


def _first_allowed(ledger: Ledger, sweep: str, ranked: Iterable[Record]) -> Record | None:
    """Return the first record whose config can be its sweep's best (see `best_of`), or None; read no later record."""
    broken = broken_trials(ledger.path, sweep)
    refusing: Record | None = None
    for record in ranked:
        if record.job in broken or not isinstance(record.outcome, Result):
            continue
        if is_reference(record.outcome) and not all(map(is_reference, sweep_results(ledger, sweep))):
            continue
        if not refuses_all(record.outcome):
            return record
        refusing = refusing or record
    return refusing


def _by_questions(records: Iterable[Record]) -> list[list[Record]]:
    """Return the records that have results, as one list for each golden set."""
    groups: dict[str, list[Record]] = {}
    for record in records:
        if isinstance(record.outcome, Result):
            groups.setdefault(record.outcome.run.dataset.golden_digest, []).append(record)
    return list(groups.values())


def recorded_sweeps(ledger: Ledger) -> Iterator[tuple[PastSweep, Result]]:
    """Yield each sweep that has a best config (see `best_of`), with that config's result, oldest sweep first.

    A sweep over several golden sets is yielded once for each of them.
    """
    for sweep in ledger.sweeps():
        for records in _by_questions(ledger.records(sweep.id)):
            if best := best_of(ledger, sweep.id, records):
                name, result, summary = best
                past = reference(sweep), sweep_title(sweep), sweep.created, len(records), name, summary
                yield PastSweep(*past), result
