"""Arguments of ``ragsweep judge``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from ragsweep.commands.command_line import RUN, Parser, add_path
from ragsweep.core.errors import ConfigError, nearest

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
