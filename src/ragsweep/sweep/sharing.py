"""Let several commands work on one search: one at a time opens or leaves it, and the last to leave closes it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from ragsweep.records.ledger import RUNNING, Ledger, Sweep
from ragsweep.report.terminal import Terminal

PATIENCE = 2.0
"""Seconds of waiting after which the user is told."""


@contextmanager
def exclusive(ledger: Ledger, key: str, terminal: Terminal) -> Iterator[None]:
    """Exclude other commands from opening, joining, leaving or closing a sweep of this key."""
    begun, reported = time.monotonic(), False
    while taken := ledger.claims.claim_key(key):
        if not reported and time.monotonic() - begun > PATIENCE:
            terminal.line("waits", f"{taken.holder} opens or closes this search")
            reported = True
        time.sleep(0.1)
    try:
        yield
    finally:
        ledger.claims.release_key(key)


def sweep_key(sweep: Sweep) -> str:
    """Return the key of a sweep, which it shares with its earlier rounds."""
    return sweep.id.rpartition("-")[0]


def leave(ledger: Ledger, sweep: Sweep) -> str:
    """Leave a sweep that another process closes, and return which; an empty text where this process is to close it."""
    others = ledger.claims.others(sweep.id)
    if not others and ledger.sweep(sweep.id).status == RUNNING:
        return ""
    ledger.claims.leave_sweep(sweep.id)
    if not others:
        return "another process has closed this search already"
    return f"{' and '.join(map(str, others))} at work on this search; the last to end writes the verdict"
