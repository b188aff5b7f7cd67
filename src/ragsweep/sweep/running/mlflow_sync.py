"""Synchronise the tracker with the ledger: upload missing results after a crash or outage, and end abandoned runs."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Protocol

from ragsweep.core.errors import TrackingError
from ragsweep.core.locks import LAPSE, Holder
from ragsweep.core.plurals import counted
from ragsweep.core.results import NO_ARTIFACTS, NO_TRACES, Evaluation, Failure, Result
from ragsweep.parts.tracking import Child, RunPlacement, Tracker
from ragsweep.records.claims import COMMAND, CONFIG, FINALIST, KEY, UPLOAD, ClaimKey, job_tag
from ragsweep.records.ledger import FAILED, FINISHED, KILLED, RUNNING, Ledger, Record, Sweep
from ragsweep.report.terminal import Terminal
from ragsweep.sweep.composing.sweep_names import sweep_title
from ragsweep.sweep.running.recording import RunContext, TrackedContent, log_outcome, log_single

SWEEP_TAG = "ragsweep.sweep"
NAMES_TAG = "ragsweep.names"
"""The tag with a run's user-defined names."""


class RunContents(Protocol):
    """The interface that derives the content of runs in the tracker from records (see parent_run.RecordedContents)."""

    def of_sweep(self, sweep: Sweep, trials: Sequence[Record]) -> tuple[TrackedContent, str]:
        """Return the content of a sweep's parent run, and the status of the sweep: FINISHED or FAILED."""

    def of_config(self, result: Result) -> TrackedContent:
        """Return the content of the run of a single config in the tracker."""


def open_parent(ledger: Ledger, tracker: Tracker, sweep: Sweep, adopt: str | None, ended: float = 0.0) -> str:
    """Open a sweep's parent run and return its id: reuse the run ``adopt`` or, if ``adopt`` is None, create a run.

    ``ended`` is the end time of a sweep that has already ended; 0 if the sweep is running. The ledger records the id
    only if the sweep is assigned to this tracker.
    """
    parent = tracker.open_sweep(sweep_title(sweep), {SWEEP_TAG: sweep.id}, adopt, (sweep.created, ended))
    if sweep.tracker == tracker.identity:
        ledger.set_parent(sweep.id, parent)
    return parent


def complete(ledger: Ledger, tracker: Tracker, sweep: Sweep, elsewhere: bool = False) -> Sweep:
    """Reopen a sweep's parent run, upload the records that the tracker lacks, and end the runs of dead processes.

    Return the sweep with the id of its parent run. If the tracker no longer has the sweep (its database was deleted,
    for example), all records are uploaded again. ``elsewhere``: whether other machines may be working on the sweep. If
    so, no run is ended, because the runs of other machines cannot be distinguished from the runs of dead processes.
    """
    parent = tracker.find({SWEEP_TAG: sweep.id}, known=sweep.parent)
    if not parent:
        ledger.forget_runs(sweep.id)
    parent = open_parent(ledger, tracker, sweep, parent)
    # Claims are read before records; otherwise a job that ends in between would be in neither list.
    claimed = [*ledger.claims.jobs(sweep.id), *ledger.claims.jobs(sweep.id, FINALIST)]
    at_work = [job_tag(claim.kind, claim.number) for claim in claimed if claim.lives]
    untracked = ledger.untracked(sweep.id)
    _upload(ledger, tracker, untracked, parent)
    if not elsewhere:
        tracker.end_abandoned(parent, [*at_work, *(record.tag for record in untracked)])
    return replace(sweep, parent=parent)


def catch_up(context: RunContext, sweep: Sweep) -> None:
    """Upload the sweep's records that the tracker lacks, and wait for uploads of other processes.

    Do nothing without a tracker; an unreachable tracker only causes a warning.
    """
    if not context.tracker.identity:
        return
    try:
        _upload(context.ledger, context.tracker, context.ledger.untracked(sweep.id), sweep.parent)
    except TrackingError as fault:
        context.warn_untracked("a result of the sweep", fault)


def close(context: RunContext, sweep: Sweep, status: str, parent: TrackedContent, elsewhere: bool) -> bool:
    """End a sweep's abandoned runs, write its content (``parent``) to its runs, and finally end its parent run.

    Return whether the tracker was reachable; if it was not, print a warning: `ragsweep sync` or the same command can
    send the content later. ``elsewhere``: whether other machines may be working on the sweep. If so, abandoned runs are
    not ended; but if two machines have opened runs for the same trial, the superfluous run is ended.
    """
    ledger, tracker = context.ledger, context.tracker
    with suppress(TrackingError):
        if elsewhere:
            tracker.children(sweep.parent)
        else:
            tracker.end_abandoned(sweep.parent)  # a process may have died while it created a run
    try:
        _complete_children(tracker, partial(_tracked_run, ledger, sweep), parent)
        tracker.close_sweep(sweep.parent, status, parent.files, parent.metrics, parent.tags, parent.dataset)
    except TrackingError as fault:
        context.warn_untracked("the sweep", fault)
        return False
    return True


