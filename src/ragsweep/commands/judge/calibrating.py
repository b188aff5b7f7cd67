"""``ragsweep judge calibrate``: a judge against people."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragsweep.commands.command_line import find_run
from ragsweep.commands.judge.labels import Scores, read_scores, scores_of
from ragsweep.core.errors import InputError, nearest
from ragsweep.report.changes import null
from ragsweep.report.terminal import Terminal
from ragsweep.stats.calibration import (
    Interval,
    Share,
    confusion,
    corrected_mean,
    corrected_share,
    kappa_interval,
)

FEW = 30
"""Fewer labels than this of either kind are said to be few."""


@dataclass(frozen=True)
class Calibration:
    """The agreement of one metric's judge with people.

    ``kappa`` is of pass against fail, ``weighted_kappa`` of the numbers themselves (quadratic weights). ``passed`` is
    the share of all verdicts that pass, ``corrected_passed`` the same without the judge's errors. ``mean`` and
    ``corrected_mean`` are of the scores; the latter is given where labels are scores on the metric's scale.
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

    def plain(self) -> dict[str, Any]:
        """Return it in JSON types; null for missing values."""
        return {
            name: [null(item) for item in value] if isinstance(value, tuple) else null(value)
            for name, value in vars(self).items()
        }


def calibrate(given: argparse.Namespace, terminal: Terminal) -> int:
    """Print what the judge of every labelled metric is worth."""
    labels = read_scores(given.labels, "label")
    verdicts = read_scores(given.verdicts, "value") if given.verdicts else scores_of(find_run(given.path, given.run))
    chosen = _chosen(labels, verdicts, given.metric)
    told = [measure(metric, verdicts[metric], labels[metric], given.threshold) for metric in chosen]
    if given.json:
        print(json.dumps([one.plain() for one in told], indent=2, allow_nan=False))
        return 0
    for one in told:
        for word, text in lines(one):
            terminal.line(word, text)
    return 0


def _chosen(labels: Scores, verdicts: Scores, wanted: Sequence[str] | None) -> list[str]:
    for metric in wanted or labels:
        for kind, known in (("labels", labels), ("verdicts", verdicts)):
            if metric not in known:
                raise InputError(f'no {kind} of the metric "{metric}"{nearest(metric, known)}')
    return list(wanted or labels)


def measure(metric: str, verdicts: Mapping[str, float], labels: Mapping[str, float], threshold: float) -> Calibration:
    """Compare the verdicts of a metric with the labels for the same questions.

    Raises:
        InputError: No labelled question has a verdict.
    """
    both = [question for question in labels if question in verdicts]
    if not both:
        raise InputError(f"{metric}: none of the {len(labels)} labelled questions has a verdict; are the ids the same?")
    judge = np.array([verdicts[question] for question in both])
    people = np.array([labels[question] for question in both])
    everything = np.array(list(verdicts.values()))
    passes, right = judge >= threshold, people >= threshold
    errors = confusion(passes.tolist(), right.tolist())
    passed = Share(int((everything >= threshold).sum()), len(everything))
    others = np.array([value for question, value in verdicts.items() if question not in labels])
    return Calibration(
        metric, len(verdicts), len(labels), len(both), threshold,
        kappa=kappa_interval(passes, right, "none"),
        weighted_kappa=kappa_interval(judge, people, "quadratic"),
        sensitivity=errors.sensitivity.interval,
        specificity=errors.specificity.interval,
        n_right=errors.sensitivity.n,
        n_wrong=errors.specificity.n,
        passed=passed.interval,
        corrected_passed=corrected_share(passed, errors),
        mean=float(everything.mean()),
        corrected_mean=_mean(others, judge, people),
    )  # fmt: skip


def _mean(others: NDArray[Any], judge: NDArray[Any], people: NDArray[Any]) -> Interval:
    """Correct the mean where people gave scores; 1 and 0 are marks of right and wrong, and no scores of a share."""
    marks = set(np.unique(people).tolist()) <= {0.0, 1.0}
    fractions = not set(np.unique(judge).tolist()) <= {0.0, 1.0}
    return Interval() if marks and fractions else corrected_mean(others, judge, people)


def lines(told: Calibration) -> list[tuple[str, str]]:
    """Yield lines for people: a label, and a fact."""
    said = [
        ("metric", f"{told.metric}: {told.n_compared} of {told.n_labels} labels have a verdict, of"
                   f" {told.n_verdicts} verdicts; {told.threshold:g} or more passes"),
        ("kappa", f"{_shown(told.kappa)} pass against fail, {_shown(told.weighted_kappa)} weighted"),
        ("finds", f"{_shown(told.sensitivity)} of {told.n_right} that people pass (sensitivity)"),
        ("refuses", f"{_shown(told.specificity)} of {told.n_wrong} that people fail (specificity)"),
        ("passes", f"{_shown(told.passed)} of all as judged, {_corrected(told)}"),
    ]  # fmt: skip
    if not math.isnan(told.corrected_mean.value):
        said.append(("mean", f"{told.mean:.3f} as judged, {_shown(told.corrected_mean)} corrected by the labels"))
    if min(told.n_right, told.n_wrong) < FEW:
        kind = "right" if told.n_right < told.n_wrong else "wrong"
        said.append(("few", f"{min(told.n_right, told.n_wrong)} labels of what is {kind}: more would narrow all this"))
    return said


def _corrected(told: Calibration) -> str:
    if not math.isnan(told.corrected_passed.value):
        return f"{_shown(told.corrected_passed)} corrected for its errors"
    if not told.n_right or not told.n_wrong:
        return "not corrected: labels of both kinds are needed, right and wrong"
    return "not corrected: on the labels the judge is no better than chance"


def _shown(value: Interval) -> str:
    if math.isnan(value.value):
        return "-"
    bounds = "" if math.isnan(value.low) else f" [{value.low:.3f}, {value.high:.3f}]"
    return f"{value.value:.3f}{bounds}"
