"""Compare two configs question by question, as rows for the terminal, JSON and reports."""

from __future__ import annotations

import math
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
    labels_of,
    redefined_metrics,
    shared_metrics,
)
from ragsweep.stats.context_length import length_keys
from ragsweep.stats.human_labels import (
    MARKS,
    are_marks,
    check_corrected,
    correct_difference,
    match_labels,
    reason_uncorrected,
)
from ragsweep.stats.inference.differences import Differences, transform_amounts
from ragsweep.stats.inference.matrix import Matrix
from ragsweep.stats.inference.paired_tests import holm
from ragsweep.stats.inference.slices import by_slice
from ragsweep.stats.pairs import Family, PairComparison
from ragsweep.stats.repetition import VarianceShares, variance_shares
from ragsweep.stats.verdict import shown_kind
from ragsweep.sweep.baseline import find_baseline
from ragsweep.sweep.recorded_runs import RecordedRun, open_ledger
from ragsweep.sweep.retrieved import JudgedContexts, judged_contexts
from ragsweep.sweep.session import Session


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
        row = _metric_row(pair, matrix, float(p_holm), unit)
        if labels:
            row = {**row, **_corrected(labels, matrix, (baseline, candidate), row)}
        metrics.append(row)
        safe = np.array([False, bool(length_keys(before, after, matrix))])
        slices += _slice_rows(matrix, pair.found.ratios, before, unit, safe)
        questions += _question_rows(matrix)
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


def _metric_row(pair: PairComparison, matrix: Matrix, p_holm: float, unit: str) -> Row:
    found, other = pair.found, pair.rows[1]
    baseline, candidate = matrix.better
    helped, hurt = int((candidate > baseline).sum()), int((candidate < baseline).sum())
    means = matrix.values.mean(axis=1).tolist() if matrix.questions else (float("nan"),) * 2
    return {
        "metric": matrix.metric,
        "baseline": means[0],
        "candidate": means[1],
        "difference": means[1] - means[0],
        **_ends(found.estimate[other], found.low[other], found.high[other], found.ratios),
        "verdict": pair_words(pair.verdict, unit, found.ratios),
        "probability_better": pair.verdict.probability,
        "compared_among": len(pair.matrix.configs),
        "p_wilcoxon": float(found.wilcoxon[other]),
        "p_randomisation": float(found.randomisation[other]),
        "p_holm": p_holm,  # p of the randomisation test, corrected for all compared metrics
        "effect_size": float(found.effect[other]),
        "helped": helped,
        "hurt": hurt,
        "alike": len(matrix.questions) - helped - hurt,
        "questions": len(matrix.questions),
        "scored": matrix.asked,
        "coverage": matrix.coverage,
        "higher_is_better": matrix.higher_is_better,
        "note": "; ".join(
            filter(None, (found.notes[other] or _disagreement(found, other, means), matrix.declined_note))
        ),
        "unit": unit,
    }


def _ends(estimate: float, low: float, high: float, ratios: bool) -> Row:
    """Return the intervals of the difference and of the ratio; None for a missing one."""
    ends = [float(low), float(high)]
    ratio = [math.exp(one) for one in (float(estimate), *ends)] if ratios else [None] * 3
    shown = [math.nan] * 2 if ratios else ends
    return dict(zip(("low", "high", "ratio", "ratio_low", "ratio_high"), (*shown, *ratio), strict=True))


def _disagreement(found: Differences, row: int, means: Sequence[float]) -> str:
    """Return a note if most questions and the mean disagree on the sign of a shown difference."""
    if found.ratios and (found.better[row] or found.worse[row]) and (means[1] - means[0]) * found.estimate[row] < 0:
        return "the typical question and the mean differ in opposite directions: a few large values dominate the mean"
    return ""


def _corrected(labels: Sequence[HumanLabel], matrix: Matrix, runs: Sequence[RecordedRun], row: Row) -> Row:
    """Return the corrected difference of a metric, and its verdict; NaN without labels."""
    nothing = math.nan
    if not any(label.metric == matrix.metric for label in labels):
        return {
            "judged_verdict": row["verdict"],
            "corrected": nothing,
            "corrected_low": nothing,
            "corrected_high": nothing,
            "labels": 0,
        }
    matched = match_labels(labels, matrix.metric, [run.result for run in runs], [run.run for run in runs], matrix)
    found = correct_difference(matrix, matched, (0, 1))
    check_corrected(matched, found, matrix.metric)
    above, below = bool(found.low > 0), bool(found.high < 0)
    up, down = (above, below) if matrix.higher_is_better else (below, above)
    notes = [row["note"], reason_uncorrected(matched, found, matrix.metric)]
    notes += [matched.why_unused()] if found.value == found.value else []
    notes += [MARKS] if are_marks(labels, matrix.metric, matrix) else []
    return {
        "verdict": shown_kind(up, down, found.low == found.high == 0),
        "judged_verdict": row["verdict"],
        "corrected": found.value,
        "corrected_low": found.low,
        "corrected_high": found.high,
        "labels": found.labels,
        "note": "; ".join(filter(None, notes)),
    }


def _slice_rows(matrix: Matrix, ratios: bool, baseline: Result, unit: str, safe: np.ndarray) -> list[Row]:
    values = {label: np.array(column) for label, column in labels_of(baseline, matrix.questions).items()}
    return [
        {
            "metric": matrix.metric,
            "label": part.label,
            "value": part.value,
            "questions": part.questions,
            "small": part.small,
            "difference": _mean_difference(matrix, values[part.label] == part.value),
            **_ends(part.estimate[1], part.low[1], part.high[1], ratios),
            "p_holm": float(part.p_holm[1]),
            "verdict": shown_kind(part.better[1], part.worse[1], part.low[1] == part.high[1] == 0),
            "note": part.doubt(1),
            "unit": unit,
        }
        for part in by_slice(transform_amounts(matrix, unit), labels_of(baseline, matrix.questions), rising=safe)
    ]


def _mean_difference(matrix: Matrix, chosen: np.ndarray) -> float:
    baseline, candidate = matrix.select_questions(chosen).values.mean(axis=1).tolist()
    return float(candidate - baseline)


def _question_rows(matrix: Matrix) -> list[Row]:
    baseline, candidate = matrix.scores
    gain = (candidate - baseline) * (1.0 if matrix.higher_is_better else -1.0)
    return [
        {
            "metric": matrix.metric,
            "question_id": matrix.questions[n],
            "baseline": float(baseline[n]),
            "candidate": float(candidate[n]),
            "difference": float(candidate[n] - baseline[n]),
        }
        for n in np.argsort(-gain, kind="stable").tolist()
        if gain[n]
    ]


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
