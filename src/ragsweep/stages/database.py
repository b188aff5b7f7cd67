"""The SQLite file of a store: descriptions, costs and users of entries, and segments of rows.

It is a cache: a database that is damaged, or from another version, is moved to quarantine and replaced by an empty one.
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
"""Suffixes of a database's file and of its companion files."""

_PASSING = {
    sqlite3.SQLITE_BUSY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_INTERRUPT, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_NOLFS, sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_PERM, sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_TOOBIG,
}  # fmt: skip


@dataclass(frozen=True)
class Cost:
    """Cost of computing a value: amount of work, and seconds."""

    amount: float  # `Node.amount` of a whole value (characters of the corpus), else the number of rows
    seconds: float


class Database:
    """One SQLite file; every process opens its own connection.

    ``put_aside`` is called, by one process at a time, for a file that is damaged or from another version, and must move
    it away. ``warn`` is called for all other failures of ``rows``.
    """

    def __init__(
        self, path: Path, put_aside: Callable[[Path, Exception], None], warn: Callable[[Exception], None]
    ) -> None:
        self.path = path
        self._move = put_aside
        self._warn = warn
        self._connections: dict[int, sqlite3.Connection] = {}
        self._number = 0  # inode of the opened file, so that a file which replaced it is not moved

    def open(self) -> sqlite3.Connection:
        """Return this process's connection; raises OSError or sqlite3.Error if it cannot be opened."""
        process = os.getpid()
        if process not in self._connections:
            with self._lock():
                try:
                    self._connections[process] = _open(self.path)
                except (sqlite3.Error, OtherFormat, UnicodeDecodeError) as fault:
                    if not damaged(fault):
                        raise
                    self._move(self.path, fault)
                    self._connections[process] = _open(self.path)
                self._number = self.path.stat().st_ino
        return self._connections[process]

    def rows(self, query: str, *values: Any) -> list[Any]:
        """Return the rows of a query; empty if the database cannot be read."""
        try:
            return self.open().execute(query, values).fetchall()
        except (OSError, sqlite3.Error, UnicodeDecodeError) as fault:
            self._lose(fault)
            return []

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Run the block in one transaction; raises OSError or sqlite3.Error if it fails."""
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
        """Close the connection; move the file if it is damaged and no other process has moved it."""
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
    """Insert or update an entry's row in the table ``entries``.

    For a rows entry, the size and cost are added to those already there; for a whole value, they replace them.
    ``where`` names the machine that computed the value, if it was another one.
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
    """Return whether an error means a damaged database, rather than a busy, full or unreachable one."""
    if isinstance(fault, sqlite3.Error):
        # The SQL is correct: a constraint fails because of a value, and an error not in _PASSING because of the file.
        return getattr(fault, "sqlite_errorcode", sqlite3.SQLITE_IOERR) & 0xFF not in _PASSING
    # If a name is damaged, Python cannot decode SQLite's message, which contains it.
    return isinstance(fault, OtherFormat | UnicodeDecodeError)


def _open(path: Path) -> sqlite3.Connection:
    private_file(path)
    connection = sqlite3.connect(path, timeout=60, isolation_level=None, check_same_thread=False)
    # Damaged text (not UTF-8) is not an error: a row that is not found is recomputed.
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
    """Create all tables or none; raises OtherFormat for tables of another version."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version == VERSION:
        return
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if tables or version:
        raise OtherFormat(f"format {version}, this version reads {VERSION}")
    connection.execute("BEGIN IMMEDIATE")
    for statement in filter(str.strip, SCHEMA.split(";")):
        connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {VERSION}")
    connection.execute("COMMIT")
