"""Where results are recorded: what a tracking uri means, and whether the place can be used. Knows no MLflow."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit
from urllib.request import url2pathname

from ragsweep.core.errors import TrackingError

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


def deleted(uri: str, experiment: str, identifier: str) -> TrackingError:
    """Say that the experiment was deleted, and how it comes back."""
    return TrackingError(
        f'{masked(uri)}: the experiment "{experiment}" was deleted; bring it back with '
        f"`mlflow experiments restore -x {identifier}`, or choose another with tracking.experiment"
    )


def folder(location: str) -> Path | None:
    """Return the folder that a location of artifacts names, None where it is none of this machine."""
    parts = urlsplit(location)
    if parts.scheme not in ("", "file"):
        return None
    return Path(url2pathname(parts.path) if parts.scheme else location)


def check_folder(location: str) -> None:
    """Make a local folder for artifacts if need be; raises OSError where nothing can be written into it."""
    found = folder(location)
    if found is None:
        return
    found.mkdir(parents=True, exist_ok=True)
    if not os.access(found, os.W_OK):
        raise PermissionError(f"the folder for artifacts {found} cannot be written")


def command() -> str:
    """Spell mlflow as it can be typed here: an environment that is not activated is not on the path."""
    beside = Path(sys.executable).parent / "mlflow"
    if shutil.which("mlflow") or not beside.exists():
        return "mlflow"
    return str(beside.relative_to(Path.cwd()) if beside.is_relative_to(Path.cwd()) else beside)


def _is_sqlite(uri: str) -> bool:
    return uri.partition("://")[0].partition("+")[0] == "sqlite"
