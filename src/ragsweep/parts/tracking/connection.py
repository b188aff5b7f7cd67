"""A connection to a tracking database or server; it loads MLflow when first needed and translates MLflow's errors."""

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
from urllib.request import getproxies, proxy_bypass

from ragsweep.core.errors import TrackingError
from ragsweep.core.interruption import deadline, waiting_for
from ragsweep.parts.tracking import runs
from ragsweep.parts.tracking.database import (
    ADDRESS,
    check_database,
    check_uri,
    create_tables,
    database_path,
    database_server,
    is_server,
    local_folder,
    mask_uri,
    mlflow_command,
    use_write_ahead_log,
)

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

_log = logging.getLogger(__name__)

WAY_OUT = f"check that the database is writable, correct {ADDRESS}, or evaluate with tracking=none"
CHECK_SECONDS = 5.0
SILENCE_SECONDS = 60.0
"""Seconds without calls after a request to a server has timed out; each subsequent timeout doubles this period, until a
call succeeds."""
NOTICE_SECONDS, ANSWER_SECONDS = 10.0, 300.0
"""Seconds after which a message reports that the server is slow, and maximum seconds for all calls in one ``opened``
block. MLflow's own limit applies only to the time between two bytes."""
TRACE_SECONDS = 1.0
"""Further seconds for each trace that is sent; a trace takes several calls."""

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
"""Environment variables for MLflow; ``Connection.opened`` sets those that are not yet set.

MLflow's defaults are a timeout of 120 s and seven retries. A retried request could create two runs of one config, so
requests are not retried; `ragsweep sync` sends records that are missing from MLflow.
"""


@dataclass(frozen=True)
class OpenRun:
    """A run that is being written; ``before`` is its state when it was reopened, or None for a new run.

    ``ended`` is the end time (seconds since 1970) that `Mlflow.close_sweep` records for a parent run; 0 means now.
    """

    id: str
    experiment: str
    artifacts: str
    before: Run | None = None
    ended: float = 0.0

    @classmethod
    def of(cls, run: Run, before: Run | None = None) -> OpenRun:
        """Return the fields of an MLflow run that are needed to write to it."""
        return cls(str(run.info.run_id), str(run.info.experiment_id), str(run.info.artifact_uri), before)


