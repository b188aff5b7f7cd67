"""``ragsweep judge``: the agreement of a judge with human labels, and with itself."""

from __future__ import annotations

import argparse
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ragsweep.commands.command_line import RUN, Parser, add_path, ignore_closed_pipe
from ragsweep.commands.judge_noise import show_noise
from ragsweep.commands.labels import Scores, bounds_of_scores, check_run_labels, scores_by_question
from ragsweep.core.errors import InputError, nearest
from ragsweep.core.results import HumanLabel, Result
from ragsweep.golden.human_labels import check_scale, read_labels
from ragsweep.report.tables import to_json
from ragsweep.report.terminal import Terminal
from ragsweep.stats.calibration import (
    Interval,
    Share,
    confusion,
    corrected_share,
    kappa_interval,
)
from ragsweep.stats.human_labels import WAY_OUT, match_labels
from ragsweep.stats.inference.declined import missing_reason
from ragsweep.stats.inference.matrix import WEIGHT, Matrix, clusters_of
from ragsweep.stats.inference.prediction_powered import prediction_powered
from ragsweep.sweep.concluding.recorded_runs import RecordedRun, find_run

FEW = 30
"""Lowest number of labels of either kind that is not reported as few."""
UNKNOWN = "not among the judged questions (are the ids the same?)"

_CALIBRATE = """Compare a judge's verdicts with human labels: agreement beyond chance (kappa), the shares of right
answers that it passes (sensitivity) and of wrong answers that it fails (specificity), and its score corrected for these
errors, with an interval that includes the uncertainty of the labels. LABELS is CSV, TSV or JSON lines with question_id,
metric and label: 1 for right and 0 for wrong, or a score on the metric's scale. Labels must be of the answers and
contexts of the run; draw the questions to label at random. The optional columns run (a run id, or a config's name) and
answer (the text) identify the labelled answer: labels of other answers are ignored."""

_NOISE = """Compare two runs of one config with repeated judgements (judge.replicate=0,1): differences below those shown
here are within the judge's noise."""


@dataclass(frozen=True)
class Calibration:
    """The agreement of one metric's judge with human labels.

    ``kappa`` is for pass against fail, ``weighted_kappa`` for the scores (quadratic weights). ``passed`` is
    the share of all verdicts that pass, ``corrected_passed`` the same without the judge's errors. ``mean`` and
    ``corrected_mean`` are of the scores; the latter requires labels that are scores on the metric's scale.
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


def judge(arguments: Sequence[str]) -> int:
    """Run ``ragsweep judge``; return the exit status: 0 done, 2 bad input."""
    parser = Parser("ragsweep judge", description="Measure the reliability of a judge.", allow_abbrev=False)
    commands = parser.add_subparsers(dest="command", metavar="calibrate | noise", required=True)
    calibrate = commands.add_parser("calibrate", description=_CALIBRATE, help="against people", allow_abbrev=False)
    calibrate.add_argument("labels", type=Path, metavar="LABELS")
    source = calibrate.add_mutually_exclusive_group(required=True)
    source.add_argument("--run", help=RUN)
    source.add_argument("--verdicts", type=Path, help="a table or JSON lines with question_id, metric and value")
    calibrate.add_argument(
        "--threshold", type=float, default=0.5, help="a verdict or score of this or more passes (0.5)"
    )
    twice = commands.add_parser("noise", description=_NOISE, help="against itself", allow_abbrev=False)
    twice.add_argument("runs", nargs=2, metavar="RUN", help=RUN)
    for command in (calibrate, twice):
        command.add_argument("--metric", action="append", help="only this metric; may be given several times")
        command.add_argument("--json", action="store_true", help="for programs")
        add_path(command)
    options = parser.parse_args(arguments or ["--help"])
    with ignore_closed_pipe():
        (_show_calibration if options.command == "calibrate" else show_noise)(options, Terminal.current())
    return 0


def _show_calibration(options: argparse.Namespace, terminal: Terminal) -> None:
    """Print the agreement of the judge of every labelled metric with the labels."""
    given = read_labels(options.labels)
    labels: Mapping[str, Any] = dict.fromkeys(label.metric for label in given)
    run = None if options.verdicts else find_run(options.path, options.run)
    verdicts = scores_by_question(run.result) if run else by_metric(read_labels(options.verdicts, "value"))
    if run:
        check_run_labels(given, [run.result])
    else:
        check_scale(given, {name: bounds_of_scores(verdicts.get(name, {}).values()) for name in labels})
    weighted = run is not None and WEIGHT in run.result.outcomes
    metrics = options.metric or list(labels)
    for metric in metrics:
        for kind, known in (("labels", labels), ("verdicts", verdicts)):
            if metric not in known:
                raise InputError(f'no {kind} of the metric "{metric}"{nearest(metric, known)}')
    sources = dict(zip(run.result.outcomes["question_id"], clusters_of(run.result), strict=True)) if run else {}
    found = []
    for metric in metrics:
        chosen = _labels_of(run, given, metric) if run else by_metric(given)[metric]
        reasons = _reasons(run.result, metric) if run else {}
        found.append(measure(metric, verdicts[metric], chosen, options.threshold, sources, reasons))
    if options.json:
        print(to_json([vars(calibration) for calibration in found]))
    else:
        for calibration in found:
            terminal.lines(_lines(calibration))
        if weighted:
            terminal.line("note", "all shares and means here are of verdicts: the weights of questions are not used")


def by_metric(labels: Sequence[HumanLabel]) -> Scores:
    """Return labels as metric -> question -> value.

    Raises InputError for labels of several answers to one question, which need a run to choose from.
    """
    scores: dict[str, dict[str, float]] = {}
    for label in labels:
        if label.question in (known := scores.setdefault(label.metric, {})):
            raise InputError(
                f'{label.metric}: "{label.question}" has labels of several answers; give --run, the run that is meant'
            )
        known[label.question] = label.value
    return scores


def _labels_of(run: RecordedRun, labels: Sequence[HumanLabel], metric: str) -> dict[str, float]:
    """Return the labels of a metric that belong to a run's answers."""
    chosen = [label for label in labels if label.metric == metric]
    if not any(label.run or label.answer for label in chosen) or metric not in run.result.summaries:
        return dict(by_metric(chosen)[metric])
    questions = tuple(run.result.outcomes["question_id"])
    matrix = Matrix(np.empty((1, 0)), np.empty(0, dtype=np.int64), (run.result.name,), questions, metric)
    matched = match_labels(chosen, metric, [run.result], [run.run], matrix)
    (found,) = matched.of((0,), np.ones(len(matrix.questions), dtype=bool))
    given = {name: float(one) for name, one in zip(matrix.questions, found, strict=True) if not math.isnan(one)}
    if not given:
        raise InputError(
            f"{metric}: no label belongs to an answer of {run}, or not all of those that were drawn together:"
            f" {matched.why_unused()}; {WAY_OUT}"
        )
    return given


