"""A lazy connection to a tracking database or server, which raises MLflow's errors as TrackingError."""

from __future__ import annotations

import logging
import os
import shlex
import socket
import sqlite3
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from ragsweep.core.errors import TrackingError
from ragsweep.core.interruption import deadline, waiting_for
from ragsweep.parts.tracking import runs
from ragsweep.parts.tracking.database import (
    ADDRESS,
    check_database,
    check_uri,
    create_tables,
    database_path,
    is_server,
    mask_uri,
    mlflow_command,
    use_write_ahead_log,
)

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

WAY_OUT = f"check that it is writable, correct {ADDRESS}, or evaluate with tracking=none"
CHECK_SECONDS = 5.0
SILENCE_SECONDS = 60.0
"""Seconds without calls after a request to a server timed out; doubled by each timeout until calls succeed again."""
NOTICE_SECONDS, ANSWER_SECONDS = 10.0, 300.0
"""Seconds after which a message states that the server is slow, and the limit in seconds for all calls in one
``opened`` block. MLflow's own limit applies only to the time between two bytes."""

SETTINGS = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "MLFLOW_LOGGING_LEVEL": "WARNING",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_ENABLE_ASYNC_TRACE_LOGGING": "false",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
    "MLFLOW_HTTP_RESPECT_RETRY_AFTER_HEADER": "false",
}
"""Environment variables for MLflow that are set here unless the user has set them. MLflow's own limits are 120 s and
seven retries, but a retried request could create two runs of one config; `ragsweep sync` sends missed records instead.
"""


@dataclass(frozen=True)
class OpenRun:
    """A run that is being written; ``before`` is its earlier content if it existed before."""

    id: str
    experiment: str
    artifacts: str
    before: Run | None = None

    @classmethod
    def of(cls, run: Run, before: Run | None = None) -> OpenRun:
        """Extract the fields of an MLflow run that are needed for writing to it."""
        return cls(str(run.info.run_id), str(run.info.experiment_id), str(run.info.artifact_uri), before)


