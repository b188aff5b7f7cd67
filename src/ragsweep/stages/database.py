"""The SQLite database of a store: its entries with their costs, the results that use them, and segments of rows.

The database is a cache. If it is damaged or was written by another version, it is moved to quarantine, and an empty
database replaces it.
"""

import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragsweep.core.identity import Node
from ragsweep.core.locks import locks, private_file
from ragsweep.stages.blobs import OtherFormat
from ragsweep.stages.machine import machine

VERSION = 1
SCHEMA = """
CREATE TABLE entries (
    address TEXT PRIMARY KEY, stage TEXT NOT NULL, target TEXT NOT NULL, spec TEXT NOT NULL, kind TEXT NOT NULL,
    bytes INTEGER NOT NULL, rows INTEGER NOT NULL, amount REAL NOT NULL, seconds REAL NOT NULL, machine TEXT NOT NULL,
    made REAL NOT NULL, used REAL NOT NULL
);
CREATE INDEX entries_by_stage ON entries (stage, target);
CREATE TABLE segments (
    id INTEGER PRIMARY KEY AUTOINCREMENT, address TEXT NOT NULL, keys TEXT NOT NULL, data BLOB NOT NULL
);
CREATE INDEX segments_by_address ON segments (address);
CREATE TABLE uses (address TEXT, user TEXT, at REAL NOT NULL, PRIMARY KEY (address, user));
"""
FILES = ("", "-wal", "-shm")
"""Suffixes of a database's file and of the companion files that SQLite creates next to it."""

_PASSING = {
    sqlite3.SQLITE_BUSY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_INTERRUPT, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_NOLFS, sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_PERM, sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_TOOBIG,
}  # fmt: skip


@dataclass(frozen=True)
class Cost:
    """The cost of computing a whole value or some rows: the amount of work, and the time in seconds."""

    amount: float  # `Node.amount` of a whole value (characters of the corpus); for rows, their number
    seconds: float


class Database:
    """One SQLite file; every process opens its own connection.

    ``put_aside(path, error)`` is called, by one process at a time, if the file is damaged or was written by another
    version, and must move the file away. ``warn(error)`` is called if ``rows`` fails for any other reason.
    """

    def __init__(
        self, path: Path, put_aside: Callable[[Path, Exception], None], warn: Callable[[Exception], None]
    ) -> None:
        self.path = path
        self._move = put_aside
        self._warn = warn
        self._connections: dict[int, sqlite3.Connection] = {}
        self._number = 0  # inode of the opened file; another file at the same path is not moved

    def open(self) -> sqlite3.Connection:
        """Return this process's connection, opened by the first call; a damaged file is moved away first.

        Raises OSError or sqlite3.Error if the database cannot be opened.
        """
        process = os.getpid()
        if process not in self._connections:
            with self._lock():
                try:
                    self._connections[process] = _open(self.path)
                except (sqlite3.Error, OtherFormat, UnicodeDecodeError) as fault:
                    if not damaged(fault):
                        raise
                    self._move(self.path, fault)
                    if self.path.exists():  # the move failed
                        raise sqlite3.DatabaseError(str(fault)) from None
                    self._connections[process] = _open(self.path)
                self._number = self.path.stat().st_ino
        return self._connections[process]

    def rows(self, query: str, *values: Any) -> list[Any]:
        """Return the result rows of a query with ``values`` for its placeholders; [] if the database cannot be read."""
        try:
            return self.open().execute(query, values).fetchall()
        except (OSError, sqlite3.Error, UnicodeDecodeError) as fault:
            self._lose(fault)
            return []

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Run the block in one transaction; roll it back if the block raises an exception.

        Raises OSError or sqlite3.Error if the database cannot be opened or written; a damaged file is moved away.
        """
        connection = self.open()
        try:
            connection.execute("BEGIN IMMEDIATE")
            yield connection
            connection.execute("COMMIT")
        except (sqlite3.Error, UnicodeDecodeError) as fault:
            if damaged(fault):
                self._lose(fault)
            raise fault if isinstance(fault, sqlite3.Error) else sqlite3.DatabaseError(str(fault)) from None
        finally:
            with suppress(sqlite3.Error):
                connection.rollback()

    def close(self) -> None:
        """Close this process's connection; the next query reopens it."""
        connection = self._connections.pop(os.getpid(), None)
        if connection is not None:
            with suppress(sqlite3.Error):
                connection.close()

    def _lose(self, fault: Exception) -> None:
        """Close the connection after a failure.

        A damaged file is moved away, unless another process has already done so; any other failure causes a warning.
        """
        self.close()
        if not damaged(fault):
            self._warn(fault)
            return
        with self._lock(), suppress(FileNotFoundError):
            if self.path.stat().st_ino == self._number:
                self._move(self.path, fault)

    def _lock(self) -> AbstractContextManager[None]:
        return locks(self.path.parent / "locks").alone(self.path.name)


def insert_entry(
    connection: sqlite3.Connection, node: Node, size: int, rows: int, cost: Cost, where: str | None = None
) -> None:
    """Insert or update the row of an entry in the table ``entries``.

    For a rows node, the size, the number of rows and the cost are added to the stored ones. For a whole value, the size
    and the cost replace the stored ones. ``where`` names the machine that computed the value; None means this machine.
    """
    now = time.time()
    connection.execute(
        "INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET"
        " bytes = excluded.bytes + bytes * (excluded.kind = 'rows'), rows = rows + excluded.rows,"
        " amount = excluded.amount + amount * (excluded.kind = 'rows'),"
        " seconds = excluded.seconds + seconds * (excluded.kind = 'rows'), used = excluded.used,"
        " machine = CASE excluded.kind WHEN 'rows' THEN machine ELSE excluded.machine END,"
        " made = CASE excluded.kind WHEN 'rows' THEN made ELSE excluded.made END",
        (
            *(node.address, node.stage, node.spec.target, node.spec.digest, node.kind, size, rows),
            *(cost.amount, cost.seconds, machine() if where is None else where, now, now),
        ),
    )


def damaged(fault: Exception) -> bool:
    """Return whether an error means a database that is damaged or in another format, not busy or unreachable."""
    if isinstance(fault, sqlite3.Error):
        # The SQL is correct: a failed constraint means a bad value; an error outside _PASSING means a damaged file.
        return getattr(fault, "sqlite_errorcode", sqlite3.SQLITE_IOERR) & 0xFF not in _PASSING
    # SQLite's messages contain names of tables and columns; if such a name is damaged, Python cannot decode them.
    return isinstance(fault, OtherFormat | UnicodeDecodeError)


def _open(path: Path) -> sqlite3.Connection:
    private_file(path)
    connection = sqlite3.connect(path, timeout=60, isolation_level=None, check_same_thread=False)
    # Text that is not UTF-8 must not raise an error: an entry that is not found because of it is recomputed.
    connection.text_factory = lambda data: data.decode(errors="replace")
    try:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        _make_tables(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _make_tables(connection: sqlite3.Connection) -> None:
    """Create all tables in a new database, or none; raises OtherFormat for a database in another format."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version == VERSION:
        return
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if tables or version:
        raise OtherFormat(f"format {version}; this version reads format {VERSION}")
    connection.execute("BEGIN IMMEDIATE")
    for statement in filter(str.strip, SCHEMA.split(";")):
        connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {VERSION}")
    connection.execute("COMMIT")
