"""Run a command: compose, prepare and run its configs, and draw a conclusion from their results."""

import json
import sys
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from optuna_sweeper.race_loop import exception_of
from ragsweep.core.errors import ConfigError, RagsweepError, TrackingError, describe_fault
from ragsweep.core.interruption import Interrupted
from ragsweep.core.plurals import counted
from ragsweep.core.results import Evaluation, Result
from ragsweep.parts.targets import misses_target
from ragsweep.records.claims import COMMAND, ClaimKey
from ragsweep.records.ledger import FAILED, FINISHED, KILLED, Record, Sweep
from ragsweep.report.document import paragraphs
from ragsweep.report.holdout import holdout_use
from ragsweep.report.sweep_document import result_document
from ragsweep.report.tables import headline
from ragsweep.report.terminal import Terminal
from ragsweep.stages.graph import Plan
from ragsweep.sweep import preparing
from ragsweep.sweep.composing.baseline import with_baseline
from ragsweep.sweep.composing.command import Command, compose_jobs
from ragsweep.sweep.composing.job import Job
from ragsweep.sweep.composing.sweep_names import is_search, reference, root
from ragsweep.sweep.concluding.parent_run import RecordedContents, single_run, sweep_run
from ragsweep.sweep.concluding.summarise import choose_finalists, summarise_sweep
from ragsweep.sweep.concluding.sweep_content import show_sweep
from ragsweep.sweep.concluding.sweep_summary import SweepSummary
from ragsweep.sweep.preparing import Prepared
from ragsweep.sweep.running import mlflow_sync
from ragsweep.sweep.running.hydra_launch import through_launcher
from ragsweep.sweep.running.jobs import Partial, TargetsMissed, attempt, check_scored, name_job
from ragsweep.sweep.running.loop import JobLoop
from ragsweep.sweep.running.multirun import Ending, Multirun
from ragsweep.sweep.running.recording import OutcomeWriter, RunContext, mask_traces
from ragsweep.sweep.running.session import open_session
from ragsweep.sweep.searching.search_run import Search


class CommandOutcome(NamedTuple):
    """A command's exit status, and the id of the sweep that it ran or showed; None for a plan or a single config."""

    status: int
    sweep: str | None = None


def run(command: Command) -> CommandOutcome:
    """Run a command, masking secrets in all output. Raises RagsweepError if the command is invalid or cannot start."""
    with command.secrets.masking():
        return _run(command)


def _run(command: Command) -> CommandOutcome:
    command, jobs = with_baseline(command, compose_jobs(command))
    values, terminal = jobs[0].config.values, Terminal.current()
    labels = preparing.check_jobs(command, [job.config.values for job in jobs])
    session = open_session(values, terminal)
    prepared = preparing.prepare(command, session, jobs, labels)
    command = prepared.command
    if values["plan"] == "json":
        print(json.dumps(preparing.plan_as_json(prepared.planned)))
        return CommandOutcome(0)
    if values["plan"]:
        for label, text in prepared.facts:
            terminal.line(label, text)
        terminal.plan_table(prepared.planned)
        return CommandOutcome(0)
    context = RunContext(session, session.tracker(values), terminal, command.secrets, None, command.search, labels)
    multirun, recorded = None, None
    if command.multirun and (session.folder / "ledger.db").exists():  # a ledger is created after all checks
        multirun = _multirun(prepared, context, jobs)
        recorded = multirun.recorded()
    if recorded and not command.searching:
        prepared = preparing.without_done(prepared, session, context.ledger.jobs(recorded.id, "finished", "dropped"))
    try:
        preparing.check_keys(prepared.nodes)
    except ConfigError:
        if not (multirun and recorded and multirun.is_finished(recorded)):
            raise
    notes = [*command.notes, *preparing.baseline_notes(values["baseline"], session, prepared.experiments)]
    if not command.searching and any(root(line) == "finalists" for line in command.overrides):
        notes.append("finalists has no effect without a search; add -m hydra/sweeper=optuna")
    _ = context.ledger  # opens the ledger, so that a fault is raised before any computation
    for label, text in [*prepared.facts, *(("note", note) for note in notes)]:
        terminal.line(label, text)
    if risk := context.tracker.risk():
        terminal.line("warning", risk)
    context.tracker.check()
    preparing.try_metrics([job.experiment for job in jobs if job.experiment], terminal)
    if command.multirun:
        outcome = _run_sweep(multirun or _multirun(prepared, context, jobs), prepared.planned)
    else:
        outcome = CommandOutcome(_run_single(prepared, context, jobs[0]))
    mlflow_sync.end_abandoned(context)
    return outcome


