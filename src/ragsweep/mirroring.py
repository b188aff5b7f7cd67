"""Bring the tracker up to the ledger: complete what a kill or an outage left half shown, end what nobody works on."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby

from ragsweep.errors import TrackingError
from ragsweep.ledger import FAILED, FINISHED, KILLED, Ledger, Record, Sweep
from ragsweep.recording import mirror
from ragsweep.terminal import Terminal
from ragsweep.tracking import Spot, Tracker


def show(ledger: Ledger, tracker: Tracker, record: Record, parent: str, run: str | None = None) -> None:
    """Show a record in the tracker, in the run that an earlier attempt made where there is one."""
    spot = Spot(parent, record.job, run or record.run) if record.sweep else Spot(None, record.id, record.run)
    ledger.mirrored(record.id, mirror(tracker, record.outcome, spot))


def complete(ledger: Ledger, tracker: Tracker, sweep: Sweep, terminal: Terminal) -> None:
    """Show a sweep's records that are not shown yet, and end its runs that have no record."""
    records = ledger.records(sweep.id)
    try:
        children = tracker.children(sweep.parent)
        for record in records:
            if not record.mirrored:
                child = children.get(record.job)
                show(ledger, tracker, record, sweep.parent, child.run_id if child else None)
        tracker.end_abandoned(sweep.parent, [record.job for record in records])
    except TrackingError as fault:
        terminal.line("warning", f"in {ledger.path}, but not in MLflow: {fault}")


def close(
    ledger: Ledger, tracker: Tracker, sweep: Sweep, status: str, files: Mapping[str, bytes], terminal: Terminal
) -> None:
    """End a sweep's parent run with its files; where the tracker is out of reach, `ragsweep sync` does it later."""
    try:
        tracker.close_sweep(sweep.parent, status, files, {})
    except TrackingError as fault:
        terminal.line("warning", f"in {ledger.path}, but not in MLflow: {fault}; `ragsweep sync` sends it later")


def end_abandoned(ledger: Ledger, tracker: Tracker, terminal: Terminal) -> None:
    """Mark as KILLED the sweeps whose process is dead: they would be shown as running for ever."""
    for sweep in ledger.abandoned():
        if sweep.place != tracker.place:
            continue
        terminal.line("killed", f'"{sweep.name}" was left by a process that died; the same command continues it')
        try:
            if sweep.parent:
                tracker.end_abandoned(sweep.parent, [])
                tracker.close_sweep(sweep.parent, KILLED, {}, {})
        except TrackingError as fault:
            terminal.line("warning", str(fault))
            continue
        ledger.set_status(sweep.id, KILLED)


def sync(ledger: Ledger, tracker: Tracker, terminal: Terminal) -> int:
    """Show everything that this tracker should show and does not; return how many records were sent."""
    waiting = ledger.unmirrored(tracker.place)
    for identifier, records in groupby(waiting, key=lambda record: record.sweep):
        some = list(records)
        if identifier is None:
            for record in some:
                show(ledger, tracker, record, "")
            continue
        sweep = ledger.sweep(identifier)
        ...
    return len(waiting)
