"""Keep what became of a job: in the ledger first, then on the screen and in the tracker, which may be out of reach."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ragsweep.errors import TrackingError
from ragsweep.ledger import Ledger, Sweep
from ragsweep.report import artifacts
from ragsweep.results import Failure, Result
from ragsweep.terminal import Terminal
from ragsweep.tracking import Tracker


@dataclass(frozen=True)
class Records:
    """Where one job's outcome goes; ``sweep`` is None for a config that is run by itself."""

    ledger: Ledger
    tracker: Tracker
    sweep: Sweep | None
    number: int

    def keep(self, result: Result, terminal: Terminal, headline: Sequence[str]) -> None:
        """Keep and show a result; in a sweep, once it is shown, it is everywhere.

        Raises TrackingError for a single config that cannot be tracked, after it is kept and shown.
        """
        record = self._write(result)
        if self.sweep:
            self._mirror(record, lambda: self._track(result, headline), terminal)
            terminal.finished(result, self.number, len(self.sweep.jobs), headline)
            return
        terminal.comparison([result], headline)
        run = self._track(result, headline)
        self.ledger.mirrored(record, run)
        terminal.look(self.tracker.look(), result.name, run)

    def keep_failure(self, failure: Failure, terminal: Terminal) -> None:
        """Keep and show a failure; one of a single config is shown by whoever catches it."""
        track = self.tracker.log_failure
        self._mirror(self._write(failure), lambda: track(failure, self._parent(), self._adopted()), terminal)
        if self.sweep:
            terminal.failed(failure, self.number, len(self.sweep.jobs))

    def _write(self, outcome: Result | Failure) -> int:
        return self.ledger.write(self.sweep.id if self.sweep else None, self.number, outcome)

    def _track(self, result: Result, headline: Sequence[str]) -> str:
        run = self.tracker.log_result(result, self._parent(), self._adopted())
        if not self.sweep:
            self.tracker.log_artifacts(run, artifacts(result.name, [result], [], headline))
        return run

    def _mirror(self, record: int, track: Callable[[], str], terminal: Terminal) -> None:
        """Track what is in the ledger already; where the tracker fails, nothing is lost and the user is told."""
        try:
            run = track()
        except TrackingError as fault:
            terminal.line("warning", f"in {self.ledger.path}, but not in MLflow: {fault}")
            return
        self.ledger.mirrored(record, run)

    def _parent(self) -> str | None:
        return self.sweep.parent if self.sweep else None

    def _adopted(self) -> str | None:
        """Return the run that ``mlflow run`` made for a single config."""
        return None if self.sweep else os.environ.get("MLFLOW_RUN_ID")
