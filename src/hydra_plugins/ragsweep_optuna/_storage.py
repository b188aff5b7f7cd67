"""Open the database of studies: SQLite for the processes of one machine, PostgreSQL for those of many."""

from __future__ import annotations

import logging
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hydra.errors import HydraException

from hydra_plugins.ragsweep_optuna._postgresql import SECONDS, WHERE, driven, engine, is_postgresql, reaching
from hydra_plugins.ragsweep_optuna._versions import check_format, known_to_optuna

MEMORY = "sqlite:///:memory:"
PATIENCE = 600.0
"""Seconds that a process waits for others that ask a sampler."""

_STUCK = f"another process has asked the study for {PATIENCE:g} seconds, and holds up all others; it may be stopped"


@dataclass
class Storage:
    """Optuna's storage, our tables' engine, and the lock under which processes take turns."""

    optuna: Any
    engine: Any
    lock_file: Path | None = None
    _file_lock: Any = field(default=None, repr=False)

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait until no other process asks a sampler: what is asked next must know what was asked before."""
        if self.is_server:
            with _advisory(self.engine):
                yield
        elif self.lock_file is None:
            yield
        else:
            with _file_lock(self.lock_file):
                yield

    @property
    def is_server(self) -> bool:
        """Say whether the database is PostgreSQL's, which processes of other machines reach as well."""
        return bool(self.engine.dialect.name == "postgresql")

    @property
    def is_shared(self) -> bool:
        """Say whether other processes can reach the database."""
        return self.is_server or self.lock_file is not None

    def close(self) -> None:
        """Close all connections; whoever goes on with the storage opens new ones."""
        self.optuna.remove_session()
        self.engine.dispose()

    @contextmanager
    def reading(self) -> Iterator[Any]:
        """Read what is there, in one transaction."""
        with self.engine.begin() as connection:
            yield connection

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        """Write, or read what must not change meanwhile, in one transaction that no other interleaves with."""
        from sqlalchemy import text

        with self.engine.begin() as connection:
            if self.is_server:
                connection.execute(text("LOCK TABLE sweep_evaluations IN EXCLUSIVE MODE"))
            yield connection


def check_url(url: str | None) -> str:
    """Say what is opened. Raises HydraException for what would lose trials."""
    if url is None:
        return MEMORY
    if is_postgresql(url) and "://" in str(url):
        return driven(str(url))
    if str(url).partition("://")[0].partition("+")[0] != "sqlite" or "://" not in str(url):
        raise HydraException(
            f"{WHERE}: must be null, sqlite:///FILE or postgresql://..., given {str(url).partition('@')[0]!r};"
            " a journal file is not offered: it cannot be read any more once its last line is torn"
        )
    return str(url)


def open_storage(url: str | None) -> Storage:
    """Open a storage, and make its tables once, whoever comes first."""
    address = check_url(url)
    if address.startswith("postgresql"):
        return _postgresql(address)
    name = address.partition("///")[2].partition("?")[0]
    if name in ("", ":memory:"):
        return _sqlite(address, None)
    path = Path(name).absolute()  # a job may run in another folder
    address = address.replace(f"///{name}", f"///{path}", 1)
    path.parent.mkdir(parents=True, exist_ok=True)
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    lock = path.with_name(f"{path.name}.lock")
    with _file_lock(lock):
        return _sqlite(address, lock)


def _sqlite(address: str, lock: Path | None) -> Storage:
    """Open SQLite so that transactions take the right to write when they begin.

    Otherwise two that both read and then write see the same old state: of 200 queued trials, 55 were run twice.
    """
    from optuna.storages import RDBStorage
    from sqlalchemy import event
    from sqlalchemy.pool import StaticPool

    logging.getLogger("alembic").setLevel(logging.WARNING)
    pool = {"poolclass": StaticPool} if lock is None else {}
    options = {"timeout": 60, **({"check_same_thread": False} if lock is None else {})}
    with known_to_optuna(address):
        storage = RDBStorage(address, engine_kwargs={"connect_args": options, **pool})
    engine = storage.engine

    def connected(connection: Any, record: Any) -> None:
        connection.isolation_level = None  # the driver would begin transactions by itself, and too late
        if lock is not None:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=FULL")

    def begun(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    event.listen(engine, "connect", connected)
    event.listen(engine, "begin", begun)
    if lock is not None:
        engine.dispose()  # connections made before know nothing of it
    else:
        with engine.connect() as connection:
            driver: Any = connection.connection.driver_connection
            driver.isolation_level = None
    _make_tables(engine)
    return Storage(storage, engine, lock)


def _postgresql(address: str) -> Storage:
    from optuna.storages import RDBStorage

    logging.getLogger("alembic").setLevel(logging.WARNING)
    options = {"pool_pre_ping": True, "connect_args": {"connect_timeout": SECONDS}}
    with reaching(address), _advisory(engine(address)), known_to_optuna(address):
        storage = RDBStorage(address, engine_kwargs=options)
        _make_tables(storage.engine)
    return Storage(storage, storage.engine)


@contextmanager
def _advisory(engine: Any) -> Iterator[None]:
    from sqlalchemy import text
    from sqlalchemy.exc import OperationalError

    key = {"key": zlib.crc32(b"ragsweep-optuna")}
    # Not in a transaction, which would lie idle for as long as the lock is held.
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
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


def _make_tables(engine: Any) -> None:
    from sqlalchemy import text

    from hydra_plugins.ragsweep_optuna._evaluations import SCHEMA

    with engine.begin() as connection:
        check_format(connection)
        for statement in SCHEMA:
            connection.execute(text(statement))
