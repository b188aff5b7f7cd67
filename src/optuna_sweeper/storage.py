"""Optuna's database of studies: SQLite for the processes on one machine, PostgreSQL for several machines."""

import logging
import os
import sqlite3
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hydra.errors import HydraException

WHERE = "hydra.sweeper.storage"
PATIENCE = 600.0
"""Timeout in seconds for the lock that guards changes to a study."""

CONNECT_TIMEOUT = 10
"""Timeout in seconds of an attempt to connect to a server."""

_SCHEME = "postgresql"
_STUCK = (
    f"{WHERE}: another process has held the study's lock for {PATIENCE:g} seconds; end that process if it is"
    " suspended, and repeat the command"
)


@dataclass(frozen=True)
class Storage:
    """Optuna's storage, and the lock that guards the creation of studies and changes to the states of trials."""

    optuna: Any
    exclusive: Callable[[], AbstractContextManager[None]]
    is_shared: bool  # whether several processes can share the storage

    def close(self) -> None:
        """Close all connections to the database, if there is one."""
        if self.is_shared:
            self.optuna.remove_session()
            self.optuna.engine.dispose()


def is_postgresql(url: object) -> bool:
    """Return whether a URL names a PostgreSQL database (reachable from other machines)."""
    return str(url).partition("://")[0].partition("+")[0] == _SCHEME


def check_url(url: str | None) -> str:
    """Return the URL, or "" for a study in memory; a PostgreSQL URL without a driver gets an installed driver.

    Raises HydraException for an unsupported storage, and for a missing PostgreSQL driver.
    """
    if url is None:
        return ""
    scheme, separator, rest = str(url).partition("://")
    if separator and scheme == _SCHEME:
        drivers = [name for name in ("psycopg", "psycopg2") if find_spec(name)]
        if not drivers:
            raise HydraException(
                f"{WHERE}: PostgreSQL needs a driver, and none is installed; pip install 'psycopg[binary]'"
            )
        return f"{_SCHEME}+{drivers[0]}://{rest}"
    is_sqlite = scheme.partition("+")[0] == "sqlite"
    if not separator or not (is_sqlite or is_postgresql(url)) or (is_sqlite and rest[:1] not in ("", "/")):
        shown = f"{scheme}://***@{rest.rpartition('@')[2]}" if "@" in rest else str(url)
        raise HydraException(
            f"{WHERE}: must be null, sqlite:///FILE or postgresql://..., got {shown!r}; journal files are not"
            " supported, because a partly written last line makes them unreadable"
        )
    file = str(url).partition("///")[2].partition("?")[0]
    return str(url) if is_postgresql(url) or file not in ("", ":memory:") else ""


def open_storage(url: str | None) -> Storage:
    """Open a storage, creating missing tables. Raises HydraException if the storage is unsupported or unusable."""
    from optuna.storages import InMemoryStorage, RDBStorage

    address = check_url(url)
    if not address:
        return Storage(InMemoryStorage(), nullcontext, is_shared=False)
    logging.getLogger("alembic").setLevel(logging.WARNING)
    if not is_postgresql(address):
        return _open_sqlite(address)
    options = {"pool_pre_ping": True, "connect_args": {"connect_timeout": CONNECT_TIMEOUT}}
    with _one_sentence(address), _advisory_lock(_engine(address)):
        storage = RDBStorage(address, engine_kwargs=options)
    return Storage(storage, lambda: _advisory_lock(storage.engine), is_shared=True)


def _open_sqlite(address: str) -> Storage:
    from optuna.storages import RDBStorage
    from sqlalchemy.engine import make_url

    url = make_url(address)
    path = Path(str(url.database)).absolute()  # a job may change the working directory
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():  # readable only by its owner; closing an existing file would release SQLite's locks
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    except OSError as fault:
        raise HydraException(f"{WHERE}: cannot create {path}: {fault.strerror}; choose another file") from None
    lock = path.with_name(f"{path.name}.lock")
    with _file_lock(lock), _one_sentence(address):
        with closing(sqlite3.connect(path, timeout=60)) as connection:
            connection.execute("PRAGMA journal_mode=WAL")  # SQLite stores this mode in the file
        absolute = url.set(database=str(path)).render_as_string(hide_password=False)  # with % and ? encoded
        storage = RDBStorage(absolute, engine_kwargs={"connect_args": {"timeout": 60}})
    return Storage(storage, lambda: _file_lock(lock), is_shared=True)


@contextmanager
def _file_lock(path: Path) -> Iterator[None]:
    from filelock import FileLock, Timeout

    try:
        held = FileLock(path, timeout=PATIENCE, mode=0o600).acquire()
    except Timeout:
        raise HydraException(_STUCK) from None
    with held:
        yield


@contextmanager
def _advisory_lock(engine: Any) -> Iterator[None]:
    from sqlalchemy import text
    from sqlalchemy.exc import OperationalError

    key = {"key": zlib.crc32(b"ragsweep-optuna")}
    # Not in a transaction, which would be idle while the lock is held.
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text(f"SET lock_timeout = '{PATIENCE:g}s'"))
        try:
            connection.execute(text("SELECT pg_advisory_lock(:key)"), key)
        except OperationalError as fault:
            if "lock" not in str(fault.orig):
                raise
            raise HydraException(_STUCK) from None
        try:
            yield
        finally:
            connection.execute(text("SELECT pg_advisory_unlock(:key)"), key)


def _engine(address: str) -> Any:
    from sqlalchemy import create_engine
    from sqlalchemy.pool import NullPool

    return create_engine(address, poolclass=NullPool, connect_args={"connect_timeout": CONNECT_TIMEOUT})


@contextmanager
def _one_sentence(url: str) -> Iterator[None]:
    """Convert database errors in the block to a HydraException whose message omits the password."""
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError

    try:
        yield
    except (DBAPIError, sqlite3.Error) as fault:
        address = make_url(url)
        message = " ".join(str(getattr(fault, "orig", fault)).split("\n")[0].split())
        message = message.replace(str(address.password), "***") if address.password else message
        name = address.set(drivername=address.get_backend_name())
        way = "correct the URL, or choose another storage"
        raise HydraException(f"{WHERE}: cannot use {name}: {message}; {way}") from None
    except (NoSuchModuleError, ImportError):
        raise HydraException(
            f"{WHERE}: the driver in {url.partition(':')[0]}:// is unknown or not installed; write sqlite:///FILE or"
            " postgresql://USER@HOST/DATABASE"
        ) from None
    except (ArgumentError, ValueError) as fault:
        raise HydraException(
            f"{WHERE}: not the URL of a database ({type(fault).__name__}); write"
            " sqlite:///FILE or postgresql://USER@HOST/DATABASE"
        ) from None
    except RuntimeError as fault:  # raised by Optuna if another version wrote the database
        raise HydraException(f"{WHERE}={url.rpartition('@')[2]}: {' '.join(str(fault).split())}") from None
