"""Run one config: claim it, evaluate it, record the outcome."""

from __future__ import annotations

import logging
import time
import traceback
from collections.abc import Mapping
from dataclasses import replace

from ragsweep.core.errors import RagsweepError
from ragsweep.core.interruption import deadline
from ragsweep.core.results import DROPPED, PARTIAL, Failure, Result, objectives
from ragsweep.core.secrets import mask_text
from ragsweep.parts.targets import misses_target
from ragsweep.records.claims import Claim
from ragsweep.records.ledger import Ledger, Sweep
from ragsweep.report.tables import headline, partial_note
from ragsweep.stages.graph import walk
from ragsweep.sweep import search_command
from ragsweep.sweep.command import defining
from ragsweep.sweep.race_plan import evaluate_rung
from ragsweep.sweep.recording import OutcomeWriter
from ragsweep.sweep.session import Job, RunContext

Returned = float | tuple[float, ...] | dict[str, object] | None
"""The return value of a job for its sweeper."""


class TargetsMissed(Exception):
    """A single config misses targets that are enforced; its result is recorded and shown."""


class Partial(Exception):
    """Too many questions could not be scored: the result is recorded, and is no value for a search."""


def run_job(context: RunContext, job: Job, until: int | None = None) -> Returned:
    """Evaluate one config: record it, show it, track it; return the objective.

    A job of a sweep that is done already, or that another process does, is left alone. A failure is written down as
    well and raised again, so that whoever launched the job continues with the others. ``until``: on a rung of a race.
    """
    ledger, sweep, search = context.ledger, context.sweep, context.search
    if sweep and search:  # the number of its trials may have been raised since
        trials = search_command.trial_names(search, job.number + 1)
        sweep = replace(sweep, names=trials, jobs=((),) * len(trials))
    given = search is not None and search_command.is_own(search)  # then the study decides which process runs a job
    if sweep:
        _stop_after(ledger, sweep, job.config.values["max_failures"])
        if until is not None and (come := _raced_so_far(ledger, sweep, job.number, int(until))):
            return _so_far(come, {})
        taken = ledger.claims.claim_job(sweep.id, job.number, given=given)
        if taken == "finished":
            stored = _stored(ledger, sweep, job.number)
            if stored.state == DROPPED:
                raise RagsweepError(f"{stored.name}: was dropped by the race")
            return _returned(context, stored, None, {})
        if isinstance(taken, Claim):
            raise RagsweepError(f"{sweep.names[job.number]}: {taken.holder} works on it")
        job.name = search_command.trial_name(job.overrides, sweep.name) if search else sweep.names[job.number]
    job.name = context.secrets.mask_text(job.name or " ".join(defining(job.overrides)) or "defaults")
    job.searching = search is not None
    records = OutcomeWriter(ledger, context.tracker, sweep, job.number, fenced=given, secrets=context.secrets)
    before = context.session.services.meter.totals
    if until is not None:
        result = attempt(context, job, records, int(until))
        records.keep_rung(result)
        return _so_far(result, context.session.services.meter.since(before))
    result = attempt(context, job, records)
    try:
        records.keep(result, context.terminal, headline([result]))
    except BaseException:
        if sweep:
            ledger.claims.release_job(sweep.id, job.number)  # it could not be recorded, on a full disk for instance
        raise
    if result.state == PARTIAL:
        raise Partial(f"{result.name}: {partial_note(result)}")
    if not sweep and misses_target(result):
        raise TargetsMissed(result.name)
    return _returned(context, result, _first(context, job.number), context.session.services.meter.since(before))


def _so_far(result: Result, spent: Mapping[str, float]) -> Returned:
    """Return a config's scores so far to its race."""
    name = objectives(result.config)[0]
    value = result.summaries[name].value
    steps = [float(score) for score in result.outcomes[name]]
    return {"values": value if value == value else None, "steps": steps, "cost": dict(spent)}


def _raced_so_far(kept: Ledger, sweep: Sweep, number: int, until: int) -> Result | None:
    """Return the result of a config that reached this rung of a race before an interruption."""
    if number not in kept.jobs(sweep.id, "racing"):
        return None
    known = _stored(kept, sweep, number)
    return known if known.race["asked"] >= until else None


def attempt(context: RunContext, job: Job, records: OutcomeWriter, until: int | None = None) -> Result:
    """Evaluate a job; a failure is recorded and raised again. ``until``: on a rung of a race."""
    started = time.time()
    try:
        with deadline(job.config.values["timeout"]):
            return _evaluate(context, job, until)
    except (Exception, SystemExit) as fault:
        logging.getLogger(__name__).exception("the job failed")
        records.keep_failure(_failure(job, fault, started), context.terminal)
        if isinstance(fault, SystemExit):
            raise RuntimeError(f"it called sys.exit({fault.code!r})") from fault
        raise
    except BaseException:
        if records.sweep:
            records.ledger.claims.release_job(records.sweep.id, records.number)
        raise


def _evaluate(context: RunContext, job: Job, until: int | None) -> Result:
    session, terminal = context.session, context.terminal
    prepared = session.experiment(job)
    experiment = replace(prepared, name=job.name, parameters={**job.chosen, **prepared.parameters})
    evaluator = session.evaluator
    with session.services, terminal.listening(evaluator.executor, session.services.meter):
        result = evaluate_rung(evaluator, experiment, until) if until else evaluator.evaluate(experiment)
    if evaluator.executor.store:
        used = {node.address for node in walk(experiment.graph.wanted) if node.stored}
        evaluator.executor.store.used(used, experiment.signature)
    return result


def _stop_after(kept: Ledger, sweep: Sweep, failures: int | None) -> None:
    """Raise RagsweepError where as many jobs of a sweep have failed as allowed."""
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
        parameters=job.parameters,
        error=mask_text(error if known else f"{type(fault).__name__}: {error}"),
        traceback="" if known else mask_text(traceback.format_exc()),
        started=started,
        ended=time.time(),
    )


def _returned(context: RunContext, result: Result, first: Result | None, spent: Mapping[str, float]) -> Returned:
    """Return the objective, or several, and to our own sweeper what else it needs; NaN is no value to search by."""
    if context.search is not None and search_command.is_own(context.search):
        return search_command.job_value(result, first, spent)
    values = tuple(result.summaries[name].value for name in objectives(result.config))
    if any(value != value for value in values):
        return None
    return values if len(values) > 1 else values[0]


def _first(context: RunContext, number: int) -> Result | None:
    """Return a search's first result, where it may end because nothing gets better by more than could be seen."""
    sweep, search = context.sweep, context.search
    patient = search is not None and search_command.is_own(search) and (search.get("stop") or {}).get("patience")
    if not (sweep and number and patient) or 0 not in context.ledger.jobs(sweep.id, "finished"):
        return None
    return _stored(context.ledger, sweep, 0)