def _reasons(result: Result, metric: str) -> dict[str, str]:
    """Return why questions have no score of a metric."""
    return {question: missing_reason(result, n, metric) for n, question in enumerate(result.outcomes["question_id"])}


def measure(
    metric: str, verdicts: Mapping[str, float], labels: Mapping[str, float], threshold: float,
    sources: Mapping[str, str] | None = None, reasons: Mapping[str, str] | None = None,
) -> Calibration:  # fmt: skip
    """Compare the verdicts of a metric with the labels for the same questions.

    Args:
        metric: Its name.
        verdicts: Question -> score by the judge.
        labels: Question -> label by people.
        threshold: From which score on a verdict or a label passes.
        sources: Question -> its cluster.
        reasons: Question -> why it has no verdict.

    Raises:
        InputError: No labelled question has a verdict.
    """
    both = [question for question in labels if question in verdicts]
    missing = Counter((reasons or {}).get(question) or UNKNOWN for question in labels if question not in verdicts)
    if not both:
        raise InputError(f"{metric}: none of the {len(labels)} labelled questions has a verdict: {_counted(missing)}")
    judge = np.array([verdicts[question] for question in both])
    people = np.array([labels[question] for question in both])
    everything = np.array(list(verdicts.values()))
    passes, right = judge >= threshold, people >= threshold
    errors = confusion(passes.tolist(), right.tolist())
    passed = Share(int((everything >= threshold).sum()), len(everything))
    # Labels of 1 and 0 for fractional scores mark right and wrong answers, and cannot correct a mean.
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
    )  # fmt: skip


def _lines(found: Calibration) -> Iterator[tuple[str, str]]:
    yield (
        "metric",
        (
            f"{found.metric}: {found.n_compared} of {found.n_labels} labels have a verdict, of"
            f" {found.n_verdicts} verdicts; {found.threshold:g} or more passes"
            + (f"; without a verdict: {_counted(found.missing)}" if found.missing else "")
        ),
    )
    yield "kappa", f"{_shown(found.kappa)} pass against fail, {_shown(found.weighted_kappa)} weighted"
    yield "finds", f"{_shown(found.sensitivity)} of {found.n_right} that people pass (sensitivity)"
    yield "refuses", f"{_shown(found.specificity)} of {found.n_wrong} that people fail (specificity)"
    fewest = min(found.n_right, found.n_wrong)
    corrected = "not corrected: on the labels the judge is no better than chance"
    if not math.isnan(found.corrected_passed.value):
        corrected = f"{_shown(found.corrected_passed)} corrected for its errors"
    elif not fewest:
        corrected = "not corrected: labels of both kinds are needed, right and wrong"
    yield "passes", f"{_shown(found.passed)} of all as judged, {corrected}"
    if not math.isnan(found.corrected_mean.value):
        yield "mean", f"{found.mean:.3f} as judged, {_shown(found.corrected_mean)} corrected by the labels"
    if fewest < FEW:
        kind = "right" if found.n_right < found.n_wrong else "wrong"
        yield "few", f"{fewest} labels of what is {kind}: more would narrow all this"


def _counted(missing: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {reason}" for reason, count in missing.items())


def _shown(interval: Interval) -> str:
    if math.isnan(interval.value):
        return "-"
    bounds = "" if math.isnan(interval.low) else f" [{interval.low:.3f}, {interval.high:.3f}]"
    return f"{interval.value:.3f}{bounds}"
