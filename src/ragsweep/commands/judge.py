"""``ragsweep judge``: the agreement of a judge with human labels, and with its own repeated judgements."""

import argparse
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ragsweep.commands.command_line import RUN, Parser, add_path, print_document
from ragsweep.commands.labels import Scores, bounds_of_scores, check_run_labels, scores_by_question
from ragsweep.core.errors import ConfigError, InputError, nearest
from ragsweep.core.plurals import count_reasons, counted, percentage
from ragsweep.core.results import HumanLabel, Result
from ragsweep.golden.human_labels import check_scale, read_labels
from ragsweep.report.document import Document, Section, Statement, lines, notes
from ragsweep.stats.calibration import RATED, Calibration, Interval, Noise, PassMark, measure, noise
from ragsweep.stats.comparable import differing_parameters
from ragsweep.stats.human_labels import RunLabels, match_labels
from ragsweep.stats.inference.matrix import WEIGHT, Matrix, clusters_of, missing_reason
from ragsweep.sweep.concluding.recorded_runs import RecordedRun, find_run

UNSCORED = "first answer without a score"

FEW = 30  # with fewer labels of right or of wrong answers, the report recommends more labels

_CALIBRATE = """Compare a judge's verdicts with human labels: agreement beyond chance (kappa), the share of right
answers that the judge passes (sensitivity), and the share of wrong answers that it fails (specificity). The judge's
score is also shown corrected for these errors, with an interval that includes the uncertainty of the labels. LABELS is
CSV, TSV or JSON lines with question_id, metric and label: 1 for right and 0 for wrong (the reverse if a lower score is
better), or a score on the metric's scale. Label the run's own answers and contexts, for questions that were drawn at
random. The optional columns run (a run id, or a config's name) and answer (the text) identify the labelled answer;
labels of other answers are ignored."""

_THRESHOLD = "lowest passing score or, for a metric where lower is better, lowest failing score (default: 0.5)"

_NOISE = """Compare two runs of one config with repeated judgements (judge.replicate=0,1). Differences
that are smaller than those shown are within the judge's noise."""


def judge(arguments: Sequence[str]) -> int:
    """Run ``ragsweep judge``; return the exit status 0. Raises RagsweepError for bad input."""
    parser = Parser("ragsweep judge", description="Measure the reliability of a judge.")
    commands = parser.add_subparsers(dest="command", metavar="calibrate | noise", required=True)
    calibrate = commands.add_parser("calibrate", description=_CALIBRATE, help="compare a judge with human labels")
    calibrate.add_argument("labels", type=Path, metavar="LABELS")
    source = calibrate.add_mutually_exclusive_group(required=True)
    source.add_argument("--run", help=RUN)
    source.add_argument("--verdicts", type=Path, help="a table or JSON lines with question_id, metric and value")
    calibrate.add_argument("--threshold", type=float, default=0.5, help=_THRESHOLD)
    twice = commands.add_parser("noise", description=_NOISE, help="compare a judge with itself")
    twice.add_argument("runs", nargs=2, metavar="RUN", help=RUN)
    for command in (calibrate, twice):
        command.add_argument("--metric", action="append", help="only this metric; can be repeated")
        command.add_argument("--json", action="store_true", help="print JSON")
        add_path(command)
    options = parser.parse_args(arguments or ["--help"])
    print_document(_calibrate(options) if options.command == "calibrate" else noise_document(options), options)
    return 0


