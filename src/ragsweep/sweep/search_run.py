"""Run one search: a multirun whose results decide which jobs it has; several commands may work on it."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from omegaconf import OmegaConf

from ragsweep.core import interruption
from ragsweep.core.results import Failure, objectives
from ragsweep.records.claims import Claim
from ragsweep.records.ledger import FINISHED, KILLED, RUNNING, Ledger, Sweep
from ragsweep.report.terminal import Terminal
from ragsweep.stages.graph import Plan
from ragsweep.sweep import mlflow_sync, search_command
from ragsweep.sweep.command import compose
from ragsweep.sweep.holdout import HoldoutEvaluation
from ragsweep.sweep.hydra_launch import HydraTask, Launch, through_hydra
from ragsweep.sweep.multirun import DONE, Multirun, lost_job
from ragsweep.sweep.recording import OutcomeWriter
from ragsweep.sweep.search.loop import run_search
from ragsweep.sweep.search.settings import SearchSettings
from ragsweep.sweep.search.signatures import SearchComposer
from ragsweep.sweep.search.summary import read_summary, study_folder

PATIENCE = 2.0
"""Seconds of waiting after which the user is told."""


@contextmanager
def exclusive(ledger: Ledger, key: str, terminal: Terminal) -> Iterator[None]:
    """Exclude other commands from opening, joining, leaving or closing a sweep of this key."""
    begun, reported = time.monotonic(), False
    while taken := ledger.claims.claim_key(key):
        if not reported and time.monotonic() - begun > PATIENCE:
            terminal.line("waits", f"{taken.holder} opens or closes this search")
            reported = True
        time.sleep(0.1)
    try:
        yield
    finally:
        ledger.claims.release_key(key)


def leave(ledger: Ledger, sweep: Sweep) -> str:
    """Leave a sweep that another process closes, and return which; an empty text where this process is to close it."""
    others = ledger.claims.others(sweep.id)
    if not others and ledger.sweep(sweep.id).status == RUNNING:
        return ""
    ledger.claims.leave_sweep(sweep.id)
    if not others:
        return "another process has closed this search already"
    return f"{' and '.join(map(str, others))} at work on this search; the last to end writes the verdict"


class Search(Multirun):
    """One search: the sweeper decides what its jobs are, and where it goes on. Several commands may be at it."""

    def _key(self, signatures: Sequence[str]) -> str:
        return search_command.search_key(self.command, signatures[0], self.tracker.identity)

    def _is_done(self, found: Sweep) -> bool:
        done = search_command.is_done(self.command, found, read_summary(self._folder(found)))
        return done and self._holdout.is_done(found, self.values["finalists"])

    @property
    def _holdout(self) -> HoldoutEvaluation:
        return HoldoutEvaluation(self.command, self.context)

    def _folder(self, sweep: Sweep) -> Path:
        return study_folder(self.ledger.path, sweep.id)

    def _name(self) -> str:
        return self.secrets.mask_text(" ".join(search_command.typed_overrides(self.command)) or "search")

    def _jobs(self) -> tuple[tuple[str, ...], ...]:
        return ((),) * len(self._names())

    def _names(self) -> tuple[str, ...]:
        return search_command.trial_names(self.command.search or {})

    def _enter(self, key: str, planned: Plan) -> Sweep | None:
        search_command.check_storage(self.command.search or {})
        with exclusive(self.ledger, key, self.terminal):
            return super()._enter(key, planned)

    def _join(self, sweep: Sweep, taken: Claim, planned: Plan) -> Sweep:
        """Work on a search beside another command; the greater number of trials holds."""
        if not search_command.is_shared(self.command.search or {}):
            return super()._join(sweep, taken, planned)
        self.ledger.claims.join_sweep(sweep.id)
        self.terminal.line("join", f"{taken.holder} works on this search as well")
        return self._counted(sweep, planned, max(self._names(), sweep.names, key=len))

    def _resume(self, sweep: Sweep, planned: Plan) -> Sweep:
        """Take a search up again: failed trials stay failed, and it may have more trials than before."""
        sweep = self._counted(sweep, planned, self._names())
        self.ledger.set_status(sweep.id, RUNNING)
        if not self.tracker.identity:
            return sweep
        return mlflow_sync.complete(self.ledger, self.tracker, sweep, self._on_other_machines())

    def _counted(self, sweep: Sweep, planned: Plan, names: tuple[str, ...]) -> Sweep:
        """Show how many trials of a search are done, and record how many it has."""
        done = len(self.ledger.jobs(sweep.id, *DONE))
        self.terminal.line("resume", f"{done} of {len(names)} trials are done already")
        self.terminal.plan(planned)
        self.ledger.set_jobs(sweep.id, names)
        return dataclasses.replace(sweep, jobs=((),) * len(names), names=names)

    def _on_other_machines(self) -> bool:
        return search_command.is_on_server(self.command.search or {})

    def _close(self, sweep: Sweep, status: str, why: str) -> str:
        """Close the search; where others still work on it, or have closed it, only show what there is."""
        with exclusive(self.ledger, sweep.key, self.terminal):
            left = leave(self.ledger, sweep)
            if not left:
                self._record_dead_jobs(sweep)
                status = self._end_search(sweep, status, why)
        records = self.ledger.records(sweep.id)
        if left:
            summary, status = self._summarise(sweep, records, status, why, weighed=False)
            summary.show(self.terminal)
            self.terminal.line("left", left)
        if self._on_other_machines() and len(records) < len(sweep.jobs):
            self.terminal.line("ledger", f"holds the {len(records)} trials of this machine; MLflow shows all")
        return status

    def _end_search(self, sweep: Sweep, status: str, why: str) -> str:
        """Evaluate the finalists of a search that ran to its end, and close it."""
        reached = KILLED
        try:
            if status == FINISHED and not why:
                self._holdout.run(sweep, self.values["finalists"])
            reached = status
        finally:
            interruption.stop_raising()
            reached = super()._close(sweep, reached, why)
        return reached

    def _run_jobs(self, sweep: Sweep, launch: Launch, folder: Path) -> str:
        """Let our own sweeper launch trials until the study has as many as it should."""
        command = self.command
        given = {**(command.search or {}), "subject": sweep.id, "objectives": list(objectives(self.values))}
        given |= {"folder": str(self._folder(sweep)), "race": self.race.bound(self.context) if self.race else None}
        settings, composer = SearchSettings.read(given), command.composer
        composed = SearchComposer(
            lambda lines: compose(composer, [*command.fixed, *lines]),
            composer.loader,
            "ragsweep",
            lambda: OmegaConf.create(dict(self.values)),
        )
        run_search(settings, command.task, launch, composed, folder)
        return ""

    def _with_launcher(self, body: Callable[[Launch, Path], None]) -> None:
        if search_command.is_own(self.command.search or {}):
            super()._with_launcher(body)
        else:
            assert self.context.sweep
            through_hydra(self.command, HydraTask(self.context.sweep.id, self.context))

    def _record_dead_jobs(self, sweep: Sweep) -> None:
        """Write down the trials that failed and left no record: their process died, or they could not be composed."""
        left = None if self._on_other_machines() else read_summary(self._folder(sweep))
        recorded = self.ledger.jobs(sweep.id, *DONE)
        for job, one in (left.trials if left else {}).items():
            if one["state"] == "FAIL" and job not in recorded:
                overrides = tuple(one.get("overrides", ()))
                name = search_command.trial_name(overrides, sweep.name)
                failure = Failure(name, overrides, {}, str(one.get("reason", "")))
                OutcomeWriter(self.ledger, self.tracker, sweep, job, secrets=self.secrets).keep_failure(
                    failure, self.terminal
                )
        super()._record_dead_jobs(sweep)

    def _missed(self, sweep: Sweep, recorded: set[int], why: str) -> list[Failure]:
        """A search may end early; where it was stopped, the next trial is what did not run."""
        return [lost_job(sweep, min(len(recorded), len(sweep.jobs) - 1), why)] if why else []
