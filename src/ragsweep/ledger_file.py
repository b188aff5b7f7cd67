"""The SQLite file of the ledger: its tables, and who may write when."""

from __future__ import annotations

import os
import shutil
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ragsweep.errors import TrackingError
from ragsweep.locks import private_file, private_folder

VERSION = 2
SCHEMA = """
CREATE TABLE IF NOT EXISTS sweeps (
    id TEXT PRIMARY KEY, key TEXT NOT NULL, round INTEGER NOT NULL, place TEXT NOT NULL, name TEXT NOT NULL,
    parent TEXT NOT NULL, status TEXT NOT NULL, jobs TEXT NOT NULL, names TEXT NOT NULL, created REAL NOT NULL
);
CREATE INDEX IF NOT EXISTS sweeps_by_key ON sweeps (key, round);
CREATE TABLE IF NOT EXISTS records (
    id INTEGER PRIMARY KEY AUTOINCREMENT, sweep TEXT, job INTEGER NOT NULL, status TEXT NOT NULL, signature TEXT,
    place TEXT NOT NULL, run TEXT, mirrored INTEGER NOT NULL, text TEXT NOT NULL, scores BLOB NOT NULL,
    counts BLOB NOT NULL, own BLOB NOT NULL, shared TEXT NOT NULL, digest TEXT NOT NULL, created REAL NOT NULL
);
CREATE UNIQUE INDEX IF NOT EXISTS one_record_a_job ON records (sweep, job) WHERE sweep IS NOT NULL;
CREATE TABLE IF NOT EXISTS shared (name TEXT PRIMARY KEY, data BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS claims (
    sweep TEXT NOT NULL, job INTEGER NOT NULL, host TEXT NOT NULL, process INTEGER NOT NULL, started TEXT NOT NULL,
    heartbeat REAL NOT NULL, attempts INTEGER NOT NULL, PRIMARY KEY (sweep, job)
);
CREATE TABLE IF NOT EXISTS holdouts (golden TEXT PRIMARY KEY, questions TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS looks (golden TEXT NOT NULL, by TEXT NOT NULL, at REAL NOT NULL, PRIMARY KEY (golden, by));
"""


class LedgerFile:
    """Open (or make) the file; each thread of each process has a connection of its own.

    Raises:
        TrackingError: It can be neither made nor written, or another version wrote it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._connections = threading.local()
        try:
            private_folder(path.parent)
            private_file(path)
            with self.transaction() as connection:
                self._make_tables(connection)
        except (OSError, sqlite3.Error) as fault:
            raise TrackingError(
                f"cannot write results to {self.path}: {fault}; set store.path to another folder"
            ) from None

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Write all of it or nothing; raises TrackingError where it cannot be written."""
        # IMMEDIATE: two processes that both read and then write would otherwise fail with "database is locked".
        try:
            with self.reading() as connection:
                connection.execute("BEGIN IMMEDIATE")
                yield connection
                connection.execute("COMMIT")
        except sqlite3.OperationalError as fault:
            free = f"{shutil.disk_usage(self.path.parent).free / 1e6:,.0f} MB free" if self.path.exists() else "gone"
            raise TrackingError(
                f"cannot write results to {self.path}: {fault} ({free}); mend that, and the same command goes on from"
                " here, or set store.path to another folder"
            ) from None

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Yield this thread's connection; a transaction that an exception leaves open is undone."""
        known = self._connections
        if getattr(known, "process", None) != os.getpid():  # another process's must not be used after a fork
            known.connection = sqlite3.connect(self.path, timeout=60, isolation_level=None)
            known.connection.execute("PRAGMA journal_mode=WAL")
            known.process = os.getpid()
        inside = known.connection.in_transaction  # somebody else's, who ends it
        try:
            yield known.connection
        finally:
            if known.connection.in_transaction and not inside:
                known.connection.rollback()

    def _make_tables(self, connection: sqlite3.Connection) -> None:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if tables and version != VERSION:
            raise TrackingError(
                f"{self.path} was written by another version of ragsweep (format {version}, this one writes {VERSION});"
                " move it away, or set store.path to another folder"
            )
        for statement in SCHEMA.split(";"):
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {VERSION}")
