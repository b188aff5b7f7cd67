"""``ragsweep store``: show and empty the store."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from ragsweep.commands.store.evicting import remove
from ragsweep.commands.store.listing import show
from ragsweep.commands.store.options import find, read
from ragsweep.core import interruption
from ragsweep.core.errors import RagsweepError
from ragsweep.report.terminal import Terminal

__all__ = ["store"]


def store(arguments: Sequence[str]) -> int:
    """Run ``ragsweep store``; return the exit status.

    0 done, 2 bad input or no terminal to confirm at, 130 and 143 interrupted.
    """
    interruption.raise_on_signals()
    try:
        given = read(arguments)
        place, chosen = find(given.path)
        terminal = Terminal.current()
        if not vars(given).get("json"):
            terminal.line("store", f"{place.path} ({chosen})")
        return {"list": show, "evict": remove}[given.command](given, place, terminal)
    except RagsweepError as fault:
        print(f"ragsweep: {fault}", file=sys.stderr)
        return fault.exit_status
    except interruption.Interrupted as signalled:
        interruption.stop_raising()
        return signalled.exit_status
    except BrokenPipeError:  # whoever read it, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as fault:  # a folder that may not be written, a disk that fails
        print(f"ragsweep: {fault.filename or 'store'}: {fault.strerror}", file=sys.stderr)
        return RagsweepError.exit_status
