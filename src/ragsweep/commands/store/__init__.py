"""``ragsweep store``: show, check and empty the store."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from ragsweep.commands.store.arguments import find, read
from ragsweep.commands.store.changing import remove, verify_all
from ragsweep.commands.store.listing import show
from ragsweep.core import interruption
from ragsweep.core.errors import RagsweepError
from ragsweep.report.terminal import Terminal

__all__ = ["store"]

_COMMANDS = {"list": show, "verify": verify_all, "evict": remove}


def store(arguments: Sequence[str]) -> int:
    """Do what was typed after ``ragsweep store``; return the exit status.

    0 done, 1 something is damaged, 2 bad input or nobody to ask, 130 and 143 interrupted.
    """
    interruption.listen()
    try:
        given = read(arguments)
        place, chosen = find(given.path)
        terminal = Terminal.current()
        if not vars(given).get("json"):
            terminal.line("store", f"{place.path} ({chosen})")
        return _COMMANDS[given.command](given, place, terminal)
    except RagsweepError as fault:
        print(f"ragsweep: {fault}", file=sys.stderr)
        return fault.exit_status
    except interruption.Interrupted as signalled:
        interruption.caught()
        return signalled.exit_status
    except BrokenPipeError:  # whoever read it, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as fault:  # a folder that may not be written, a disk that fails
        print(f"ragsweep: {fault.filename or 'store'}: {fault.strerror}", file=sys.stderr)
        return RagsweepError.exit_status
