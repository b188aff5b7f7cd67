"""SLURM between the command and its jobs: which of them have ended, and what a job does that SLURM takes back.

submitit itself reads the jobs' states from ``sacct``. Where SLURM keeps no accounts that fails, and a job that was
killed is waited for without end; elsewhere it is noticed after up to ten minutes, and a suspended job counts as ended.
``squeue`` works everywhere.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig

from ragsweep.core.interruption import stop_raising
from ragsweep.sweep.delivery import Launch

if TYPE_CHECKING:
    from hydra.core.utils import JobReturn

POLL = 10.0
"""Seconds between two calls of squeue."""

PATIENCE = 30.0
"""Seconds after which a call of SLURM is given up: while its controller is down, commands try again for minutes."""

LIST = ("squeue", "--all", "--array", "--noheader", "--states=all", "--format=%i %T")

ENDED = frozenset(
    {"BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "TIMEOUT"}
)  # fmt: skip
"""States of a job that will not run again; SLURM lists it for some minutes, then no more."""

GONE = "COMPLETED"
"""The state of a job that SLURM lists no more."""

_log = logging.getLogger(__name__)


class SlurmQueue:
    """The jobs of one launch in SLURM's queue, as submitit's jobs look them up."""

    def __init__(self) -> None:
        self._states: dict[str, str] = {}
        self._next = 0.0

    def register_job(self, job_id: str) -> None:
        """Add a job: its number, in an array with its place behind ``_``."""
        self._states.setdefault(job_id, "UNKNOWN")

    def get_state(self, job_id: str, mode: str = "standard") -> str:
        """Return a job's state in SLURM's words; in no mode is squeue called more often than every `POLL` seconds."""
        self.register_job(job_id)
        if mode != "cache":
            self._refresh()
        return self._states[job_id]

    def is_done(self, job_id: str, mode: str = "standard") -> bool:
        """Return whether a job has ended, however it did."""
        return self.get_state(job_id, mode) in ENDED

    def wait(self) -> None:
        """Wait until all jobs have ended."""
        while self._living():
            time.sleep(1)

    def cancel(self) -> None:
        """Take the jobs that have not ended out of the queue, and end those that run."""
        self._next = 0.0
        if living := self._living():
            _call("scancel", *living)

    def _living(self) -> list[str]:
        return [job for job in list(self._states) if not self.is_done(job)]

    def _refresh(self) -> None:
        """List the user's jobs; while SLURM gives no list, what was known stays."""
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + POLL
        listed = _call(*LIST, f"--user={os.getuid()}")
        if listed is None:
            return
        found = dict(line.split(maxsplit=1) for line in listed.splitlines() if line.strip())
        for job, known in self._states.items():
            self._states[job] = found.get(job, known if known in ENDED else GONE).strip()


def _call(*command: str) -> str | None:
    """Call one of SLURM's commands; None where it fails, or takes longer than a controller needs that is there."""
    try:
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=PATIENCE)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as fault:
        _log.debug("%s", fault)
        return None
    return done.stdout


def through_queue(launcher: DictConfig, launch: Launch) -> Launch:
    """Return a launcher that, where it is SLURM's, leaves no job behind in the queue.

    submitit stops waiting at the first job that is lost: the others are waited for, so that what they send is recorded
    and none of them is launched a second time. Jobs of a command that is interrupted are cancelled.
    """
    if not str(launcher["_target_"]).endswith(".SlurmLauncher"):
        return launch

    def watched(jobs: Sequence[Sequence[str]], first: int) -> Sequence[JobReturn]:
        with _watching() as queue:
            try:
                return launch(jobs, first)
            except Exception as fault:
                fault.args = (" ".join(str(fault).splitlines()[:2]),)  # without the job's whole log
                queue.wait()
                raise

    return watched


@contextmanager
def _watching() -> Iterator[SlurmQueue]:
    """Let submitit look jobs up in a queue of ours."""
    from submitit import SlurmJob

    kind: Any = SlurmJob
    queue, before = SlurmQueue(), kind.watcher
    kind.watcher = queue
    try:
        yield queue
    except Exception:
        raise
    except BaseException:
        stop_raising()  # or the signal would also interrupt this
        queue.cancel()
        raise
    finally:
        kind.watcher = before


# --- in a job -----------------------------------------------------------------------------------------------------


class _Withdrawn(BaseException):
    """SLURM takes the job back; ``cause`` is what submitit raised after it has, or has not, queued it again."""

    def __init__(self, cause: Exception | SystemExit) -> None:
        super().__init__(str(cause))
        self.cause = cause


@contextmanager
def withdrawable() -> Iterator[None]:
    """Let what submitit raises in the midst of a job, where SLURM takes it back, be no failure of its config.

    Before a job's time is over, and before it is preempted, SLURM sends a signal. submitit's handler queues the job
    again and raises SystemExit, or, where it may not be queued again, an error of its own.
    """
    number = _warning_signal()
    before = signal.getsignal(number) if number else None
    if number is None or not callable(before):
        yield
        return
    inner: Callable[[int, FrameType | None], object] = before

    def withdraw(received: int, frame: FrameType | None) -> None:
        try:
            inner(received, frame)
        except (Exception, SystemExit) as fault:
            raise _Withdrawn(fault) from fault

    signal.signal(number, withdraw)
    try:
        yield
    except _Withdrawn as taken:
        raise taken.cause from None
    finally:
        signal.signal(number, before)


def _warning_signal() -> int | None:
    """Return the signal by which SLURM warns submitit's jobs; None elsewhere."""
    if "SUBMITIT_EXECUTOR" not in os.environ or threading.current_thread() is not threading.main_thread():
        return None
    from submitit import JobEnvironment

    return getattr(signal, f"SIG{JobEnvironment.USR_SIG}", None)
