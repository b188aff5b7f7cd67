"""The database of studies, Optuna's own: SQLite for the processes of one machine, PostgreSQL for those of many."""

from __future__ import annotations

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
"""Seconds to wait for the lock under which a study changes."""

CONNECT_TIMEOUT = 10
"""Seconds after which a server that does not answer counts as out of reach."""

_SCHEME = "postgresql"
_DRIVERS = {"psycopg": f"{_SCHEME}+psycopg", "psycopg2": f"{_SCHEME}+psycopg2"}
_STUCK = f"another process has held the lock of the study for {PATIENCE:g} seconds; it may be stopped"


@dataclass(frozen=True)
class Storage:
    """Optuna's storage, and the lock under which trials change their state."""

    optuna: Any
    exclusive: Callable[[], AbstractContextManager[None]]
    is_shared: bool  # by several processes

    def close(self) -> None:
        """Close all connections."""
        if self.is_shared:
            self.optuna.remove_session()
            self.optuna.engine.dispose()


def is_postgresql(url: object) -> bool:
    """Return whether a storage is in a PostgreSQL database, which other machines reach as well."""
    return str(url).partition("://")[0].partition("+")[0] == _SCHEME


def check_url(url: str | None) -> str:
    """Return the URL with its driver; empty for a study in memory. Raises HydraException for other storages."""
    if url is None:
        return ""
    if is_postgresql(url) and "://" in str(url):
        return _with_driver(str(url))
    if str(url).partition("://")[0].partition("+")[0] != "sqlite" or "://" not in str(url):
        raise HydraException(
            f"{WHERE}: must be null, sqlite:///FILE or postgresql://..., given {str(url).partition('@')[0]!r};"
            " a journal file is not offered: it cannot be read any more once its last line is torn"
        )
    return "" if _sqlite_file(str(url)) in ("", ":memory:") else str(url)


def open_storage(url: str | None) -> Storage:
    """Open a storage, and create its tables where there are none."""
    from optuna.storages import InMemoryStorage

    address = check_url(url)
    if not address:
        return Storage(InMemoryStorage(), nullcontext, is_shared=False)
    logging.getLogger("alembic").setLevel(logging.WARNING)
    return _open_postgresql(address) if is_postgresql(address) else _open_sqlite(address)


def check_reachable(url: object) -> None:
    """Connect once to a storage on a server. Raises HydraException, without the password, where that fails."""
    if is_postgresql(url):
        with _named_faults(str(url)), _unpooled(_with_driver(str(url))).connect():
            pass


def _sqlite_file(url: str) -> str:
    return url.partition("///")[2].partition("?")[0]


def _open_sqlite(address: str) -> Storage:
    from optuna.storages import RDBStorage

    name = _sqlite_file(address)
    path = Path(name).absolute()  # a job may change the working directory
    path.parent.mkdir(parents=True, exist_ok=True)
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    lock = path.with_name(f"{path.name}.lock")
    url = address.replace(f"///{name}", f"///{path}", 1)
    with _file_lock(lock), _known_version(address):
        with closing(sqlite3.connect(path, timeout=60)) as connection:
            connection.execute("PRAGMA journal_mode=WAL")  # is kept in the file
        storage = RDBStorage(url, engine_kwargs={"connect_args": {"timeout": 60}})
    return Storage(storage, lambda: _file_lock(lock), is_shared=True)


def _open_postgresql(address: str) -> Storage:
    from optuna.storages import RDBStorage

    options = {"pool_pre_ping": True, "connect_args": {"connect_timeout": CONNECT_TIMEOUT}}
    with _named_faults(address), _advisory_lock(address), _known_version(address):
        storage = RDBStorage(address, engine_kwargs=options)
    return Storage(storage, lambda: _advisory_lock(address), is_shared=True)


@contextmanager
def _advisory_lock(address: str) -> Iterator[None]:
    from sqlalchemy import text
    from sqlalchemy.exc import OperationalError

    key = {"key": zlib.crc32(b"ragsweep-optuna")}
    # Not in a transaction, which would lie idle for as long as the lock is held.
    with _unpooled(address).connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text(f"SET lock_timeout = '{PATIENCE:g}s'"))
        try:
            connection.execute(text("SELECT pg_advisory_lock(:key)"), key)
        except OperationalError as fault:
            if "lock" not in str(fault.orig):
                raise
            raise HydraException(f"{WHERE}: {_STUCK}") from None
        try:
            yield
        finally:
            connection.execute(text("SELECT pg_advisory_unlock(:key)"), key)


@contextmanager
def _file_lock(path: Path) -> Iterator[None]:
    from filelock import FileLock, Timeout

    lock = FileLock(path, timeout=PATIENCE, mode=0o600)
    try:
        lock.acquire()
    except Timeout:
        raise HydraException(f"{WHERE}: {_STUCK}") from None
    try:
        yield
    finally:
        lock.release()


def _with_driver(url: str) -> str:
    """Name the driver in a URL that leaves it open. Raises HydraException where none is installed."""
    scheme, _, rest = url.partition("://")
    if scheme != _SCHEME:
        return url
    for module, driver in _DRIVERS.items():
        if find_spec(module):
            return f"{driver}://{rest}"
    raise HydraException(
        f"{WHERE}: PostgreSQL needs a driver, and none is installed; pip install 'ragsweep[postgresql]'"
    )


def _unpooled(address: str) -> Any:
    from sqlalchemy import create_engine
    from sqlalchemy.pool import NullPool

    return create_engine(address, poolclass=NullPool, connect_args={"connect_timeout": CONNECT_TIMEOUT})


@contextmanager
def _named_faults(url: str) -> Iterator[None]:
    """Turn faults of a connection into one sentence without the password."""
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError, NoSuchModuleError, OperationalError

    try:
        yield
    except OperationalError as fault:
        known = make_url(url)
        said = " ".join(str(fault.orig).split("\n")[0].split())
        said = said.replace(str(known.password), "***") if known.password else said
        raise HydraException(f"{WHERE}: cannot use {known.set(drivername=_SCHEME)}: {said}") from None
    except (ArgumentError, NoSuchModuleError, ImportError, ValueError) as fault:
        raise HydraException(f"{WHERE}: no such database can be opened: {type(fault).__name__}") from None


@contextmanager
def _known_version(address: str) -> Iterator[None]:
    """Turn Optuna's refusal of a database of another version into one sentence."""
    try:
        yield
    except RuntimeError as fault:
        raise HydraException(f"{WHERE}={address.rpartition('@')[2]}: {' '.join(str(fault).split())}") from None
