"""Two configs as rows of plain data: by metric, by slice, and by question; candidate less baseline."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ragsweep.core.results import HumanLabel, Result
from ragsweep.stats.comparable import labels_of
from ragsweep.stats.human_labels import (
    MARKS,
    are_marks,
    check_corrected,
    correct_difference,
    match_labels,
    reason_uncorrected,
)
from ragsweep.stats.inference.estimates import Differences
from ragsweep.stats.inference.matrix import Matrix, transform_amounts
from ragsweep.stats.inference.slices import by_slice
from ragsweep.stats.pairs import PairComparison
from ragsweep.stats.verdict import shown_kind

Row = Mapping[str, Any]


def metric_row(pair: PairComparison, matrix: Matrix, p_holm: float, unit: str) -> Row:
    """Return a metric's means, difference, verdict and tests; ``p_holm`` is corrected for all compared metrics."""
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
        "verdict": pair.verdict.kind,
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


def corrected_row(
    labels: Sequence[HumanLabel], matrix: Matrix, results: Sequence[Result], runs: Sequence[str], row: Row
) -> Row:
    """Return a metric's difference corrected by labels, and its verdict; NaN without labels.

    ``runs`` are the ids of the results' runs, ``row`` is the metric's row without correction.
    """
    nothing = math.nan
    if not any(label.metric == matrix.metric for label in labels):
        return {
            "judged_verdict": row["verdict"],
            "corrected": nothing,
            "corrected_low": nothing,
            "corrected_high": nothing,
            "labels": 0,
        }
    matched = match_labels(labels, matrix.metric, results, runs, matrix)
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


def slice_rows(matrix: Matrix, ratios: bool, baseline: Result, unit: str, safe: np.ndarray) -> list[Row]:
    """Return the difference on each slice; ``safe`` marks the configs whose longer context explains a rise."""
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


def question_rows(matrix: Matrix) -> list[Row]:
    """Return the questions whose score differs, most helped first."""
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
