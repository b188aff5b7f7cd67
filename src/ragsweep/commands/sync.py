"""`ragsweep sync`: upload records of the ledger that MLflow lacks."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from ragsweep.core.errors import InputError
from ragsweep.parts.tracking import Mlflow
from ragsweep.records.ledger import Ledger
from ragsweep.report.terminal import Terminal
from ragsweep.sweep import mlflow_sync

_ABOUT = """Send to MLflow what the ledger holds and MLflow lacks: after an outage, or where its database is gone.
What is there already is left alone. Rankings (TREC run files) are not in the ledger and so not sent."""


def sync(arguments: Sequence[str]) -> int:
    """Run ``ragsweep sync``; return the exit status."""
    parser = argparse.ArgumentParser("ragsweep sync", description=_ABOUT)
    parser.add_argument("--path", default=os.environ.get("RAGSWEEP_STORE", ".ragsweep"), help="folder of the ledger")
    parser.add_argument("--uri", help="as tracking.uri: MLFLOW_TRACKING_URI, else sqlite:///mlflow.db")
    parser.add_argument("--experiment", default="ragsweep")
    parser.add_argument("--all", action="store_true", help="also what was tracked elsewhere, or with tracking=none")
    flags = parser.parse_args(arguments)
    if not Path(flags.path, "ledger.db").exists():
        raise InputError(f"{flags.path}: no ledger.db in it; give the folder of store.path with --path")
    tracker, terminal = Mlflow(flags.uri, flags.experiment), Terminal.current()
    if risk := tracker.risk():
        terminal.line("warning", risk)
    tracker.check()
    sent = mlflow_sync.sync(Ledger(Path(flags.path)), tracker, terminal, flags.all)
    terminal.line("sync", f"{sent} result{'s' if sent != 1 else ''} sent" if sent else "nothing was missing")
    terminal.line("look", tracker.view_command())
    return 0
