"""One multirun: opened or resumed, launched, and closed however it ends."""

from __future__ import annotations

import dataclasses
import logging
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragsweep.core import interruption
from ragsweep.core.errors import RagsweepError, TrackingError
from ragsweep.core.identity import content_hash
from ragsweep.core.results import PARTIAL, Failure
from ragsweep.parts.targets import misses_target
from ragsweep.records.claims import Claim
from ragsweep.records.ledger import FAILED, FINISHED, KILLED, RUNNING, Record, Sweep
from ragsweep.stages.graph import Plan
from ragsweep.sweep import mlflow_sync, race_loop, races
from ragsweep.sweep.closing import SweepSummary, summarise_sweep
from ragsweep.sweep.command import Command
from ragsweep.sweep.hydra_launch import HydraTask, Launch, through_hydra
from ragsweep.sweep.loop import InProcess
from ragsweep.sweep.race_loop import exception_of
from ragsweep.sweep.recording import OutcomeWriter
from ragsweep.sweep.session import Job, RunContext

if TYPE_CHECKING:
    from hydra.core.utils import JobReturn

ATTEMPTS = 3
"""How often a job is begun whose process dies."""

DONE = ("finished", "partial", "failed", "dropped")
"""Statuses of jobs that are not run now; those that did not end well are run when the command is repeated."""


