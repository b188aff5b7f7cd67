"""Run a command: check and plan all its configs, hand them to Hydra, and close what was opened, however it ends."""

from __future__ import annotations

import dataclasses
import json
import logging
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from omegaconf import DictConfig

from ragsweep import finalists, interruption, mirroring, searching
from ragsweep.app import Job, Session, session
from ragsweep.calls.spending import spending
from ragsweep.closing import ending
from ragsweep.composition import CONFIG, VERSION_BASE, Command, compose_jobs, config_folder
from ragsweep.errors import ConfigError, RagsweepError, TrackingError
from ragsweep.evaluation import Experiment
from ragsweep.foretelling import foretell
from ragsweep.graph import Charge, Plan, plan
from ragsweep.identity import content_hash
from ragsweep.jobs import SWEEP, Partial, run_job
from ragsweep.ledger import FAILED, FINISHED, KILLED, WHOLE, Claim, Ledger, Sweep
from ragsweep.looking import Looking
from ragsweep.objectives import objectives
from ragsweep.recording import Records
from ragsweep.results import PARTIAL, Failure, Result
from ragsweep.searched import folder_of, searched
from ragsweep.secrets import mask_text
from ragsweep.terminal import Terminal
from ragsweep.tracking import Tracker

ATTEMPTS = 3
"""How often a job is begun whose process dies."""

DONE = ("finished", "partial", "failed")
"""What is said of jobs that need not be run now; the two that did not end well are run when the command is repeated."""


def run(command: Command) -> int:
    """Do what was typed; return the exit status."""
    configs = compose_jobs(command)
    _check(configs)
    spending.reset()  # a budget is one command's, in each of its processes
    own, terminal = session(configs[0]), Terminal.current()
    experiments = _prepare(own, command, configs)
    if command.searching:
        command = searching.settled(command, configs[0], experiments[0])
        del experiments[1:]  # the others only show that what is searched is possible
    planned = plan([experiment.wanted for experiment in experiments], own.evaluator.executor)
    foretell(planned, experiments, own.evaluator.executor)
    if configs[0].plan == "json":
        print(json.dumps(_plain(planned)))
        return 0
    if configs[0].plan:
        terminal.plan_table(planned)
        return 0
    kept, tracker = own.ledger, own.tracker(configs[0])
    if risk := tracker.risk():
        terminal.line("warning", risk)
    tracker.check()
    if not command.multirun:
        terminal.plan(planned)
        status = _single(command)
    else:
        kind = _Searching if command.searching else _Sweeping
        signatures = [experiment.signature for experiment in experiments]
        status = kind(command, configs[0], kept, tracker, terminal).run(signatures, planned)
    mirroring.end_abandoned(kept, tracker, terminal)
    return status


def _check(configs: Sequence[DictConfig]) -> None:
    """Refuse settings of the command as a whole that mean nothing."""
    config = configs[0]
    finalists.check(config.finalists)
    if config.plan not in (True, False, "json"):
        raise ConfigError(f"plan: must be true, false or json, given {config.plan!r}")
    if not isinstance(config.rerun, bool):
        raise ConfigError(f"rerun: must be true or false, given {config.rerun!r}")
    for key in ("timeout", "max_failures"):
        value = config[key]
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or value <= 0):
            raise ConfigError(f"{key}: must be a number above 0, or null, given {value!r}")
    # Where results are kept cannot differ within a sweep: they would not be found again.
    for key in ("store", "tracking"):
        if any(other[key] != config[key] for other in configs):
            raise ConfigError(f"{key}: cannot differ within a sweep")


def _prepare(own: Session, command: Command, configs: Sequence[DictConfig]) -> list[Experiment]:
    """Check every config before the first one starts; all faults at once, each said once."""
    experiments, faults = [], {}
    for config, name, overrides in zip(configs, command.names(), command.jobs, strict=True):
        try:
            experiments.append(own.prepare(Job(config, name, overrides, searching=command.searching)))
            own.checked[overrides] = experiments[-1]
        except RagsweepError as fault:
            faults[str(fault)] = fault
    if faults:
        kind = type(next(iter(faults.values())))
        raise kind("\n".join(faults))
    return experiments


