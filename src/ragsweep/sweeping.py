"""Run a command: check and plan all its configs, hand them to Hydra, and close what was opened, however it ends."""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from omegaconf import DictConfig

from ragsweep import interruption
from ragsweep.app import SWEEP, Job, run_job, session
from ragsweep.composition import CONFIG, VERSION_BASE, Command, compose_jobs, config_folder
from ragsweep.errors import ConfigError, RagsweepError, TrackingError
from ragsweep.evaluation import Experiment
from ragsweep.graph import Plan, plan
from ragsweep.ledger import Ledger, Sweep
from ragsweep.report import artifacts
from ragsweep.results import Failure, Result
from ragsweep.terminal import Terminal
from ragsweep.tracking import Tracker

FINISHED, FAILED, KILLED = "FINISHED", "FAILED", "KILLED"


def run(command: Command) -> int:
    """Do what was typed; return the exit status."""
    configs = compose_jobs(command)
    experiments = _prepare(command, configs)
    planned = plan([experiment.graph.wanted for experiment in experiments], session().evaluator.executor.stored)
    terminal = Terminal.current()
    wanted = configs[0].plan
    if wanted not in (True, False, "json"):
        raise ConfigError(f"plan: must be true, false or json, given {wanted!r}")
    if wanted == "json":
        print(json.dumps(_plain(planned)))
        return 0
    if wanted:
        terminal.plan_table(planned)
        return 0
    tracker = session().tracker(configs[0])
    tracker.check()
    ledger = Ledger(Path(configs[0].store.path))
    terminal.plan(planned)
    if command.multirun:
        return _sweep(command, configs[0], ledger, tracker, terminal)
    return _single(command)


def _prepare(command: Command, configs: Sequence[DictConfig]) -> list[Experiment]:
    """Check every config before the first one starts; all faults at once, each said once."""
    experiments, faults = [], {}
    for config, name, overrides in zip(configs, command.names(), command.jobs, strict=True):
        try:
            experiments.append(session().prepare(Job(config, name, overrides)))
        except RagsweepError as fault:
            faults[str(fault)] = fault
    if faults:
        kind = type(next(iter(faults.values())))
        raise kind("\n".join(faults))
    return experiments


def _plain(planned: Plan) -> dict[str, object]:
    stages = {stage: dataclasses.asdict(count) for stage, count in planned.stages.items()}
    return {"configs": planned.configs, "stages": stages, "seconds": None}


def _single(command: Command) -> int:
    try:
        hand_over(command.arguments)
    except TrackingError as fault:  # the place was there when the command began, and the result is kept
        print(f"ragsweep: in the ledger, but not in MLflow: {fault}", file=sys.stderr)
        return 1
    except RagsweepError:
        raise
    except Exception as fault:
        print(f"ragsweep: {type(fault).__name__}: {fault}; the traceback is in the job's log", file=sys.stderr)
        return 1
    return 0


def _sweep(command: Command, config: DictConfig, ledger: Ledger, tracker: Tracker, terminal: Terminal) -> int:
    name = " ".join(command.overrides) or "sweep"
    parent = tracker.open_sweep(name, {}, {}, adopt=os.environ.get("MLFLOW_RUN_ID"))
    sweep = ledger.open_sweep(name, parent, command.jobs, command.names())
    status, why = KILLED, "interrupted"
    try:
        why = _launch(command, sweep)
        status = FINISHED
    finally:
        interruption.caught()
        records = ledger.records(sweep.id)
        lost = [_lost(sweep, n, why) for n in set(range(len(sweep.jobs))) - {record.job for record in records}]
        failed = [*(record.outcome for record in records if isinstance(record.outcome, Failure)), *lost]
        if status == FINISHED and (failed or any(record.run is None for record in records)):
            status = FAILED
        results = [record.outcome for record in records if isinstance(record.outcome, Result)]
        terminal.comparison(results, list(config.headline))
        terminal.failures(failed)
        _close(sweep, status, tracker, lambda: artifacts(sweep.name, results, failed, list(config.headline)))
        terminal.look(tracker.look(), sweep.name, sweep.parent)
    return 0 if status == FINISHED else 1


def _launch(command: Command, sweep: Sweep) -> str:
    """Let Hydra run the jobs; a job that failed has been recorded and does not stop the others.

    Returns why a job that left no record did not run: what Hydra or its launcher raised.
    """
    try:
        hand_over([*command.arguments, f"+hydra.job.env_set.{SWEEP}={sweep.id}"])
    except Exception as fault:
        logging.getLogger(__name__).debug("a job of the sweep failed", exc_info=fault)
        return f"{type(fault).__name__}: {fault}"
    return "its process ended"


def _lost(sweep: Sweep, number: int, why: str) -> Failure:
    return Failure(sweep.names[number], sweep.jobs[number], {}, f"did not run to its end: {why}")


def _close(sweep: Sweep, status: str, tracker: Tracker, make: Callable[[], dict[str, bytes]]) -> None:
    """End the parent run with the files of the sweep; one that cannot be made must not leave the run open."""
    files: dict[str, bytes] = {}
    try:
        files = make()
    finally:
        tracker.close_sweep(sweep.parent, status, files, {})


def hand_over(arguments: Sequence[str], task: Callable[[DictConfig], float | None] = run_job) -> int:
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
