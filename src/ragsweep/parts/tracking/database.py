"""Check and mask tracking URIs, and prepare SQLite files for MLflow: create MLflow's tables, and speed up commits."""

import os
import re
import shlex
import shutil
import sqlite3
import sys
from contextlib import closing, suppress
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, cast
from urllib.parse import unquote, urlsplit
from urllib.request import url2pathname

from ragsweep.core.errors import InputError, TrackingError

ADDRESS = "tracking.uri, --uri, traces (golden harvest) or MLFLOW_TRACKING_URI"
"""The settings that may contain the tracking URI, as messages name them."""

SCHEMES = frozenset({"", "databricks", "http", "https", "mssql", "mysql", "postgresql", "sqlite"})
"""Schemes of URIs that MLflow supports without plugins."""
PORTS = {"mssql": 1433, "mysql": 3306, "postgresql": 5432}
"""The default ports of the database servers among them."""


def mask_uri(uri: str) -> str:
    """Return a text in which the secrets of URIs are masked: user, password, and secret parameters of the query."""
    uri = re.sub(r"(?<!sqlite:)//[^/\s]*@", "//***@", uri)
    return re.sub(r"(?i)([?&][^=&\s]*(?:key|token|secret|password)=)[^&\s]*", r"\1***", uri)


def absolute_uri(uri: str) -> str:
    """Return a SQLite URI with an absolute path, so that it refers to the same file in every process.

    Other URIs, and URIs of databases in memory, are returned unchanged.
    """
    prefix, separator, rest = uri.partition(":///")
    name, _, arguments = rest.partition("?")
    if not separator or not _is_sqlite(uri) or name in ("", ":memory:"):
        return uri
    # SQLAlchemy decodes percent-encoding, so a literal % must be encoded.
    path = str(Path(unquote(name)).absolute()).replace("%", "%25").replace("?", "%3F")
    return f"{prefix}:///{path}" + (f"?{arguments}" if arguments else "")


def database_path(uri: str) -> Path | None:
    """Return the path of the file of a SQLite URI; None for other URIs and for databases in memory."""
    _, _, rest = uri.partition(":///")
    name = unquote(rest.partition("?")[0])
    return Path(name) if _is_sqlite(uri) and name not in ("", ":memory:") else None


def check_exists(uri: str, way_out: str) -> None:
    """Raise InputError, with the remedy ``way_out``, for a SQLite file that does not exist; MLflow would create it."""
    path = database_path(uri)
    if path and not path.exists():
        raise InputError(f"{path}: no such file (current folder: {Path.cwd()}); {way_out}")


def is_server(uri: str) -> bool:
    """Return whether a URI is the address of a tracking server (http or https)."""
    return uri.startswith(("http://", "https://"))


def check_uri(uri: str) -> None:
    """Raise TrackingError for a URI that MLflow rejects, a database in memory, or a missing database driver."""
    try:
        scheme, _ = urlsplit(uri).scheme, urlsplit(uri).port if is_server(uri) else None
    except ValueError:  # the message of this error may quote a part of a password
        raise TrackingError(f"{mask_uri(uri)}: invalid port or host; correct {ADDRESS}") from None
    if scheme == "file" or ("://" not in uri and not uri.startswith("databricks")):
        folder, way_out = local_folder(uri), f"set {ADDRESS} to sqlite:///mlflow.db"
        if folder and folder.is_dir():
            command = f"{mlflow_command()} migrate-filestore --source {shlex.quote(str(folder))} --target"
            way_out = (
                f"`{command} sqlite:///NEW.db` copies the folder's runs to a new file, NEW.db; then set {ADDRESS} to"
                " sqlite:///NEW.db"
            )
        raise TrackingError(
            f"{mask_uri(uri)}: this address is a folder of files, which MLflow no longer opens by default; {way_out}"
        )
    if _is_sqlite(uri) and database_path(uri) is None:
        raise TrackingError(f'"{uri}" names no file, so no results would be kept; set {ADDRESS} to sqlite:///mlflow.db')
    name = scheme.partition("+")[0]
    if name not in SCHEMES and name not in {one.name for one in entry_points(group="mlflow.tracking_store")}:
        raise TrackingError(
            f"{mask_uri(uri)}: MLflow has no store for {name}://; set {ADDRESS} to another location, or install the"
            " MLflow plugin that provides it"
        )
    if name in PORTS:
        _check_driver(uri)


def _check_driver(uri: str) -> None:
    from sqlalchemy import make_url
    from sqlalchemy.exc import SQLAlchemyError

    try:
        make_url(uri).get_dialect().import_dbapi()
    except (ImportError, SQLAlchemyError, ValueError) as fault:
        fact = "" if isinstance(fault, ValueError) else f"{fault}; "  # a ValueError may quote a part of a password
        way = f"install the database's driver, or name another driver in {ADDRESS}, as in mysql+pymysql://"
        raise TrackingError(mask_uri(f"{uri}: {fact}{way}")) from None


