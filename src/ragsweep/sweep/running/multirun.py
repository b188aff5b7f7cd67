"""Open or resume a multirun, and launch its pending jobs repeatedly, as long as each launch makes progress."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from optuna_sweeper.race_loop import exception_of, run_race
from ragsweep.core import interruption
from ragsweep.core.errors import RagsweepError, describe_fault
from ragsweep.core.identity import content_hash
from ragsweep.core.results import Failure, Result
from ragsweep.core.secrets import mask as mask_values
from ragsweep.parts.targets import ENFORCE
from ragsweep.records.claims import COMMAND, CONFIG, Claim, ClaimKey
from ragsweep.records.ledger import FINISHED, KILLED, RUNNING, Sweep
from ragsweep.report.naming import number_configs
from ragsweep.stages.graph import Plan
from ragsweep.sweep.composing.job import Job
from ragsweep.sweep.composing.sweep_names import root
from ragsweep.sweep.running import mlflow_sync
from ragsweep.sweep.running.jobs import Body, Launch, Launcher, launch_batches
from ragsweep.sweep.running.recording import OutcomeWriter, RunContext

if TYPE_CHECKING:
    from ragsweep.sweep.composing.command import Command
    from ragsweep.sweep.running.sweep_race import SweepRace


DECIDING = [
    "objective",
    "headline",
    "answer_headline",
    "success",
    "recommend",
    "constraints",
    "targets",
    "coverage",
    "prices",
]
"""Settings that can change the conclusion from the same scores; overriding them differently starts a new sweep."""

EDITED = ("objective", "recommend", "constraints", "coverage")
"""Settings for which different values start a new sweep even if they are set in a file."""

ATTEMPTS = 3
"""Maximum number of attempts at a job whose process dies."""

DONE = ("finished", "partial", "failed", "dropped")
"""Statuses of jobs that are not run again; repeating a grid's command first resets failed and partial jobs."""


class Ending(NamedTuple):
    """How a sweep's jobs ended: the status, why a job may lack a record (or ""), and the interrupting exception."""

    status: str
    why: str
    interruption: BaseException | None = None


