"""Processes that share work: which one holds a piece of it, whether it is alive, and its heartbeat."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

LAPSE = 90.0
"""Seconds without a heartbeat after which a process of another machine counts as dead."""


@dataclass(frozen=True)
class Holder:
    """A process: its machine, its number, and its start time, because numbers are reused."""

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
    """Return this process as a holder."""
    return _holder(os.getpid())


@cache
def _holder(process: int) -> Holder:
    return Holder(socket.gethostname(), process, _started(process) or "")


def _started(process: int) -> str | None:
    """Return a process's start time as the system writes it; None where no process has this number."""
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
        return ""  # no /proc: the process number has to suffice
    return None if state == "Z" else fields[18]


@contextmanager
def repeating(action: Callable[[], None], seconds: float, name: str) -> Iterator[None]:
    """Call ``action`` every ``seconds``, in another thread of this name, during the block."""
    ended = threading.Event()

    def act() -> bool:
        action()
        return True

    thread = beat(act, seconds, name, ended)
    try:
        yield
    finally:
        ended.set()
        thread.join(5)  # an action may be waiting for a database


def beat(
    action: Callable[[], bool], seconds: float, name: str, ended: threading.Event | None = None
) -> threading.Thread:
    """Call ``action`` every ``seconds``, in another thread of this name, until it returns False or the event is set.

    Each place of claims has a thread of its own: a database that is locked for a minute must not silence the others.
    """
    stop = ended or threading.Event()

    def work() -> None:
        while not stop.wait(seconds) and action():
            pass

    thread = threading.Thread(target=work, name=name, daemon=True)
    thread.start()
    return thread
