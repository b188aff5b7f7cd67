"""Turn termination signals into an exception that cannot be lost, limit the time of a block, and report waits."""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from optuna_sweeper.processes import repeating as repeating

AGAIN = 0.5
"""Interval in seconds at which Interrupted is raised again, until `stop_raising` is called."""


class Interrupted(BaseException):
    """A termination signal. The exit status follows the shell's rule: 128 + the signal number."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.exit_status = 128 + number


def raise_on_signals() -> None:
    """Install handlers that raise Interrupted on SIGINT, SIGTERM and SIGHUP; a signal that is ignored stays ignored.

    After a signal, Interrupted is raised again every ``AGAIN`` seconds until `stop_raising` is called. This uses
    SIGALRM; an alarm from outside also raises Interrupted.
    """
    received: list[int] = []

    def interrupt(number: int, frame: FrameType | None) -> None:
        # A signal may arrive inside a finaliser or the callback of a weak reference, where Python ignores exceptions.
        # So the exception is raised again until `stop_raising` is called.
        if number != signal.SIGALRM or not received:  # an alarm set before this process started is a signal, too
            received.append(number)
        signal.setitimer(signal.ITIMER_REAL, AGAIN)
        raise Interrupted(received[-1])

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, interrupt)
    signal.signal(signal.SIGALRM, interrupt)


def stop_raising() -> None:
    """Stop the repeated raising of Interrupted, after the exception has been caught."""
    signal.setitimer(signal.ITIMER_REAL, 0)


class _Deadline:
    """The signal handler of `deadline`; ``over`` is true from the deadline until the end of the block."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.over = seconds, False

    def expire(self) -> None:
        self.over = True
        os.kill(os.getpid(), signal.SIGUSR1)

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.over:
            raise TimeoutError(
                f"not finished within {self.seconds:g} s; raise timeout, or set timeout=null for no limit"
            )


@contextmanager
def deadline(seconds: float | None) -> Iterator[None]:
    """Raise TimeoutError inside the block after ``seconds``; do nothing for None or outside the main thread."""
    if seconds is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    handler = _Deadline(seconds)
    before = signal.signal(signal.SIGUSR1, handler)
    try:
        with _after(seconds, handler.expire):
            yield
    finally:
        handler.over = False
        signal.signal(signal.SIGUSR1, before)


def is_overdue() -> bool:
    """Return whether the deadline of the enclosing `deadline` block has passed; False outside such a block."""
    handler = signal.getsignal(signal.SIGUSR1)
    return isinstance(handler, _Deadline) and handler.over


def raise_overdue(fault: BaseException) -> None:
    """Raise ``fault`` again if the enclosing `deadline` block is overdue; do nothing outside the main thread.

    Code that handles an OSError, such as a failed write to a cache, would otherwise also handle the deadline's
    TimeoutError.
    """
    if threading.current_thread() is threading.main_thread() and is_overdue():
        raise fault


def warn(text: str) -> None:
    """Print a warning to standard error."""
    print(f"{'warning':<10}{text}", file=sys.stderr, flush=True)


@contextmanager
def waiting_for(what: str, notice: float, report: Callable[[str], None] = warn) -> Iterator[None]:
    """Report once, from another thread, that the block waits for ``what``, if the wait exceeds ``notice`` seconds."""
    with _after(notice, lambda: report(f"waiting for {what} ({notice:g} s so far)")):
        yield


@contextmanager
def _after(seconds: float, action: Callable[[], None]) -> Iterator[None]:
    """Call ``action`` once, in another thread, if the block takes longer than ``seconds``."""
    timer = threading.Timer(min(seconds, threading.TIMEOUT_MAX), action)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
