"""One multirun from its first word to its last: opened or taken up, handed to Hydra, and closed however it ends."""

from __future__ import annotations

import dataclasses
import logging
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from omegaconf import DictConfig

from ragsweep.core import interruption
from ragsweep.core.errors import RagsweepError, TrackingError
from ragsweep.core.identity import content_hash
from ragsweep.core.objectives import objectives
from ragsweep.core.results import PARTIAL, Failure, Result
from ragsweep.core.secrets import are_noted, mask_text
from ragsweep.parts.targets import misses_target
from ragsweep.parts.tracking import Tracker
from ragsweep.records.claims import Claim
from ragsweep.records.ledger import FAILED, FINISHED, KILLED, RUNNING, WHOLE, Ledger, Record, Sweep
from ragsweep.report.terminal import Terminal
from ragsweep.stages.graph import Plan
from ragsweep.sweep import mirroring, races, searching, sharing
from ragsweep.sweep.closing import Ending, ending
from ragsweep.sweep.composition import Command
from ragsweep.sweep.handing import hand_over
from ragsweep.sweep.jobs import SWEEP
from ragsweep.sweep.looking import Looking
from ragsweep.sweep.recording import Records
from ragsweep.sweep.searched import folder_of, searched

ATTEMPTS = 3
"""How often a job is begun whose process dies."""

DONE = ("finished", "partial", "failed", "dropped")
"""What is said of jobs that need not be run now; those that did not end well are run when the command is repeated."""


