"""Leases in an object store: one of several machines computes a result while the others wait.

The object store needs put-if-absent, but no locks. A lease has numbered objects below its name; only the object with
the highest number counts. The process that created this object is the owner of the lease and rewrites the object every
few seconds. A lease ends when its owner releases it or is a dead process on this machine. It also ends when the object
has not changed for ``lapse`` seconds by the clock of a waiting process. Another process may then create the object with
the next number. Therefore, clocks of different machines are never compared and nothing is deleted. A process that is
wrongly considered dead overwrites only its own object.
"""

import json
import re
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ragsweep.core.locks import Holder, Liveness, myself
from ragsweep.stages.remote import Remote

LAPSE = 30.0
"""Seconds without a heartbeat after which the owner of a lease on another machine is considered dead."""

PAUSE = 5.0
"""Seconds between heartbeats."""

FIRST_POLL, LAST_POLL = 0.1, 2.0
"""Seconds between two checks by a waiting process: the first interval, and the longest."""

FREE = b"free"
LAST = 10**8 - 1
"""The highest number of a lease's objects; once it is used, processes run without a lease."""
_NUMBERED = re.compile(r"\d{8}", re.ASCII)


class Leases(Liveness[str]):
    """The leases of this process; their objects are below ``leases/NAME/``.

    If the object store is unreachable, a process runs without a lease, and two machines may compute the same result.
    """

    def __init__(self, remote: Remote, lapse: float = LAPSE, pause: float = PAUSE) -> None:
        super().__init__(pause, lapse)
        self._remote = remote
        self._lock = threading.Lock()  # prevents a heartbeat after the release
        self._objects: dict[str, str] = {}  # lease held by this process -> its object
        self._unreleased: set[str] = set()  # objects of ended leases that could not be overwritten with FREE
        self._watched: dict[str, tuple[bytes, float]] = {}  # object -> its content, and when it last changed
        self._id = uuid.uuid4().hex  # identifies this instance's objects, even if a response is lost
        self._beats = 0

    @contextmanager
    def alone(self, name: str, waiting: Callable[[], None] = lambda: None) -> Iterator[None]:
        """Wait for a lease, and hold it inside the block; call ``waiting`` once if another process holds it.

        If this process already holds the lease, or if the object store is unreachable, the block runs immediately.
        """
        if name in self._objects:
            yield
            return
        poll = FIRST_POLL
        while self.claim(name):
            if poll == FIRST_POLL:
                waiting()
            time.sleep(poll)
            poll = min(2 * poll, LAST_POLL)
        try:
            yield
        finally:
            self.release(name)

    def claim(self, work: str) -> Holder | None:
        """Take the lease named ``work`` and return None; if another live process holds it, return that process.

        Also return None, without a lease, if the object store is unreachable, or if the lease's numbers are used up.
        """
        while work not in self._objects and (last := self._last(work)) is not None:
            if last and (owner := self._owner(last)):
                return owner
            number = int(last.rpartition("/")[2] or 0) + 1
            name = f"leases/{work}/{number:08d}"
            made = self._remote.put(name, self._sign_of_life()) if number <= LAST else None
            if made:
                self._watched.pop(last, None)
                self._objects[work] = name
                self.start()
            elif made is None:
                break
        return None

    def release(self, work: str) -> None:
        """End a lease, if this process holds it."""
        with self._lock:
            if name := self._objects.pop(work, None):
                self._free(name)

    def is_alive(self, work: str) -> bool:
        """Return whether a live process holds a lease; False if the object store is unreachable."""
        last = self._last(work)
        return bool(last and (last == self._objects.get(work) or self._owner(last)))

    def beat(self) -> None:
        """Rewrite the leases of this process, so that they do not end, and repeat releases that failed."""
        self._beats += 1
        for ended in list(self._unreleased):
            self._free(ended)
        for work in list(self._objects):
            with self._lock:
                if name := self._objects.get(work):
                    self._remote.overwrite(name, self._sign_of_life())

    def _free(self, name: str) -> None:
        self._unreleased.add(name)
        if self._remote.overwrite(name, FREE):
            self._unreleased.discard(name)

    def _last(self, work: str) -> str | None:
        """Return the name of a lease's last object; "" if there is none, None if the object store is unreachable."""
        listed = self._remote.names(f"leases/{work}/")
        if listed is None:
            return None
        return max((name for name in listed if _NUMBERED.fullmatch(name.rpartition("/")[2])), default="")

    def _owner(self, name: str) -> Holder | None:
        """Return the live owner of the lease with the last object ``name``; None if no other live process owns it."""
        content, now = self._remote.get(name) or b"", time.monotonic()
        if content == FREE or self._id.encode() in content:
            return None
        if self._watched.get(name, (None, now))[0] != content:
            self._watched[name] = content, now
        owner = _read_owner(content)
        return owner if owner.lives(now - self._watched[name][1], self._lapse) else None

    def _sign_of_life(self) -> bytes:
        return json.dumps([*myself(), f"{self._id} {self._beats}"]).encode()


def _read_owner(content: bytes) -> Holder:
    """Return the owner of a lease; for malformed content, a process on an unknown machine."""
    try:
        host, process, started, _ = json.loads(content)
        if type(process) is int and 0 < process < 2**31:  # valid process ids
            return Holder(str(host), process, str(started))
    except (ValueError, TypeError, RecursionError):
        pass
    return Holder("an unknown machine", 0, "")