def database_server(uri: str) -> tuple[str, int] | None:
    """Return the host and the port of a database server; None for other URIs, and for a connection by a socket file."""
    if urlsplit(uri).scheme.partition("+")[0] not in PORTS:
        return None
    from sqlalchemy import make_url

    url = make_url(uri)
    return (url.host, url.port or PORTS[url.get_backend_name()]) if url.host else None


def local_folder(location: str) -> Path | None:
    """Return the folder to which an artifact URI refers; None if the URI does not refer to a local folder."""
    parts = urlsplit(location)
    if parts.scheme not in ("", "file"):
        return None
    return Path(url2pathname(parts.path) if parts.scheme else location)


def mlflow_command() -> str:
    """Return the ``mlflow`` command for messages.

    If the command is not on PATH but is in the folder of the Python interpreter, return its path in that folder.
    """
    beside = Path(sys.executable).parent / "mlflow"
    if shutil.which("mlflow") or not beside.exists():
        return "mlflow"
    return str(beside.relative_to(Path.cwd()) if beside.is_relative_to(Path.cwd()) else beside)


def _is_sqlite(uri: str) -> bool:
    return uri.partition("://")[0].partition("+")[0] == "sqlite"


LOCK_SECONDS = 300.0
"""Maximum seconds to wait while another process creates the tables, which usually takes about two seconds."""


def check_database(uri: str, path: Path) -> bool:
    """Check that MLflow can use a database file and, if the file has no tables, the artifact folder beside it.

    Return whether the file has MLflow's tables. Missing folders are created. MLflow is not loaded, because it would
    retry for a hundred seconds.

    Raises:
        TrackingError: The file contains another program's tables.
        sqlite3.Error, OSError: The file or a folder is not writable, or the file is not a database.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if _has_tables(uri, path):
        return True  # an existing experiment may have its artifacts elsewhere
    artifacts = path.parent / "mlruns"
    artifacts.mkdir(exist_ok=True)
    if not os.access(artifacts, os.W_OK):
        raise PermissionError(f"the artifact folder {artifacts} is not writable")
    return False


def create_tables(uri: str, path: Path) -> None:
    """Create MLflow's tables in a database file that has none; a lock file excludes other processes.

    The tables are created in a temporary file, and the file is then renamed. A killed process leaves no partial
    database.
    """
    from filelock import FileLock

    with FileLock(path.with_name(path.name + ".lock"), timeout=LOCK_SECONDS):
        if _has_tables(uri, path):
            return
        from mlflow import db
        from sqlalchemy import URL

        new = path.with_name(f"{path.name}.new")
        for suffix in ("", "-journal", "-wal", "-shm"):
            path.with_name(new.name + suffix).unlink(missing_ok=True)  # left by a killed process
        # This is the function of the command `mlflow db upgrade`, which also creates missing tables.
        cast(Any, db.upgrade).callback(URL.create("sqlite", database=str(new)).render_as_string())
        new.replace(path)


def use_write_ahead_log(path: Path) -> None:
    """Switch a database file to a write-ahead log, so that readers and the writer do not block each other.

    This process's connections then sync to disk only at checkpoints, not at every commit (nine per config). If the
    process is killed, nothing is lost; after a power failure, the last configs may be missing in MLflow but not in
    the ledger.
    """
    with suppress(sqlite3.OperationalError), closing(sqlite3.connect(path, timeout=5)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")  # fails harmlessly if another process uses the file
    from sqlalchemy import event
    from sqlalchemy.engine import Engine

    def relax(connection: Any, _record: Any) -> None:
        if not isinstance(connection, sqlite3.Connection):
            return
        files = {Path(row[2]) for row in connection.execute("PRAGMA database_list") if row[2]}
        if path in files and connection.execute("PRAGMA journal_mode").fetchone() == ("wal",):
            connection.execute("PRAGMA synchronous = NORMAL")

    event.listen(Engine, "connect", relax)


def _has_tables(uri: str, path: Path) -> bool:
    with closing(sqlite3.connect(path, timeout=20, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        tables = sorted(name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'"))
    if tables and not {"experiments", "alembic_version"} <= set(tables):
        raise TrackingError(
            f"{mask_uri(uri)} contains tables of another program (such as {', '.join(tables[:3])}); "
            f"set {ADDRESS} to a separate database"
        )
    return bool(tables)


def describe_risk(uri: str) -> str:
    """Return a warning if credentials would be sent to another machine unencrypted, else ""."""
    try:
        parts = urlsplit(uri)
    except ValueError:  # `check_uri` rejects it
        return ""
    is_local = parts.hostname in ("localhost", "::1") or str(parts.hostname).startswith("127.")
    variables = ("MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_TOKEN")
    if parts.scheme != "http" or is_local or not (parts.username or any(map(os.environ.get, variables))):
        return ""
    return f"{mask_uri(uri)}: the credentials for MLflow are sent unencrypted; use the server's https:// address"