def _plain(planned: Plan) -> dict[str, object]:
    stages = {
        stage: {"asked": count.asked, "distinct": count.distinct, "stored": count.stored}
        | ({"rows": count.rows} if count.rows else {})
        | (_charged(count.charge) if count.charge.calls else {})
        for stage, count in planned.stages.items()
    }
    seconds = None if planned.untold else planned.total.seconds
    currency = {"currency": spending.currency or None}
    return {"configs": planned.configs, "stages": stages, "seconds": seconds} | _charged(planned.charge) | currency


def _charged(charge: Charge) -> dict[str, object]:
    """Say what calls cost, with null for what is unknown."""
    calls, tokens, money = (
        None if math.isnan(value) else value for value in (charge.calls, charge.tokens, charge.money)
    )
    whole = [value if value is None else math.ceil(value) for value in (calls, tokens)]
    return {"calls": whole[0], "tokens": whole[1], "money": money, "estimated": charge.estimated}


def _single(command: Command) -> int:
    try:
        hand_over(command.arguments)
    except TrackingError as fault:  # the place was there when the command began, and the result is kept
        print(f"ragsweep: in the ledger, but not in MLflow: {fault}", file=sys.stderr)
        return 1
    except Partial:  # which the table says
        return 1
    except RagsweepError:
        raise
    except Exception as fault:
        said = mask_text(f"{type(fault).__name__}: {fault}")
        print(f"ragsweep: {said}; the traceback is in the job's log", file=sys.stderr)
        return 1
    return 0


@dataclass
class _Sweeping:
    """One multirun, from its first word to its last."""

    command: Command
    config: DictConfig
    ledger: Ledger
    tracker: Tracker
    terminal: Terminal

    def run(self, signatures: Sequence[str], planned: Plan) -> int:
        key = self._key(signatures)
        found = None if self.config.rerun else self.ledger.latest(key)
        if found is None:
            self.terminal.plan(planned)
            return self._go(self._open(key))
        if isinstance(taken := self.ledger.claim(found.id, WHOLE), Claim):
            raise RagsweepError(f"this sweep is running: {taken.holder} works on it; wait for it, or give rerun=true")
        if found.status == FINISHED and self._is_done(found):
            return self._show_again(found)
        return self._go(self._resume(found, planned))

    def _key(self, signatures: Sequence[str]) -> str:
        """Tell equal sweeps: of the same configs, tracked at one place."""
        return content_hash([signatures, self.tracker.identity])

    def _is_done(self, found: Sweep) -> bool:
        return len(found.jobs) == len(self._names())

    def _jobs(self) -> tuple[tuple[str, ...], ...]:
        return self.command.jobs

    def _name(self) -> str:
        return " ".join(self.command.overrides) or "sweep"

    def _names(self) -> tuple[str, ...]:
        return tuple(self.command.names())

    def _show_again(self, sweep: Sweep) -> int:
        """Show a sweep that is finished, and send to the tracker what that has lost."""
        self.terminal.line("done", f'"{sweep.name}" is finished already; rerun=true runs it again')
        ending(self.ledger, self.ledger.records(sweep.id)).show(self.terminal)
        if self.tracker.identity and (sent := mirroring.sync_sweep(self.ledger, self.tracker, sweep)):
            self.terminal.line("sync", f"{sent} results were not in MLflow any more, and are there again")
        self.terminal.look(self.tracker.look(), sweep.name, self.ledger.sweep(sweep.id).parent)
        self.ledger.release(sweep.id, WHOLE)
        return 0

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
        self.ledger.set_status(sweep.id, "RUNNING")
        self.ledger.claim(sweep.id, WHOLE)
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
            # Those whose process died go one by one: then it is known which of them it was.
            suspects = [claim.job for claim in self.ledger.claims(sweep.id) if claim.job in pending]
            before = self._state(sweep)
            why = self._launch_once(sweep, suspects[:1] or pending)
            if self._state(sweep) == before:
                break
        return why

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
        try:
            hand_over([*self.command.arguments, f"+hydra.job.env_set.{SWEEP}={sweep.id}", *more])
        except Exception as fault:
            logging.getLogger(__name__).debug("a job of the sweep failed", exc_info=fault)
            return f"{type(fault).__name__}: {fault}"
        finally:
            self.ledger.release_mine(
                sweep.id
            )  # of a job that could not even be written down, on a full disk for instance
        return ""

    def _bury(self, sweep: Sweep) -> None:
        """Write down as failed the jobs whose process died again and again."""
        for claim in self.ledger.claims(sweep.id):
            if not claim.lives and claim.attempts >= ATTEMPTS:
                error = f"its process died {claim.attempts} times: killed, or out of memory"
                failure = _lost(sweep, claim.job, error)
                Records(self.ledger, self.tracker, sweep, claim.job).keep_failure(failure, self.terminal)

    def _close(self, sweep: Sweep, status: str, why: str) -> str:
        """Say what came of the sweep; the parent run must not be left open, whatever fails."""
        records = self.ledger.records(sweep.id)
        both = [*records, *self.ledger.finals(sweep.id)]
        missed = self._missed(sweep, {record.job for record in records}, why)
        came = ending(self.ledger, records, missed, weighed=status != KILLED)
        partial = any(isinstance(one.outcome, Result) and one.outcome.state == PARTIAL for one in both)
        shown = not self.tracker.identity or all(record.mirrored for record in both)
        if status == FINISHED and (came.failures or came.finals.failures or partial or not shown):
            status = FAILED
        try:
            came.show(self.terminal)
            self.terminal.look(self.tracker.look(), sweep.name, sweep.parent)
            if self.tracker.identity:
                mirroring.close(self.ledger, self.tracker, sweep, status, came.parent(sweep.name), self.terminal)
        finally:
            self.ledger.set_status(sweep.id, status)
        return status

    def _missed(self, sweep: Sweep, recorded: set[int], why: str) -> list[Failure]:
        """List the jobs that left no record, with why."""
        lost = sorted(set(range(len(sweep.jobs))) - recorded)
        return [_lost(sweep, job, f"did not run to its end: {why}") for job in lost]