@dataclass
class Multirun:
    """A run of several configs (``-m``), whose jobs are known in advance."""

    command: Command
    context: RunContext
    jobs: Sequence[Job]
    launcher: Launcher
    race: SweepRace | None = None

    def __post_init__(self) -> None:
        """Set aliases for parts of the context, and the attributes that `Search` overrides."""
        self.ledger, self.tracker = self.context.ledger, self.context.tracker
        self.terminal, self.secrets = self.context.terminal, self.context.secrets
        self.values: Mapping[str, Any] = self.jobs[0].config.values
        self.is_shared = False  # whether several commands can work on the sweep
        self.elsewhere = False  # whether machines that do not record in this ledger can work on the sweep
        self.body: Body | None = self._run_jobs  # None if Hydra's sweeper runs the jobs

    @cached_property
    def key(self) -> str:
        """The sweep's key: a hash of the configs' signatures, the `DECIDING` overrides, the tracker and the race."""
        typed = {root(line) for line in self.command.task}
        decided = {name: self.values[name] for name in DECIDING if name in typed}
        further = [one for one in (decided, self.command.race if self.race else None) if one]
        signatures = [job.experiment.signature for job in self.jobs if job.experiment]
        return self.distinguished(content_hash([signatures, self.tracker.identity, *further]))

    @cached_property
    def new(self) -> Sweep:
        """The sweep as it is recorded if it is new, with secrets masked."""
        jobs = tuple(tuple(map(self.secrets.mask_text, job.overrides)) for job in self.jobs)
        name = self.secrets.mask_text(" ".join(self.command.overrides) or "sweep")
        return Sweep("", name, "", jobs, tuple(job.name for job in self.jobs), self.tracker.identity)

    def recorded(self) -> Sweep | None:
        """Return the recorded sweep that the command continues or shows; None if it starts a new one."""
        return None if self.values["rerun"] else self.ledger.latest(self.key)

    def distinguished(self, key: str) -> str:
        """Return ``key``, or another key if the sweep with this key was recorded with other `EDITED` settings.

        Values in files are not part of ``key``, so they are compared with the sweep's records. Targets are also
        compared, because an earlier version had default targets. In a race, so is the seed, which orders the questions.
        """
        sweep = self.ledger.latest(key)
        known = self.ledger.jobs(sweep.id, "finished", "partial", "racing", "dropped") if sweep else set()
        number = min(known, default=0)
        values = self.jobs[0 if self.command.searching else number].config.values
        outcome = self.ledger.record(sweep.id, number).outcome if sweep and known else None
        before: Mapping[str, Any] = outcome.run.config if isinstance(outcome, Result) else {}
        further = {"seed": self.race, "targets": (values.get("targets") or {}).keys() - {ENFORCE}}
        edited = [*EDITED, *(name for name, counts in further.items() if counts)]
        names = [name for name in edited if name in before]  # versions without a setting did not record it
        return key if _known(before, names) == _known(values, names) else content_hash([key, _known(values, edited)])

    @property
    def again(self) -> str:
        """A phrase for messages that names the command with which the user resumes the sweep."""
        return f"the same command{' without rerun=true' if self.values['rerun'] else ''}"

    def alone(self) -> AbstractContextManager[None]:
        """Return a context that locks nothing; searches, which several commands may share, override this method."""
        return nullcontext()

    def open(self, planned: Plan) -> tuple[Sweep, bool]:
        """Open, resume or join a sweep; return the sweep, and whether it is already finished.

        Raises RagsweepError if the sweep cannot be shared and another process is running it, or if the sweep's name is
        taken.
        """
        recorded, name = self.recorded(), self.values["name"]
        if name and not recorded:
            self.ledger.names.check_free(name, f"{self.key}-")
        if not recorded:
            self.terminal.plan(planned)
        sweep = recorded or self.ledger.open_sweep(self.key, self.new)
        if name:
            self.ledger.names.give(name, sweep.id)
        if not recorded:
            adopt = os.environ.get("MLFLOW_RUN_ID")  # the run that `mlflow run` created
            if self.elsewhere:  # all machines share its parent run; equal sweeps in other ledgers have other runs
                adopt = adopt or self.tracker.find({mlflow_sync.SWEEP_TAG: sweep.id})
            return replace(sweep, parent=mlflow_sync.open_parent(self.ledger, self.tracker, sweep, adopt)), False
        finished = self.is_finished(sweep)
        claims = self.ledger.is_writable or not finished
        taken = self.ledger.claims.claim(ClaimKey(COMMAND, sweep.id)) if claims else None
        if taken and not self.is_shared:
            raise RagsweepError(f"this sweep is running: {taken} is working on it; wait, or set rerun=true")
        if taken:
            self.ledger.claims.join_sweep(sweep.id)
            self.terminal.line("join", f"{taken} is also working on this search")
        elif finished:
            return sweep, True
        names = self.new.names
        sweep, done = self._reopen(sweep, max(names, sweep.names, key=len) if taken else names)
        self.terminal.line("resume", done)
        if len(self.ledger.jobs(sweep.id, *DONE)) <= len(names):
            self.terminal.plan(planned)
        if taken:
            return sweep, False
        self.ledger.set_status(sweep.id, RUNNING)
        if self.tracker.identity:
            sweep = mlflow_sync.complete(self.ledger, self.tracker, sweep, self.elsewhere)
        return sweep, False

    def is_finished(self, sweep: Sweep) -> bool:
        """Return whether a recorded sweep is finished and needs no more work for this command."""
        return sweep.status == FINISHED and len(sweep.jobs) == len(self.new.names)

    def _reopen(self, sweep: Sweep, _: tuple[str, ...]) -> tuple[Sweep, str]:
        """Reset a sweep's failed and partial jobs, to run them again; return the sweep, and its progress in words."""
        self.ledger.retry(sweep.id)
        done = len(self.ledger.jobs(sweep.id, "finished"))
        return sweep, f"{done} of {len(sweep.jobs)} configs {'is' if done == 1 else 'are'} already done"

    # --- jobs --------------------------------------------------------------------------------------------------

    def run(self, sweep: Sweep) -> Ending:
        """Run the jobs of an opened sweep and return how they ended.

        An interruption is returned instead of raised, so that the sweep can be concluded first.
        """
        self.context.sweep = sweep
        if self.race:
            self.race.open(self.context)
        why = ""
        try:
            try:
                why = self.launcher(self.body)
                if self.race:
                    self.race.close()
            except Exception as fault:  # the launcher's exception: why a job without a record did not run
                logging.getLogger(__name__).debug("a job of the sweep failed", exc_info=fault)
                why = self.secrets.mask_text(describe_fault(fault))
            finally:  # release jobs that could not be recorded, for example on a full disk
                self.ledger.claims.release(ClaimKey(CONFIG, sweep.id))
        except BaseException as fault:
            interruption.stop_raising()
            return Ending(KILLED, "interrupted", fault)
        interruption.stop_raising()
        return Ending(FINISHED, why)

    def _run_jobs(self, launch: Launch, _: Path) -> str:
        """Launch the pending jobs repeatedly, as long as each launch makes progress.

        One launch may not suffice, because a job that kills its process also stops other jobs. Return why jobs
        may lack a record: the reason that the last `_launch_once` returned, or "" if nothing was launched.
        """
        sweep, why, before = self.context.sweep, "", None
        assert sweep
        while True:
            # Wait for jobs of other processes. This process's own claims may remain after a write to a full disk.
            while any(claim.lives and not claim.is_own for claim in self.ledger.claims.jobs(sweep.id)):
                time.sleep(0.2)
            self._record_dead_jobs(sweep)
            done, claims = self.ledger.jobs(sweep.id, *DONE), self.ledger.claims.jobs(sweep.id)
            pending = sorted(set(range(len(sweep.jobs))) - done)
            state = done, sorted((claim.number, claim.attempts) for claim in claims)
            if not pending or state == before:
                return why
            before = state
            why = self._launch_once(self._next(pending, claims), launch)

    def _next(self, pending: Sequence[int], claims: Sequence[Claim]) -> Sequence[int]:
        """Return the jobs to launch next. A job whose process died runs alone, which identifies the faulty job.

        A race compares configs, so it first runs the job once more with the others; if its process dies again, the job
        runs alone after them.
        """
        died = [claim for claim in claims if claim.number in pending]
        if self.race is None:
            return [claim.number for claim in died][:1] or pending
        again = [claim.number for claim in died if claim.attempts > 1]
        return [job for job in pending if job not in again] or again[:1]

    def _launch_once(self, numbers: Sequence[int], launch: Launch) -> str:
        """Launch jobs; return why a job may have no record: the text of the first exception, or "its process ended".

        A failed job does not stop the others.
        """
        launch_jobs = partial(launch_batches, launch, longest=self.command.batch)
        jobs = {number: self.jobs[number] for number in numbers}
        outcomes = run_race(self.race, jobs, launch_jobs).results if self.race else launch_jobs(jobs, None)
        for outcome in outcomes.values():
            if fault := outcome if isinstance(outcome, Exception) else exception_of(outcome):
                return self.secrets.mask_text(describe_fault(fault))
        return "its process ended"

    def _record_dead_jobs(self, sweep: Sweep) -> None:
        """Record as failed the jobs whose process has died `ATTEMPTS` times."""
        for claim in self.ledger.claims.jobs(sweep.id):
            if not claim.lives and claim.attempts >= ATTEMPTS and claim.number < len(sweep.jobs):
                error = f"its process died {claim.attempts} times: it was killed, or ran out of memory"
                OutcomeWriter(self.context, claim.number).keep_failure(lost_job(sweep, claim.number, error))

    # --- ending -----------------------------------------------------------------------------------------------

    def leave(self, _: Sweep) -> str:
        """Return "", because this process must conclude the sweep; a search may leave this task to another process."""
        return ""

    def finish(self, _: Sweep, ending: Ending) -> Ending:
        """Return ``ending``; a search adds missing records, evaluates its finalists, and may change the ending."""
        return ending

    def missed_jobs(self, sweep: Sweep, recorded: set[int], why: str) -> list[Failure]:
        """Return a failure for each job whose number is not in ``recorded``, with ``why`` in its error."""
        missed = sorted(set(range(len(sweep.jobs))) - recorded)
        return [lost_job(sweep, job, f"did not complete: {why}", numbered=True) for job in missed]


def _known(values: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Return the settings ``names`` as JSON values, without nulls, empty mappings and the ``action`` of targets."""

    def reduced(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        kept = {key: reduced(one) for key, one in value.items() if key != "action"}
        return {key: one for key, one in kept.items() if one not in (None, {})}

    known = {name: values.get(name) for name in names}
    return dict(reduced(json.loads(json.dumps(mask_values(known), default=str))))


def lost_job(sweep: Sweep, number: int, why: str, numbered: bool = False) -> Failure:
    """Return a failure, with the error ``why``, for a job that has no record.

    ``numbered``: whether the failure's name starts with the job's number, as in summaries.
    """
    name = sweep.names[number]
    return Failure(number_configs({number: name})[number] if numbered else name, sweep.jobs[number], {}, why)
