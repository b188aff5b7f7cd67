"""Owners of claims and locks: a process is alive if it runs on this machine, or sends heartbeats from another one."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from functools import cache
from pathlib import Path

BEAT = 15.0
"""Seconds between two heartbeats."""

LAPSE = 90.0
"""Seconds without a heartbeat after which a process of another machine counts as dead."""


@dataclass(frozen=True)
class Holder:
    """A process: its machine, its number, and when it was started, since numbers are used again."""

    host: str
    process: int
    started: str

    def lives(self, silent: float) -> bool:
        """Return whether the process is alive; ``silent`` is the number of seconds since its last heartbeat."""
        if self.host != socket.gethostname():
            return silent < LAPSE
        return _started(self.process) == self.started

    def __str__(self) -> str:
        return f"process {self.process} on {self.host}"


def myself() -> Holder:
    """Return this process."""
    return _holder(os.getpid())


@cache
def _holder(process: int) -> Holder:
    return Holder(socket.gethostname(), process, _started(process) or "")


def _started(process: int) -> str | None:
    """Return when a process was started, in the words of the system; None where there is none of this number."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        pass
    stat = Path(f"/proc/{process}/stat")
    try:
        state, *fields = stat.read_text().rpartition(")")[2].split()
    except OSError:
        return ""  # a system without /proc: the number has to do
    return None if state == "Z" else fields[18]
