"""Write job outcomes: first to the ledger, then to the tracker, which may be unreachable, and to the terminal."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ragsweep.core.errors import TrackingError
from ragsweep.core.question_results import QuestionResults
from ragsweep.core.results import NO_ARTIFACTS, Artifacts, DatasetFacts, Evaluation, Failure, HumanLabel, Result
from ragsweep.core.secrets import Secrets
from ragsweep.parts.tracking import RunPlacement, Tracker
from ragsweep.records.claims import CONFIG, UPLOAD, ClaimKey, job_tag
from ragsweep.report.naming import number_configs
from ragsweep.report.tables import headline
from ragsweep.sweep.composing.trees import OPERATIONAL

if TYPE_CHECKING:
    from ragsweep.records.ledger import Ledger, Sweep
    from ragsweep.report.terminal import Terminal
    from ragsweep.sweep.running.session import Session

_JUDGING = {"objective", *OPERATIONAL} - {"store", "tracking"}
"""Config keys whose values, such as names of metrics, are never masked, because reports and comparisons read them."""

_KEYED = ("config", "metrics", "first_stage")
"""Mappings in a result whose keys, the names of settings and metrics, are never masked."""

Outcome = TypeVar("Outcome", Result, Failure)


@dataclass
class RunContext:
    """The objects and settings that the jobs of one command share."""

    session: Session
    tracker: Tracker
    terminal: Terminal
    secrets: Secrets
    sweep: Sweep | None = None  # None for a single config, before the sweep runs, and in a worker that sends outcomes
    search: Mapping[str, Any] | None = None  # the sweeper's settings, if results decide the next jobs
    labels: Sequence[HumanLabel] = ()  # human labels, which correct the verdict
    tracking_faults: set[str] = field(default_factory=set)  # messages of faults that have been printed
    is_worker: bool = False  # whether this is a worker process, whose sweep another process completes

    @property
    def ledger(self) -> Ledger:
        """The ledger of the command's store."""
        return self.session.ledger

    @property
    def sync_command(self) -> str:
        """The command, in backquotes, with which the user can later send missing results to the tracker."""
        folder = str(self.session.folder.absolute())
        is_usual = folder == str(Path(os.environ.get("RAGSWEEP_STORE", ".ragsweep")).absolute())
        options = [*self.tracker.sync_options(), *([] if is_usual else [f"--path={folder}"])]
        command = shlex.join(["ragsweep", "sync", *options])
        return f"`{command}`{' (replace *** with the credentials)' if '***' in command else ''}"

    def warn_untracked(self, what: str, fault: TrackingError) -> None:
        """Print that ``what`` is not in the tracker; print each fault, with a remedy, only once.

        A worker prints no fault: the command of its sweep later sends the missing content, or prints the fault.
        """
        text = f"{what} is not in MLflow{' yet' if self.is_worker else ', either'}"
        if not self.is_worker and str(fault) not in self.tracking_faults:
            self.tracking_faults.add(str(fault))
            text = f"{what} is in {self.ledger.path}, but not in MLflow: {fault}; {self.sync_command} sends it later"
        self.terminal.line("warning", text)


@dataclass(frozen=True)
class TrackedContent:
    """The content of a sweep's parent run, or of a single config's run, in the tracker."""

    files: Mapping[str, bytes] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    children: Mapping[int, Mapping[str, str]] = field(default_factory=dict)  # job -> tags derived from the whole sweep
    tables: Mapping[int, bytes] = field(default_factory=dict)  # job -> table of its questions
    dataset: DatasetFacts | None = None


@dataclass(frozen=True)
class OutcomeWriter:
    """A writer of one job's outcome to the ledger, the tracker and the terminal, with secrets masked."""

    context: RunContext  # without a sweep, the job is a single config
    number: int
    kind: str = CONFIG  # or FINALIST
    position: tuple[int, int] | None = None  # index and total to show; None: the job's number and the number of jobs
    fenced: bool = False  # whether the job may be reassigned to another process; a late result then raises InputError

    def record(self, result: Result) -> tuple[Result, int]:
        """Record a result in the ledger, with secrets masked; return the masked result and the id of its record."""
        result = masked(result, self.context.secrets)
        return result, self._write(result)

    def keep(self, result: Result, artifacts: Artifacts) -> None:
        """Record the result of a job in a sweep, log it to the tracker, and print it."""
        result, record = self.record(result)
        self._track(record, result, mask_traces(artifacts, self.context.secrets))
        self.context.terminal.finished(result, *self._position, headline([result]))

    def keep_dropped(self, result: Result) -> None:
        """Record and track the result of a config that a race has dropped, without showing it."""
        result, record = self.record(result)
        self._track(record, result)

    def keep_failure(self, failure: Failure) -> None:
        """Record and track a failure, and show it if the job is part of a sweep; otherwise the caller shows it."""
        failure = masked(failure, self.context.secrets)
        self._track(self._write(failure), failure)
        if self.context.sweep:
            self.context.terminal.failed(failure, *self._position)

    def track_single(self, record: int, evaluated: Evaluation, content: Callable[[], TrackedContent]) -> str:
        """Log the result of a single config to the tracker; return the run's id. Raises TrackingError on failure."""
        ledger = self.context.ledger
        if not ledger.claims.wait_for_upload(record):  # `ragsweep sync` has sent it
            return ledger.run(record) or ""
        try:
            run = log_single(self.context.tracker, evaluated, self.placement(record), content)
        except TrackingError as fault:
            command = self.context.sync_command
            text = f"the result is in the ledger, but not in MLflow: {fault}; {command} sends it later"
            raise TrackingError(text) from None
        else:
            ledger.mark_tracked(record, run)
            return run
        finally:
            ledger.claims.release(ClaimKey(UPLOAD))

    @property
    def _position(self) -> tuple[int, int]:
        return self.position or (self.number, len(self.context.sweep.jobs) if self.context.sweep else 1)

    def _write(self, outcome: Result | Failure) -> int:
        sweep = self.context.sweep.id if self.context.sweep else None
        identity = self.context.tracker.identity
        return self.context.ledger.write(sweep, self.number, outcome, identity, self.kind, self.fenced)

    def _track(self, record: int, outcome: Result | Failure, artifacts: Artifacts = NO_ARTIFACTS) -> None:
        """Log the outcome of a record to the tracker; a failing tracker only causes a warning.

        Do nothing without a tracker, or if another process has uploaded the record or is uploading it.
        """
        ledger, tracker = self.context.ledger, self.context.tracker
        if not tracker.identity:
            return
        if ledger.claims.claim_upload(record) is not True:  # the record is uploaded, or another process is uploading it
            return
        try:
            run = log_outcome(tracker, outcome, self.placement(record), artifacts)
        except TrackingError as fault:
            self.context.warn_untracked(f"config #{self.number + 1}", fault)
        else:
            ledger.mark_tracked(record, run)
        finally:
            ledger.claims.release(ClaimKey(UPLOAD))

    def placement(self, record: int) -> RunPlacement:
        """Return the location of a record's run in the tracker: its parent run, its job's tag, and any run to reuse."""
        if sweep := self.context.sweep:
            return RunPlacement(sweep.parent, job_tag(self.kind, self.number), self.context.ledger.run(record))
        return RunPlacement(adopt=os.environ.get("MLFLOW_RUN_ID"))  # the run that `mlflow run` created