def _run_single(prepared: Prepared, context: RunContext, job: Job) -> int:
    """Run a single config; return 0, or 1 if it crashed, is PARTIAL or untracked, or misses an enforced target."""
    context.ledger.check_writable()
    if name := job.config.values["name"]:
        assert job.experiment
        context.ledger.names.check_free(name, "", job.experiment.signature)
        job.name = f"{name}: {job.name}"
    if context.labels:
        instead = "ragsweep judge calibrate LABELS --run RUN"
        context.terminal.line("note", f"judge.labels corrects only verdicts of sweeps; for one config, use {instead}")
    if job.config.values["baseline"] is not None:
        context.terminal.line("note", "baseline has no effect on one config; add -m, or use ragsweep compare RUN RUN")
    context.terminal.plan(prepared.planned)
    logs: list[str] = []
    try:
        folders = JobLoop(prepared.command, job, context.secrets)
        with folders.logging():
            ended = folders.run(lambda: _evaluate_single(context, job), job)
        logs = folders.logs
        if fault := exception_of(ended):
            raise fault
    except TrackingError as fault:  # the tracker became unreachable, or the ledger read-only, during the run
        print(f"ragsweep: {fault}", file=sys.stderr)
        return 1
    except (Partial, TargetsMissed):  # the printed table shows the reason
        return 1
    except RagsweepError:
        raise
    except Exception as fault:
        if not logs:  # the job's folder could not be created, or logging is off
            traceback.print_exception(fault)
        log = f"; the traceback is in {', '.join(logs)}" if logs else ""
        print(f"ragsweep: {describe_fault(fault)}{log}", file=sys.stderr)
        return 1
    return 0


def _evaluate_single(context: RunContext, job: Job) -> None:
    """Evaluate a config; record its result, show it, and log it to the tracker.

    Raises TrackingError if the result cannot be recorded or logged. Otherwise, raises Partial if too few questions were
    scored, or TargetsMissed for a missed enforced target.
    """
    ledger, terminal, tracker = context.ledger, context.terminal, context.tracker
    name_job(context, None, job)
    writer = OutcomeWriter(context, job.number)
    try:
        result, artifacts = attempt(context, job, writer.keep_failure)
    finally:  # an interrupted or failed run has its cost, too
        terminal.spent(context.session.services.meter)
    result, record = writer.record(result)
    if name := result.run.config.get("name"):
        ledger.names.give(name, f"record {record}", result.run.signature)
    terminal.show(result_document(result, headline([result])))
    views = ledger.holdout_views(result.run.dataset.undivided)
    terminal.show_block(paragraphs("LIMITS", holdout_use(views)))
    texts = context.session.page_texts([result], context.secrets)
    evaluated = Evaluation(result, mask_traces(artifacts, context.secrets))
    run_id = writer.track_single(record, evaluated, partial(single_run, result, views, texts))
    terminal.next_steps([(tracker.view_command(), f"the run {run_id[:8]}")])
    check_scored(result)
    if misses_target(result):
        raise TargetsMissed(result.name)


def _multirun(prepared: Prepared, context: RunContext, jobs: Sequence[Job]) -> Multirun:
    command, launcher = prepared.command, partial(through_launcher, prepared.command, context, jobs)
    if not command.searching:
        return Multirun(command, context, jobs, launcher, prepared.race)
    choose = partial(choose_finalists, context.ledger, jobs[0].config.values["finalists"])
    return Search(command, context, jobs, launcher, prepared.race, choose)


def _run_sweep(multirun: Multirun, planned: Plan) -> CommandOutcome:
    """Open a sweep, run its jobs and show its conclusion; if it is already finished, only show its conclusion again."""
    with multirun.alone():
        try:
            sweep, finished = multirun.open(planned)
        except Interrupted:
            multirun.terminal.line("stopped", f"before the first job; {multirun.again} resumes the sweep")
            raise
        if finished:
            results, status = _show_again(multirun, sweep), FINISHED
    if not finished:
        results, status = _conclude(multirun, sweep, multirun.run(sweep))
    if status != FINISHED:
        return CommandOutcome(1, sweep.id)
    if missing := [result for result in results if misses_target(result)]:
        verb = "misses" if len(missing) == 1 else "miss"
        text = f"{len(missing)} of {counted(len(results), 'config')} {verb} an enforced target"
        multirun.terminal.line("targets", text)
    return CommandOutcome(int(bool(missing)), sweep.id)


