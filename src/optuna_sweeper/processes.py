"""Share work between processes: claim pieces of work, send heartbeats, and determine which processes are alive."""

import os
import socket
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, partial
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

LAPSE = 90.0
"""Seconds without a heartbeat after which a process on another machine is considered dead."""

Work = TypeVar("Work", contravariant=True)
"""The type by which a `Liveness` identifies a unit of work."""


class Holder(NamedTuple):
    """A process, identified by its machine, process id and start time; the id alone may be reused."""

    host: str
    process: int
    started: str

    def lives(self, silent: float, lapse: float = LAPSE) -> bool:
        """Return whether the process is alive.

        ``silent`` is the number of seconds since its last heartbeat. A process on another machine counts as alive if
        ``silent`` is less than ``lapse``; for a process on this machine, ``silent`` is ignored.
        """
        if self.host != socket.gethostname():
            return silent < lapse
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
    """Return a process's start time in the system's format; "" if the time is unknown, None if no such process runs."""
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
        return ""  # no /proc: the process id must suffice
    return None if state == "Z" else fields[18]


class Liveness(ABC, Generic[Work]):
    """Claims of processes on pieces of work, recorded in a store that all the processes can reach, such as a database.

    A claim ends when it is released, or when its process dies. Each store has its own instance of this class. The
    instance's thread sends this process's heartbeats to that store only, so a locked database does not delay the
    heartbeats to other stores.
    """

    _stop: Callable[[], None] | None = None

    def __init__(self, pause: float, lapse: float = LAPSE) -> None:
        """Set ``pause``, the number of seconds between heartbeats, and ``lapse``.

        A process on another machine counts as dead after ``lapse`` seconds without a heartbeat.
        """
        self._pause, self._lapse = pause, lapse

    @abstractmethod
    def claim(self, work: Work) -> Holder | None:
        """Claim work for this process; return None on success, else the living process that has claimed the work."""

    @abstractmethod
    def release(self, work: Work) -> None:
        """Release this process's claim on work, so that another process may claim it."""

    @abstractmethod
    def is_alive(self, work: Work) -> bool:
        """Return whether a living process, possibly this process, has claimed ``work``."""

    @abstractmethod
    def beat(self) -> None:
        """Record that this process is alive, so that other processes respect its claims."""

    def start(self) -> bool:
        """Start heartbeats and return True; return False if they are already running.

        The heartbeats end when ``stop`` is called, or when this object is deleted.
        """
        if self._stop:
            return False
        self._stop = _repeat(partial(_beat, weakref.ref(self)), self._pause, f"{type(self).__name__} heartbeat")
        return True

    def stop(self) -> None:
        """Stop the heartbeats."""
        if self._stop:
            self._stop()
            self._stop = None


def _beat(place: weakref.ref[Liveness[Any]]) -> bool:
    """Send a heartbeat of the object to which ``place`` refers; return whether this object still exists."""
    liveness = place()
    with suppress(Exception):  # the next heartbeat may succeed
        if liveness:
            liveness.beat()
    return liveness is not None


@contextmanager
def repeating(action: Callable[[], object], seconds: float, name: str) -> Iterator[None]:
    """Call ``action`` every ``seconds`` in a thread, until the block ends or ``action`` returns False.

    ``name`` is the name of the thread.
    """
    stop = _repeat(action, seconds, name)
    try:
        yield
    finally:
        stop()


def _repeat(action: Callable[[], object], seconds: float, name: str) -> Callable[[], None]:
    """Call ``action`` every ``seconds`` in a thread until a call returns False; return a function to end the calls."""
    ended = threading.Event()

    def work() -> None:
        while not ended.wait(min(seconds, threading.TIMEOUT_MAX)) and action() is not False:
            pass

    def stop() -> None:
        ended.set()
        thread.join(5)  # an action may be waiting for a database

    thread = threading.Thread(target=work, name=name, daemon=True)
    thread.start()
    return stop