class _Searching(_Sweeping):
    """One search: the sweeper decides what its jobs are, and where it goes on."""

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
        return " ".join(searching.typed(self.command)) or "search"

    def _jobs(self) -> tuple[tuple[str, ...], ...]:
        return ((),) * len(self._names())

    def _names(self) -> tuple[str, ...]:
        return searching.names(self.command.search or {})

    def _resume(self, sweep: Sweep, planned: Plan) -> Sweep:
        """Take a search up again: failed trials stay failed, and it may have more trials than before."""
        done = len(self.ledger.jobs(sweep.id, *DONE))
        self.terminal.line("resume", f"{done} of {len(self._names())} trials are done already")
        self.terminal.plan(planned)
        self.ledger.set_jobs(sweep.id, self._names())
        self.ledger.set_status(sweep.id, "RUNNING")
        self.ledger.claim(sweep.id, WHOLE)
        sweep = dataclasses.replace(sweep, jobs=self._jobs(), names=self._names())
        return mirroring.complete(self.ledger, self.tracker, sweep) if self.tracker.identity else sweep

    def _launch(self, sweep: Sweep) -> str:
        """Let Hydra search; return what stopped it, or an empty text."""
        why = self._hand_over(
            sweep, searching.handed(self.command, objectives(self.config), sweep.id, self._folder(sweep))
        )
        if not why:
            self._looking.look(sweep, self.config.finalists)
        return why

    def _missed(self, sweep: Sweep, recorded: set[int], why: str) -> list[Failure]:
        """A search may end early; where it was stopped, the next trial is what did not run."""
        return [_lost(sweep, min(len(recorded), len(sweep.jobs) - 1), why)] if why else []


def _lost(sweep: Sweep, number: int, why: str) -> Failure:
    return Failure(sweep.names[number], sweep.jobs[number], {}, why)


def hand_over(arguments: Sequence[str], task: Callable[[DictConfig], object] = run_job) -> int:
    """Call Hydra with these arguments; whatever it raises reaches the caller."""
    import hydra

    with _environment("HYDRA_FULL_ERROR", "1"), _arguments(arguments):
        hydra.main(config_path=str(config_folder()), config_name=CONFIG, version_base=VERSION_BASE)(task)()
    return 0


@contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


@contextmanager
def _arguments(arguments: Sequence[str]) -> Iterator[None]:
    before = sys.argv
    sys.argv = [before[0], *arguments]
    try:
        yield
    finally:
        sys.argv = before