@dataclass
class Multirun:
    """One multirun, from its first word to its last."""

    command: Command
    config: DictConfig
    ledger: Ledger
    tracker: Tracker
    terminal: Terminal
    race: races.Start | None = None

    def run(self, signatures: Sequence[str], planned: Plan) -> int:
        """Run what is to be run, or show what is done already; return the exit status."""
        key = self._key(signatures)
        sweep = self._enter(key, planned)
        status = self._go(sweep) if sweep else 0
        return status or self._enforce(sweep or self.ledger.latest(key))

    def _enforce(self, sweep: Sweep | None) -> int:
        """Return exit status 1 where configs miss targets that are enforced."""
        records = self.ledger.records(sweep.id) if sweep else []
        results = [record.outcome for record in records if isinstance(record.outcome, Result)]
        missing = [one for one in results if misses_target(one)]
        if missing:
            self.terminal.line("targets", f"enforced: {len(missing)} of {len(results)} configs miss some of them")
        return int(bool(missing))

    def _enter(self, key: str, planned: Plan) -> Sweep | None:
        """Open a sweep, or take it up where it was left; None for one that is finished, and only shown."""
        found = None if self.config.rerun else self.ledger.latest(key)
        if found is None:
            self.terminal.plan(planned)
            return self._open(key)
        if isinstance(taken := self.ledger.claim(found.id, WHOLE), Claim):
            return self._join(found, taken, planned)
        if found.status == FINISHED and self._is_done(found):
            self._show_again(found)
            return None
        return self._resume(found, planned)

    def _join(self, sweep: Sweep, taken: Claim, planned: Plan) -> Sweep:
        raise RagsweepError(f"this sweep is running: {taken.holder} works on it; wait for it, or give rerun=true")

    def _key(self, signatures: Sequence[str]) -> str:
        """Tell equal sweeps: of the same configs, tracked at one place."""
        return content_hash([signatures, self.tracker.identity, *([self.command.race] if self.race else [])])

    def _is_done(self, found: Sweep) -> bool:
        return len(found.jobs) == len(self._names())

    def _jobs(self) -> tuple[tuple[str, ...], ...]:
        return tuple(tuple(map(mask_text, job)) for job in self.command.jobs) if are_noted() else self.command.jobs

    def _name(self) -> str:
        return mask_text(" ".join(self.command.overrides) or "sweep")

    def _names(self) -> tuple[str, ...]:
        return tuple(self.command.names())

    def _show_again(self, sweep: Sweep) -> None:
        """Show a sweep that is finished, and send to the tracker what that has lost."""
        came = ending(self.ledger, self.ledger.records(sweep.id))  # which may find that the ledger is damaged
        self.terminal.line("done", f'"{sweep.name}" is finished already; rerun=true runs it again')
        came.show(self.terminal)
        if self.tracker.identity and (sent := mirroring.sync_sweep(self.ledger, self.tracker, sweep)):
            self.terminal.line("sync", f"{sent} results were not in MLflow any more, and are there again")
        self.terminal.look(self.tracker.look(), sweep.name, self.ledger.sweep(sweep.id).parent)
        self.ledger.release(sweep.id, WHOLE)

    def _open(self, key: str) -> Sweep:
        name = self._name()
        sweep = self.ledger.open_sweep(key, Sweep("", name, "", self._jobs(), self._names(), self.tracker.identity))
        adopt = os.environ.get("MLFLOW_RUN_ID")  # the run that `mlflow run` made
        return dataclasses.replace(sweep, parent=mirroring.open_parent(self.ledger, self.tracker, sweep, adopt))

    def _resume(self, sweep: Sweep, planned: Plan) -> Sweep:
        """Take up a sweep that did not end well: what is finished stays, and is mirrored where it is not yet."""
        self.ledger.retry(sweep.id)
        done = len(self.ledger.jobs(sweep.id, "finished"))
        self.terminal.line("resume", f"{done} of {len(sweep.jobs)} configs are done already")
        self.terminal.plan(planned)
        self.ledger.set_status(sweep.id, RUNNING)
        return mirroring.complete(self.ledger, self.tracker, sweep) if self.tracker.identity else sweep

    def _go(self, sweep: Sweep) -> int:
        status, why = KILLED, "interrupted"
        try:
            why = self._launch(sweep)
            status = FINISHED
        finally:
            interruption.caught()
            status = self._close(sweep, status, why)
        return 0 if status == FINISHED else 1

    def _launch(self, sweep: Sweep) -> str:
        """Let Hydra run the jobs, again and again while that helps: one that kills its process takes others with it.

        Returns why a job that left no record did not run: what Hydra or its launcher raised.
        """
        why = ""
        while pending := self._pending(sweep):
            before = self._state(sweep)
            why = self._launch_once(sweep, self._next(sweep, pending))
            if self._state(sweep) == before:
                break
        return why

    def _next(self, sweep: Sweep, pending: list[int]) -> list[int]:
        """Choose who is launched: those whose process died go one by one, then it is known which of them it was.

        In a race they go on with the others, who are measured against them, and alone only after these.
        """
        died = [claim for claim in self.ledger.claims(sweep.id) if claim.job in pending]
        if self.race is None:
            return [claim.job for claim in died][:1] or pending
        again = [claim.job for claim in died if claim.attempts > 1]
        return [job for job in pending if job not in again] or again[:1]

    def _pending(self, sweep: Sweep) -> list[int]:
        """List the jobs to be run; those that other processes are at are waited for."""
        while any(claim.lives for claim in self.ledger.claims(sweep.id)):
            time.sleep(0.2)
        self._bury(sweep)
        return sorted(set(range(len(sweep.jobs))) - self.ledger.jobs(sweep.id, *DONE))

    def _state(self, sweep: Sweep) -> object:
        attempts = sorted((claim.job, claim.attempts) for claim in self.ledger.claims(sweep.id))
        return self.ledger.jobs(sweep.id, *DONE), attempts

    def _launch_once(self, sweep: Sweep, jobs: Sequence[int]) -> str:
        """Let Hydra run jobs; a job that failed has been recorded and does not stop the others."""
        only = [f"hydra.sweeper.only={list(jobs)}"] if self.command.picks and len(jobs) < len(sweep.jobs) else []
        return self._hand_over(sweep, only) or "its process ended"

    def _hand_over(self, sweep: Sweep, more: Sequence[str]) -> str:
        """Call Hydra for a sweep; return what it raised, or an empty text."""
        race = races.Held(self.ledger, self.tracker, self.terminal, sweep, self.race) if self.race else None
        try:
            with races.held(race):
                hand_over(self.command, [f"+hydra.job.env_set.{SWEEP}={sweep.id}", *more])
        except Exception as fault:
            logging.getLogger(__name__).debug("a job of the sweep failed", exc_info=fault)
            return mask_text(f"{type(fault).__name__}: {fault}")
        finally:
            self.ledger.release_mine(
                sweep.id
            )  # of a job that could not even be written down, on a full disk for instance
        return ""

    def _bury(self, sweep: Sweep) -> None:
        """Write down as failed the jobs whose process died again and again."""
        for claim in self.ledger.claims(sweep.id):
            if not claim.lives and claim.attempts >= ATTEMPTS and claim.job < len(sweep.jobs):
                error = f"its process died {claim.attempts} times: killed, or out of memory"
                failure = _lost(sweep, claim.job, error)
                Records(self.ledger, self.tracker, sweep, claim.job).keep_failure(failure, self.terminal)

    def _close(self, sweep: Sweep, status: str, why: str) -> str:
        """Report what came of the sweep and end its parent run.

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
        """Show what came of the sweep, and send it to the tracker; return how the sweep ended."""
        mirroring.catch_up(self.ledger, self.tracker, sweep, self.terminal)
        records = self.ledger.records(sweep.id)
        both = [*records, *self.ledger.finals(sweep.id)]
        came, status = self._sum_up(sweep, records, status, why)
        if status == FINISHED and self.tracker.identity and not all(record.mirrored for record in both):
            status = FAILED
        came.show(self.terminal)
        self.terminal.look(self.tracker.look(), sweep.name, sweep.parent)
        if self.tracker.identity:
            mirroring.end_lost(self.tracker, sweep, self._elsewhere())
            mirroring.close(self.ledger, self.tracker, sweep, status, came.parent(sweep.name), self.terminal)
        return status

    def _elsewhere(self) -> bool:
        """Say whether other machines may be at it, of whose jobs this one's ledger has no records."""
        return False

    def _sum_up(
        self, sweep: Sweep, records: Sequence[Record], status: str, why: str, weighed: bool = True
    ) -> tuple[Ending, str]:
        """Sum up what there is, and say how the sweep ended."""
        missed = self._missed(sweep, {record.job for record in records}, why)
        came = ending(self.ledger, records, missed, weighed=weighed and status != KILLED)
        partial = any(one.state == PARTIAL for one in (*came.results, *came.finals.results))
        failed = came.failures or came.finals.failures or partial
        return came, FAILED if status == FINISHED and failed else status

    def _missed(self, sweep: Sweep, recorded: set[int], why: str) -> list[Failure]:
        """List the jobs that left no record, with why."""
        lost = sorted(set(range(len(sweep.jobs))) - recorded)
        return [_lost(sweep, job, f"did not run to its end: {why}") for job in lost]