def masked(outcome: Outcome, secrets: Secrets) -> Outcome:
    """Return an outcome with its secrets masked.

    In a result, the ids of questions, the names of metrics, columns and settings, and the values of the `_JUDGING`
    settings are never masked.
    """
    if isinstance(outcome, Failure):
        failure: Failure = secrets.mask_values(outcome)
        return failure
    run, summaries = outcome.run, outcome.summaries
    words = {name: getattr(run, name) for name in ("name", "overrides", "parameters", "warnings")}
    words["config"] = {key: value for key, value in run.config.items() if key not in _JUDGING}
    words["notes"] = run.dataset.notes
    scores = {name: getattr(summaries, name) for name in ("metrics", "groups", "first_stage", "targets")}
    hidden, scores = _mask_values(words, secrets), _mask_values(scores, secrets)
    hidden["config"] = {**run.config, **hidden["config"]}
    hidden["dataset"] = replace(run.dataset, notes=hidden.pop("notes"))
    questions = _mask_questions(outcome.questions, secrets)
    return Result(replace(run, **hidden), questions, replace(summaries, **scores))


def mask_traces(artifacts: Artifacts, secrets: Secrets) -> Artifacts:
    """Return artifacts with the secrets in their traces masked.

    The other artifacts contain only ids, numbers and the config's name, which is already masked.
    """
    return replace(artifacts, traces=secrets.mask_values(list(artifacts.traces)))


def _mask_values(words: Mapping[str, Any], secrets: Secrets) -> dict[str, Any]:
    return {
        name: {key: secrets.mask_values(item) for key, item in value.items()}
        if name in _KEYED
        else secrets.mask_values(value)
        for name, value in words.items()
    }


def _mask_questions(questions: QuestionResults, secrets: Secrets) -> QuestionResults:
    columns = {name: column for name, column in questions.items() if _is_text(name, column)}
    hidden = {name: secrets.mask_values(column) for name, column in columns.items()}
    steps = {
        name: replace(step, model=secrets.mask_values(step.model), words=secrets.mask_values(step.words))
        for name, step in questions.steps.items()
    }
    unscored = secrets.mask_values(questions.unscored)
    return replace(questions.with_columns(hidden), unscored=unscored, steps=steps)


def _is_text(name: str, column: Sequence[Any]) -> bool:
    """Return whether a column has strings or mappings, as determined by its first value that is not None.

    Return False for the column ``question_id``, and for a column that is an array or contains only None.
    """
    if name == "question_id" or not isinstance(column, list | tuple):
        return False
    return isinstance(next((value for value in column if value is not None), None), str | Mapping)


def log_outcome(
    tracker: Tracker, outcome: Result | Failure, at: RunPlacement, artifacts: Artifacts = NO_ARTIFACTS
) -> str:
    """Log an outcome to the tracker and return the run's id; in a sweep, prefix the config's name with its number."""
    if at.parent and at.job and at.job.isdigit():
        outcome = outcome.renamed(number_configs({int(at.job): outcome.name})[int(at.job)])
    if isinstance(outcome, Result):
        return tracker.log_result(outcome, at, artifacts)
    return tracker.log_failure(outcome, at)


def log_single(tracker: Tracker, evaluated: Evaluation, at: RunPlacement, content: Callable[[], TrackedContent]) -> str:
    """Log a single config's result, and the files and the table of its content, to the tracker; return the run's id.

    ``content`` is not called without a tracker.
    """
    run = tracker.log_result(evaluated.result, at, evaluated.artifacts)
    if tracker.identity:  # drawing the charts of the content takes longer than everything else
        made = content()
        tracker.log_artifacts(run, made.files)
        tracker.log_table(run, made.tables[0])
    return run