@dataclass
class Connection:
    """This process's connection to one tracking URI.

    It caches what many runs need: ``parents``, the runs of sweeps by id; ``experiments``, the ids of experiments by
    name; and ``prompts``, the registered versions by name and text (None if the registry is unavailable).
    """

    uri: str
    parents: dict[str, OpenRun] = field(default_factory=dict)
    experiments: dict[str, str] = field(default_factory=dict)
    prompts: dict[str, Any] | None = field(default_factory=dict)
    _is_ready: bool = False
    _silent_until: float = 0.0
    _silence: float = SILENCE_SECONDS

    @classmethod
    @cache
    def to(cls, uri: str) -> Connection:
        """Return this process's connection to a URI, which all trackers of that URI share."""
        return cls(uri)

    @cached_property
    def client(self) -> MlflowClient:
        """MLflow's client."""
        from mlflow import MlflowClient

        return MlflowClient(self.uri)

    @contextmanager
    def as_default(self, experiment: str) -> Generator[None, None, None]:
        """Within the block, make this URI and the experiment with this id MLflow's defaults.

        Some functions of MLflow ignore the URI of a client, and use the defaults.
        """
        import mlflow

        names = ("MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_ID")
        place, chosen = map(os.environ.get, names)  # mlflow.set_tracking_uri sets the first one, too
        mlflow.set_tracking_uri(self.uri)
        os.environ[names[1]] = experiment
        try:
            yield
        finally:
            mlflow.set_tracking_uri(cast(Any, place))
            os.environ.pop(names[1])
            os.environ.update({names[1]: chosen} if chosen is not None else {})

    def parent(self, run_id: str) -> OpenRun:
        """Return the run with this id, such as a sweep's, and cache it."""
        if run_id not in self.parents:
            self.parents[run_id] = OpenRun.of(self.client.get_run(run_id))
        return self.parents[run_id]

    def experiment(self, name: str) -> str:
        """Return the id of an experiment, which is created if it does not exist.

        Raises TrackingError for a deleted experiment.
        """
        from mlflow.exceptions import MlflowException

        ids = self.experiments
        if name in ids:
            return ids[name]
        experiment = self.client.get_experiment_by_name(name)
        if experiment is None:
            path = database_path(self.uri)
            try:
                place = (path.parent / "mlruns").as_uri() if path else None
                self.client.create_experiment(name, place, dict([runs.EXPERIMENT_KIND]))
            except MlflowException:  # unless another process created it first
                if (experiment := self.client.get_experiment_by_name(name)) is None:
                    raise
            else:
                return self.experiment(name)
        if experiment.lifecycle_stage == "deleted":
            place = f"MLFLOW_TRACKING_URI={shlex.quote(mask_uri(self.uri))} {mlflow_command()}"
            raise TrackingError(
                f'{mask_uri(self.uri)}: the experiment "{name}" was deleted; restore it with `{place} experiments '
                f"restore -x {experiment.experiment_id}`, or choose another with tracking.experiment or --experiment"
            )
        return ids.setdefault(name, str(experiment.experiment_id))

    def check(self) -> None:
        """Raise TrackingError if the database or server is clearly unusable; MLflow is not loaded."""
        check_uri(self.uri)
        with self._translated():
            if path := database_path(self.uri):
                check_database(self.uri, path)
        if is_server(self.uri):
            parts = urlsplit(self.uri)
            port = parts.port or (443 if parts.scheme == "https" else 80)
            try:
                socket.create_connection((parts.hostname or "", port), timeout=CHECK_SECONDS).close()
            except OSError as error:
                raise self._absent(str(error)) from None

    @contextmanager
    def opened(self, seconds: float | None = ANSWER_SECONDS) -> Generator[None, None, None]:
        """Configure MLflow, create its tables if needed, and raise its errors in the block as TrackingError.

        For a while after a request to a server timed out, TrackingError is raised immediately. ``seconds`` limits the
        total time of calls to a server, in the main thread only; None means no limit.
        """
        if time.monotonic() < self._silent_until:
            raise self._absent("a request timed out")
        with self._translated():
            if not self._is_ready:
                check_uri(self.uri)
                for name, value in SETTINGS.items():
                    os.environ.setdefault(name, value)
                logging.getLogger("alembic").setLevel(logging.WARNING)
                if path := database_path(self.uri):
                    check_database(self.uri, path)
                    create_tables(self.uri, path)
                    use_write_ahead_log(path)
                self._is_ready = True
            if not is_server(self.uri):
                yield
                return
            with waiting_for(mask_uri(self.uri), NOTICE_SECONDS), deadline(seconds):
                yield
            self._silence = SILENCE_SECONDS

    def _absent(self, reason: str) -> TrackingError:
        return TrackingError(
            f"{mask_uri(self.uri)}: no MLflow server answers ({reason}); start one, correct {ADDRESS}, or evaluate with"
            f" tracking=none; `ragsweep sync --uri {shlex.quote(mask_uri(self.uri))}` sends the results that it lacks"
            " (with --all, also those of tracking=none)"
        )

    @contextmanager
    def _translated(self) -> Generator[None, None, None]:
        """Raise an error of MLflow as a TrackingError on one line, without the secrets of the URI."""
        try:
            yield
        except _errors() as error:
            outage = error if isinstance(error, TimeoutError) else find_outage(error)
            if outage and is_server(self.uri):
                if outage is error or "timed out" in str(outage):
                    self._silent_until, self._silence = time.monotonic() + self._silence, 2 * self._silence
                    raise self._absent("a request timed out") from None
                raise self._absent("the connection failed") from None
            shown = mask_uri(self.uri)
            fact = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")[:500]
            fact = mask_uri(fact.replace(self.uri, shown))
            # The cause may quote the URI, so it is dropped if the URI contains secrets.
            raise TrackingError(f"{shown}: {fact}; {WAY_OUT}") from (error if shown == self.uri else None)


def find_outage(error: BaseException) -> BaseException | None:
    """Return the connection error or timeout that an error is, or that caused it; None if there is none."""
    from requests import ConnectionError, Timeout

    chain = (error, error.__cause__, error.__context__)
    return next((cause for cause in chain if isinstance(cause, ConnectionError | Timeout)), None)


def _errors() -> tuple[type[BaseException], ...]:
    """Return the exceptions that an unusable database or server raises; those of MLflow only if MLflow is loaded."""
    if "mlflow" not in sys.modules:
        return sqlite3.Error, OSError
    from mlflow.exceptions import MlflowException
    from sqlalchemy.exc import SQLAlchemyError

    return sqlite3.Error, OSError, MlflowException, SQLAlchemyError
