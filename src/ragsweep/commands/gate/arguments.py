"""Arguments of ``ragsweep gate``, and the file of critical questions."""

from __future__ import annotations

import argparse
import math
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NamedTuple

from ragsweep.commands.command_line import RUN, Parser, add_path
from ragsweep.core.errors import ConfigError, Faults, InputError, nearest
from ragsweep.golden.text_files import read_lines

_ABOUT = """Decide whether a candidate may replace the baseline: it may where it is not worse by more than a margin, or
better by a gain, or good enough by itself, in each metric that has such a condition, which is to be shown with 95 %
confidence. pass: shown of all. fail: of one the opposite is shown. inconclusive: neither, the questions are too few.
Runs on different golden sets or corpora are refused."""
_MARGIN = """how much worse the candidate may be: ndcg_at_10=.02 in the metric's unit, ndcg_at_10=5%% of the baseline's
mean; may be given several times, and each must hold"""
_LEAST = """what must be shown: context_recall=.70, the mean is at least that (no baseline is needed);
ndcg_at_10=+.02, it is better than the baseline's by that much"""
_MOST = """of a metric of which less is better: latency_mean_ms=300, the mean is at most that"""
_SLICE = """also for the questions with each value of this label (category, say); may be given several times. A slice of
fewer than 20 questions can only make the gate fail"""

_EACH = """no single question may be worse by more than the margin: for a list of critical questions, which is no sample
of anything, so that chance does not come in"""


MARGIN, GAIN, LEAST, MOST = "margin", "gain", "at least", "at most"


class Margin(NamedTuple):
    """The margin of one metric.

    ``kind`` "margin": how much worse it may be, a number in its unit, or a share of the baseline's mean. "gain": how
    much better it must be. "at least", "at most": a bound of its mean; no baseline is looked at.
    """

    metric: str
    size: float
    relative: bool = False
    kind: str = MARGIN

    def __str__(self) -> str:
        """Write it as it is typed."""
        if self.relative:
            return f"{self.metric}={self.size * 100:g}%"
        return f"{self.metric}={'+' if self.kind == GAIN else ''}{self.size:g}"

    @property
    def paired(self) -> bool:
        """Whether the candidate is compared with a baseline."""
        return self.kind in (MARGIN, GAIN)

    @property
    def said(self) -> str:
        """Write it for people: ``margin 0.02``, ``at least +0.1``, ``at most 300``."""
        size = str(self).partition("=")[2]
        return f"{LEAST if self.kind == GAIN else self.kind} {size}"


def read(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command's options; raises ConfigError, in one line, for what means nothing."""
    parser = Parser(prog="ragsweep gate", description=_ABOUT, allow_abbrev=False)
    parser.add_argument("--baseline", metavar="RUN", help=RUN)
    parser.add_argument("--candidate", required=True, metavar="RUN", help=RUN)
    for option, said in (("margin", _MARGIN), ("at-least", _LEAST), ("at-most", _MOST)):
        parser.add_argument(f"--{option}", action="append", default=[], metavar="METRIC=X", help=said)
    parser.add_argument("--slice", action="append", metavar="LABEL", help=_SLICE)
    parser.add_argument("--questions", type=Path, metavar="FILE", help="only these questions: ids, one a line")
    parser.add_argument("--each", action="store_true", help=_EACH)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write what is decided for programs")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write it for a comment, or a job's summary")
    add_path(parser)
    given = parser.parse_args(list(arguments))
    given.margin = [
        *(margin(text) for text in given.margin),
        *(bound(text, LEAST) for text in given.at_least),
        *(bound(text, MOST) for text in given.at_most),
    ]
    _check(given)
    return given


def _check(given: argparse.Namespace) -> None:
    if not given.margin:
        raise ConfigError("gate: needs what to hold the candidate to: --margin, --at-least or --at-most METRIC=X")
    if given.baseline is None and (paired := [one for one in given.margin if one.paired]):
        raise ConfigError(f"gate: {paired[0]} is measured against a baseline; name one with --baseline RUN")
    if given.each and any(one.kind != MARGIN for one in given.margin):
        raise ConfigError(
            "--each: a question is held to a --margin; give --at-least and --at-most in a call of their own"
        )
    if given.each and given.slice:
        raise ConfigError("--each and --slice: a question by itself is in no slice; give one of the two")
    keys = [(one.metric, one.kind) for one in given.margin]
    if twice := [metric for n, (metric, kind) in enumerate(keys) if (metric, kind) in keys[:n]]:
        raise ConfigError(f"--margin: {twice[0]} has two margins; give one")


def margin(text: str) -> Margin:
    """Read a margin; raises ConfigError for an invalid one."""
    metric, _, size = text.partition("=")
    relative = size.endswith("%")
    try:
        number = float(size.removesuffix("%"))
    except ValueError:
        number = math.nan
    if not metric or not math.isfinite(number) or number < 0:
        raise ConfigError(f'--margin: "{text}" is none; write METRIC=NUMBER or METRIC=NUMBER%, such as ndcg_at_10=.02')
    return Margin(metric, number / 100 if relative else number, relative)


def bound(text: str, kind: str) -> Margin:
    """Read a bound of a mean, or with a sign a gain; raises ConfigError for an invalid one."""
    metric, _, size = text.partition("=")
    gain = kind == LEAST and size.startswith("+")
    try:
        number = float(size)
    except ValueError:
        number = math.nan
    if not metric or not math.isfinite(number):
        option = kind.replace(" ", "-")
        raise ConfigError(f'--{option}: "{text}" is none; write METRIC=NUMBER, such as context_recall=.70')
    return Margin(metric, number, kind=GAIN if gain else kind)


def read_questions(path: Path, known: Collection[str]) -> list[str]:
    """Read ids of questions, one a line; a line that begins with # is a comment.

    Raises:
        InputError: The file cannot be read or names none, or a line names a question that is not in the golden set.
    """
    faults, found = Faults(), dict[str, str]()
    for where, line in read_lines(path, faults):
        name = line.strip()
        if name.startswith("#"):
            continue
        if name not in known:
            faults.add(where, f'no question "{name}" in the golden set{_near(name, known)}')
        elif name in found:
            faults.add(where, f'"{name}" is named twice, first in {found[name]}')
        found.setdefault(name, where)
    faults.raise_any()
    if not found:
        raise InputError(f"{path}: names no question; write ids, one a line")
    return list(found)


def _near(name: str, known: Collection[str]) -> str:
    """Suggest the nearest id; a golden set has too many to list them all."""
    return nearest(name, known).partition(" known:")[0].rstrip(";")
