"""MLflow's tables in a SQLite file: checked and created, and tuned for many small commits."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, suppress
from functools import cache
from pathlib import Path
from typing import Any, cast

from ragsweep.core.errors import TrackingError
from ragsweep.parts.tracking.uris import mask_uri

LOCK_SECONDS = 300.0
"""Time limit of waiting for another process that creates the tables (it takes about two seconds)."""


def check_database(uri: str, path: Path) -> None:
    """Check that MLflow can use a database file and the folder for artifacts beside it, without loading MLflow.

    Raises:
        TrackingError: The file holds another program's tables.
        sqlite3.Error, OSError: File or folder cannot be written. MLflow itself would retry for a hundred seconds.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if not _has_tables(uri, path):  # else the experiment may have its artifacts elsewhere
        artifacts = path.parent / "mlruns"
        artifacts.mkdir(exist_ok=True)
        if not os.access(artifacts, os.W_OK):
            raise PermissionError(f"the folder for artifacts {artifacts} cannot be written")


def create_tables(uri: str, path: Path) -> None:
    """Create MLflow's tables in a new database file; any number of processes may do so at once.

    They are created in a temporary file that is then renamed: a process killed meanwhile leaves no partial database.
    """
    from filelock import FileLock

    with FileLock(path.with_name(path.name + ".lock"), timeout=LOCK_SECONDS):
        if _has_tables(uri, path):
            return
        from mlflow import db
        from sqlalchemy import URL

        new = path.with_name(f"{path.name}.new")
        for suffix in ("", "-journal", "-wal", "-shm"):
            path.with_name(new.name + suffix).unlink(missing_ok=True)  # left by a process that was killed
        # The function behind `mlflow db upgrade`, which also creates tables.
        cast(Any, db.upgrade).callback(URL.create("sqlite", database=str(new)).render_as_string())
        new.replace(path)


def use_write_ahead_log(path: Path) -> None:
    """Switch the file to a write-ahead log, so that readers and the writer do not block each other.

    Connections of this process then sync to disk at checkpoints only, not at each of a config's nine commits: a killed
    process loses nothing, and a power cut at most the last configs, which the ledger still has.
    """
    with suppress(sqlite3.OperationalError), closing(sqlite3.connect(path, timeout=5)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")  # fails where the file is in use elsewhere, and is then skipped
    _sync_at_checkpoints(path)


@cache
def _sync_at_checkpoints(path: Path) -> None:
    from sqlalchemy import event
    from sqlalchemy.engine import Engine

    def connected(connection: Any, _record: Any) -> None:
        if not isinstance(connection, sqlite3.Connection):
            return
        files = {Path(row[2]) for row in connection.execute("PRAGMA database_list") if row[2]}
        if path in files and connection.execute("PRAGMA journal_mode").fetchone() == ("wal",):
            connection.execute("PRAGMA synchronous = NORMAL")

    event.listen(Engine, "connect", connected)


def _has_tables(uri: str, path: Path) -> bool:
    with closing(sqlite3.connect(path, timeout=20, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        tables = sorted(name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'"))
    if tables and not {"experiments", "alembic_version"} <= set(tables):
        raise TrackingError(
            f"{mask_uri(uri)} holds the tables of another program ({', '.join(tables[:3])} ...); "
            "set tracking.uri to a database of its own"
        )
    return bool(tables)