def _calibrate(options: argparse.Namespace) -> Document:
    if not math.isfinite(options.threshold):
        raise ConfigError(f"--threshold: must be a finite number, got {options.threshold:g}")
    given = read_labels(options.labels)
    labels: Mapping[str, Any] = dict.fromkeys(label.metric for label in given)
    run = None if options.verdicts else find_run(options.path, options.run)
    verdicts = _first_scores(run.result) if run else by_metric(read_labels(options.verdicts, "value"))
    if run:
        check_run_labels(given, [run.result])
    else:
        check_scale(given, {name: bounds_of_scores(verdicts.get(name, {}).values()) for name in labels})
    metrics = options.metric or list(labels)
    for metric in metrics:
        for kind, known in (("labels", labels), ("verdicts", verdicts)):
            if metric not in known:
                raise InputError(f'no {kind} for the metric "{metric}"{nearest(metric, known)}')
    sources = dict(zip(run.result.questions["question_id"], clusters_of(run.result), strict=True)) if run else {}
    found = []
    for metric in metrics:
        chosen = _labels_of(run, given, metric) if run else by_metric(given)[metric]
        reasons, higher_is_better = {}, True
        if run:
            ids = enumerate(run.result.questions["question_id"])
            reasons = {question: missing_reason(run.result, n, metric) or UNSCORED for n, question in ids}
            summary = run.result.summaries.metrics.get(metric)
            higher_is_better = summary is None or summary.higher_is_better is not False
        threshold = PassMark(options.threshold, higher_is_better)
        found.append(measure(metric, verdicts[metric], chosen, threshold, sources, reasons))
    blocks = [notes(_statements(calibration)) for calibration in found]
    if run and WEIGHT in run.result.questions:
        unused = "all verdicts have the same weight in these shares and means; weights of questions are not used"
        blocks.append(lines(Statement("note", unused)))
    return Document("Agreement of the judge with people", [Section(blocks)], [vars(one) for one in found])


def _first_scores(result: Result) -> Scores:
    """Return the scores of each question's first answer, which is the answer that people label."""
    repeated = result.questions.repetitions
    first = {name: scores[:, 0].tolist() for name, scores in repeated.scores.items()} if repeated else {}
    return scores_by_question(replace(result, questions=result.questions.with_columns(first)))


def by_metric(labels: Sequence[HumanLabel]) -> Scores:
    """Map each labelled metric to its values by question id.

    Raises InputError if a question has two values of a metric, because only a run determines which one applies.
    """
    scores: dict[str, dict[str, float]] = {}
    for label in labels:
        if label.question in (known := scores.setdefault(label.metric, {})):
            fact = f'"{label.question}" has a second value of {label.metric}; keep one'
            raise InputError(f"{label.where}: {fact}, or use --run RUN with labels that name the run or answer")
        known[label.question] = label.value
    return scores


def _labels_of(run: RecordedRun, labels: Sequence[HumanLabel], metric: str) -> dict[str, float]:
    """Map question ids to the labels of a metric that apply to a run; raises InputError if none does."""
    chosen = [label for label in labels if label.metric == metric]
    if not any(label.run or label.answer for label in chosen) or metric not in run.result.summaries.metrics:
        return dict(by_metric(chosen)[metric])
    questions = tuple(run.result.questions["question_id"])
    matrix = Matrix(np.empty((1, 0)), np.empty(0, dtype=np.int64), (run.result.name,), questions, metric)
    matched = match_labels(RunLabels(chosen, [run.run]), [run.result], matrix)
    (found,) = matched.of((0,), np.ones(len(matrix.questions), dtype=bool))
    given = {name: float(one) for name, one in zip(matrix.questions, found, strict=True) if not math.isnan(one)}
    if not given:
        raise InputError(f"{metric}: no label applies to {run}; {matched.way_out()}")
    return given


def _statements(found: Calibration) -> Iterator[Statement]:
    passing = f"{found.threshold:g} or more" if found.higher_is_better else f"less than {found.threshold:g}"
    counts = {"labels": found.n_labels, "compared": found.n_compared, "verdicts": found.n_verdicts}
    yield Statement(
        "metric",
        f"{found.metric}: {found.n_compared} of {found.n_labels} labels with a verdict; verdicts in total:"
        f" {found.n_verdicts}; {passing} passes"
        + (f"; without a verdict: {count_reasons(found.missing)}" if found.missing else ""),
        {**counts, "missing": found.missing},
    )
    yield _stated("kappa", "{} pass against fail, {} weighted", found.kappa, found.weighted_kappa)
    if math.isnan(found.kappa.low) or math.isnan(found.weighted_kappa.low):
        needed = f"{RATED[0]} to {RATED[-1]:,} labels with a verdict; both labels and verdicts must vary"
        yield Statement("note", f"an interval for kappa needs {needed}")
    yield _stated("finds", f"{{}} of {found.n_right} answers that people pass (sensitivity)", found.sensitivity)
    yield _stated("refuses", f"{{}} of {found.n_wrong} answers that people fail (specificity)", found.specificity)
    fewest = min(found.n_right, found.n_wrong)
    if not math.isnan(found.corrected_passed.value):
        yield _stated("passes", "{} of all as judged, {} corrected for errors", found.passed, found.corrected_passed)
    else:
        why = "on these labels, the judge is no better than chance"
        if not fewest:
            why = "labels of right and of wrong answers are needed"
        yield _stated("passes", f"{{}} of all as judged, not corrected: {why}", found.passed)
    if not math.isnan(found.corrected_mean.value):
        yield _stated("mean", f"{found.mean:.3f} as judged, {{}} corrected by the labels", found.corrected_mean)
    if fewest < FEW:
        kind = "right" if found.n_right < found.n_wrong else "wrong"
        yield Statement(
            "few", f"{counted(fewest, 'label')} of {kind} answers: more would narrow these intervals", {kind: fewest}
        )