@dataclass
class Multirun:
    """Open, run, resume and close one multirun."""

    command: Command
    values: Mapping[str, Any]  # of the first config
    context: RunContext
    jobs: Sequence[Job]
    race: races.PreparedRace | None = None

    def __post_init__(self) -> None:
        """Give short names to parts of the context."""
        self.ledger, self.tracker = self.context.ledger, self.context.tracker
        self.terminal, self.secrets = self.context.terminal, self.context.secrets
        self.summary: SweepSummary | None = None  # as soon as the sweep is shown

    def run(self, signatures: Sequence[str], planned: Plan) -> int:
        """Run the sweep, or show a finished one; return the exit status."""
        key = self._key(signatures)
        sweep = self._enter(key, planned)
        status = self._go(sweep) if sweep else 0
        return status or self._enforce()

    def _enforce(self) -> int:
        """Return exit status 1 where configs miss targets that are enforced."""
        results = self.summary.results if self.summary else ()
        missing = [one for one in results if misses_target(one)]
        if missing:
            self.terminal.line("targets", f"enforced: {len(missing)} of {len(results)} configs miss some of them")
        return int(bool(missing))

    def _enter(self, key: str, planned: Plan) -> Sweep | None:
        """Open a sweep, or resume it; None for a finished one, which is only shown."""
        found = None if self.values["rerun"] else self.ledger.latest(key)
        if found is None:
            self.terminal.plan(planned)
            return self._open(key)
        if taken := self.ledger.claims.claim_sweep(found.id):
            return self._join(found, taken, planned)
        if found.status == FINISHED and self._is_done(found):
            self._show_again(found)
            return None
        return self._resume(found, planned)

    def _join(self, sweep: Sweep, taken: Claim, planned: Plan) -> Sweep:
        raise RagsweepError(f"this sweep is running: {taken.holder} works on it; wait for it, or give rerun=true")

    def _key(self, signatures: Sequence[str]) -> str:
        """Return the key that equal sweeps share: the same configs, tracked in the same place."""
        return content_hash([signatures, self.tracker.identity, *([self.command.race] if self.race else [])])

    def _is_done(self, found: Sweep) -> bool:
        return len(found.jobs) == len(self._names())

    def _jobs(self) -> tuple[tuple[str, ...], ...]:
        return tuple(tuple(map(self.secrets.mask_text, job)) for job in self.command.jobs)

    def _name(self) -> str:
        return self.secrets.mask_text(" ".join(self.command.overrides) or "sweep")

    def _names(self) -> tuple[str, ...]:
        return tuple(self.command.names())

    def _show_again(self, sweep: Sweep) -> None:
        """Show a finished sweep, and send to the tracker what that has lost."""
        summary = self.summary = summarise_sweep(self.ledger, self.ledger.records(sweep.id))
        self.terminal.line("done", f'"{sweep.name}" is finished already; rerun=true runs it again')
        summary.show(self.terminal)
        if self.tracker.identity and (sent := mlflow_sync.sync_sweep(self.ledger, self.tracker, sweep)):
            self.terminal.line("sync", f"{sent} results were not in MLflow any more, and are there again")
        self.terminal.look(self.tracker.view_command(), sweep.name, self.ledger.sweep(sweep.id).parent)
        self.ledger.claims.leave_sweep(sweep.id)

    def _open(self, key: str) -> Sweep:
        name = self._name()
        sweep = self.ledger.open_sweep(key, Sweep("", name, "", self._jobs(), self._names(), self.tracker.identity))
        adopt = os.environ.get("MLFLOW_RUN_ID")  # the run that `mlflow run` made
        return dataclasses.replace(sweep, parent=mlflow_sync.open_parent(self.ledger, self.tracker, sweep, adopt))

    def _resume(self, sweep: Sweep, planned: Plan) -> Sweep:
        """Resume a sweep that did not end well: finished configs are kept, and tracked where they are not yet."""
        self.ledger.retry(sweep.id)
        done = len(self.ledger.jobs(sweep.id, "finished"))
        self.terminal.line("resume", f"{done} of {len(sweep.jobs)} configs are done already")
        self.terminal.plan(planned)
        self.ledger.set_status(sweep.id, RUNNING)
        return mlflow_sync.complete(self.ledger, self.tracker, sweep) if self.tracker.identity else sweep

    def _go(self, sweep: Sweep) -> int:
        status, why = KILLED, "interrupted"
        try:
            why = self._launch(sweep)
            status = FINISHED
        finally:
            interruption.stop_raising()
            status = self._close(sweep, status, why)
        return 0 if status == FINISHED else 1

    def _launch(self, sweep: Sweep) -> str:
        """Run the jobs; return why a job without a record did not run: what its launcher raised."""
        self.context.sweep, why = sweep, ""

        def body(launch: Launch, folder: Path) -> None:
            nonlocal why
            why = self._run_jobs(sweep, launch, folder)

        try:
            self._with_launcher(body)
        except Exception as fault:
            logging.getLogger(__name__).debug("a job of the sweep failed", exc_info=fault)
            why = self.secrets.mask_text(f"{type(fault).__name__}: {fault}")
        finally:
            self.ledger.claims.release_job(sweep.id)  # of jobs that could not be recorded, on a full disk
        return why

    def _with_launcher(self, body: Callable[[Launch, Path], None]) -> None:
        """Call a function with a launcher: our own loop, or the one that Hydra makes."""
        command, sweep = self.command, self.context.sweep
        assert sweep
        if command.in_process:
            loop = InProcess(command, self.context, self.jobs)
            body(loop.launch, loop.folder)
        else:
            through_hydra(command, HydraTask(sweep.id, self.context, body))

    def _run_jobs(self, sweep: Sweep, launch: Launch, _: Path) -> str:
        """Launch jobs, repeatedly while that helps: one that kills its process takes others with it."""
        why = ""
        while pending := self._pending(sweep):
            before = self._state(sweep)
            why = self._launch_once(sweep, self._next(sweep, pending), launch)
            if self._state(sweep) == before:
                break
        return why

    def _next(self, sweep: Sweep, pending: list[int]) -> list[int]:
        """Choose the jobs to launch: those whose process died run one by one, which identifies the faulty one.

        In a race they first run with the others, which are compared with them, and alone only after these.
        """
        died = [claim for claim in self.ledger.claims.jobs(sweep.id) if claim.number in pending]
        if self.race is None:
            return [claim.number for claim in died][:1] or pending
        again = [claim.number for claim in died if claim.attempts > 1]
        return [job for job in pending if job not in again] or again[:1]

    def _pending(self, sweep: Sweep) -> list[int]:
        """List the jobs to be run, after waiting for those that other processes run."""
        while any(claim.lives for claim in self.ledger.claims.jobs(sweep.id)):
            time.sleep(0.2)
        self._record_dead_jobs(sweep)
        return sorted(set(range(len(sweep.jobs))) - self.ledger.jobs(sweep.id, *DONE))

    def _state(self, sweep: Sweep) -> object:
        attempts = sorted((claim.number, claim.attempts) for claim in self.ledger.claims.jobs(sweep.id))
        return self.ledger.jobs(sweep.id, *DONE), attempts

    def _launch_once(self, sweep: Sweep, numbers: Sequence[int], launch: Launch) -> str:
        """Launch jobs; a failed job is recorded and stops no other. Returns what kept one from running."""
        wanted = {number: self.command.jobs[number] for number in numbers}
        if self.race:
            rule = self.race.bound(self.context)
            outcomes = race_loop.run_race(rule, wanted, lambda jobs: self._batches(jobs, launch)).results
        else:
            outcomes = self._batches(wanted, launch)
        faults = [one if isinstance(one, Exception) else exception_of(one) for one in outcomes.values()]
        first = next((fault for fault in faults if fault), None)
        return self.secrets.mask_text(f"{type(first).__name__}: {first}") if first else "its process ended"

    def _batches(self, jobs: Mapping[int, Sequence[str]], launch: Launch) -> dict[int, JobReturn | Exception]:
        """Launch jobs in batches of consecutive numbers, and return the outcome of each."""
        found: dict[int, JobReturn | Exception] = {}
        for batch in consecutive_batches(jobs, self.command.batch):
            try:
                outcomes = launch([list(jobs[number]) for number in batch], batch.start)
                found |= dict(zip(batch, outcomes, strict=True))
            except Exception as fault:
                logging.getLogger(__name__).debug("jobs %s could not be launched", batch, exc_info=fault)
                found |= dict.fromkeys(batch, fault)
        return found

    def _record_dead_jobs(self, sweep: Sweep) -> None:
        """Record as failed the jobs whose process died repeatedly."""
        for claim in self.ledger.claims.jobs(sweep.id):
            if not claim.lives and claim.attempts >= ATTEMPTS and claim.number < len(sweep.jobs):
                error = f"its process died {claim.attempts} times: killed, or out of memory"
                self._keep_failure(sweep, claim.number, lost_job(sweep, claim.number, error))

    def _keep_failure(self, sweep: Sweep, job: int, failure: Failure) -> None:
        OutcomeWriter(self.ledger, self.tracker, sweep, job, secrets=self.secrets).keep_failure(failure, self.terminal)

    def _close(self, sweep: Sweep, status: str, why: str) -> str:
        """Report the outcome of the sweep and end its parent run.

        A sweep whose closing is interrupted is KILLED, in the ledger and in the tracker: the same command closes it.
        """
        try:
            status = self._report(sweep, status, why)
        except BaseException:
            self.ledger.set_status(sweep.id, KILLED)
            if self.tracker.identity:
                with suppress(TrackingError):
                    self.tracker.close_sweep(sweep.parent, KILLED, {}, {})
            raise
        self.ledger.set_status(sweep.id, status)
        return status

    def _report(self, sweep: Sweep, status: str, why: str) -> str:
        """Show the outcome of the sweep, and send it to the tracker; return the sweep's status."""
        mlflow_sync.catch_up(self.ledger, self.tracker, sweep, self.terminal)
        records = self.ledger.records(sweep.id)
        both = [*records, *self.ledger.finalists(sweep.id)]
        summary, status = self._summarise(sweep, records, status, why)
        if status == FINISHED and self.tracker.identity and not all(record.tracked for record in both):
            status = FAILED
        summary.show(self.terminal)
        self.terminal.look(self.tracker.view_command(), sweep.name, sweep.parent)
        if self.tracker.identity:
            mlflow_sync.end_lost(self.tracker, sweep, self._on_other_machines())
            mlflow_sync.close(self.ledger, self.tracker, sweep, status, summary.parent(sweep.name), self.terminal)
        return status

    def _on_other_machines(self) -> bool:
        """Return whether other machines may work on the sweep, whose jobs have no records in this ledger."""
        return False

    def _summarise(
        self, sweep: Sweep, records: Sequence[Record], status: str, why: str, weighed: bool = True
    ) -> tuple[SweepSummary, str]:
        """Sum up the records, and return the sweep's status with them."""
        missed = self._missed(sweep, {record.job for record in records}, why)
        summary = self.summary = summarise_sweep(self.ledger, records, missed, weighed=weighed and status != KILLED)
        partial = any(one.state == PARTIAL for one in (*summary.results, *summary.finalists.results))
        failed = summary.failures or summary.finalists.failures or partial
        return summary, FAILED if status == FINISHED and failed else status

    def _missed(self, sweep: Sweep, recorded: set[int], why: str) -> list[Failure]:
        """List the jobs that left no record, with why."""
        gone = sorted(set(range(len(sweep.jobs))) - recorded)
        return [lost_job(sweep, job, f"did not run to its end: {why}") for job in gone]


def lost_job(sweep: Sweep, number: int, why: str) -> Failure:
    """Return the failure of a job that left no record."""
    return Failure(sweep.names[number], sweep.jobs[number], {}, why)


def consecutive_batches(numbers: Iterable[int], longest: int | None = None) -> list[range]:
    """Put job numbers together into stretches without a gap, in ascending order, none longer than a batch may be."""
    found: list[range] = []
    for number in sorted(set(numbers)):
        if found and found[-1].stop == number and (longest is None or len(found[-1]) < longest):
            found[-1] = range(found[-1].start, number + 1)
        else:
            found.append(range(number, number + 1))
    return found