def _show_again(multirun: Multirun, sweep: Sweep) -> Sequence[Result]:
    """Show a finished sweep again and return its results; if the ledger is writable, upload missing records."""
    context, ledger, values = multirun.context, multirun.ledger, multirun.values
    records = ledger.records(sweep.id)
    summary = summarise_sweep(ledger, records, labels=context.labels, declared=values["baseline"])
    trials = f" with {counted(len(records), 'trial')}, so nothing remains to do" if is_search(sweep) else ""
    context.terminal.line("done", f'"{sweep.name}" is already finished{trials}; rerun=true runs it again')
    if ledger.is_writable:
        if context.tracker.identity:
            contents = RecordedContents(ledger, context.session.page_texts, context.tracker.tables)
            if sent := mlflow_sync.sync_sweep(ledger, context.tracker, sweep, contents):
                context.terminal.line("sync", f"uploaded {counted(len(sent), 'result')} that MLflow lacked")
        sweep = ledger.sweep(sweep.id)  # the upload may have changed its parent run
        ledger.claims.release(ClaimKey(COMMAND, sweep.id))
    _show_summary(context, sweep, summary, values)
    return summary.results


def _conclude(multirun: Multirun, sweep: Sweep, ending: Ending) -> tuple[Sequence[Result], str]:
    """Conclude a sweep and show its conclusion; return its results and status.

    If another process has concluded the sweep or will conclude it, only show the results so far, without a verdict.
    If the jobs or the evaluation of the finalists were interrupted, raise the interrupting exception at the end.
    """
    context, ledger = multirun.context, multirun.ledger
    with multirun.alone():
        if not (left := multirun.leave(sweep)):
            ending = multirun.finish(sweep, ending)
            summary, status = _close(multirun, sweep, ending)
    if left:
        summary, status = _summarise(multirun, sweep, ledger.records(sweep.id), ending, weighed=False)
        show_sweep(summary, context.terminal)
        context.terminal.line("left", left)
    if multirun.elsewhere and (recorded := len(ledger.records(sweep.id))) < len(sweep.jobs):
        text = f"contains only the trials run on this machine, {recorded} of {len(sweep.jobs)}; MLflow shows all"
        context.terminal.line("ledger", text)
    if ending.interruption:
        raise ending.interruption
    return summary.results, status


def _close(multirun: Multirun, sweep: Sweep, ending: Ending) -> tuple[SweepSummary, str]:
    """Show the conclusion of a sweep, send it to the tracker, and record the sweep's status.

    After an exception, the status in the ledger and any reachable tracker is KILLED; the same command then resumes the
    sweep.
    """
    context, tracker, ledger = multirun.context, multirun.tracker, multirun.ledger
    try:
        mlflow_sync.catch_up(context, sweep)
        records = ledger.records(sweep.id)
        recorded = [*records, *ledger.finalists(sweep.id)]
        summary, status = _summarise(multirun, sweep, records, ending)
        if status == FINISHED and tracker.identity and not all(record.tracked for record in recorded):
            status = FAILED
        context.terminal.spent(context.session.services.meter)
        _show_summary(context, sweep, summary, multirun.values)
        if status == KILLED:
            configs = f"{len(records)} of {len(sweep.jobs)} configs"
            done = counted(len(records), "config") if is_search(sweep) else configs
            context.terminal.line("stopped", f"{done} done; {multirun.again} resumes the sweep")
        if tracker.identity:
            texts = context.session.page_texts(summary.results, context.secrets)
            content = sweep_run(summary, sweep, texts, tracker.tables)
            if not mlflow_sync.close(context, sweep, status, content, multirun.elsewhere) and status == FINISHED:
                status = FAILED
    except BaseException:
        ledger.set_status(sweep.id, KILLED)
        if tracker.identity:
            with suppress(TrackingError):
                tracker.close_sweep(sweep.parent, KILLED, {}, {})
        raise
    ledger.set_status(sweep.id, status)
    return summary, status


def _summarise(
    multirun: Multirun, sweep: Sweep, records: Sequence[Record], ending: Ending, weighed: bool = True
) -> tuple[SweepSummary, str]:
    """Return the summary of a sweep's records, and the sweep's status.

    The summary has no verdict if ``weighed`` is false or the sweep was interrupted.
    """
    status, recorded = ending.status, {record.job for record in records}
    missed = [] if status == KILLED else multirun.missed_jobs(sweep, recorded, ending.why)
    weighed, declared = weighed and status != KILLED, multirun.values["baseline"]
    summary = summarise_sweep(multirun.ledger, records, missed, weighed, multirun.context.labels, declared)
    return summary, FAILED if status == FINISHED and summary.failed else status


def _show_summary(context: RunContext, sweep: Sweep, summary: SweepSummary, values: Mapping[str, Any]) -> None:
    view, address = context.tracker.view_command(), context.tracker.address(sweep.parent)
    show_sweep(summary, context.terminal, reference(sweep), view, address, values["by"])
