"""Say again and again that this process is at work, for as long as somebody wants it said."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Any

PATIENCE = 5.0
"""Seconds that are given to a beat under way when it is stopped."""


class Heart:
    """Call a method every so many seconds, in a thread that ends when it is stopped or its object is forgotten."""

    def __init__(self, beat: Callable[[], Any], every: float) -> None:
        self._stopped = threading.Event()
        # The thread holds the object for the time of a beat only: whoever forgets it ends the thread.
        work = _beat, (weakref.WeakMethod(beat), self._stopped, every)
        self._thread = threading.Thread(target=work[0], args=work[1], name="ragsweep-optuna-heartbeat", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._stopped.set()
        if self._thread is not threading.current_thread():
            self._thread.join(PATIENCE)


def _beat(beat: weakref.WeakMethod[Callable[[], Any]], stopped: threading.Event, every: float) -> None:
    while not stopped.wait(every):
        call = beat()
        if call is None:
            return
        with suppress(Exception):  # the next beat may reach the database
            call()
        del call
