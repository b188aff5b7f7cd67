"""Say who works on something, and whether that process still lives."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True)
class Process:
    """A process: its machine, its number, and when it was started, since numbers are used again."""

    host: str
    number: int
    started: str

    def lives(self, silent: float, lapse: float) -> bool:
        """Say whether the process lives, ``silent`` seconds after its last heartbeat.

        One of this machine that is gone is dead at once; any other after ``lapse`` seconds without a heartbeat.
        """
        gone = self.host == socket.gethostname() and _started(self.number) != self.started
        return not gone and silent < lapse

    def __str__(self) -> str:
        return f"process {self.number} on {self.host}"


def myself() -> Process:
    """Return this process."""
    return _process(os.getpid())


@cache
def _process(number: int) -> Process:
    return Process(socket.gethostname(), number, _started(number) or "")


def _started(number: int) -> str | None:
    """Return when a process was started, in the words of the system; None where there is none of this number."""
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        pass
    try:
        state, *fields = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""  # a system without /proc: the number has to do
    return None if state == "Z" else fields[18]
