"""Bring the tracker up to the ledger: complete what a kill or an outage left half shown, end what nobody works on."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace

from ragsweep.core.errors import TrackingError
from ragsweep.core.leases import Holder
from ragsweep.core.results import PARTIAL, Result
from ragsweep.parts.tracking import Child, RunPlacement, Tracker
from ragsweep.records.claims import Claim
from ragsweep.records.ledger import FAILED, FINISHED, KILLED, RUNNING, SHOWING, WHOLE, Ledger, Record, Sweep
from ragsweep.report import artifacts
from ragsweep.report.tables import headline
from ragsweep.report.terminal import Terminal
from ragsweep.sweep.closing import Parent, ending, looks
from ragsweep.sweep.recording import mirror, single
from ragsweep.sweep.sharing import sweep_key

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
    at_work = [claim.job for claim in ledger.claims(sweep.id) if claim.lives]  # read first: else one is in neither
    left = ledger.unshown(sweep.id)
    _show(ledger, tracker, left, parent)
    if not elsewhere:
        tracker.end_abandoned(parent, [*at_work, *(record.job for record in left)])
    return replace(sweep, parent=parent)


def catch_up(ledger: Ledger, tracker: Tracker, sweep: Sweep, terminal: Terminal) -> None:
    """Show what processes left behind that died between the ledger and the tracker; who is at it is waited for."""
    left = ledger.unshown(sweep.id) if tracker.identity else []
    if not left:
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
        with _alone(ledger, sweep) as other:
            if not other and ledger.sweep(sweep.id).status == RUNNING:  # nobody has taken it up meanwhile
                _end_abandoned(ledger, tracker, sweep, terminal)


def _end_abandoned(ledger: Ledger, tracker: Tracker, sweep: Sweep, terminal: Terminal) -> None:
    terminal.line("killed", f'"{sweep.name}" was left by a process that died; the same command continues it')
    try:
        if sweep.parent:
            tracker.end_abandoned(sweep.parent)
            tracker.close_sweep(sweep.parent, KILLED, {}, {})
    except TrackingError as fault:
        terminal.line("warning", str(fault))
    else:
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
        with _alone(ledger, sweep) as other:
            if other:
                terminal.line("running", f'"{sweep.name}" is left alone: {other} works on it')
            else:
                sent += sync_sweep(ledger, tracker, sweep)
    singles = [record for record in ledger.singles() if everything or record.place == tracker.identity]
    return sent + sum(_sync_single(ledger, tracker, record) for record in singles)


@contextmanager
def _alone(ledger: Ledger, sweep: Sweep) -> Iterator[Holder | None]:
    """Keep others from a sweep and its door; yield who is at one of them, who is not waited for: it may take hours."""
    ours: list[str] = []
    try:
        for place in (sweep_key(sweep), sweep.id):
            if isinstance(taken := ledger.claim(place, WHOLE), Claim):
                yield taken.holder
                return
            ours.append(place)
        yield None
    finally:
        for place in ours:
            ledger.release(place, WHOLE)


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
    if parent and not missing and not (here and _is_left_open(tracker, sweep, parent, len(trials))):
        return 0
    if here and not parent:
        ledger.forget_runs(sweep.id)
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


def _is_left_open(tracker: Tracker, sweep: Sweep, parent: str, recorded: int) -> bool:
    """Return whether all of a sweep is there but its end: its closing was interrupted, or did not reach the tracker."""
    if sweep.status in (FINISHED, FAILED):
        return not tracker.has_ended(parent)
    return recorded >= len(sweep.jobs)


def _tag(ledger: Ledger, tracker: Tracker, sweep: Sweep, parent: Parent) -> None:
    """Tell each config's run what is known of it only when the sweep ends."""
    if parent.children:
        for record in ledger.records(sweep.id):
            if record.run and record.mirrored and record.job in parent.children:
                tracker.tag(record.run, parent.children[record.job])


def _show(ledger: Ledger, tracker: Tracker, records: Sequence[Record], parent: str, here: bool = True) -> None:
    """Show records, in the runs that earlier attempts left where there are any."""
    try:
        # Taken before the runs are read: who is at one of them in this moment makes a run of its own.
        ours = [record for record in records if not here or _take(ledger, record)]
        children: Mapping[int, Child] = tracker.children(parent, [record.job for record in ours]) if ours else {}
        for record in ours:
            child = children.get(record.job)
            run = mirror(tracker, record.outcome, RunPlacement(parent, record.job, child.run_id if child else None))
            if here:
                ledger.mirrored(record.id, run)
    finally:
        if here:
            ledger.release_mine(SHOWING)


def _take(ledger: Ledger, record: Record) -> bool:
    """Take it upon this process to show a record, unless that is done; who is at it is waited for."""
    while isinstance(taken := ledger.show(record.id), Claim):
        time.sleep(0.1)
    return taken


def _sync_single(ledger: Ledger, tracker: Tracker, record: Record) -> int:
    here = record.place == tracker.identity
    left = tracker.find({"ragsweep.kind": "config"}, record.outcome.started)
    if left and (record.mirrored or not here):
        return 0
    run = mirror(tracker, record.outcome, RunPlacement(adopt=left))
    if isinstance(record.outcome, Result):
        shown, facts = headline([record.outcome]), single(record.outcome, looks(ledger, record.outcome))
        tracker.log_artifacts(run, artifacts(facts, [record.outcome], [], shown))
    if here:
        ledger.mirrored(record.id, run)
    return 1
