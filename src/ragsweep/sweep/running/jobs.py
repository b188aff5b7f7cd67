"""Run jobs: launch them in batches; claim, evaluate and record each of them."""

import logging
import math
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, chdir, nullcontext, suppress
from dataclasses import replace
from pathlib import Path

from hydra.core.hydra_config import HydraConfig
from hydra.core.utils import JobReturn

from optuna_sweeper.race_loop import consecutive_batches
from ragsweep.core.errors import RagsweepError, describe_fault
from ragsweep.core.interruption import deadline
from ragsweep.core.plurals import count_reasons
from ragsweep.core.results import DROPPED, PARTIAL, Evaluation, Failure, Result, Summary, objectives
from ragsweep.core.secrets import mask_text
from ragsweep.records.claims import CONFIG, FINALIST, ClaimKey
from ragsweep.records.ledger import Ledger, Sweep
from ragsweep.report.live_questions import live_line
from ragsweep.report.tables import partial_note
from ragsweep.stats.comparable import is_mean
from ragsweep.stats.inference.matrix import score_matrix
from ragsweep.stats.inference.power import estimate_power
from ragsweep.sweep.composing.job import Job
from ragsweep.sweep.composing.search_settings import is_own, money_key, trial_name, trial_names
from ragsweep.sweep.running.recording import OutcomeWriter, RunContext

JobValue = float | tuple[float, ...] | dict[str, object] | None
"""The value that a job returns to its sweeper (see `job_value` and `rung_value`)."""


class TargetsMissed(Exception):
    """The exception for a single config that misses an enforced target; its result has been recorded and shown."""


class Partial(Exception):
    """The exception for a result with too few scored questions; it is recorded, but a search does not use its value."""


def run_job(context: RunContext, job: Job) -> JobValue:
    """Evaluate one config of a sweep, record, track and show its result, and return its value for the sweeper.

    A finished job is not run again; its recorded value is returned. On a rung of a race, the result is recorded, but
    neither tracked nor shown. An exception in the evaluation is recorded as a failure and re-raised; the launcher
    continues with the other jobs. Raises RagsweepError for a job that a race has dropped, that another process has
    claimed, or that would run after ``max_failures`` failures. Raises Partial if too few questions were scored.
    """
    ledger, sweep, search = context.ledger, context.sweep, context.search
    assert sweep
    assigned = search is not None and is_own(search)  # the study assigns jobs to processes
    # Another command may have raised the number of trials in the meantime.
    names = trial_names(search, job.number + 1) if search else sweep.names
    limit = job.config.values["max_failures"]
    if limit is not None and len(ledger.jobs(sweep.id, "failed")) >= limit:
        raise RagsweepError(
            f"not run, because the limit max_failures={limit} is reached; raise it to run the remaining jobs"
        )
    name_job(context, sweep, job)
    if job.rung is not None and job.number in ledger.jobs(sweep.id, "racing"):
        reached = _stored(ledger, sweep, job.number)
        if reached.run.race["asked"] >= job.rung:  # the rung was completed before an interruption
            return rung_value(_same(context, job, reached, assigned), {})
    claimed = ledger.claims.claim_job(sweep.id, job.number, assigned=assigned)
    if claimed == "finished":
        stored = _stored(ledger, sweep, job.number)
        if stored.run.state == DROPPED:
            raise RagsweepError(f"{stored.name} was dropped by the race")
        return job_value(context, job.number, _same(context, job, stored, assigned), {})
    if claimed:
        raise RagsweepError(f"{names[job.number]}: {claimed} is working on it; wait, then repeat the command")
    writer = OutcomeWriter(context, job.number, position=(job.number, len(names)), fenced=assigned)
    meter = context.session.services.meter
    before, meter.money_key = meter.totals, money_key(search)
    try:
        result, artifacts = attempt(context, job, writer.keep_failure)
        if job.rung is not None:
            writer.record(result)  # neither tracked nor shown
            return rung_value(result, meter.since(before))
        writer.keep(result, artifacts)
        check_scored(result)
    except BaseException as fault:
        ledger.claims.release(ClaimKey(CONFIG, sweep.id, job.number))  # if it was not recorded, as on a full disk
        with suppress(AttributeError):  # an immutable exception
            fault.cost = meter.since(before)  # type: ignore[attr-defined]  # for the stop rule of a search
        raise
    return job_value(context, job.number, result, meter.since(before))


