"""Leases: one of several machines computes, the others wait; by put-if-absent alone, which every object store has.

A lease is the last of the numbered objects below its name, and belongs to the process that made that object. Its owner
rewrites it every few seconds. A lease ends when it is released, when its process on this machine is dead, or when other
processes see it unchanged for ``lapse`` seconds of their own clocks; the next number may then be made. So clocks are
never compared, nothing is deleted, and an owner that resumes after it was declared dead changes only its own number.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ragsweep.core.locks import Holder, beat, myself
from ragsweep.stages.remote import Remote

LAPSE = 30.0
"""Seconds without a heartbeat after which an owner on another machine counts as dead."""

BEAT = 5.0
"""Seconds between two heartbeats."""

FIRST_PAUSE, LAST_PAUSE = 0.1, 2.0
"""Seconds between two polls of a waiting process: the first interval, and the longest."""

FREE = b"free"
LAST = 10**8 - 1
"""The highest number of a lease; beyond it a block runs without a lease."""
_NUMBERED = re.compile(r"\d{8}", re.ASCII)


@dataclass
class _Watch:
    """The content of a lease when it was last read, and the time since which it is unchanged."""

    content: bytes = b""
    since: float = 0.0


class Leases:
    """The leases that this process takes below ``leases/``."""

    def __init__(self, remote: Remote, lapse: float = LAPSE, beat: float = BEAT) -> None:
        self._remote = remote
        self._lapse, self._beat = lapse, beat
        self._lock = threading.Lock()
        self._held: dict[str, str] = {}  # name -> the object
        self._beats = 0
        self._thread: threading.Thread | None = None

    @contextmanager
    def alone(self, name: str, waiting: Callable[[], None] = lambda: None) -> Iterator[None]:
        """Hold a lease inside the block; call ``waiting`` once if another machine has it.

        If the object store is unreachable, the block runs without a lease: two machines may then compute the same
        result.
        """
        if name in self._held:
            yield
            return
        taken = self._take(name, waiting)
        if taken:
            self._keep_alive(name, taken)
        try:
            yield
        finally:
            if taken:
                with self._lock:  # no heartbeat may follow
                    del self._held[name]
                    self._remote.overwrite(taken, FREE)

    def _take(self, name: str, waiting: Callable[[], None]) -> str | None:
        """Wait for a lease and take it; return its object, or None if the object store is unreachable."""
        watch, pause, reported = _Watch(), FIRST_PAUSE, False
        while True:
            listed = self._remote.names(f"leases/{name}/")
            if listed is None:
                return None
            found = [one for one in listed if _NUMBERED.fullmatch(one.rpartition("/")[2])]
            if not found or self._is_over(found[-1], watch):
                number = int(found[-1].rpartition("/")[2]) + 1 if found else 1
                taken = f"leases/{name}/{number:08d}"
                made = self._remote.put(taken, self._sign_of_life()) if number <= LAST else None
                if made or made is None:
                    return taken if made else None
                continue  # another machine was faster
            if not reported:
                waiting()
                reported = True
            time.sleep(pause)
            pause = min(2 * pause, LAST_PAUSE)

    def _is_over(self, last: str, watch: _Watch) -> bool:
        content = self._remote.get(last)
        if content is None:
            return False
        if content == FREE:
            return True
        if content != watch.content:
            watch.content, watch.since = content, time.monotonic()
        owner = _owner(content)
        if owner and owner.host == myself().host:
            return not owner.lives(0)
        return time.monotonic() - watch.since >= self._lapse

    def _sign_of_life(self) -> bytes:
        me = myself()
        return json.dumps([me.host, me.process, me.started, self._beats]).encode()

    def _keep_alive(self, name: str, taken: str) -> None:
        with self._lock:
            self._held[name] = taken
            if self._thread is None:
                self._thread = beat(self._give_signs, self._beat, "ragsweep-leases")

    def _give_signs(self) -> bool:
        self._beats += 1
        for name in list(self._held):
            with self._lock:
                if name in self._held:
                    self._remote.overwrite(self._held[name], self._sign_of_life())
        return True


def _owner(content: bytes) -> Holder | None:
    try:
        host, process, started, _ = json.loads(content)
    except (ValueError, TypeError, RecursionError):
        return None
    known = type(process) is int and 0 < process < 2**31  # the numbers of processes
    return Holder(str(host), process, str(started)) if known else None