@dataclass
class Connection:
    """This process's connection to one tracking URI.

    It caches data that several calls need. ``runs`` maps the id of a run to the run, and ``experiments`` maps the name
    of an experiment to its id. ``prompts`` maps the name and content of a prompt to its registered version; ``prompts``
    is None if prompts cannot be registered.
    """

    uri: str
    runs: dict[str, OpenRun] = field(default_factory=dict)
    experiments: dict[str, str] = field(default_factory=dict)
    prompts: dict[str, Any] | None = field(default_factory=dict)
    _is_ready: bool = False
    _silent_until: float = 0.0
    _silence: float = SILENCE_SECONDS

    @classmethod
    @cache
    def to(cls, uri: str) -> Connection:
        """Return this process's connection to a URI; all trackers with the same URI share it."""
        return cls(uri)

    @cached_property
    def client(self) -> MlflowClient:
        """The MLflow client of this URI."""
        from mlflow import MlflowClient

        return MlflowClient(self.uri)

    @contextmanager
    def as_default(self, experiment: str) -> Generator[None, None, None]:
        """Make this URI and the experiment with the id ``experiment`` MLflow's defaults within a ``with`` block.

        Some functions of MLflow use the default URI and experiment, not the client's.
        """
        import mlflow

        names = ("MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_ID")
        place, chosen = map(os.environ.get, names)  # mlflow.set_tracking_uri also sets the first variable
        mlflow.set_tracking_uri(self.uri)
        os.environ[names[1]] = experiment
        try:
            yield
        finally:
            mlflow.set_tracking_uri(cast(Any, place))
            os.environ.pop(names[1])
            os.environ.update({names[1]: chosen} if chosen is not None else {})

    def run(self, run_id: str) -> OpenRun:
        """Return the run ``run_id``; a run that this process did not open is read from MLflow, only once."""
        if run_id not in self.runs:
            self.runs[run_id] = OpenRun.of(self.client.get_run(run_id))
        return self.runs[run_id]

    def experiment(self, name: str) -> str:
        """Return the id of the experiment with this name; create the experiment if it does not exist.

        Raises TrackingError if the experiment was deleted.
        """
        from mlflow.exceptions import MlflowException

        ids = self.experiments
        if name in ids:
            return ids[name]
        experiment = self.client.get_experiment_by_name(name)
        beside = path.parent / "mlruns" if (path := database_path(self.uri)) else None
        if experiment is None:
            try:
                made = self.client.create_experiment(
                    name, beside.as_uri() if beside else None, dict([runs.EXPERIMENT_KIND])
                )
                return ids.setdefault(name, str(made))
            except MlflowException:  # perhaps because another process has created it
                if (experiment := self.client.get_experiment_by_name(name)) is None:
                    raise
        if experiment.lifecycle_stage == "deleted":
            place = f"MLFLOW_TRACKING_URI={shlex.quote(mask_uri(self.uri))} {mlflow_command()}"
            raise TrackingError(
                f'{mask_uri(self.uri)}: the experiment "{name}" was deleted; restore it with `{place} experiments '
                f"restore -x {experiment.experiment_id}`, or choose another with tracking.experiment or --experiment"
            )
        folder, is_ours = local_folder(str(experiment.artifact_location)), runs.EXPERIMENT_KIND[0] in experiment.tags
        # The folder of an experiment that a server created is a numbered subfolder of the server's artifact root.
        if is_ours and beside and folder and folder.name == beside.name and folder.resolve() != beside.resolve():
            _log.warning(
                'MLflow\'s database was moved: the experiment "%s" still has its files in %s, not in %s;'
                " move the database back, or start another experiment with tracking.experiment=NAME",
                *(name, folder, beside),
            )
        return ids.setdefault(name, str(experiment.experiment_id))

    def check(self) -> None:
        """Raise TrackingError if the URI is invalid, a database file is unusable, or a server accepts no connection.

        MLflow is not loaded: it would retry the connection to a database for minutes. The folders of a database file
        are created. A server that is reached through a proxy is not contacted.
        """
        check_uri(self.uri)
        with self._translated():
            if path := database_path(self.uri):
                check_database(self.uri, path)
        if is_server(self.uri):
            parts = urlsplit(self.uri)
            proxies = getproxies()
            if (proxies.get(parts.scheme) or proxies.get("all")) and not proxy_bypass(parts.hostname or ""):
                return
            self._reach(parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80))
        elif place := database_server(self.uri):
            self._reach(*place)

    def _reach(self, host: str, port: int) -> None:
        try:
            socket.create_connection((host, port), timeout=CHECK_SECONDS).close()
        except OSError as error:
            raise self._absent(str(error)) from None

    @contextmanager
    def opened(self, seconds: float | None = ANSWER_SECONDS) -> Generator[None, None, None]:
        """Prepare MLflow for a ``with`` block, and convert MLflow's errors in the block to TrackingError.

        At first use, MLflow is configured, and the tables of a database file are created if it has none. For some time
        after a request has timed out (see SILENCE_SECONDS), TrackingError is raised without contacting the server.
        ``seconds`` limits the total time of calls to a server, but only in the main thread; None means no limit.
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
                    if not check_database(self.uri, path):
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
        kind = "MLflow" if is_server(self.uri) else "database"
        return TrackingError(
            f"{mask_uri(self.uri)}: no {kind} server answers ({reason}); start one, correct {ADDRESS}, or evaluate with"
            " tracking=none and send the results later with `ragsweep sync --all`"
        )

    @contextmanager
    def _translated(self) -> Generator[None, None, None]:
        """Raise errors of MLflow, SQLite and the operating system as TrackingError.

        The message is a single line, in which the secrets of the URI are masked.
        """
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
    """Return the connection error or timeout among an error, its cause and its context; None if there is none."""
    from requests import ConnectionError, Timeout

    chain = (error, error.__cause__, error.__context__)
    return next((cause for cause in chain if isinstance(cause, ConnectionError | Timeout)), None)


def _errors() -> tuple[type[BaseException], ...]:
    """Return the types of exceptions that an unusable database or server causes.

    Exceptions of MLflow and SQLAlchemy are included only if MLflow is loaded.
    """
    if "mlflow" not in sys.modules:
        return sqlite3.Error, OSError
    from mlflow.exceptions import MlflowException
    from sqlalchemy.exc import SQLAlchemyError

    return sqlite3.Error, OSError, MlflowException, SQLAlchemyError
