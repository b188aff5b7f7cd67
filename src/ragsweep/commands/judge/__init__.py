"""``ragsweep judge``: the agreement of a judge with people."""

from __future__ import annotations

from collections.abc import Sequence

from ragsweep.commands.command_line import until_closed
from ragsweep.commands.judge.arguments import read
from ragsweep.commands.judge.calibrating import calibrate
from ragsweep.commands.judge.repeating import compare
from ragsweep.report.terminal import Terminal

__all__ = ["judge"]

_COMMANDS = {"calibrate": calibrate, "noise": compare}


def judge(arguments: Sequence[str]) -> int:
    """Run ``ragsweep judge``; return the exit status: 0 done, 2 bad input."""
    given = read(arguments)
    return until_closed(lambda: _COMMANDS[given.command](given, Terminal.current()))