def check_scored(result: Result) -> None:
    """Raise Partial if too few questions were scored."""
    if result.run.state == PARTIAL:
        raise Partial(f"{result.name}: {partial_note(result)}")


def name_job(context: RunContext, sweep: Sweep | None, job: Job) -> None:
    """Set a job's ``name``, with secrets masked, and ``searching``: whether a search runs the job.

    The jobs of a grid have names in the record of the sweep. A trial, or a single config without a name, is named by
    its overrides.
    """
    search = context.search
    if sweep and not search:
        job.name = sweep.names[job.number]
    elif sweep and search:
        job.name = trial_name(job.overrides, sweep.name, job.config.choices, search.get("params") or ())
    job.name = context.secrets.mask_text(job.name or trial_name(job.overrides, "", job.config.choices))
    job.searching = search is not None


def attempt(context: RunContext, job: Job, keep_failure: Callable[[Failure], None]) -> Evaluation:
    """Evaluate a job and return its result and artifacts.

    An exception is recorded with ``keep_failure`` and re-raised. Raises RuntimeError instead of SystemExit if the job
    called sys.exit. After an interruption, the claim on the job is released.
    """
    started, session = time.time(), context.session
    executor = session.evaluator.executor
    try:
        with deadline(job.config.values["timeout"]), command_folder():  # models are loaded and tables opened when used
            prepared = session.experiment(job)
            experiment = replace(prepared, name=job.name, parameters={**job.chosen, **prepared.parameters})
            shows = job.config.values.get("progress") == "questions"
            live = live_line(experiment.dataset.golden.questions, experiment.metrics) if shows else None
            with session.services, context.terminal.listening(executor, session.services.meter, live):
                evaluated = session.evaluate(experiment, job.rung)
            if executor.store:
                used = {node.address for node in experiment.nodes if node.stored}
                executor.store.used(used, experiment.signature)
            return evaluated
    except (Exception, SystemExit) as fault:
        log_once(fault)
        keep_failure(_failure(job, fault, started))
        if isinstance(fault, SystemExit):
            raise RuntimeError(f"the job called sys.exit({fault.code!r})") from fault
        raise
    except BaseException:
        if context.sweep:
            for kind in (CONFIG, FINALIST):
                context.ledger.claims.release(ClaimKey(kind, context.sweep.id, job.number))
        raise


def command_folder() -> AbstractContextManager[None]:
    """Return a context that enters the command's working folder, on which relative paths in configs are based."""
    folder = HydraConfig.get().runtime.cwd if HydraConfig.initialized() else ""
    return chdir(folder) if folder and Path(folder).is_dir() else nullcontext()


def log_once(fault: BaseException) -> list[str]:
    """Log an exception's traceback unless it has been logged already; return the paths of the existing log files."""
    if not any(getattr(one, "logged", False) for one in (fault, fault.__cause__)):
        logging.getLogger(__name__).error("the job failed", exc_info=fault)
        with suppress(AttributeError):  # an immutable exception, such as one of a frozen attrs class
            fault.logged = True  # type: ignore[attr-defined]
    handlers = [one for one in logging.getLogger().handlers if isinstance(one, logging.FileHandler)]
    return [one.baseFilename for one in handlers if Path(one.baseFilename).exists()]


def _failure(job: Job, fault: BaseException, started: float) -> Failure:
    known = isinstance(fault, RagsweepError)
    error = str(fault).partition("\n")[0] if known and str(fault) else describe_fault(fault)
    return Failure(
        name=job.name,
        overrides=job.overrides,
        parameters=job.parameters,
        error=mask_text(error),
        traceback="" if known else mask_text(traceback.format_exc()),
        started=started,
        ended=time.time(),
    )


def _stored(ledger: Ledger, sweep: Sweep, number: int) -> Result:
    outcome = ledger.record(sweep.id, number).outcome
    assert isinstance(outcome, Result)
    return outcome


def _same(context: RunContext, job: Job, stored: Result, assigned: bool) -> Result:
    """Return ``stored``. Raises RagsweepError if ``job`` has another config because the search has lost its study."""
    with command_folder():
        if assigned and context.session.experiment(job).signature != stored.run.signature:
            fact = f"the ledger has another config, {stored.name}, as trial {job.number}"
            raise RagsweepError(f"{fact}, but the study that drew it was lost; run the search again with rerun=true")
    return stored


