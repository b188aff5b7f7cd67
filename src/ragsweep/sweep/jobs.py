"""Run one config as Hydra's task: claim it, evaluate it, write down what became of it."""

from __future__ import annotations

import logging
import os
import time
import traceback
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, cast

from omegaconf import DictConfig, OmegaConf

from ragsweep.core.errors import RagsweepError
from ragsweep.core.interruption import deadline
from ragsweep.core.objectives import objectives
from ragsweep.core.results import DROPPED, PARTIAL, Failure, Result
from ragsweep.core.secrets import are_noted, hidden, mask_logs, mask_text
from ragsweep.parts.targets import misses_target
from ragsweep.records.claims import Claim
from ragsweep.records.ledger import Ledger, Sweep
from ragsweep.report.tables import headline, partial_note
from ragsweep.report.terminal import Terminal
from ragsweep.stages.graph import walk
from ragsweep.sweep import rungs, searching
from ragsweep.sweep.app import Job, Session, session
from ragsweep.sweep.composition import defining, searches
from ragsweep.sweep.confidential import note_config
from ragsweep.sweep.plain import resolved_at
from ragsweep.sweep.recording import Records
from ragsweep.sweep.rungs import KEY

SWEEP = "RAGSWEEP_SWEEP"
"""Environment variable by which a job of a sweep finds the sweep."""


Returned = float | tuple[float, ...] | dict[str, object] | None
"""What a job gives its sweeper."""


class TargetsMissed(Exception):
    """A single config misses targets that are enforced; its result has been written down and shown."""


class Partial(Exception):
    """Too many questions could not be scored: what there is has been written down, and is no value for a search."""


def run_job(config: DictConfig) -> Returned:
    """Evaluate one config: write it down, show it, track it; return the objective.

    A job of a sweep that is done already, or that another process does, is left alone. A failure is written down as
    well and raised again, so that Hydra goes on with the other jobs and knows.
    """
    from hydra.core.hydra_config import HydraConfig

    mask_logs()
    hydra = HydraConfig.get()
    if not hydra.launcher._target_.endswith(_OURS):
        _hide(config)
    until, config.questions.until = config.questions.until, None  # a rung is no config of its own
    own = session(config)
    kept = own.ledger
    sweep = _sweep(kept, os.environ[SWEEP]) if os.environ.get(SWEEP) else None
    search = sweep is not None and searches(hydra)
    if sweep and search:  # the number of its trials may have been raised since
        trials = searching.names(hydra.sweeper, int(hydra.job.num) + 1)
        sweep = replace(sweep, names=trials, jobs=((),) * len(trials))
    number = int(hydra.job.num) if sweep else 0
    given = search and searching.ours(hydra.sweeper)  # then the study says whose a job is
    if sweep:
        _stop_after(kept, sweep, config.max_failures)
        if until is not None and (come := _come(kept, sweep, number, int(until))):
            return _so_far(come, {})
        taken = kept.claim(sweep.id, number, given)
        if taken == "finished":
            stored = _stored(kept, sweep, number)
            if stored.state == DROPPED:
                raise RagsweepError(f"{stored.name}: was dropped by the race")
            return _returned(stored, hydra, None, {})
        if isinstance(taken, Claim):
            raise RagsweepError(f"{sweep.names[number]}: {taken.holder} works on it")
    overrides = tuple(line for line in _typed(hydra) if not line.startswith(f"{KEY}="))
    name = " ".join(defining(overrides)) or "defaults"
    if sweep:
        name = searching.named(overrides, sweep.name) if search else sweep.names[number]
    chosen = resolved_at(cast(DictConfig, hydra.runtime), "choices")
    job = Job(config, mask_text(name), overrides, chosen, searching=search)
    terminal = Terminal.current(plain=sweep is not None and not hydra.launcher._target_.endswith(_IN_PROCESS))
    records = Records(kept, own.tracker(config), sweep, number, fenced=given)
    if until is not None:
        return _rung(own, job, terminal, records, int(until))
    before = own.services.meter.totals
    result = attempt(own, job, terminal, records)
    records.keep(result, terminal, headline([result]))
    if result.state == PARTIAL:
        raise Partial(f"{result.name}: {partial_note(result)}")
    if not sweep and misses_target(result):
        raise TargetsMissed(result.name)
    return _returned(result, hydra, _first(kept, sweep, number, hydra), own.services.meter.since(before))


@lru_cache(8)
def _sweep(kept: Ledger, identifier: str) -> Sweep:
    return kept.sweep(identifier)  # what a job reads of it is settled before the first job starts


_OURS = "InlineLauncher"
_IN_PROCESS = ("BasicLauncher", _OURS)


