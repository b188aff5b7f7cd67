"""Turn signals that ask for an end into an exception that is sure to arrive, so that what is open gets closed."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

AGAIN = 0.5
"""Seconds after which an exception that nobody has caught is raised again."""

_received: list[int] = []


_late: list[float] = []


class Interrupted(BaseException):
    """A signal asked the process to end. Its exit status is the shell's: 128 + the signal's number."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.exit_status = 128 + number


def listen() -> None:
    """Raise Interrupted on SIGINT, SIGTERM and SIGHUP (a closed terminal); what the shell ignores stays ignored."""
    for number in (signal.SIGINT, signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)
    if hasattr(signal, "setitimer"):
        signal.signal(signal.SIGALRM, _interrupt)


def caught() -> None:
    """Stop raising: the exception has arrived."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, 0)


@contextmanager
def deadline(seconds: float | None) -> Iterator[None]:
    """Raise TimeoutError inside the block once it has taken so many seconds; in the main thread only."""
    if seconds is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGUSR1, _time_out)
    timer = threading.Timer(seconds, _end, [seconds])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        _late.clear()
        signal.signal(signal.SIGUSR1, before)


def overdue() -> bool:
    """Say whether the time of a deadline that holds now is over."""
    return bool(_late)


def _end(seconds: float) -> None:
    _late.append(seconds)
    os.kill(os.getpid(), signal.SIGUSR1)


def _time_out(number: int, frame: FrameType | None) -> None:
    if _late:
        raise TimeoutError(f"it took more than timeout={_late[0]:g} seconds")


def _interrupt(number: int, frame: FrameType | None) -> None:
    # Python ignores an exception that is raised inside a finaliser or a weak reference's callback, and the signal may
    # come just there. So it is raised until somebody says that it was caught.
    if number != getattr(signal, "SIGALRM", None):
        _received.append(number)
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, AGAIN)
    raise Interrupted(_received[-1])
