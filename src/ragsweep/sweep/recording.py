"""Write the outcome of a job: to the ledger first, then to the screen and the tracker, which may be out of reach."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from ragsweep.core.errors import TrackingError
from ragsweep.core.results import Failure, Result
from ragsweep.core.secrets import Secrets, texts
from ragsweep.parts.tracking import RunPlacement, Tracker
from ragsweep.records.claims import CONFIG, job_tag
from ragsweep.records.ledger import Ledger, Sweep
from ragsweep.report import artifacts
from ragsweep.report.terminal import Terminal
from ragsweep.report.verdict import looks_line
from ragsweep.sweep.command import OPERATIONAL

_JUDGING = frozenset({"objective", *OPERATIONAL})
"""Keys of a config by which its results are read: names of metrics, numbers, places."""

_WORDS = ("name", "overrides", "parameters", "warnings", "error", "traceback")

Kept = TypeVar("Kept", Result, Failure)


@dataclass(frozen=True)
class OutcomeWriter:
    """Write one job's outcome everywhere; ``sweep`` is None for a single config.

    ``fenced``: the job may be given to another process; a result that comes too late then raises InputError.
    """

    ledger: Ledger
    tracker: Tracker
    sweep: Sweep | None
    number: int
    kind: str = CONFIG
    position: tuple[int, int] | None = None  # shown on the screen, with the total; None: the job's number
    fenced: bool = False
    secrets: Secrets = field(default_factory=Secrets)

    def keep(self, result: Result, terminal: Terminal, headline: Sequence[str]) -> None:
        """Keep and show a result; in a sweep it is shown last, when it is everywhere else.

        Raises TrackingError for a single config that cannot be tracked, after it is kept and shown.
        """
        result = masked(result, self.secrets)
        record = self._write(result)
        if self.sweep:
            self._track(record, result, terminal)
            terminal.finished(result, *self._position(self.sweep), headline)
            return
        terminal.comparison([result], headline)
        views = self.ledger.holdout_views(result.dataset.undivided)
        terminal.lines(looks_line(views))
        run = log_outcome(self.tracker, result, self._placement(record))
        if self.tracker.identity:  # drawing pictures takes longer than all the rest
            self.tracker.log_artifacts(run, artifacts(single_facts(result, views), [result], [], headline))
        self.ledger.mark_tracked(record, run)
        terminal.look(self.tracker.view_command(), result.name, run)

    def keep_rung(self, result: Result) -> None:
        """Keep the scores so far of a config that is still in a race, in the ledger only."""
        self._write(masked(result, self.secrets))

    def keep_dropped(self, result: Result, terminal: Terminal) -> None:
        """Keep the scores of a config that a race has dropped."""
        result = masked(result, self.secrets)
        self._track(self._write(result), result, terminal)

    def keep_failure(self, failure: Failure, terminal: Terminal) -> None:
        """Keep and show a failure; that of a single config is shown by the caller."""
        failure = masked(failure, self.secrets)
        self._track(self._write(failure), failure, terminal)
        if self.sweep:
            terminal.failed(failure, *self._position(self.sweep))

    def _position(self, sweep: Sweep) -> tuple[int, int]:
        return self.position or (self.number, len(sweep.jobs))

    def _write(self, outcome: Result | Failure) -> int:
        sweep = self.sweep.id if self.sweep else None
        return self.ledger.write(sweep, self.number, outcome, self.tracker.identity, self.kind, self.fenced)

    def _track(self, record: int, outcome: Result | Failure, terminal: Terminal) -> None:
        """Track a record of the ledger; a tracker that fails is a warning, and nothing is lost."""
        if not self.tracker.identity:
            return
        if self.ledger.claims.claim_upload(record) is not True:  # a command that resumes the sweep does it
            return
        try:
            run = log_outcome(self.tracker, outcome, self._placement(record))
        except TrackingError as fault:
            terminal.line("warning", f"in {self.ledger.path}, but not in MLflow: {fault}")
        else:
            self.ledger.mark_tracked(record, run)
        finally:
            self.ledger.claims.release_uploads()

    def _placement(self, record: int) -> RunPlacement:
        if self.sweep:
            return RunPlacement(self.sweep.parent, job_tag(self.kind, self.number), self.ledger.run(record))
        return RunPlacement(adopt=os.environ.get("MLFLOW_RUN_ID"))  # the run that `mlflow run` made


def masked(outcome: Kept, secrets: Secrets) -> Kept:
    """Mask all secrets in an outcome; keys, and the settings by which a config is judged, stay."""
    words: dict[str, Any] = {name: getattr(outcome, name) for name in _WORDS if hasattr(outcome, name)}
    if isinstance(outcome, Result):
        words["config"] = {key: value for key, value in outcome.config.items() if key not in _JUDGING}
        words["dataset"] = outcome.dataset.notes
        words["outcomes"] = {name: column for name, column in outcome.outcomes.items() if _is_text(name, column)}
    distinct = {**words, "outcomes": [list(set(column)) for column in words.get("outcomes", {}).values()]}
    if not secrets.has_secret("\n".join(texts(distinct))):
        return outcome
    hidden = secrets.mask_values(words)
    if isinstance(outcome, Result):
        hidden["config"] = {**outcome.config, **hidden["config"]}
        hidden["dataset"] = replace(outcome.dataset, notes=hidden["dataset"])
        hidden["outcomes"] = {**outcome.outcomes, **hidden["outcomes"]}
    return replace(outcome, **hidden)


def _is_text(name: str, column: Sequence[Any]) -> bool:
    """Return whether a column holds texts; its values are of one type, or None."""
    if name == "question_id" or not isinstance(column, list | tuple):
        return False
    return isinstance(next((value for value in column if value is not None), None), str)


def single_facts(result: Result, views: int) -> dict[str, object]:
    """Return the facts of a single config that results.json has in place of a sweep's."""
    return {"name": result.name, "holdout_looks": views}


def log_outcome(tracker: Tracker, outcome: Result | Failure, at: RunPlacement) -> str:
    """Log an outcome to the tracker, and return the run's id."""
    if isinstance(outcome, Result):
        return tracker.log_result(outcome, at)
    return tracker.log_failure(outcome, at)
