"""Two configs compared, question by question: rows for the screen, for programs and for a report."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ragsweep.commands.command_line import RecordedRun, check_labelled, usual_metrics
from ragsweep.core.results import HumanLabel, Result
from ragsweep.report.numbers import verdict_word
from ragsweep.report.tables import Row
from ragsweep.stats.comparable import (
    Factor,
    check_same_questions,
    check_whole,
    factors,
    labels_of,
    redefined_metrics,
    shared_metrics,
)
from ragsweep.stats.comparison import rising_configs
from ragsweep.stats.human_labels import (
    MARKS,
    are_marks,
    check_corrected,
    correct_difference,
    match_labels,
    reason_uncorrected,
)
from ragsweep.stats.inference.differences import Differences, compare_amounts, transform_amounts
from ragsweep.stats.inference.matrix import Matrix, score_matrix
from ragsweep.stats.inference.paired_tests import holm
from ragsweep.stats.inference.slices import by_slice
from ragsweep.stats.repetition import VarianceShares, variance_shares
from ragsweep.sweep.retrieved import JudgedContexts, judged_contexts
from ragsweep.sweep.session import Session


@dataclass(frozen=True)
class Comparison:
    """Two configs compared: candidate less baseline, in each metric's unit and direction."""

    baseline: RecordedRun
    candidate: RecordedRun
    factors: tuple[Factor, ...]
    warnings: list[str]
    metrics: list[Row]  # one a metric
    slices: list[Row]  # one a metric and a value of a label
    questions: list[Row]  # one a metric and a question whose score differs, most helped first
    variance: dict[str, VarianceShares]  # by metric, where answers are repeated
    judged: JudgedContexts | None  # None where the corpus is not there any more


def compare_runs(
    baseline: RecordedRun, candidate: RecordedRun, wanted: Sequence[str] | None, labels: Sequence[HumanLabel]
) -> Comparison:
    """Compare two configs; where there are labels of a metric, they decide.

    Raises:
        RagsweepError: Their questions differ, one is PARTIAL, a wanted metric cannot be compared, or labels are of no
            metric that is compared, or of no answer.
    """
    results = before, after = baseline.result, candidate.result
    check_same_questions(before, after)
    for result in results:
        check_whole(result)
    labelled = dict.fromkeys(label.metric for label in labels)
    names = shared_metrics(results, wanted, [*usual_metrics(results), *labelled])
    check_labelled(labels, names)
    matrices = [score_matrix(results, name) for name in names]
    units = [before.summaries[name].unit for name in names]
    differences = [compare_amounts(matrix, 0, unit, rising_configs(results, matrix))
                   for matrix, unit in zip(matrices, units, strict=True)]  # fmt: skip
    corrected = holm(np.array([found.randomisation[1] for found in differences]))
    metrics, slices, questions = list[Row](), list[Row](), list[Row]()
    for matrix, unit, found, p_holm in zip(matrices, units, differences, corrected, strict=True):
        row = _metric_row(matrix, found, float(p_holm), unit)
        if labels:
            row = {**row, **_corrected(labels, matrix, (baseline, candidate), row)}
        metrics.append(row)
        slices += _slice_rows(matrix, found.ratios, before, unit, rising_configs(results, matrix))
        questions += _question_rows(matrix)
    differing = factors(before, after)
    warnings = _warnings(before, after, differing, names)
    variance = {matrix.metric: shares for matrix in matrices if (shares := variance_shares(results, matrix))}
    judged = judged_contexts(Session(), before, after)
    return Comparison(baseline, candidate, differing, warnings, metrics, slices, questions, variance, judged)


