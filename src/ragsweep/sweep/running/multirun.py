"""One multirun: opened or resumed, launched, and closed however it ends."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optuna_sweeper.race_loop import exception_of, run_race
from ragsweep.core import interruption
from ragsweep.core.errors import RagsweepError, TrackingError, describe_fault
from ragsweep.core.identity import content_hash
from ragsweep.core.results import PARTIAL, Failure
from ragsweep.parts.targets import misses_target
from ragsweep.records.claims import COMMAND, CONFIG, Claim, ClaimKey
from ragsweep.records.ledger import FAILED, FINISHED, KILLED, RUNNING, Record, Sweep
from ragsweep.report.naming import number_configs
from ragsweep.stages.graph import Plan
from ragsweep.sweep.composing.command import Command
from ragsweep.sweep.composing.job import Job
from ragsweep.sweep.composing.sweep_names import reference, sweep_title
from ragsweep.sweep.concluding.parent_run import parent_run
from ragsweep.sweep.concluding.summarise import summarise_sweep
from ragsweep.sweep.concluding.sweep_summary import SweepSummary
from ragsweep.sweep.racing.sweep_race import SweepRace
from ragsweep.sweep.running import mlflow_sync
from ragsweep.sweep.running.context import RunContext
from ragsweep.sweep.running.hydra_launch import HydraTask, through_hydra
from ragsweep.sweep.running.launching import Launch, launch_batches
from ragsweep.sweep.running.loop import InProcess
from ragsweep.sweep.running.race_records import LedgerRace
from ragsweep.sweep.running.recording import OutcomeWriter

if TYPE_CHECKING:
    from hydra.core.utils import JobReturn

ATTEMPTS = 3
"""Most attempts at a job whose process dies."""

DONE = ("finished", "partial", "failed", "dropped")
"""Statuses of jobs that are not run now; unsuccessful ones are run when the command is repeated."""


@dataclass
class Multirun:
    """A multirun whose jobs are known in advance."""

    command: Command
    values: Mapping[str, Any]  # of the first config
    context: RunContext
    jobs: Sequence[Job]
    race: SweepRace | None = None

    def __post_init__(self) -> None:
        """Give short names to parts of the context."""
        self.ledger, self.tracker = self.context.ledger, self.context.tracker
        self.terminal, self.secrets = self.context.terminal, self.context.secrets
        self.sweep: str | None = None  # its id, set when it is opened
        self.summary: SweepSummary | None = None  # set when the sweep is shown
        self.is_shared = False  # whether several commands can work on it
        self.elsewhere = False  # whether other machines can work on it, without records in this ledger

    def run(self, signatures: Sequence[str], planned: Plan) -> int:
        """Run the sweep, or show a finished one; return the exit status."""
        sweep = self._enter(*self._describe(signatures), planned)
        if sweep and self._run_to_end(sweep) != FINISHED:
            return 1
        results = self.summary.results if self.summary else ()
        missing = [result for result in results if misses_target(result)]
        if missing:
            self.terminal.line("targets", f"enforced: {len(missing)} of {len(results)} configs miss some of them")
        return int(bool(missing))

    def _describe(self, signatures: Sequence[str]) -> tuple[str, Sweep]:
        """Return the sweep's record and its key, which identifies the same configs tracked in the same place."""
        command, mask = self.command, self.secrets.mask_text
        key = content_hash([signatures, self.tracker.identity, *([command.race] if self.race else [])])
        jobs = tuple(tuple(map(mask, job.overrides)) for job in self.jobs)
        name = mask(" ".join(command.overrides) or "sweep")
        return key, Sweep("", name, "", jobs, tuple(job.name for job in self.jobs), self.tracker.identity)

    def _enter(self, key: str, new: Sweep, planned: Plan) -> Sweep | None:
        """Open, resume or join a sweep; None for a finished sweep, which is only shown."""
        sweep = None if self.values["rerun"] else self.ledger.latest(key)
        if sweep:
            self._give_name(sweep)
        elif name := self.values["name"]:
            self.ledger.names.check_free(name, f"{key}-")
        if sweep is None:
            self.terminal.plan(planned)
            sweep = self.ledger.open_sweep(key, new)
            self.sweep = sweep.id
            self._give_name(sweep)
            adopt = os.environ.get("MLFLOW_RUN_ID")  # the run that `mlflow run` made
            return replace(sweep, parent=mlflow_sync.open_parent(self.ledger, self.tracker, sweep, adopt))
        self.sweep = sweep.id
        finished = sweep.status == FINISHED and self._is_done(sweep, new)
        taken = None
        if not finished or self.ledger.is_writable:
            taken = self.ledger.claims.claim(ClaimKey(COMMAND, sweep.id))
        if taken and not self.is_shared:
            raise RagsweepError(f"this sweep is running: {taken} works on it; wait for it, or give rerun=true")
        if taken:
            self.ledger.claims.join_sweep(sweep.id)
            self.terminal.line("join", f"{taken} works on this search as well")
        elif finished:
            self._show_again(sweep)
            return None
        sweep, done = self._reopen(sweep, max(new.names, sweep.names, key=len) if taken else new.names)
        self.terminal.line("resume", done)
        self.terminal.plan(planned)
        if taken:
            return sweep
        self.ledger.set_status(sweep.id, RUNNING)
        if not self.tracker.identity:
            return sweep
        return mlflow_sync.complete(self.ledger, self.tracker, sweep, self.elsewhere)

    def _give_name(self, sweep: Sweep) -> None:
        if name := self.values["name"]:
            self.ledger.names.give(name, sweep.id)

    def _is_done(self, sweep: Sweep, new: Sweep) -> bool:
        return len(sweep.jobs) == len(new.names)

    def _reopen(self, sweep: Sweep, _: tuple[str, ...]) -> tuple[Sweep, str]:
        """Reopen the failed jobs of a sweep; return it, and a description of its progress."""
        self.ledger.retry(sweep.id)
        done = len(self.ledger.jobs(sweep.id, "finished"))
        return sweep, f"{done} of {len(sweep.jobs)} configs are done already"

    def _show_again(self, sweep: Sweep) -> None:
        """Show a finished sweep, and restore the tracker's missing records."""
        summary = self.summary = summarise_sweep(
            self.ledger, self.ledger.records(sweep.id), labels=self.context.labels, declared=self.values["baseline"]
        )
        self.terminal.line("done", f'"{sweep.name}" is finished already; rerun=true runs it again')
        if self.ledger.is_writable:
            if self.tracker.identity and (sent := mlflow_sync.sync_sweep(self.ledger, self.tracker, sweep)):
                self.terminal.line("sync", f"{len(sent)} results were missing from MLflow and have been restored")
            sweep = self.ledger.sweep(sweep.id)  # its run may be new
            self.ledger.claims.release(ClaimKey(COMMAND, sweep.id))
        view, address = self.tracker.view_command(), self.tracker.address(sweep.parent)
        summary.show(self.terminal, reference(sweep), view, address, self.values["by"])

    # --- jobs --------------------------------------------------------------------------------------------------

    def _run_to_end(self, sweep: Sweep) -> str:
        """Run the jobs and close the sweep; return its status."""
        self.context.sweep = sweep
        if self.race:
            self.race.records = LedgerRace(self.context)
        status, why = KILLED, "interrupted"
        try:
            try:
                why = self._launch(self._run_jobs)
            except Exception as fault:  # the launcher's exception: why a job without a record did not run
                logging.getLogger(__name__).debug("a job of the sweep failed", exc_info=fault)
                why = self.secrets.mask_text(describe_fault(fault))
            finally:  # jobs that could not be recorded, on a full disk
                self.ledger.claims.release(ClaimKey(CONFIG, sweep.id))
            status = FINISHED
        finally:
            interruption.stop_raising()
            status = self._close(sweep, status, why)
        return status

    def _launch(self, body: Callable[[Launch, Path], str]) -> str:
        """Call a function with a launcher, our loop or Hydra's, and return its result."""
        assert self.context.sweep
        if self.command.in_process:
            loop = InProcess(self.command, self.context, self.jobs[0])
            return body(loop.launch, loop.folder)
        return through_hydra(self.command, HydraTask(self.context.sweep.id, self.context, body))

    def _run_jobs(self, launch: Launch, _: Path) -> str:
        """Launch jobs repeatedly while that makes progress: a job that kills its process also stops others.

        Returns why the last jobs did not run.
        """
        sweep, why, before = self.context.sweep, "", None
        assert sweep
        while True:
            # Run by other processes; on a full disk this process cannot release its claims.
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
        """Choose the jobs to launch: jobs whose process died run alone, which identifies the faulty one.

        In a race they first run with the others, for comparison, and alone only after these.
        """
        died = [claim for claim in claims if claim.number in pending]
        if self.race is None:
            return [claim.number for claim in died][:1] or pending
        again = [claim.number for claim in died if claim.attempts > 1]
        return [job for job in pending if job not in again] or again[:1]

    def _launch_once(self, numbers: Sequence[int], launch: Launch) -> str:
        """Launch jobs; a failed job is recorded and stops no other. Returns why a job did not run."""

        def launch_jobs(jobs: Mapping[int, Job], rung: int | None) -> dict[int, JobReturn | Exception]:
            return launch_batches(launch, jobs, rung, self.command.batch)

        jobs = {number: self.jobs[number] for number in numbers}
        outcomes = run_race(self.race, jobs, launch_jobs).results if self.race else launch_jobs(jobs, None)
        for outcome in outcomes.values():
            if fault := outcome if isinstance(outcome, Exception) else exception_of(outcome):
                return self.secrets.mask_text(describe_fault(fault))
        return "its process ended"

    def _record_dead_jobs(self, sweep: Sweep) -> None:
        """Record as failed the jobs whose process died repeatedly."""
        for claim in self.ledger.claims.jobs(sweep.id):
            if not claim.lives and claim.attempts >= ATTEMPTS and claim.number < len(sweep.jobs):
                error = f"its process died {claim.attempts} times: killed, or out of memory"
                OutcomeWriter(self.context, claim.number).keep_failure(lost_job(sweep, claim.number, error))

    # --- closing -----------------------------------------------------------------------------------------------

    def _close(self, sweep: Sweep, status: str, why: str) -> str:
        """Report the outcome of the sweep and end its parent run.

        A sweep whose closing is interrupted becomes KILLED in the ledger and the tracker; the same command closes it.
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
        """Show the outcome of the sweep and send it to the tracker; return the sweep's status."""
        mlflow_sync.catch_up(self.context, sweep)
        records = self.ledger.records(sweep.id)
        recorded = [*records, *self.ledger.finalists(sweep.id)]
        summary, status = self._summarise(sweep, records, status, why)
        if status == FINISHED and self.tracker.identity and not all(record.tracked for record in recorded):
            status = FAILED
        view, address = self.tracker.view_command(), self.tracker.address(sweep.parent)
        self.terminal.spent(self.context.session.services.meter)
        summary.show(self.terminal, reference(sweep), view, address, self.values["by"])
        if status == KILLED:
            done = f"{len(records)} of {len(sweep.jobs)}" if any(sweep.jobs) else f"{len(records)}"
            self.terminal.line("stopped", f"{done} configs are done; the same command resumes")
        if self.tracker.identity:
            texts = self.context.session.page_texts(summary.results, self.secrets)
            names = sweep.name, sweep_title(sweep), reference(sweep)
            parent = parent_run(summary, *names, texts, self.tracker.tables)
            if not mlflow_sync.close(self.context, sweep, status, parent, self.elsewhere) and status == FINISHED:
                return FAILED
        return status

    def _summarise(
        self, sweep: Sweep, records: Sequence[Record], status: str, why: str, weighed: bool = True
    ) -> tuple[SweepSummary, str]:
        """Summarise the records, and return the sweep's status as well."""
        missed = [] if status == KILLED else self._missed_jobs(sweep, {record.job for record in records}, why)
        weighed = weighed and status != KILLED
        summary = self.summary = summarise_sweep(self.ledger, records, missed, weighed, self.context.labels)
        partial = any(result.state == PARTIAL for result in (*summary.results, *summary.finalists.results))
        failed = summary.failures or summary.finalists.failures or partial
        return summary, FAILED if status == FINISHED and failed else status

    def _missed_jobs(self, sweep: Sweep, recorded: set[int], why: str) -> list[Failure]:
        """List the jobs without a record, with the reason."""
        missed = sorted(set(range(len(sweep.jobs))) - recorded)
        return [lost_job(sweep, job, f"did not run to its end: {why}", numbered=True) for job in missed]


def lost_job(sweep: Sweep, number: int, why: str, numbered: bool = False) -> Failure:
    """Return the failure of a job without a record; ``numbered``: named as in the summary of the sweep."""
    name = sweep.names[number]
    return Failure(number_configs({number: name})[number] if numbered else name, sweep.jobs[number], {}, why)
