"""MLflow's tables in a SQLite file: whose they are, made, upgraded, and set up to be written cheaply."""

from __future__ import annotations

import importlib.util
import sqlite3
from collections.abc import Set
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, cast

from ragsweep.core.errors import TrackingError
from ragsweep.parts.tracking.place import check_folder, deleted, masked


def inspect(uri: str, path: Path, experiment: str) -> None:
    """Raise what stands against recording in this file, as far as can be told without MLflow.

    Raises TrackingError for another program's tables, those of a newer MLflow, or a deleted experiment; sqlite3.Error
    or OSError where file or folder cannot be written.
    """
    found = revision(uri, path)
    known = _known_revisions()
    if found and known and found not in known:
        raise newer(uri, found)
    row = _experiment(path, experiment) if found else None
    if row and row[2] == "deleted":
        raise deleted(uri, experiment, str(row[0]))
    check_folder(str(row[1]) if row else (path.parent / "mlruns").as_uri())


def revision(uri: str, path: Path) -> str | None:
    """Return the revision of the tables in a database file, None where it has none yet.

    Raises TrackingError where the tables are another program's, sqlite3.Error where the file cannot be written.
    MLflow itself would try to open an unusable file for a hundred seconds, and put its tables beside another's.
    """
    with closing(sqlite3.connect(path, timeout=20, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        tables = sorted(name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'"))
        if not tables:
            return None
        if "experiments" not in tables or "alembic_version" not in tables:
            raise TrackingError(
                f"{masked(uri)} holds the tables of another program ({', '.join(tables[:3])} ...); "
                "set tracking.uri to a database of its own"
            )
        found = connection.execute("SELECT version_num FROM alembic_version").fetchone()
        return str(found[0]) if found else None


def mend(uri: str, path: Path) -> None:
    """Make the tables of a new database, and upgrade those of an older MLflow after copying the file."""
    from alembic.util import CommandError
    from mlflow import db
    from mlflow.store.db import utils

    found, wanted = revision(uri, path), cast(Any, utils)._get_latest_schema_revision()
    if found == wanted:
        return
    if found is None:
        _make(path)
        return
    copy = copy_database(path, path.with_name(f"{path.name}.{found}.backup"))
    try:
        cast(Any, db.upgrade).callback(uri)  # the function of `mlflow db upgrade`
    except CommandError as error:
        raise newer(uri, str(found), copy) from error


def _make(path: Path) -> None:
    """Make the tables in a file beside, then rename it: a process killed meanwhile leaves no half-made database."""
    from mlflow import db
    from sqlalchemy import URL

    beside = path.with_name(f"{path.name}.new")
    for name in (beside.name, *(f"{beside.name}-{kind}" for kind in ("journal", "wal", "shm"))):
        path.with_name(name).unlink(missing_ok=True)  # of a process that was killed
    cast(Any, db.upgrade).callback(URL.create("sqlite", database=str(beside)).render_as_string())
    beside.replace(path)


def newer(uri: str, found: str, copy: Path | None = None) -> TrackingError:
    """Say that a newer MLflow wrote the tables."""
    return TrackingError(
        f"{uri} has tables (revision {found}) that this mlflow does not know; it was written by a newer one, so "
        f"upgrade mlflow, or set tracking.uri to another database" + (f" (a copy is at {copy})" if copy else "")
    )


def copy_database(path: Path, copy: Path) -> Path:
    """Copy a database file with all that is committed; a copy that is there already stays."""
    if not copy.exists():
        with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(copy)) as target:
            source.backup(target)
    return copy


def write_ahead(path: Path) -> None:
    """Let the file keep a write-ahead log: readers and the writer then no longer wait for each other.

    The file remembers it. One that is in use elsewhere at this moment stays as it is.
    """
    with suppress(sqlite3.OperationalError), closing(sqlite3.connect(path, timeout=5)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")


def spare_the_disk(client: object) -> None:
    """Let this process's connections wait for the disk at checkpoints only, not at each of a config's nine commits.

    Safe with a write-ahead log: a killed process loses nothing, and a power cut at most the last configs, which the
    ledger still has; without one SQLite needs to wait, so nothing is changed.
    """
    from sqlalchemy import event

    store = getattr(getattr(client, "_tracking_client", None), "store", None)
    engine = getattr(store, "engine", None)
    if engine is None:  # an MLflow that is built otherwise: slower, and right
        return

    def connected(connection: Any, _record: Any) -> None:
        if connection.execute("PRAGMA journal_mode").fetchone() == ("wal",):
            connection.execute("PRAGMA synchronous = NORMAL")

    event.listen(engine, "connect", connected)
    engine.dispose()  # connections that were opened before


def _experiment(path: Path, name: str) -> tuple[int, str, str] | None:
    with closing(sqlite3.connect(path, timeout=20)) as connection:
        row: tuple[int, str, str] | None = connection.execute(
            "SELECT experiment_id, artifact_location, lifecycle_stage FROM experiments WHERE name = ?", (name,)
        ).fetchone()
        return row


def _known_revisions() -> Set[str]:
    """Return the revisions that the installed MLflow knows: its migrations' files are named by them."""
    spec = importlib.util.find_spec("mlflow")
    folders = list(spec.submodule_search_locations or ()) if spec else []
    files = (path for folder in folders for path in Path(folder, "store/db_migrations/versions").glob("*_*.py"))
    return {path.name.partition("_")[0] for path in files}