# --- values for the sweeper ---------------------------------------------------------------------------------------


def rung_value(result: Result, spent: Mapping[str, float]) -> JobValue:
    """Return a dict with the objective's value so far (None for NaN), the number of questions asked, and ``spent``.

    The sweeper reports the value to Optuna as an intermediate value; the race reads the scores from the ledger.
    """
    value = result.summaries.metrics[objectives(result.run.config)[0]].value
    return {"values": None if math.isnan(value) else value, "asked": result.run.race["asked"], "cost": dict(spent)}


def job_value(context: RunContext, number: int, result: Result, spent: Mapping[str, float]) -> JobValue:
    """Return the value of the objective, or a tuple for several objectives; None if any is NaN or no objective is set.

    For our sweeper, return a dict instead. It contains the list of values (None for NaN), the reason for missing
    values, the values of all metrics (for constraints), the smallest detectable differences from job 0 (for the stop
    rule), and the amounts ``spent``. The differences are [] if the job is job 0, if the stop rule does not need them,
    or if job 0 is not finished.
    """
    summaries = [result.summaries.metrics[name] for name in objectives(result.run.config)]
    unknown = [summary for summary in summaries if math.isnan(summary.value)]
    sweep, search = context.sweep, context.search
    if search is None or not is_own(search):
        values = tuple(summary.value for summary in summaries)
        return None if unknown or not values else values if len(values) > 1 else values[0]
    differences: list[float] = []
    patient = sweep and number and (search.get("stop") or {}).get("patience")
    if sweep and patient and 0 in context.ledger.jobs(sweep.id, "finished"):
        first = _stored(context.ledger, sweep, 0)
        differences = [_detectable(result, first, summary) for summary in summaries]
    return {
        "values": [None if math.isnan(summary.value) else summary.value for summary in summaries],
        "reason": "; ".join(_unmeasured(summary) for summary in unknown),
        "measured": {name: summary.value for name, summary in result.summaries.metrics.items()},
        "differences": differences,
        "cost": dict(spent),
    }


def _unmeasured(summary: Summary) -> str:
    why = count_reasons(summary.reasons)
    return f"{summary.name} was not measured{f' ({why})' if why else ''}"


def _detectable(result: Result, first: Result, summary: Summary) -> float:
    """Return the smallest detectable difference between two results in one metric.

    ``summary`` is the metric's summary in ``result``. If the difference is unknown, or the metric is not a mean, return
    half the width of the summary's interval.
    """
    try:
        power = estimate_power(score_matrix([first, result], summary.name)).typical
    except (RagsweepError, KeyError):
        power = math.nan
    mean = is_mean(result, summary.name) and not math.isnan(power)
    return power if mean else (summary.high - summary.low) / 2


Launch = Callable[[Sequence[Job]], Sequence[JobReturn]]
"""A function that runs jobs with consecutive numbers, and returns a result for each."""

Body = Callable[[Launch, Path], str]
"""A function that runs the jobs of a sweep with a ``Launch``; the second argument is the sweep's folder.

The function returns the reason why a job may lack a record, or "" if no fault is known.
"""

Launcher = Callable[[Body | None], str]
"""A function that calls a ``Body`` with a ``Launch`` and returns the body's result.

If the body is None, Hydra's sweeper runs the jobs.
"""


def launch_batches(
    launch: Launch, jobs: Mapping[int, Job], rung: int | None, longest: int | None = None
) -> dict[int, JobReturn | Exception]:
    """Launch jobs in batches; map each job's number to its outcome, or to the exception that its launch raised.

    A batch has consecutive numbers, at most ``longest`` (None: no limit). A batch that cannot be launched does not stop
    the others. ``rung`` is the number of questions to evaluate in a race; None: all.
    """
    outcomes: dict[int, JobReturn | Exception] = {}
    for batch in consecutive_batches(jobs, longest):
        try:
            outcomes |= zip(batch, launch([replace(jobs[number], rung=rung) for number in batch]), strict=True)
        except Exception as fault:
            logging.getLogger(__name__).debug("jobs %s could not be launched", batch, exc_info=fault)
            outcomes |= dict.fromkeys(batch, fault)
    return outcomes
