"""Read what is typed after ``ragsweep gate``, and the file of critical questions."""

from __future__ import annotations

import argparse
import math
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NamedTuple

from ragsweep.commands.command_line import RUN, Parser, add_path
from ragsweep.errors import ConfigError, Faults, InputError, nearest
from ragsweep.text_files import read_lines

_ABOUT = """Say whether a candidate may replace the baseline: it may where it is not worse by more than a margin, in
each metric that has one, which is to be shown with 95 % confidence. pass: shown of all. fail: of one the opposite is
shown. inconclusive: neither, the questions are too few. Runs on different golden sets or corpora are refused."""
_MARGIN = """how much worse the candidate may be: ndcg_at_10=.02 in the metric's unit, ndcg_at_10=5%% of the baseline's
mean; may be given several times, and each must hold"""
_SLICE = """also for the questions with each value of this label (category, say); may be given several times. A slice of
fewer than 20 questions can only make the gate fail"""

_EACH = """no single question may be worse by more than the margin: for a list of critical questions, which is no sample
of anything, so that chance does not come in"""


class Margin(NamedTuple):
    """How much worse a metric may be: a number in its unit, or a share of the baseline's mean."""

    metric: str
    size: float
    relative: bool

    def __str__(self) -> str:
        """Write it as it is typed."""
        return f"{self.metric}={self.size * 100:g}%" if self.relative else f"{self.metric}={self.size:g}"


def read(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command's options; raises ConfigError, in one line, for what means nothing."""
    parser = Parser(prog="ragsweep gate", description=_ABOUT, allow_abbrev=False)
    for name in ("baseline", "candidate"):
        parser.add_argument(f"--{name}", required=True, metavar="RUN", help=RUN)
    parser.add_argument("--margin", action="append", required=True, metavar="METRIC=X", help=_MARGIN)
    parser.add_argument("--slice", action="append", metavar="LABEL", help=_SLICE)
    parser.add_argument("--questions", type=Path, metavar="FILE", help="only these questions: ids, one a line")
    parser.add_argument("--each", action="store_true", help=_EACH)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write what is decided for programs")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write it for a comment, or a job's summary")
    add_path(parser)
    given = parser.parse_args(list(arguments))
    given.margin = [margin(text) for text in given.margin]
    if given.each and given.slice:
        raise ConfigError("--each and --slice: a question by itself is in no slice; give one of the two")
    twice = [one.metric for n, one in enumerate(given.margin) if one.metric in {m.metric for m in given.margin[:n]}]
    if twice:
        raise ConfigError(f"--margin: {twice[0]} has two margins; give one")
    return given


def margin(text: str) -> Margin:
    """Read a margin; raises ConfigError for what is none."""
    metric, _, size = text.partition("=")
    relative = size.endswith("%")
    try:
        number = float(size.removesuffix("%"))
    except ValueError:
        number = math.nan
    if not metric or not math.isfinite(number) or number < 0:
        raise ConfigError(f'--margin: "{text}" is none; write METRIC=NUMBER or METRIC=NUMBER%, such as ndcg_at_10=.02')
    return Margin(metric, number / 100 if relative else number, relative)


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