def end_abandoned(context: RunContext) -> None:
    """Mark as KILLED this tracker's sweeps whose processes have died; otherwise the sweeps would seem to run forever.

    An unreachable tracker only causes a warning; a later command marks the sweep. A read-only ledger is left unchanged.
    """
    ledger, tracker, terminal = context.ledger, context.tracker, context.terminal
    for sweep in ledger.abandoned() if ledger.is_writable else ():
        if sweep.tracker != tracker.identity:
            continue
        with _alone(ledger, sweep) as other:
            if other or ledger.sweep(sweep.id).status != RUNNING:  # resumed in the meantime
                continue
            fact = f"its process died, or sent no heartbeat for {LAPSE:.0f} s"
            terminal.line("killed", f'"{sweep.name}": {fact}; repeat its command to continue')
            try:
                if sweep.parent:
                    tracker.end_abandoned(sweep.parent)
                    tracker.close_sweep(sweep.parent, KILLED, {}, {})
            except TrackingError as fault:
                terminal.line("warning", str(fault))
            else:
                ledger.set_status(sweep.id, KILLED)


def sync(ledger: Ledger, tracker: Tracker, terminal: Terminal, contents: RunContents, everything: bool) -> int:
    """Upload the ledger's records that the tracker lacks, and return the number of records sent.

    Only records that are assigned to this tracker are sent or, with ``everything``, also records that are assigned to
    another tracker or to none. Runs that exist already are found by their tags. A sweep on which a process is working
    is skipped, and a printed line says so.
    """
    sent = traced = 0
    for sweep in ledger.sweeps():
        if not everything and sweep.tracker != tracker.identity:
            continue
        with _alone(ledger, sweep) as other:
            if other:
                terminal.line("running", f'"{sweep.name}" is skipped: {other} is working on it')
            else:
                found = sync_sweep(ledger, tracker, sweep, contents)
                sent, traced = sent + len(found), traced + _count_traced(found)
    singles = [record for record in ledger.singles() if everything or record.tracker == tracker.identity]
    try:
        found = [record for record in singles if _sync_single(ledger, tracker, record, contents)]
    finally:
        ledger.claims.release(ClaimKey(UPLOAD))
    if traced := traced + _count_traced(found):
        terminal.line("traces", f"not in the ledger ({counted(traced, 'result')}); rerun=true recreates them")
    return sent + len(found)


def list_elsewhere(ledger: Ledger, tracker: Tracker) -> list[tuple[tuple[str, str], int]]:
    """Return ((URI, experiment), count) for each other tracker: the number of unsent results assigned to it.

    The tracker with the most unsent results comes first.
    """
    records = [*ledger.singles(), *(record for sweep in ledger.sweeps() for record in ledger.untracked(sweep.id))]
    lost = [one for one in records if not one.tracked and one.tracker not in ("", tracker.identity)]
    outcomes = [record.outcome for record in lost if isinstance(record.outcome, Result)]
    settings = [outcome.run.config.get("tracking") or {} for outcome in outcomes]
    return Counter((str(one.get("uri") or ""), str(one.get("experiment") or "")) for one in settings).most_common()


def _count_traced(records: Sequence[Record]) -> int:
    configs = [record.outcome.run.config for record in records if isinstance(record.outcome, Result)]
    return sum((config.get("tracking") or {}).get("traces", NO_TRACES) != NO_TRACES for config in configs)


@contextmanager
def _alone(ledger: Ledger, sweep: Sweep) -> Iterator[Holder | None]:
    """Claim a sweep during the block, and yield None; if another process has the claim, yield that process instead.

    This process does not wait for the other process, which may run for hours.
    """
    key, command = ClaimKey(KEY, sweep.key), ClaimKey(COMMAND, sweep.id)
    try:
        yield ledger.claims.claim(key) or ledger.claims.claim(command)
    finally:
        ledger.claims.release(command)
        ledger.claims.release(key)


