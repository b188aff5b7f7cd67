"""``ragsweep judge``: say what a judge is worth."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from ragsweep.judge_command.arguments import read
from ragsweep.judge_command.calibrating import calibrate
from ragsweep.judge_command.repeating import compare
from ragsweep.terminal import Terminal

__all__ = ["judge"]

_COMMANDS = {"calibrate": calibrate, "noise": compare}


def judge(arguments: Sequence[str]) -> int:
    """Do what was typed after ``ragsweep judge``; return the exit status: 0 done, 2 bad input."""
    given = read(arguments)
    try:
        return _COMMANDS[given.command](given, Terminal.current())
    except BrokenPipeError:  # whoever read it, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
