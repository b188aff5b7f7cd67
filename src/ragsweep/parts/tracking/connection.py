"""The connection of this process to one place: loaded late, made ready once, and what is known of the place since."""

from __future__ import annotations

import logging
import os
import sqlite3
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ragsweep.core.errors import TrackingError
from ragsweep.parts.tracking import place, server, tables

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run


@dataclass(frozen=True)
class Opened:
    """A run that is written to; ``before`` is what it held already, where it was adopted."""

    id: str
    experiment: str
    artifacts: str
    before: Run | None = None

    @classmethod
    def of(cls, run: Run, before: Run | None = None) -> Opened:
        """Take from a run of MLflow what is needed to write to it."""
        return cls(str(run.info.run_id), str(run.info.experiment_id), str(run.info.artifact_uri), before)


@dataclass
class Connection:
    """This process's connection to one place; like MLflow's own it is shared by all trackers.

    ``homes`` are runs that are written to again and again: sweeps. ``rankings`` are the files (run, name) that are
    known to be there, ``experiments`` the ids by name.
    """

    uri: str
    line: server.Line
    homes: dict[str, Opened] = field(default_factory=dict)
    experiments: dict[str, str] = field(default_factory=dict)
    rankings: set[tuple[str, str]] = field(default_factory=set)
    _ready: bool = False

    @classmethod
    def to(cls, uri: str) -> Connection:
        """Return the one connection to this place."""
        return _CONNECTIONS.setdefault(uri, cls(uri, server.Line(uri)))

    def client(self) -> MlflowClient:
        """Return MLflow's client; cheap, since MLflow keeps one store a uri."""
        from mlflow import MlflowClient

        return MlflowClient(self.uri)

    def home(self, run_id: str) -> Opened:
        """Return where a run lies; that of a sweep is remembered, since all its children ask."""
        if run_id not in self.homes:
            self.homes[run_id] = Opened.of(self.client().get_run(run_id))
        return self.homes[run_id]

    def is_cut(self) -> bool:
        """Say whether this is a server that does not answer now; a database is taken to be there."""
        return place.is_server(self.uri) and not self.line.answers()

    @contextmanager
    def talking(self) -> Generator[None, None, None]:
        """Load MLflow, make its tables if need be, and tell the errors of what is called inside.

        Raises TrackingError at once while a server is away.
        """
        with self.told():
            _quieten()
            if place.is_server(self.uri):
                for name, bound in server.BOUNDS.items():
                    os.environ.setdefault(name, bound)
                self.line.refuse_if_cut()
            self._make_ready()
            yield

    @contextmanager
    def told(self) -> Generator[None, None, None]:
        """Say in one sentence what MLflow says in many, without the password of the uri."""
        try:
            yield
        except _errors() as error:
            if not self.line.fault:
                self.is_cut()  # if so it is remembered, and the next call need not wait as this one did
            shown = place.masked(self.uri)
            fact = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")[:500]
            fact = place.masked(fact.replace(self.uri, shown))
            # The cause may quote the uri, so it is dropped where that holds a password.
            raise TrackingError(f"{shown}: {fact}; {place.WAY_OUT}") from (error if shown == self.uri else None)

    def _make_ready(self) -> None:
        """Make tables, once a process; experiments are made when they are needed, a child's is its parent's."""
        if self._ready:
            return
        place.refuse_unusable(self.uri)
        if place.is_server(self.uri):
            self.line.meet()
        path = place.database(self.uri)
        if path:
            path.parent.mkdir(parents=True, exist_ok=True)
        with place.alone(self.uri):
            if path:
                tables.mend(self.uri, path)
                tables.write_ahead(path)
            client = self.client()  # this makes the tables of other databases
        if path:
            tables.spare_the_disk(client)
        self._ready = True


_CONNECTIONS: dict[str, Connection] = {}


def _errors() -> tuple[type[BaseException], ...]:
    """Return what a place that cannot be used raises; nothing is raised by a library that was never loaded."""
    if "mlflow" not in sys.modules:
        return sqlite3.Error, OSError
    from mlflow.exceptions import MlflowException
    from sqlalchemy.exc import SQLAlchemyError

    return sqlite3.Error, OSError, MlflowException, SQLAlchemyError


def _quieten() -> None:
    """Turn off telemetry, and what MLflow and its migrations say that is no warning, before it is imported."""
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("DO_NOT_TRACK", "true")
    os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "WARNING")
    os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")
    logging.getLogger("alembic").setLevel(logging.WARNING)
