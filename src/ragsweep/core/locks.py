"""Processes of a machine: locks that the kernel releases, and the liveness of a lock's holder."""

from __future__ import annotations

import fcntl
import hashlib
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

BEAT = 15.0
"""Seconds between two heartbeats."""

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


class Locks:
    """Named locks on single bytes of one file: any number of names, and nothing to clean up.

    A process that holds a lock may take it again.
    """

    def __init__(self, path: Path) -> None:
        """Open the file, creating it if it does not exist; raises OSError if that fails."""
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._held: dict[int, int] = {}

    @contextmanager
    def alone(self, name: str, waiting: Callable[[], None] = lambda: None) -> Iterator[None]:
        """Hold the lock of a name inside the block; call ``waiting`` once where another process holds it."""
        byte = int.from_bytes(hashlib.sha256(name.encode()).digest()[:7], "big")
        if not self._held.get(byte):
            try:
                fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, byte)
            except BlockingIOError:
                waiting()
                fcntl.lockf(self._file, fcntl.LOCK_EX, 1, byte)
        self._held[byte] = self._held.get(byte, 0) + 1
        try:
            yield
        finally:
            self._held[byte] -= 1
            if not self._held[byte]:
                del self._held[byte]
                fcntl.lockf(self._file, fcntl.LOCK_UN, 1, byte)


def private_folder(path: Path) -> None:
    """Make a folder and its missing parents for their owner only; existing ones keep their mode."""
    for folder in reversed([path, *path.parents]):
        if not folder.exists():
            folder.mkdir(exist_ok=True, mode=0o700)


def private_file(path: Path) -> None:
    """Make an empty file for its owner only, if there is none."""
    if not path.exists():  # never opened if it exists: closing a file releases SQLite's locks on it
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))


def locks(path: Path) -> Locks:
    """Return this process's locks in a file; a single handle, because closing another one would release all locks."""
    return _opened(path.resolve(), os.getpid())


@cache
def _opened(path: Path, process: int) -> Locks:
    return Locks(path)