def _stated(label: str, form: str, *intervals: Interval) -> Statement:
    """Return a statement whose text is ``form`` with its placeholders ``{}`` replaced by the intervals."""
    return Statement(label, form.format(*map(_shown, intervals)), {"intervals": intervals})


def _shown(interval: Interval) -> str:
    if math.isnan(interval.value):
        return "-"
    bounds = "" if math.isnan(interval.low) else f" [{interval.low:.3f}, {interval.high:.3f}]"
    return f"{interval.value:.3f}{bounds}"


_JUDGED = "ragas_"
_REPLICATE = "judge.replicate"


def noise_document(options: argparse.Namespace) -> Document:
    """Build the document of a judge's noise: how much the scores of a metric differ between two runs of one config.

    The metrics are the chosen metrics or, if none is chosen, all ``ragas_*`` metrics that both runs have.

    Raises InputError if a run lacks a chosen metric, or if none is chosen and the runs share no ``ragas_*`` metric.
    """
    first, second = (find_run(options.path, run).result for run in options.runs)
    scores, others = scores_by_question(first), scores_by_question(second)
    shared = [name for name in scores if name in others]
    for name in options.metric or ():
        if name not in shared:
            way = nearest(name, shared) or "; run both configs again with the same metrics"
            raise InputError(f'the runs do not both have the metric "{name}"{way}')
    metrics = options.metric or [name for name in shared if name.startswith(_JUDGED)]
    if not metrics:
        named = f"name others with --metric{nearest(_JUDGED, shared)}"
        way = named if shared else "run both configs again with the same metrics"
        raise InputError(f"the runs share no {_JUDGED}* metric; {way}")
    floors, weights = {}, dict(zip(first.questions["question_id"], first.questions.get(WEIGHT, ()), strict=False))
    for name in metrics:
        both = [question for question in scores[name] if question in others[name]]
        one, other = ([values[name][question] for question in both] for values in (scores, others))
        floors[name] = noise(one, other, [weights[question] for question in both] if weights else None)
    differing = [name for name in differing_parameters(first.run, second.run) if name != _REPLICATE]
    digests = [(result.run.dataset.golden_digest, result.run.dataset.corpus_digest) for result in (first, second)]
    if digests[0] != digests[1]:
        differing.append("dataset")
    warnings = []
    if differing:
        warnings.append(f"the runs differ not only by chance, but also in: {', '.join(differing)}")
    elif first.run.parameters.get(_REPLICATE) == second.run.parameters.get(_REPLICATE):
        same = "both runs have the same judge.replicate, so their verdicts are identical; rerun one with another value"
        warnings.append(same)
    statements = [Statement("warning", text, {"differing": differing}) for text in warnings]
    statements += [Statement("noise", f"{name}: {_noise_text(one)}", one._asdict()) for name, one in floors.items()]
    measured = {name: found._asdict() for name, found in floors.items()}
    facts = {"differing": differing, "warnings": warnings, "metrics": measured}
    return Document("Noise of the judge", [Section([lines(statements)])], facts)


def _noise_text(found: Noise) -> str:
    if math.isnan(found.spread):
        return f"both runs judged {counted(found.n, 'question')}; two are needed"
    return (
        f"{found.spread:.3f} per question (standard deviation of the difference), {percentage(found.changed)} of"
        f" {found.n} questions changed; means that differ by less than {found.of_the_mean:.3f} are indistinguishable"
    )
