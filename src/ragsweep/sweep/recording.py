"""Keep what became of a job: in the ledger first, then on the screen and in the tracker, which may be out of reach."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from ragsweep.core.errors import TrackingError
from ragsweep.core.results import Failure, Result
from ragsweep.core.secrets import Secrets, texts
from ragsweep.parts.tracking import RunPlacement, Tracker
from ragsweep.records.ledger import SHOWING, Ledger, Sweep
from ragsweep.report import artifacts
from ragsweep.report.terminal import Terminal
from ragsweep.report.verdict import looks_line
from ragsweep.sweep.command import OPERATIONAL

_JUDGING = frozenset({"objective", *OPERATIONAL})
"""Keys of a config by which its results are read: names of metrics, numbers, places."""

_WORDS = ("name", "overrides", "parameters", "warnings", "error", "traceback")

Kept = TypeVar("Kept", Result, Failure)


@dataclass(frozen=True)
class Records:
    """Where one job's outcome goes; ``sweep`` is None for a config that is run by itself.

    ``fenced``: the job may be given to another process; then what comes too late is refused with an InputError.
    """

    ledger: Ledger
    tracker: Tracker
    sweep: Sweep | None
    number: int
    place: tuple[int, int] | None = None  # what is shown: the how manyth of how many; None: as the sweep counts
    fenced: bool = False
    secrets: Secrets = field(default_factory=Secrets)

    def keep(self, result: Result, terminal: Terminal, headline: Sequence[str]) -> None:
        """Keep and show a result; in a sweep, once it is shown, it is everywhere.

        Raises TrackingError for a single config that cannot be tracked, after it is kept and shown.
        """
        result = masked(result, self.secrets)
        record = self._write(result)
        if self.sweep:
            self._mirror(record, result, terminal)
            terminal.finished(result, *self._place(self.sweep), headline)
            return
        terminal.comparison([result], headline)
        looks = self.ledger.looks(result.dataset.undivided)
        terminal.lines(looks_line(looks))
        run = mirror(self.tracker, result, self._at(record))
        if self.tracker.identity:  # to draw pictures takes longer than all the rest
            self.tracker.log_artifacts(run, artifacts(single(result, looks), [result], [], headline))
        self.ledger.mirrored(record, run)
        terminal.look(self.tracker.view_command(), result.name, run)

    def keep_rung(self, result: Result) -> None:
        """Keep what a config shows that is still in a race; nobody else is told."""
        self._write(masked(result, self.secrets))

    def keep_dropped(self, result: Result, terminal: Terminal) -> None:
        """Keep what a config showed that a race has dropped, once: nothing more is asked of it."""
        result = masked(result, self.secrets)
        self._mirror(self._write(result), result, terminal)

    def keep_failure(self, failure: Failure, terminal: Terminal) -> None:
        """Keep and show a failure; one of a single config is shown by whoever catches it."""
        failure = masked(failure, self.secrets)
        self._mirror(self._write(failure), failure, terminal)
        if self.sweep:
            terminal.failed(failure, *self._place(self.sweep))

    def _place(self, sweep: Sweep) -> tuple[int, int]:
        return self.place or (self.number, len(sweep.jobs))

    def _write(self, outcome: Result | Failure) -> int:
        sweep = self.sweep.id if self.sweep else None
        return self.ledger.write(sweep, self.number, outcome, self.tracker.identity, self.fenced)

    def _mirror(self, record: int, outcome: Result | Failure, terminal: Terminal) -> None:
        """Track what is in the ledger already; where the tracker fails, nothing is lost and the user is told."""
        if not self.tracker.identity:  # nothing is tracked
            return
        if self.ledger.show(record) is not True:  # a command that goes on where another was killed has found it
            return
        try:
            run = mirror(self.tracker, outcome, self._at(record))
        except TrackingError as fault:
            terminal.line("warning", f"in {self.ledger.path}, but not in MLflow: {fault}")
        else:
            self.ledger.mirrored(record, run)
        finally:
            self.ledger.release_mine(SHOWING)

    def _at(self, record: int) -> RunPlacement:
        if self.sweep:
            return RunPlacement(self.sweep.parent, self.number, self.ledger.run(record))
        return RunPlacement(adopt=os.environ.get("MLFLOW_RUN_ID"))  # the run that `mlflow run` made


def masked(outcome: Kept, secrets: Secrets) -> Kept:
    """Replace all secrets in what became of a job; keys, and what says how a config is judged, stay."""
    words: dict[str, Any] = {name: getattr(outcome, name) for name in _WORDS if hasattr(outcome, name)}
    if isinstance(outcome, Result):
        words["config"] = {key: value for key, value in outcome.config.items() if key not in _JUDGING}
        words["dataset"] = outcome.dataset.notes
        words["outcomes"] = {name: column for name, column in outcome.outcomes.items() if _is_text(name, column)}
    if not secrets.holds("\n".join(texts(words))):
        return outcome
    hidden = secrets.mask_values(words)
    if isinstance(outcome, Result):
        hidden["config"] = {**outcome.config, **hidden["config"]}
        hidden["dataset"] = replace(outcome.dataset, notes=hidden["dataset"])
        hidden["outcomes"] = {**outcome.outcomes, **hidden["outcomes"]}
    return replace(outcome, **hidden)


def _is_text(name: str, column: Sequence[Any]) -> bool:
    return name != "question_id" and isinstance(column, list | tuple) and any(isinstance(one, str) for one in column)


def single(result: Result, looks: int) -> dict[str, object]:
    """Say what is said of a config by itself where a sweep has a name."""
    return {"name": result.name, "holdout_looks": looks}


def mirror(tracker: Tracker, outcome: Result | Failure, at: RunPlacement) -> str:
    """Show an outcome in the tracker, and return the run's id."""
    if isinstance(outcome, Result):
        return tracker.log_result(outcome, at)
    return tracker.log_failure(outcome, at)
