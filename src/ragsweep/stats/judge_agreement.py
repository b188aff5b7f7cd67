"""Measure the agreement of a metric's judge with human labels."""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ragsweep.core.errors import InputError
from ragsweep.stats.calibration import Interval, Share, confusion, corrected_share, kappa_interval
from ragsweep.stats.inference.matrix import Matrix
from ragsweep.stats.inference.prediction_powered import prediction_powered

UNKNOWN = "not among the judged questions (check question_id)"


@dataclass(frozen=True)
class Calibration:
    """The agreement of one metric's judge with human labels.

    ``kappa`` compares passes and fails, ``weighted_kappa`` the scores (with quadratic weights). ``passed`` is the share
    of all verdicts that pass, ``corrected_passed`` this share corrected for the judge's errors. ``mean`` is the mean
    score, ``corrected_mean`` the mean corrected by the labels; NaN if these are too few, or not on the metric's scale.
    """

    metric: str
    n_verdicts: int
    n_labels: int
    n_compared: int
    threshold: float
    kappa: Interval
    weighted_kappa: Interval
    sensitivity: Interval
    specificity: Interval
    n_right: int
    n_wrong: int
    passed: Interval
    corrected_passed: Interval
    mean: float
    corrected_mean: Interval
    missing: Mapping[str, int]  # labels without a verdict, by reason


def measure(
    metric: str,
    verdicts: Mapping[str, float],
    labels: Mapping[str, float],
    threshold: float,
    sources: Mapping[str, str] | None = None,
    reasons: Mapping[str, str] | None = None,
) -> Calibration:
    """Compare the verdicts of a metric with the labels for the same questions.

    Args:
        metric: The metric's name.
        verdicts: Question -> score by the judge.
        labels: Question -> human label.
        threshold: The score from which a verdict or a label passes.
        sources: Question -> its cluster; None: each question is its own cluster.
        reasons: Question -> why it has no verdict.

    Raises:
        InputError: No labelled question has a verdict.
    """
    both = [question for question in labels if question in verdicts]
    missing = Counter((reasons or {}).get(question) or UNKNOWN for question in labels if question not in verdicts)
    if not both:
        raise InputError(
            f"{metric}: no labelled question has a verdict: {count_reasons(missing)}; label questions that the judge"
            " has scored"
        )
    judge = np.array([verdicts[question] for question in both])
    people = np.array([labels[question] for question in both])
    everything = np.array(list(verdicts.values()))
    passes, right = judge >= threshold, people >= threshold
    errors = confusion(passes.tolist(), right.tolist())
    passed = Share(int((everything >= threshold).sum()), len(everything))
    # Labels of 1 and 0 for fractional scores mark right and wrong answers and cannot correct a mean.
    marks = bool(np.isin(people, (0, 1)).all() and not np.isin(judge, (0, 1)).all())
    clusters = np.unique([(sources or {}).get(question, question) for question in verdicts], return_inverse=True)[1]
    scores = np.array([labels.get(question, math.nan) for question in verdicts])
    matrix = Matrix(everything[None, :], clusters, (metric,), tuple(verdicts), metric, asked=len(verdicts))
    corrected = prediction_powered(matrix, scores[None, :], (1.0,))
    counts = len(verdicts), len(labels), len(both)
    return Calibration(
        metric,
        *counts,
        threshold,
        kappa=kappa_interval(passes, right, "none"),
        weighted_kappa=kappa_interval(judge, people, "quadratic"),
        sensitivity=errors.sensitivity.interval,
        specificity=errors.specificity.interval,
        n_right=errors.sensitivity.n,
        n_wrong=errors.specificity.n,
        passed=passed.interval,
        corrected_passed=corrected_share(passed, errors),
        mean=float(everything.mean()),
        corrected_mean=Interval() if marks else Interval(*corrected[:3]),
        missing=missing,
    )


def count_reasons(missing: Mapping[str, int]) -> str:
    """Format the numbers of labels without a verdict, by reason."""
    return ", ".join(f"{count:,} {reason}" for reason, count in missing.items())
