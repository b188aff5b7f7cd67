"""Bring the tracker up to the ledger: complete what a kill or an outage left half shown, end what nobody works on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from ragsweep.closing import Parent, ending, looks
from ragsweep.errors import TrackingError
from ragsweep.ledger import FAILED, FINISHED, KILLED, WHOLE, Claim, Ledger, Record, Sweep
from ragsweep.recording import mirror, single
from ragsweep.report import artifacts
from ragsweep.report.tables import headline
from ragsweep.results import PARTIAL, Result
from ragsweep.sharing import door, key_of
from ragsweep.terminal import Terminal
from ragsweep.tracking import Child, Place, Tracker

SWEEP_TAG = "ragsweep.sweep"


def open_parent(ledger: Ledger, tracker: Tracker, sweep: Sweep, adopt: str | None) -> str:
    """Open a sweep's parent run, or find the one that a process made which died before it could note it."""
    parent = adopt or tracker.find({SWEEP_TAG: sweep.id})
    parent = tracker.open_sweep(sweep.name, {SWEEP_TAG: sweep.id}, {}, parent)
    if sweep.place == tracker.identity:
        ledger.set_parent(sweep.id, parent)
    return parent


def complete(ledger: Ledger, tracker: Tracker, sweep: Sweep, elsewhere: bool = False) -> Sweep:
    """Take up a sweep's parent run again and show its records that are not shown yet; end its runs without a record.

    Where the tracker knows nothing of the sweep (its database is gone), everything is shown anew. ``elsewhere``: other
    machines may be at it, whose runs have no record here.
    """
    parent = tracker.find({SWEEP_TAG: sweep.id})
    if parent:
        tracker.reopen_sweep(parent)
    else:
        ledger.forget_runs(sweep.id)
        parent = open_parent(ledger, tracker, sweep, None)
    records = [*ledger.records(sweep.id), *ledger.finals(sweep.id)]
    _show(ledger, tracker, [record for record in records if not record.mirrored], parent)
    if not elsewhere:
        tracker.end_abandoned(parent, [record.job for record in records])
    return replace(sweep, parent=parent)


def catch_up(ledger: Ledger, tracker: Tracker, sweep: Sweep, terminal: Terminal) -> None:
    """Show what processes left behind that died between the ledger and the tracker, while others went on."""
    left = [record for record in ledger.records(sweep.id) if not record.mirrored]
    if not tracker.identity or not left:
        return
    try:
        _show(ledger, tracker, left, sweep.parent)
    except TrackingError as fault:
        terminal.line("warning", str(fault))


def end_lost(tracker: Tracker, sweep: Sweep, elsewhere: bool) -> None:
    """End the runs that nobody will complete; a tracker out of reach is told of when the sweep is closed.

    ``elsewhere``: other machines may be at the sweep; of two runs of a trial that changed machines one is ended.
    """
    with suppress(TrackingError):
        if elsewhere:
            tracker.children(sweep.parent)
        else:
            tracker.end_abandoned(sweep.parent)  # a run whose making was answered to nobody


def close(ledger: Ledger, tracker: Tracker, sweep: Sweep, status: str, parent: Parent, terminal: Terminal) -> None:
    """End a sweep's parent run with all that it holds; a tracker out of reach gets it from `ragsweep sync` later."""
    try:
        tracker.close_sweep(sweep.parent, status, parent.files, parent.metrics, parent.tags)
        _tag(ledger, tracker, sweep, parent)
    except TrackingError as fault:
        terminal.line("warning", f"in {ledger.path}, but not in MLflow: {fault}; `ragsweep sync` sends it later")


def end_abandoned(ledger: Ledger, tracker: Tracker, terminal: Terminal) -> None:
    """Mark as KILLED the sweeps whose process is dead: they would be shown as running for ever."""
    for sweep in ledger.abandoned():
        if sweep.place != tracker.identity:
            continue
        terminal.line("killed", f'"{sweep.name}" was left by a process that died; the same command continues it')
        try:
            if sweep.parent:
                tracker.end_abandoned(sweep.parent)
                tracker.close_sweep(sweep.parent, KILLED, {}, {})
        except TrackingError as fault:
            terminal.line("warning", str(fault))
            continue
        ledger.set_status(sweep.id, KILLED)


