"""Summarise the records of a sweep: at its end, when shown again, and when tracked later."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from ragsweep.core.errors import InputError, RagsweepError, describe_fault
from ragsweep.core.results import DROPPED, Failure, HumanLabel, Result, objectives
from ragsweep.golden.partition import HOLDOUT
from ragsweep.records.ledger import Ledger, Record, Sweep
from ragsweep.report.naming import number_configs
from ragsweep.stats.comparison import ExcludedConfig, NoComparison, SweepComparison, list_references
from ragsweep.stats.conclude import conclude
from ragsweep.stats.conclusion import SweepConclusion
from ragsweep.stats.holdout_gap import Gap, holdout_gap
from ragsweep.stats.labelled_comparison import SweepLabels, compare_labelled
from ragsweep.sweep.composing.job import SUFFIX
from ragsweep.sweep.composing.settings import read_sweep_labels
from ragsweep.sweep.concluding.finalists import Finalists, choose, collect_finalists
from ragsweep.sweep.concluding.past_sweeps import past_sweeps
from ragsweep.sweep.concluding.recorded_baseline import find_baseline
from ragsweep.sweep.concluding.sweep_summary import SweepSummary, without_excluded
from ragsweep.sweep.searching.study_summary import read_summary, study_folder

ADAPTIVE = frozenset({"tpe", "gp", "cmaes", "nsgaii", "nsgaiii"})
"""Samplers that choose configs on the basis of earlier scores."""


def summarise_sweep(
    ledger: Ledger, records: Sequence[Record], missed: Sequence[Failure] = (), weighed: bool = True,
    labels: Sequence[HumanLabel] | None = None, declared: object = None,
) -> SweepSummary:  # fmt: skip
    """Summarise the records of a sweep, with a verdict unless ``weighed`` is false.

    ``missed`` are the failures of jobs without a record. ``labels`` are human labels, which correct judged scores;
    None: those of the file that the sweep's config names. ``declared`` is the declared baseline; None: the one in the
    sweep's config.
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
    excluded = [
        ExcludedConfig(one.outcome.name, f"excluded by {broken[one.job]}") for one in records if one.job in broken
    ]
    excluded += list_references(results)
    allowed = without_excluded(results, excluded)
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
        finalists.gap or _gap(ledger, [one for one in results if one.run.state != DROPPED], verdict),
        beside,
        ledger.path,
    )


def choose_finalists(ledger: Ledger, most: int, sweep: Sweep) -> list[tuple[str, Result]]:
    """Choose the finalists of a search (see `finalists.choose`); return their names in the ledger, and their results.

    The scores that decide are not corrected by human labels: otherwise later labels could choose other finalists, which
    would use the holdout again.
    """
    records = ledger.records(sweep.id)
    names = {record.job: record.outcome.name for record in records}
    summary = summarise_sweep(ledger, records, labels=())
    stored = {result.name: names[job] for job, result in summary.jobs.items()}
    return [(stored[result.name], result) for result in summary.contenders(most)]


def _conclude(
    ledger: Ledger,
    verdict: SweepComparison | NoComparison | None,
    results: Sequence[Result],
    finalists: Finalists,
    is_search: bool,
) -> SweepConclusion:
    """Return a sweep's conclusion, which is drawn on the holdout if a search evaluated its finalists there."""
    where = "on the questions by which the search chose" if is_search else ""
    if finalists.verdict:
        where = f"on {finalists.questions:,} questions that the search has not seen"
    return replace(
        conclude(verdict, results, finalists.verdict, finalists.results, where),
        holdout_views=ledger.holdout_views(results[0].run.dataset.undivided) if results else 0,
        holdout_configs=sum(one.run.dataset.partition == HOLDOUT for one in (*results, *finalists.results)),
    )


def _recorded_labels(records: Sequence[Record]) -> list[HumanLabel]:
    """Read the human labels of a sweep; if they cannot be read, log a warning and return none."""
    results = [record.outcome for record in records if isinstance(record.outcome, Result)]
    named = {(result.run.config.get("judge") or {}).get("labels"): result.run.config for result in results}
    try:
        return read_sweep_labels([config for path, config in named.items() if path])
    except RagsweepError as fault:
        logging.getLogger(__name__).warning("the verdict uses scores without corrections by human labels: %s", fault)
        return []


def _renamed(record: Record, name: str) -> Record:
    return replace(record, outcome=record.outcome.renamed(name))


def _numbered_finalists(records: Sequence[Record], names: Mapping[str, str]) -> list[Result | Failure]:
    """Return holdout outcomes, each under the numbered name of its trial, with `SUFFIX`."""
    plain = [record.outcome.name.removesuffix(SUFFIX) for record in records]
    return [
        _renamed(record, names.get(name, name) + SUFFIX).outcome for record, name in zip(records, plain, strict=True)
    ]


def _gap(ledger: Ledger, results: Sequence[Result], verdict: SweepComparison | NoComparison | None) -> Gap | None:
    if verdict is None or not results or any(one.run.dataset.partition != HOLDOUT for one in results):
        return None
    metric = verdict.metric if isinstance(verdict, SweepComparison) else objectives(results[0].run.config)[0]
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
    except Exception as fault:  # failing conclusions must not lose the results
        logging.getLogger(__name__).exception("the configs could not be compared")
        return NoComparison(f"could not be made: {describe_fault(fault)}; please report it")
