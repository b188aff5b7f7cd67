"""Where results are recorded: what a tracking uri means, and whether the place can be used. Knows no MLflow."""

from __future__ import annotations

import hashlib
import os
import re
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit
from urllib.request import url2pathname

from ragsweep.errors import TrackingError

if TYPE_CHECKING:
    from filelock import BaseFileLock

WAY_OUT = "set tracking.uri to a place that can be written, or tracking=none"
PATIENCE = 300.0
"""Seconds to wait for another process that makes the tables (it takes about two)."""


def masked(uri: str) -> str:
    """Hide what a uri, or a text with uris in it, must not show: user and password, and keys among its arguments."""
    uri = re.sub(r"(?<!sqlite:)//[^/\s]*@", "//***@", uri)
    return re.sub(r"(?i)([?&][^=&\s]*(?:key|token|secret|password)=)[^&\s]*", r"\1***", uri)


def absolute(uri: str) -> str:
    """Make the path of a SQLite uri absolute, so that it means the same in every process."""
    prefix, found, rest = uri.partition(":///")
    name, _, arguments = rest.partition("?")
    if not found or not _is_sqlite(uri) or name in ("", ":memory:"):
        return uri
    # The database library decodes %25 and the like, and so must be given a bare % that way.
    path = str(Path(unquote(name)).absolute()).replace("%", "%25").replace("?", "%3F")
    return f"{prefix}:///{path}" + (f"?{arguments}" if arguments else "")


def database(uri: str) -> Path | None:
    """Return the file of a SQLite uri, None for any other uri."""
    _, _, rest = uri.partition(":///")
    name = unquote(rest.partition("?")[0])
    return Path(name) if _is_sqlite(uri) and name not in ("", ":memory:") else None


def is_server(uri: str) -> bool:
    """Tell a tracking server from a database."""
    return uri.startswith(("http://", "https://"))


def refuse_unusable(uri: str) -> None:
    """Raise TrackingError for a uri that MLflow refuses or that keeps nothing."""
    scheme = urlsplit(uri).scheme
    if scheme == "file" or ("://" not in uri and not uri.startswith("databricks")):
        raise TrackingError(
            f"tracking.uri={masked(uri)} is a folder of files, which mlflow 3.13 and later refuse to write; use "
            "sqlite:///mlflow.db (`mlflow migrate-filestore` moves old runs), or tracking=none"
        )
    if _is_sqlite(uri) and database(uri) is None:
        raise TrackingError(f"tracking.uri={uri} is a database in memory, which keeps nothing; name a file")


def alone(uri: str) -> BaseFileLock:
    """Return the lock under which tables are made: beside a database file, else in this machine's temporary folder.

    The kernel frees it when its holder dies.
    """
    from filelock import FileLock

    path = database(uri)
    if path:
        return FileLock(path.with_name(path.name + ".lock"), timeout=PATIENCE)
    digest = hashlib.sha256(uri.encode()).hexdigest()[:16]
    return FileLock(Path(tempfile.gettempdir(), f"ragsweep-{digest}.lock"), timeout=PATIENCE)


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


def copy_database(path: Path, mark: str) -> Path:
    """Copy a database file before its tables are changed, once a revision."""
    copy = path.with_name(f"{path.name}.{mark}.backup")
    if not copy.exists():
        with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(copy)) as target:
            source.backup(target)
    return copy


def check_folder(location: str) -> None:
    """Make a local folder for artifacts if need be; raises OSError where nothing can be written into it."""
    parts = urlsplit(location)
    if parts.scheme not in ("", "file"):
        return
    folder = Path(url2pathname(parts.path) if parts.scheme else location)
    folder.mkdir(parents=True, exist_ok=True)
    if not os.access(folder, os.W_OK):
        raise PermissionError(f"the folder for artifacts {folder} cannot be written")


def _is_sqlite(uri: str) -> bool:
    return uri.partition("://")[0].partition("+")[0] == "sqlite"