def sync_sweep(ledger: Ledger, tracker: Tracker, sweep: Sweep, contents: RunContents) -> list[Record]:
    """Upload those records of a sweep that the tracker lacks, and end the parent run; return the sent records.

    If the tracker lacks nothing and the parent run need not be ended, leave the tracker unchanged and return [].
    """
    here, trials = sweep.tracker == tracker.identity, ledger.records(sweep.id)
    records = [*trials, *ledger.finalists(sweep.id)]
    parent = tracker.find({SWEEP_TAG: sweep.id}, known=sweep.parent if here else None)
    children = tracker.children(parent) if parent else {}
    shown = {job for job, child in children.items() if child.status in (FINISHED, FAILED)}
    missing = [record for record in records if record.tag not in shown or (here and not record.tracked)]
    if parent and not missing and not _is_left_open(tracker, sweep, parent, len(trials)):
        return []
    if here and not parent:
        ledger.forget_runs(sweep.id)
    ended = max((_span(record)[1] for record in records), default=0.0)
    parent = open_parent(ledger, tracker, sweep, parent, ended)
    _upload(ledger, tracker, missing, parent, here)
    content, status = contents.of_sweep(sweep, trials)
    runs = {} if here else {job: child.run_id for job, child in tracker.children(parent).items()}
    _complete_children(tracker, lambda job: _tracked_run(ledger, sweep, job) if here else runs.get(str(job)), content)
    _tag_names(ledger, tracker, parent, sweep.id)
    tracker.close_sweep(parent, status, content.files, content.metrics, content.tags, content.dataset)
    if here:
        ledger.set_status(sweep.id, status)
    return missing


def _is_left_open(tracker: Tracker, sweep: Sweep, parent: str, recorded: int) -> bool:
    """Return whether a sweep's parent run must still be ended, after an interruption or an outage of the tracker.

    ``recorded`` is the number of the sweep's records. The parent run of an interrupted sweep is ended only if each of
    the sweep's jobs has a record.
    """
    if sweep.status in (FINISHED, FAILED) or sweep.tracker != tracker.identity:
        return not tracker.has_ended(parent)
    return recorded >= len(sweep.jobs)


def _complete_children(tracker: Tracker, run_of: Callable[[int], str | None], parent: TrackedContent) -> None:
    """Add tags and tables of questions, derived from the whole sweep, to the runs of its jobs."""
    for job in sorted({*parent.children, *parent.tables}):
        run = run_of(job)
        if run and (tags := parent.children.get(job)):
            tracker.tag(run, tags)
        if run and (table := parent.tables.get(job)):
            tracker.log_table(run, table)


def _tracked_run(ledger: Ledger, sweep: Sweep, job: int) -> str | None:
    if not ledger.job_run(sweep.id, job):  # a trial of a shared study that another machine has recorded
        return None
    return record.run if (record := ledger.record(sweep.id, job)).tracked else None


def _upload(ledger: Ledger, tracker: Tracker, records: Sequence[Record], parent: str, here: bool = True) -> None:
    """Upload records, reusing the runs of earlier attempts.

    ``here``: whether the records are assigned to this tracker. If so, each record is claimed, uploaded and marked as
    tracked. A record that is already marked, but whose run is missing or incomplete, is uploaded again without a claim.
    """
    try:
        # Claim before listing runs; otherwise a record that another process uploads in the meantime would get two runs.
        ours = [record for record in records if not here or record.tracked or ledger.claims.wait_for_upload(record.id)]
        children: Mapping[str, Child] = tracker.children(parent, [record.tag for record in ours]) if ours else {}
        for record in ours:
            child = children.get(record.tag)
            at = RunPlacement(parent, record.tag, child.run_id if child else None)
            run = log_outcome(tracker, record.outcome, at)
            if record.kind == CONFIG:
                _tag_names(ledger, tracker, run, f"{record.sweep}#{record.job + 1}")
            if here:
                ledger.mark_tracked(record.id, run)
    finally:
        if here:
            ledger.claims.release(ClaimKey(UPLOAD))


def _tag_names(ledger: Ledger, tracker: Tracker, run: str, target: str) -> None:
    """Tag a run with the names, if any, that users gave to ``target``: the run's sweep, config or record."""
    if names := ledger.names.of(target):
        tracker.tag(run, {NAMES_TAG: ", ".join(names)})


def _span(record: Record) -> tuple[float, float]:
    """Return the start and the end of the evaluation of a recorded config, in seconds since 1970."""
    run = record.outcome if isinstance(record.outcome, Failure) else record.outcome.run
    return run.started, run.ended


def _sync_single(ledger: Ledger, tracker: Tracker, record: Record, contents: RunContents) -> bool:
    here, outcome = record.tracker == tracker.identity, record.outcome
    if here and not record.tracked and not ledger.claims.wait_for_upload(record.id):
        return False
    started, _ = _span(record)
    run_before = tracker.find({"ragsweep.kind": "config"}, started, record.run if here else None)
    if run_before and (record.tracked if here else tracker.has_ended(run_before)):
        return False
    at = RunPlacement(adopt=run_before)
    if isinstance(outcome, Result):
        evaluated = Evaluation(outcome, NO_ARTIFACTS)
        run = log_single(tracker, evaluated, at, partial(contents.of_config, outcome))
    else:
        run = tracker.log_failure(outcome, at)
    _tag_names(ledger, tracker, run, f"record {record.id}")
    if here:
        ledger.mark_tracked(record.id, run)
    return True