def _typed(hydra: Any) -> list[str]:
    """List a job's overrides as they were typed: what an interpolation stands for may be a secret."""
    lines: Any = OmegaConf.to_container(hydra.overrides.task, resolve=False)
    return list(map(str, lines))


def _hide(config: DictConfig) -> None:
    """Mask the secrets of a job that another launcher began, in another process perhaps: it has saved them."""
    from hydra.core.hydra_config import HydraConfig

    from hydra_plugins.ragsweep_grid import save, veil

    singleton: Any = HydraConfig.instance()
    note_config(config)
    note_config(singleton.cfg)
    if are_noted():
        veil(hidden)
        save(config, singleton.cfg)


def _rung(own: Session, job: Job, terminal: Terminal, records: Records, until: int) -> Returned:
    """Evaluate a config on one rung of a race."""
    before = own.services.meter.totals
    result = attempt(own, job, terminal, records, until)
    records.keep_rung(result)
    return _so_far(result, own.services.meter.since(before))


def _so_far(result: Result, spent: Mapping[str, float]) -> Returned:
    """Return to its race what a config shows so far."""
    name = objectives(result.config)[0]
    value = result.summaries[name].value
    steps = [float(score) for score in result.outcomes[name]]
    return {"values": value if value == value else None, "steps": steps, "cost": dict(spent)}


def _come(kept: Ledger, sweep: Sweep, number: int, until: int) -> Result | None:
    """Return what is kept of a config that has come so far in a race before an interruption."""
    if number not in kept.jobs(sweep.id, "racing"):
        return None
    known = _stored(kept, sweep, number)
    return known if known.race["asked"] >= until else None


def attempt(own: Session, job: Job, terminal: Terminal, records: Records, until: int | None = None) -> Result:
    """Evaluate a job; where that fails, write it down, and raise what was raised. ``until``: on a rung of a race."""
    started = time.time()
    try:
        with deadline(job.config.timeout):
            return _evaluate(own, job, terminal, until)
    except (Exception, SystemExit) as fault:
        logging.getLogger(__name__).exception("the job failed")
        records.keep_failure(_failure(job, fault, started), terminal)
        if isinstance(fault, SystemExit):
            raise RuntimeError(f"it called sys.exit({fault.code!r})") from fault
        raise
    except BaseException:
        if records.sweep:
            records.ledger.release(records.sweep.id, records.number)
        raise


def _evaluate(own: Session, job: Job, terminal: Terminal, until: int | None) -> Result:
    experiment = own.experiment(job, last=until is None)
    with own.services, terminal.listening(own.evaluator.executor, own.services.meter):
        result = rungs.evaluate(own.evaluator, experiment, until) if until else own.evaluator.evaluate(experiment)
    if own.evaluator.executor.store:
        used = {node.address for node in walk(experiment.graph.wanted) if node.stored}
        own.evaluator.executor.store.used(used, experiment.signature)
    return result


def _stop_after(kept: Ledger, sweep: Sweep, failures: int | None) -> None:
    """Raise RagsweepError where as many jobs of a sweep have failed as may."""
    if failures is not None and len(kept.jobs(sweep.id, "failed")) >= failures:
        raise RagsweepError(f"not run: {failures} configs failed, and max_failures={failures}")


def _stored(kept: Ledger, sweep: Sweep, number: int) -> Result:
    outcome = kept.record(sweep.id, number).outcome
    assert isinstance(outcome, Result)
    return outcome


def _failure(job: Job, fault: BaseException, started: float) -> Failure:
    known = isinstance(fault, RagsweepError)
    error = str(fault).splitlines()[0] if str(fault) else type(fault).__name__
    return Failure(
        name=job.name,
        overrides=job.overrides,
        parameters=job.parameters(),
        error=mask_text(error if known else f"{type(fault).__name__}: {error}"),
        traceback="" if known else mask_text(traceback.format_exc()),
        started=started,
        ended=time.time(),
    )


def _returned(result: Result, hydra: Any, first: Result | None, spent: Mapping[str, float]) -> Returned:
    """Return the objective, or several, and to our own sweeper what else it needs; NaN is no value to search by."""
    if searching.ours(hydra.sweeper):
        return searching.returned(result, first, spent)
    values = tuple(result.summaries[name].value for name in objectives(result.config))
    if any(value != value for value in values):
        return None
    return values if len(values) > 1 else values[0]


def _first(kept: Ledger, sweep: Sweep | None, number: int, hydra: Any) -> Result | None:
    """Return a search's first result, where it may end because nothing gets better by more than could be seen."""
    patient = searching.ours(hydra.sweeper) and (hydra.sweeper.get("stop") or {}).get("patience")
    if not (sweep and number and patient) or 0 not in kept.jobs(sweep.id, "finished"):
        return None
    return _stored(kept, sweep, 0)
