"""``ragsweep judge``: the agreement of a judge with people."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragsweep.commands.command_line import RUN, Parser, add_path, find_run, until_closed
from ragsweep.core.errors import ConfigError, Faults, InputError, nearest
from ragsweep.core.results import Result
from ragsweep.golden.reading import Row, Seen, plain_number, read_rows
from ragsweep.golden.tables import Columns, is_table, read_table
from ragsweep.report.changes import null
from ragsweep.report.terminal import Terminal
from ragsweep.stats.calibration import (
    Interval,
    Noise,
    Share,
    confusion,
    corrected_mean,
    corrected_share,
    kappa_interval,
    noise,
)
from ragsweep.stats.comparable import differing_parameters

COMMANDS = ("calibrate", "noise")

_CALIBRATE = """Compare a judge's verdicts with labels by people: agreement beyond chance (kappa), how much of the right
it passes (sensitivity) and of the wrong it fails (specificity), and its score corrected for these errors, with an
interval that includes how few labels there are. LABELS is CSV, TSV or JSON lines with question_id, metric and label:
1 for right and 0 for wrong, or a score on the metric's own scale. Labels are for the answers and contexts of the run
that they are compared with; draw the questions to label at random."""

_NOISE = """Compare two runs of one config whose judge was asked twice (judge.replicate=0,1): differences smaller than
what is shown here are noise of the judge, whatever their cause seems to be."""


def _parser() -> Parser:
    parser = Parser(prog="ragsweep judge", description="Say what a judge is worth.", allow_abbrev=False)
    commands = parser.add_subparsers(dest="command", metavar="calibrate | noise", required=True)
    calibrate = commands.add_parser("calibrate", description=_CALIBRATE, help="against people", allow_abbrev=False)
    calibrate.add_argument("labels", type=Path, metavar="LABELS")
    source = calibrate.add_mutually_exclusive_group(required=True)
    source.add_argument("--run", help=RUN)
    source.add_argument("--verdicts", type=Path, help="a table or JSON lines with question_id, metric and value")
    calibrate.add_argument(
        "--threshold", type=float, default=0.5, help="a verdict or score of this or more passes (0.5)"
    )
    noise = commands.add_parser("noise", description=_NOISE, help="against itself", allow_abbrev=False)
    noise.add_argument("runs", nargs=2, metavar="RUN", help=RUN)
    for one in (calibrate, noise):
        one.add_argument("--metric", action="append", help="only this metric; may be given several times")
        one.add_argument("--json", action="store_true", help="for programs")
        add_path(one)
    return parser


def read(arguments: Sequence[str]) -> argparse.Namespace:
    """Read a command and its options; raises ConfigError, in one line, for what means nothing."""
    words = list(arguments) or ["--help"]
    if not words[0].startswith("-") and words[0] not in COMMANDS:
        raise ConfigError(f'judge: no command "{words[0]}"{nearest(words[0], COMMANDS)}')
    return _parser().parse_args(words)


Scores = Mapping[str, Mapping[str, float]]
"""Metric -> question id -> number."""

_WORDS = {"true": 1.0, "false": 0.0, "yes": 1.0, "no": 0.0}


def read_scores(path: Path, column: str) -> Scores:
    """Read a table (CSV, TSV) or JSON lines with ``question_id``, ``metric`` and a number in ``column``.

    Raises:
        InputError: The file cannot be read, holds nothing, or rows of it cannot be used; all of them at once.
    """
    faults = Faults()
    found: dict[str, dict[str, float]] = {}
    seen = Seen("question and metric")
    for row in _rows(path, column, faults):
        question, metric = row.identifier("question_id"), row.identifier("metric")
        number = _number(row, column)
        seen.note(f"{question} / {metric}" if question and metric else "", row)
        found.setdefault(metric, {})[question] = number
    faults.raise_any()
    if not found:
        raise InputError(f"{path}: holds no {column}; give rows with question_id, metric and {column}")
    return found


def scores_of(result: Result) -> Scores:
    """Return the scores of an evaluated config, those that were measured."""
    ids, names = result.outcomes["question_id"], result.summaries
    return {
        name: {
            question: float(value)
            for question, value in zip(ids, result.outcomes[name], strict=True)
            if value is not None and math.isfinite(value)
        }
        for name in names
        if name in result.outcomes
    }


def _rows(path: Path, column: str, faults: Faults) -> Iterator[Row]:
    if not is_table(path):
        return read_rows(path, faults)
    names = ("question_id", "metric", column)
    return read_table(path, Columns("the file", {}, names, names), faults)


def _number(row: Row, column: str) -> float:
    """Take a number, be it written as a text (a table's cell), or as true or false."""
    value = row.scalars().get(column, "").strip().lower()
    if not value:
        row.fault(f'has no "{column}", a number')
        return math.nan
    number = _WORDS[value] if value in _WORDS else plain_number(value)
    if not math.isfinite(number):
        row.fault(f'"{column}" is "{value}", not a number')
    return number


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


_REPLICATE = "judge.replicate"

_JUDGED = "ragas_"


def compare(given: argparse.Namespace, terminal: Terminal) -> int:
    """Print the noise floor of every metric that both runs have."""
    one, other = (find_run(given.path, run) for run in given.runs)
    told = measure_noise(scores_of(one), scores_of(other), given.metric)
    apart = differences(one, other)
    if given.json:
        plain = {name: {key: null(value) for key, value in found._asdict().items()} for name, found in told.items()}
        print(json.dumps({"differing": apart, "metrics": plain}, indent=2, allow_nan=False))
        return 0
    if apart:
        terminal.line("warning", f"the runs differ in more than chance: {', '.join(apart)}")
    elif one.parameters.get(_REPLICATE) == other.parameters.get(_REPLICATE):
        terminal.line("warning", "both have the same judge.replicate: stored verdicts are the same ones, not new ones")
    for name, found in told.items():
        terminal.line("noise", f"{name}: {line(found)}")
    return 0


def measure_noise(one: Scores, other: Scores, wanted: list[str] | None) -> dict[str, Noise]:
    """Measure the noise of the metrics that are wanted, else of all that are judged and that both have."""
    shared = [name for name in one if name in other]
    for name in wanted or ():
        if name not in shared:
            raise InputError(f'not both runs have the metric "{name}"{nearest(name, shared)}')
    chosen = wanted or [name for name in shared if name.startswith(_JUDGED)]
    if not chosen:
        raise InputError(f"both runs have no metric {_JUDGED}*; name others with --metric{nearest(_JUDGED, shared)}")
    return {name: noise(*_paired(one[name], other[name])) for name in chosen}


def _paired(one: Mapping[str, float], other: Mapping[str, float]) -> tuple[list[float], list[float]]:
    both = [question for question in one if question in other]
    return [one[question] for question in both], [other[question] for question in both]


def differences(one: Result, other: Result) -> list[str]:
    """Name what two runs differ in beside the replicate, and that could make a difference to a score."""
    found = [name for name in differing_parameters(one, other) if name != _REPLICATE]
    facts = (one.dataset.golden_digest, one.dataset.corpus_digest)
    return found + (["dataset"] if facts != (other.dataset.golden_digest, other.dataset.corpus_digest) else [])


def line(found: Noise) -> str:
    """Return a line for people."""
    if math.isnan(found.spread):
        return f"{found.n} questions that both judged; two are needed"
    return (
        f"{found.spread:.3f} a question (standard deviation of the difference), {found.changed:.0%} of {found.n}"
        f" questions changed; means that differ by less than {found.of_the_mean:.3f} cannot be told apart"
    )


_COMMANDS = {"calibrate": calibrate, "noise": compare}


def judge(arguments: Sequence[str]) -> int:
    """Run ``ragsweep judge``; return the exit status: 0 done, 2 bad input."""
    given = read(arguments)
    return until_closed(lambda: _COMMANDS[given.command](given, Terminal.current()))