def _metric_row(matrix: Matrix, found: Differences, p_holm: float, unit: str) -> Row:
    baseline, candidate = matrix.better
    helped, hurt = int((candidate > baseline).sum()), int((candidate < baseline).sum())
    means = matrix.values.mean(axis=1).tolist() if matrix.questions else (float("nan"),) * 2
    return {
        "metric": matrix.metric,
        "baseline": means[0],
        "candidate": means[1],
        "difference": means[1] - means[0],
        **_ends(found.estimate[1], found.low[1], found.high[1], found.ratios),
        "verdict": verdict_word(found.better[1], found.worse[1], not found.apart[1]),
        "p_wilcoxon": float(found.wilcoxon[1]),
        "p_randomisation": float(found.randomisation[1]),
        "p_holm": p_holm,  # of the randomisation test, corrected for all metrics that are compared
        "effect_size": float(found.effect[1]),
        "helped": helped,
        "hurt": hurt,
        "alike": len(matrix.questions) - helped - hurt,
        "questions": len(matrix.questions),
        "scored": matrix.asked,
        "coverage": matrix.coverage,
        "higher_is_better": matrix.higher_is_better,
        "note": found.notes[1] or _disagreement(found, means),
        "unit": unit,
    }


def _ends(estimate: float, low: float, high: float, ratios: bool) -> Row:
    """Return the interval: of the difference, or that of the ratio beside it, which is None where there is none."""
    ends = [float(low), float(high)]
    ratio = [math.exp(one) for one in (float(estimate), *ends)] if ratios else [None] * 3
    shown = [math.nan] * 2 if ratios else ends
    return dict(zip(("low", "high", "ratio", "ratio_low", "ratio_high"), (*shown, *ratio), strict=True))


def _disagreement(found: Differences, means: Sequence[float]) -> str:
    """Return a note where most questions and the mean disagree on the side of a difference that is shown."""
    if found.ratios and (found.better[1] or found.worse[1]) and (means[1] - means[0]) * found.estimate[1] < 0:
        return "the typical question and the mean differ in opposite directions: a few large values decide the mean"
    return ""


def _corrected(labels: Sequence[HumanLabel], matrix: Matrix, runs: Sequence[RecordedRun], row: Row) -> Row:
    """Return the corrected difference of a metric, and the verdict that it decides; NaN where there are no labels."""
    nothing = math.nan
    if not any(label.metric == matrix.metric for label in labels):
        return {"judged_verdict": row["verdict"], "corrected": nothing, "corrected_low": nothing,
                "corrected_high": nothing, "labels": 0}  # fmt: skip
    matched = match_labels(labels, matrix.metric, [run.result for run in runs], [run.run for run in runs], matrix)
    found = correct_difference(matrix, matched, (0, 1))
    check_corrected(matched, found, matrix.metric)
    above, below = bool(found.low > 0), bool(found.high < 0)
    up, down = (above, below) if matrix.higher_is_better else (below, above)
    notes = [row["note"], reason_uncorrected(matched, found, matrix.metric)]
    notes += [matched.why_unused()] if found.value == found.value else []
    notes += [MARKS] if are_marks(labels, matrix.metric, matrix) else []
    return {
        "verdict": verdict_word(up, down, found.low == found.high == 0),
        "judged_verdict": row["verdict"],
        "corrected": found.value,
        "corrected_low": found.low,
        "corrected_high": found.high,
        "labels": found.labels,
        "note": "; ".join(filter(None, notes)),
    }


def _slice_rows(
    matrix: Matrix, ratios: bool, baseline: Result, unit: str, rising: np.ndarray | None
) -> list[Row]:  # fmt: skip
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
            "verdict": verdict_word(part.better[1], part.worse[1], part.low[1] == part.high[1] == 0),
            "note": part.doubt(1),
            "unit": unit,
        }
        for part in by_slice(transform_amounts(matrix, unit), labels_of(baseline, matrix.questions), rising=rising)
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
        warnings.append(f"they differ in {len(differing)} factors: which of them makes a difference cannot be told")
    if not differing:
        kind = "is one and the same" if before.signature == after.signature else "differs in no parameter"
        warnings.append(f"the config of both {kind}: a difference is chance, or due to what no parameter states")
    if redefined := redefined_metrics(before, after, metrics):
        warnings.append(f"not measured in the same way in both: {', '.join(redefined)}")
    return warnings
