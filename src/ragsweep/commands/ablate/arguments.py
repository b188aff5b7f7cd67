"""Arguments of ``ragsweep ablate``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from ragsweep.commands.command_line import RUN, Parser, add_path

_ABOUT = """Run a config again with one thing changed at a time: every option of its parts that needs no further model,
every number to the values next to it. It is a sweep like any other, resumed by the same command, whose first config is
RUN's; at the end the changes are listed by how much they matter, with intervals that hold for all of them together.
What changes no result, or cannot be, is left out. The cases are written to sweeps/ablate_RUN.yaml, to be edited."""


def read(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command's options; raises ConfigError, in one line, for what means nothing."""
    parser = Parser(prog="ragsweep ablate", description=_ABOUT, allow_abbrev=False)
    parser.add_argument("run", metavar="RUN", help=RUN)
    parser.add_argument(
        "overrides",
        nargs="*",
        metavar="KEY=VALUE",
        help="set in every case; several values (retriever.k=20,40) are tried in the place of a parameter's neighbours",
    )
    parser.add_argument("--factor", action="append", help="change only this part or parameter; several times")
    parser.add_argument("--metric", help="what the changes are ordered by (the objective)")
    parser.add_argument("--plan", action="store_true", help="show the cases and what they would cost; run nothing")
    parser.add_argument("--config-dir", "-cd", help="folder of further options, as it was given for RUN")
    add_path(parser)
    return parser.parse_intermixed_args(list(arguments))
