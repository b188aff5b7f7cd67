"""Tracking URIs and artifact locations: what they refer to, and how they are shown. Imports no MLflow."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit
from urllib.request import url2pathname

from ragsweep.core.errors import TrackingError


def mask_uri(uri: str) -> str:
    """Mask the secrets in a URI, or in a text with URIs: user and password, and keys among the arguments."""
    uri = re.sub(r"(?<!sqlite:)//[^/\s]*@", "//***@", uri)
    return re.sub(r"(?i)([?&][^=&\s]*(?:key|token|secret|password)=)[^&\s]*", r"\1***", uri)


def absolute_uri(uri: str) -> str:
    """Make the path of a SQLite URI absolute, so that it means the same in every process."""
    prefix, found, rest = uri.partition(":///")
    name, _, arguments = rest.partition("?")
    if not found or not _is_sqlite(uri) or name in ("", ":memory:"):
        return uri
    # SQLAlchemy decodes %25 and the like, so a bare % must be encoded.
    path = str(Path(unquote(name)).absolute()).replace("%", "%25").replace("?", "%3F")
    return f"{prefix}:///{path}" + (f"?{arguments}" if arguments else "")


def database_path(uri: str) -> Path | None:
    """Return the file of a SQLite URI, None for any other URI."""
    _, _, rest = uri.partition(":///")
    name = unquote(rest.partition("?")[0])
    return Path(name) if _is_sqlite(uri) and name not in ("", ":memory:") else None


def is_server(uri: str) -> bool:
    """Return whether a URI is a tracking server's."""
    return uri.startswith(("http://", "https://"))


def check_uri(uri: str) -> None:
    """Raise TrackingError for a URI that MLflow refuses or that keeps nothing."""
    scheme = urlsplit(uri).scheme
    if scheme == "file" or ("://" not in uri and not uri.startswith("databricks")):
        raise TrackingError(
            f"tracking.uri={mask_uri(uri)} is a folder of files, which mlflow 3.13 and later refuse to write; use "
            "sqlite:///mlflow.db (`mlflow migrate-filestore` moves old runs), or tracking=none"
        )
    if _is_sqlite(uri) and database_path(uri) is None:
        raise TrackingError(f"tracking.uri={uri} is a database in memory, which keeps nothing; name a file")


def local_folder(location: str) -> Path | None:
    """Return the folder of an artifact location, None where it is not on this machine."""
    parts = urlsplit(location)
    if parts.scheme not in ("", "file"):
        return None
    return Path(url2pathname(parts.path) if parts.scheme else location)


def mlflow_command() -> str:
    """Return the mlflow command as it can be typed here, also where the environment is not activated."""
    beside = Path(sys.executable).parent / "mlflow"
    if shutil.which("mlflow") or not beside.exists():
        return "mlflow"
    return str(beside.relative_to(Path.cwd()) if beside.is_relative_to(Path.cwd()) else beside)


def _is_sqlite(uri: str) -> bool:
    return uri.partition("://")[0].partition("+")[0] == "sqlite"