def sync(ledger: Ledger, tracker: Tracker, terminal: Terminal, everything: bool) -> int:
    """Show what is in the ledger and not in the tracker; return how many records were sent.

    That is what was meant for this tracker and is not there: after an outage, or because its database is gone. With
    ``everything`` also what was tracked elsewhere, or not at all. What is there is found by its tags.
    """
    sent = 0
    for sweep in ledger.sweeps():
        if not everything and sweep.place != tracker.identity:
            continue
        key = key_of(sweep)  # who holds the door may be at finalists for hours
        if isinstance(taken := ledger.claim(key, WHOLE), Claim):
            terminal.line("running", f'"{sweep.name}" is left alone: {taken.holder} works on it')
            continue
        with door(ledger, key, terminal):
            if isinstance(taken := ledger.claim(sweep.id, WHOLE), Claim):
                terminal.line("running", f'"{sweep.name}" is left alone: {taken.holder} works on it')
                continue
            try:
                sent += sync_sweep(ledger, tracker, sweep)
            finally:
                ledger.release(sweep.id, WHOLE)
    singles = [record for record in ledger.singles() if everything or record.place == tracker.identity]
    return sent + sum(_sync_single(ledger, tracker, record) for record in singles)


def sync_sweep(ledger: Ledger, tracker: Tracker, sweep: Sweep) -> int:
    """Show what of a sweep the tracker lacks, and end its parent run; return how many records were sent."""
    here, trials = sweep.place == tracker.identity, ledger.records(sweep.id)
    records = [*trials, *ledger.finals(sweep.id)]
    parent = tracker.find({SWEEP_TAG: sweep.id})
    if parent and here:
        missing = [record for record in records if not record.mirrored]
    else:
        children = tracker.children(parent) if parent else {}
        shown = {job for job, child in children.items() if child.status in (FINISHED, FAILED)}
        missing = [record for record in records if record.job not in shown]
    if parent and not missing:
        return 0
    parent = open_parent(ledger, tracker, sweep, parent)
    _show(ledger, tracker, missing, parent, here)
    came = ending(ledger, trials)
    whole = [result for result in came.results if result.state != PARTIAL]
    expected = len(trials) if came.left and came.left.ended else len(sweep.jobs)  # a search may end early
    status = FINISHED if len(whole) == expected and not came.finals.failures else FAILED
    held = came.parent(sweep.name)
    tracker.close_sweep(parent, status, held.files, held.metrics, held.tags)
    if here:
        _tag(ledger, tracker, sweep, held)
    if here:
        ledger.set_status(sweep.id, status)
    return len(missing)


def _tag(ledger: Ledger, tracker: Tracker, sweep: Sweep, parent: Parent) -> None:
    """Tell each config's run what is known of it only when the sweep ends."""
    if parent.children:
        for record in ledger.records(sweep.id):
            if record.run and record.mirrored and record.job in parent.children:
                tracker.tag(record.run, parent.children[record.job])


def _show(ledger: Ledger, tracker: Tracker, records: Sequence[Record], parent: str, here: bool = True) -> None:
    """Show records, in the runs that earlier attempts left where there are any."""
    children: Mapping[int, Child] = tracker.children(parent, [record.job for record in records]) if records else {}
    for record in records:
        child = children.get(record.job)
        run = mirror(tracker, record.outcome, Place(parent, record.job, child.run_id if child else None))
        if here:
            ledger.mirrored(record.id, run)


def _sync_single(ledger: Ledger, tracker: Tracker, record: Record) -> int:
    here = record.place == tracker.identity
    left = tracker.find({"ragsweep.kind": "config"}, record.outcome.started)
    if left and (record.mirrored or not here):
        return 0
    run = mirror(tracker, record.outcome, Place(adopt=left))
    if isinstance(record.outcome, Result):
        shown, facts = headline([record.outcome]), single(record.outcome, looks(ledger, record.outcome))
        tracker.log_artifacts(run, artifacts(facts, [record.outcome], [], shown))
    if here:
        ledger.mirrored(record.id, run)
    return 1