class Search(Multirun):
    """One search: the sweeper decides what its jobs are, and where it goes on. Several commands may be at it."""

    def _key(self, signatures: Sequence[str]) -> str:
        return searching.key(self.command, signatures[0], self.tracker.identity)

    def _is_done(self, found: Sweep) -> bool:
        done = searching.is_done(self.command, found, searched(self._folder(found)))
        return done and self._looking.done(found, self.config.finalists)

    @property
    def _looking(self) -> Looking:
        return Looking(self.command, self.ledger, self.tracker, self.terminal)

    def _folder(self, sweep: Sweep) -> Path:
        return folder_of(self.ledger.path, sweep.id)

    def _name(self) -> str:
        return mask_text(" ".join(searching.typed(self.command)) or "search")

    def _jobs(self) -> tuple[tuple[str, ...], ...]:
        return ((),) * len(self._names())

    def _names(self) -> tuple[str, ...]:
        return searching.names(self.command.search or {})

    def _enter(self, key: str, planned: Plan) -> Sweep | None:
        searching.reach(self.command.search or {})
        with sharing.door(self.ledger, key, self.terminal):
            return super()._enter(key, planned)

    def _join(self, sweep: Sweep, taken: Claim, planned: Plan) -> Sweep:
        """Work on a search beside another command; the greater number of trials holds."""
        if not searching.shared(self.command.search or {}):
            return super()._join(sweep, taken, planned)
        sharing.join(self.ledger, sweep)
        self.terminal.line("join", f"{taken.holder} works on this search as well")
        return self._counted(sweep, planned, max(self._names(), sweep.names, key=len))

    def _resume(self, sweep: Sweep, planned: Plan) -> Sweep:
        """Take a search up again: failed trials stay failed, and it may have more trials than before."""
        sweep = self._counted(sweep, planned, self._names())
        self.ledger.set_status(sweep.id, RUNNING)
        if not self.tracker.identity:
            return sweep
        return mirroring.complete(self.ledger, self.tracker, sweep, self._elsewhere())

    def _counted(self, sweep: Sweep, planned: Plan, names: tuple[str, ...]) -> Sweep:
        """Say how many trials of a search are done, and write down how many it has."""
        done = len(self.ledger.jobs(sweep.id, *DONE))
        self.terminal.line("resume", f"{done} of {len(names)} trials are done already")
        self.terminal.plan(planned)
        self.ledger.set_jobs(sweep.id, names)
        return dataclasses.replace(sweep, jobs=((),) * len(names), names=names)

    def _elsewhere(self) -> bool:
        return searching.elsewhere(self.command.search or {})

    def _close(self, sweep: Sweep, status: str, why: str) -> str:
        """Close the search, unless others are still at it, or have closed it: then only show what there is."""
        with sharing.door(self.ledger, sharing.key_of(sweep), self.terminal):
            left = sharing.left_to(self.ledger, sweep)
            if not left:
                self._bury(sweep)
                status = self._end(sweep, status, why)
        records = self.ledger.records(sweep.id)
        if left:
            came, status = self._sum_up(sweep, records, status, why, weighed=False)
            came.show(self.terminal)
            self.terminal.line("left", left)
        if self._elsewhere() and len(records) < len(sweep.jobs):
            self.terminal.line("ledger", f"holds the {len(records)} trials of this machine; MLflow shows all")
        return status

    def _end(self, sweep: Sweep, status: str, why: str) -> str:
        """Evaluate the finalists of a search that came to its end, and close it."""
        reached = KILLED
        try:
            if status == FINISHED and not why:
                self._looking.look(sweep, self.config.finalists)
            reached = status
        finally:
            interruption.caught()
            reached = super()._close(sweep, reached, why)
        return reached

    def _launch(self, sweep: Sweep) -> str:
        """Let Hydra search; return what stopped it, or an empty text."""
        handed = searching.handed(self.command, objectives(self.config), sweep.id, self._folder(sweep))
        return self._hand_over(sweep, handed)

    def _bury(self, sweep: Sweep) -> None:
        """Write down the trials that failed and left no record: their process died, or they could not be composed."""
        left = None if self._elsewhere() else searched(self._folder(sweep))
        recorded = self.ledger.jobs(sweep.id, *DONE)
        for job, one in (left.trials if left else {}).items():
            if one["state"] == "FAIL" and job not in recorded:
                overrides = tuple(one.get("overrides", ()))
                failure = Failure(searching.named(overrides, sweep.name), overrides, {}, str(one.get("reason", "")))
                Records(self.ledger, self.tracker, sweep, job).keep_failure(failure, self.terminal)
        super()._bury(sweep)

    def _missed(self, sweep: Sweep, recorded: set[int], why: str) -> list[Failure]:
        """A search may end early; where it was stopped, the next trial is what did not run."""
        return [_lost(sweep, min(len(recorded), len(sweep.jobs) - 1), why)] if why else []


def _lost(sweep: Sweep, number: int, why: str) -> Failure:
    return Failure(sweep.names[number], sweep.jobs[number], {}, why)
