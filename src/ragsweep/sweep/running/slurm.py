"""SLURM support: read the states of jobs with squeue, and handle preempted jobs.

submitit reads job states from ``sacct``. Without SLURM accounting, ``sacct`` fails, and submitit waits forever for a
killed job. With accounting, submitit detects the kill only after up to ten minutes, and treats a suspended job as
finished. None of this happens with ``squeue``.
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

if TYPE_CHECKING:
    from hydra.core.utils import JobReturn

    from ragsweep.sweep.composing.job import Job
    from ragsweep.sweep.running.jobs import Launch

POLL = 10.0
"""Seconds between calls to squeue."""

PATIENCE = 30.0
"""Timeout in seconds for a SLURM command, which would otherwise retry for minutes while the controller is down."""

LIST = ("squeue", "--all", "--array", "--noheader", "--states=all", "--format=%i %T")

ENDED = frozenset(
    {"BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "TIMEOUT"}
)
"""Final states of a job; SLURM lists a finished job for a few more minutes."""

GONE = "COMPLETED"
"""The state that is assumed for a job that squeue no longer lists."""

_log = logging.getLogger(__name__)


class SlurmQueue:
    """The jobs of one launch in SLURM's queue, with the interface of submitit's watcher."""

    def __init__(self) -> None:
        self._states: dict[str, str] = {}
        self._next = 0.0

    def register_job(self, job_id: str) -> None:
        """Add a job by its id; the id of a job in an array ends with ``_`` and the job's index."""
        self._states.setdefault(job_id, "UNKNOWN")

    def get_state(self, job_id: str, mode: str = "standard") -> str:
        """Return a job's SLURM state, or "UNKNOWN" until squeue has succeeded once.

        squeue is called at most once every `POLL` seconds, and never in the mode "cache".
        """
        self.register_job(job_id)
        if mode != "cache":
            self._refresh()
        return self._states[job_id]

    def is_done(self, job_id: str, mode: str = "standard") -> bool:
        """Return whether a job has ended, successfully or not; ``mode`` is as in `get_state`."""
        return self.get_state(job_id, mode) in ENDED

    def wait(self) -> None:
        """Wait until all jobs have ended."""
        while self._living():
            time.sleep(1)

    def cancel(self) -> None:
        """Cancel all jobs that have not ended."""
        self._next = 0.0
        if living := self._living():
            _call("scancel", *living)

    def _living(self) -> list[str]:
        return [job for job in list(self._states) if not self.is_done(job)]

    def _refresh(self) -> None:
        """Update the states of the registered jobs; keep the known states while squeue fails."""
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
    """Run a SLURM command and return its output; None if the command is missing, fails or exceeds `PATIENCE`."""
    try:
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=PATIENCE)
    except (OSError, subprocess.SubprocessError) as fault:
        _log.debug("%s", fault)
        return None
    return done.stdout


def through_queue(launcher: DictConfig, launch: Launch) -> Launch:
    """Return ``launch`` or, for a SLURM launcher, a wrapper around it that leaves no job in the queue.

    submitit stops waiting at the first lost job. The wrapper waits for the other jobs, so that their outcomes are
    recorded and none of them is launched twice. If the command is interrupted, the wrapper cancels its jobs.
    """
    if not str(launcher["_target_"]).endswith(".SlurmLauncher"):
        return launch

    def watched(jobs: Sequence[Job]) -> Sequence[JobReturn]:
        with _watching() as queue:
            try:
                return launch(jobs)
            except Exception as fault:
                fault.args = (" ".join(str(fault).splitlines()[:2]),)  # without the complete log of the job
                queue.wait()
                raise

    return watched


@contextmanager
def _watching() -> Iterator[SlurmQueue]:
    """Make submitit read job states from a `SlurmQueue` during the block; after an interruption, cancel the jobs."""
    from submitit import SlurmJob

    kind: Any = SlurmJob
    queue, before = SlurmQueue(), kind.watcher
    kind.watcher = queue
    try:
        yield queue
    except Exception:
        raise
    except BaseException:
        stop_raising()  # otherwise Interrupted would be raised again during the cancellation
        queue.cancel()
        raise
    finally:
        kind.watcher = before


# --- in a job -----------------------------------------------------------------------------------------------------


class _Withdrawn(BaseException):
    """A notice that SLURM will end the job; ``cause`` is the exception from submitit, which may have requeued it."""

    def __init__(self, cause: Exception | SystemExit) -> None:
        super().__init__(str(cause))
        self.cause = cause


@contextmanager
def withdrawable() -> Iterator[None]:
    """Prevent the job's config from being recorded as failed if SLURM ends the job, by preemption or timeout.

    SLURM sends a signal before it ends the job. submitit's handler requeues the job and raises SystemExit or, if the
    job must not be requeued, another exception. Within the block, this exception is replaced by a BaseException, which
    is handled as an interruption. At the end of the block, the original exception is raised.
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
    """Return the signal that SLURM sends before it ends this submitit job; None in other processes and threads."""
    if "SUBMITIT_EXECUTOR" not in os.environ or threading.current_thread() is not threading.main_thread():
        return None
    from submitit import JobEnvironment

    return getattr(signal, f"SIG{JobEnvironment.USR_SIG}", None)
