"""Compare two configs question by question, as rows for the terminal, JSON and reports."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ragsweep.commands.command_line import usual_metrics
from ragsweep.commands.labels import check_labelled
from ragsweep.core.results import HumanLabel, Result
from ragsweep.report.naming import number_configs
from ragsweep.report.numbers import change_with_interval
from ragsweep.report.tables import Row
from ragsweep.report.verdict import pair_words
from ragsweep.stats.comparable import (
    Factor,
    check_same_questions,
    check_whole,
    factors,
    redefined_metrics,
    shared_metrics,
)
from ragsweep.stats.context_length import length_keys
from ragsweep.stats.inference.paired_tests import holm
from ragsweep.stats.pair_rows import corrected_row, metric_row, question_rows, slice_rows
from ragsweep.stats.pairs import Family, PairComparison
from ragsweep.stats.repetition import VarianceShares, variance_shares
from ragsweep.sweep.concluding.recorded_baseline import find_baseline
from ragsweep.sweep.concluding.recorded_runs import RecordedRun, open_ledger
from ragsweep.sweep.running.retrieved import JudgedContexts, judged_contexts
from ragsweep.sweep.running.session import Session


@dataclass(frozen=True)
class Comparison:
    """A comparison of two configs: candidate minus baseline, in each metric's unit and direction."""

    baseline: RecordedRun
    candidate: RecordedRun
    factors: tuple[Factor, ...]
    warnings: list[str]
    metrics: list[Row]  # one per metric
    slices: list[Row]  # one per metric and value of a label
    questions: list[Row]  # one per metric and question whose score differs, most helped first
    variance: dict[str, VarianceShares]  # by metric, where answers are repeated
    judged: JudgedContexts | None  # None if the corpus is missing


def compare_runs(
    baseline: RecordedRun,
    candidate: RecordedRun,
    wanted: Sequence[str] | None,
    labels: Sequence[HumanLabel],
    family: Family | None = None,
) -> Comparison:
    """Compare two configs, corrected for their ``family``; if a metric has labels, the corrected difference decides.

    Raises:
        RagsweepError: Their questions differ, one is PARTIAL, a wanted metric cannot be compared, or no label belongs
            to a compared metric or to an answer.
    """
    results = before, after = baseline.result, candidate.result
    check_same_questions(before, after)
    for result in results:
        check_whole(result)
    labelled = dict.fromkeys(label.metric for label in labels)
    names = shared_metrics(results, wanted, [*usual_metrics(results), *labelled])
    check_labelled(labels, names)
    pairs = [(family or Family(results)).compare(before, after, name) for name in names]
    matrices = [pair.matrix.select_configs(pair.rows) for pair in pairs]
    corrected = holm(np.array([pair.found.randomisation[pair.rows[1]] for pair in pairs]))
    metrics, slices, questions = list[Row](), list[Row](), list[Row]()
    for pair, matrix, p_holm in zip(pairs, matrices, corrected, strict=True):
        unit = before.summaries[matrix.metric].unit
        words = pair_words(pair.verdict, unit, pair.found.ratios)
        row = {**metric_row(pair, matrix, float(p_holm), unit), "verdict": words}
        if labels:
            row |= corrected_row(labels, matrix, results, (baseline.run, candidate.run), row)
        metrics.append(row)
        safe = np.array([False, bool(length_keys(before, after, matrix))])
        slices += slice_rows(matrix, pair.found.ratios, before, unit, safe)
        questions += question_rows(matrix)
    differing = factors(before, after)
    warnings = _warnings(before, after, differing, names)
    variance = {matrix.metric: shares for matrix in matrices if (shares := variance_shares(results, matrix))}
    judged = judged_contexts(Session(), before, after)
    return Comparison(baseline, candidate, differing, warnings, metrics, slices, questions, variance, judged)


def find_family(path: str, baseline: RecordedRun, candidate: RecordedRun) -> Family | None:
    """Return the sweep that contains both runs, or that contains one and has the other as its baseline."""
    ledger, given = open_ledger(path), [baseline.result, candidate.result]
    for sweep in dict.fromkeys(run.sweep for run in (candidate, baseline) if run.sweep):
        records = ledger.records(sweep)
        names = number_configs({record.job: record.outcome.name for record in records})
        results = [
            replace(record.outcome, name=names[record.job]) for record in records if isinstance(record.outcome, Result)
        ]
        declared = find_baseline(None, names, results, ledger)
        beside = [declared] if declared and all(one is not declared for one in results) else []
        own = {one.name: _given(one, given) for one in (*results, *beside)}
        if all(any(one is run for one in own.values()) for run in given):
            return Family(list(own.values()), None if declared is None else own[declared.name].name)
    return None


def pair_verdicts(path: str, baseline: RecordedRun, candidate: RecordedRun, metrics: Iterable[str]) -> dict[str, str]:
    """Return metric -> verdict on the candidate, in words with the difference, as ``compare`` prints it."""
    first, second = baseline.result, candidate.result
    family = find_family(path, baseline, candidate) or Family([first, second])
    pairs = {metric: family.compare(first, second, metric) for metric in metrics}
    return {metric: _verdict_text(pair, first.summaries[metric].unit) for metric, pair in pairs.items()}


def _verdict_text(pair: PairComparison, unit: str) -> str:
    found, row = pair.found, pair.rows[1]
    estimate, low, high = (float(one[row]) for one in (found.estimate, found.low, found.high))
    difference = change_with_interval(estimate, low, high, unit, found.ratios)
    return f"{pair_words(pair.verdict, unit, found.ratios)}, {difference}"


def _given(result: Result, given: Sequence[Result]) -> Result:
    """Return the given result of the same config, else the result."""
    what = (result.signature, result.overrides)
    return next((one for one in given if (one.signature, one.overrides) == what), result)


def _warnings(before: Result, after: Result, differing: Sequence[Factor], metrics: Sequence[str]) -> list[str]:
    warnings = []
    if len(differing) > 1:
        warnings.append(f"they differ in {len(differing)} factors: the effect of each is not identified")
    if not differing:
        kind = "is one and the same" if before.signature == after.signature else "differs in no parameter"
        warnings.append(f"the config of both {kind}: a difference is chance, or due to what no parameter states")
    if redefined := redefined_metrics(before, after, metrics):
        warnings.append(f"not measured in the same way in both: {', '.join(redefined)}")
    return warnings
