"""The SQLite file of the ledger: its tables, transactions and connections."""

import os
import shutil
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ragsweep.core.errors import InputError, TrackingError
from ragsweep.core.interruption import warn
from ragsweep.core.locks import private_file, private_folder
from ragsweep.records import checksums

VERSION, WITH_SEALS = 5, 4
"""The format that is written, and an earlier format (with a hash per row) that is upgraded when a file is opened."""
SCHEMA = """
CREATE TABLE IF NOT EXISTS sweeps (
    id TEXT PRIMARY KEY, key TEXT NOT NULL, round INTEGER NOT NULL, tracker TEXT NOT NULL, name TEXT NOT NULL,
    parent TEXT NOT NULL, status TEXT NOT NULL, jobs TEXT NOT NULL, names TEXT NOT NULL, created REAL NOT NULL
);
CREATE INDEX IF NOT EXISTS sweeps_by_key ON sweeps (key, round);
CREATE TABLE IF NOT EXISTS records (
    id INTEGER PRIMARY KEY AUTOINCREMENT, sweep TEXT, kind TEXT NOT NULL, job INTEGER NOT NULL, status TEXT NOT NULL,
    partition TEXT NOT NULL, golden TEXT NOT NULL, signature TEXT, tracker TEXT NOT NULL, run TEXT,
    tracked INTEGER NOT NULL, shared TEXT NOT NULL, digest TEXT NOT NULL, created REAL NOT NULL,
    text TEXT NOT NULL, scores BLOB NOT NULL, counts BLOB NOT NULL, own BLOB NOT NULL
);
CREATE UNIQUE INDEX IF NOT EXISTS one_record_a_job ON records (sweep, kind, job) WHERE sweep IS NOT NULL;
CREATE INDEX IF NOT EXISTS records_by_golden ON records (golden, partition);
CREATE TABLE IF NOT EXISTS shared (name TEXT PRIMARY KEY, data BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS claims (
    kind TEXT NOT NULL, sweep TEXT NOT NULL, number INTEGER NOT NULL, host TEXT NOT NULL, process INTEGER NOT NULL,
    started TEXT NOT NULL, heartbeat REAL NOT NULL, attempts INTEGER NOT NULL, PRIMARY KEY (kind, sweep, number)
);
CREATE TABLE IF NOT EXISTS names (name TEXT PRIMARY KEY, target TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS holdouts (golden TEXT PRIMARY KEY, questions TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS checksums (scope TEXT PRIMARY KEY, checksum TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS holdout_views (
    golden TEXT NOT NULL, viewer TEXT NOT NULL, at REAL NOT NULL, PRIMARY KEY (golden, viewer)
);
"""

BUSY, NOTICE = 60.0, 10.0
"""Maximum seconds that a writer waits for another writer, and seconds after which it reports that it is waiting."""

FOLDER = "store.path (--path, RAGSWEEP_STORE)"
"""The settings that choose the file's folder, as named in messages."""

UNREADABLE = "Could not decode"
"""The first words of sqlite3's OperationalError for text that is not valid UTF-8."""


def damaged(path: Path, fact: str) -> InputError:
    """Return an error whose message states the path of a damaged file, the damage (``fact``) and a remedy."""
    return InputError(
        f"{path}: {fact}; restore the file from a copy, or move it to another folder and repeat the runs (stored stages"
        " are reused)"
    )


class LedgerFile:
    """The ledger's file, which is created if it does not exist; each thread of each process has its own connection.

    The file is opened read-only if this process may not write to it or to its folder. Raises TrackingError if the file
    cannot be created, cannot be upgraded or has an unknown format, and InputError if it is damaged or cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._connections = threading.local()
        self.is_writable = not path.exists() or (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK))
        try:
            if self.is_writable:
                private_folder(path.parent)
                private_file(path)
            with self.reading() as connection:  # never waits for a writer
                version = self._check_version(connection)
            if version != VERSION:
                with self.transaction() as connection:
                    version = self._check_version(connection)  # another process may have created the tables
                    for statement in SCHEMA.split(";"):
                        connection.execute(statement)
                    if version == WITH_SEALS:
                        checksums.upgrade(connection)
                    connection.execute(f"PRAGMA user_version = {VERSION}")
        except (OSError, sqlite3.Error) as fault:
            raise TrackingError(
                f"cannot write results to {self.path}: {fault}; set {FOLDER} to another folder"
            ) from None

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Yield this thread's connection in a write transaction; an error in the block rolls it back.

        Raises TrackingError if writing fails, and InputError if the file is damaged.
        """
        # Without IMMEDIATE, two processes that read and then write would fail with "database is locked".
        try:
            with self._connected() as connection:
                if not self.is_writable:
                    raise TrackingError(f"cannot write to {self.path}: it is read-only; set {FOLDER} to another folder")
                self._begin(connection)
                try:
                    yield connection
                    connection.execute("COMMIT")
                except BaseException:
                    with suppress(sqlite3.Error):
                        connection.rollback()
                    raise
        except sqlite3.OperationalError as fault:
            state = "the file is missing"
            if self.path.exists():
                state = f"{shutil.disk_usage(self.path.parent).free / 1e6:,.0f} MB free"
            raise TrackingError(
                f"cannot write results to {self.path}: {fault} ({state}); fix this problem and rerun the command to"
                f" resume, or set {FOLDER} to another folder"
            ) from None

    def _begin(self, connection: sqlite3.Connection) -> None:
        """Begin a write transaction; print one line if another process keeps the file locked for `NOTICE` seconds."""
        for seconds, is_last in ((NOTICE, False), (BUSY - NOTICE, True)):
            connection.execute(f"PRAGMA busy_timeout = {seconds * 1000:.0f}")
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as fault:
                if is_last or fault.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:  # the low byte is the primary code
                    raise
                limit = f"{seconds:g} s so far, at most {BUSY:g} s"
                warn(f"waiting for another process that is writing to {self.path} ({limit})")
            else:
                connection.execute(f"PRAGMA busy_timeout = {BUSY * 1000:.0f}")
                return

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Yield this thread's connection in its current transaction or, if it has none, in a read transaction.

        Raises InputError if the file is damaged or cannot be read.
        """
        try:
            with self._connected() as connection:
                if connection.in_transaction:
                    yield connection
                    return
                connection.execute("BEGIN")
                try:
                    yield connection
                finally:
                    connection.rollback()
        except sqlite3.OperationalError as fault:
            raise InputError(
                f"{self.path}: the file cannot be read: {fault}; check its permissions and its disk, or set {FOLDER} to"
                " another folder"
            ) from None

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        """Yield this thread's connection; an error in the block that a damaged file causes is raised as InputError."""
        local = self._connections
        try:
            if getattr(local, "process", None) != os.getpid():  # a connection must not be used after a fork
                local.connection = sqlite3.connect(self._uri(), uri=True, timeout=BUSY, isolation_level=None)
                local.connection.row_factory = sqlite3.Row
                if self.is_writable:
                    local.connection.execute("PRAGMA journal_mode=WAL")
                local.process = os.getpid()
            yield local.connection
        except (sqlite3.DatabaseError, UnicodeDecodeError) as fault:
            is_sound = isinstance(fault, sqlite3.OperationalError | sqlite3.IntegrityError)
            is_lacking = getattr(fault, "sqlite_errorcode", None) == sqlite3.SQLITE_ERROR  # missing table, column
            if is_sound and not is_lacking and UNREADABLE not in str(fault):
                raise
            raise damaged(self.path, f"the file is damaged ({' '.join(str(fault).split())})") from None

    def _uri(self) -> str:
        """Return the URI with which SQLite opens the file.

        A read-only file is opened as immutable if it has no write-ahead log, because SQLite could not create one.
        """
        log = self.path.with_name(f"{self.path.name}-wal")
        mode = "rwc" if self.is_writable else "ro" if log.exists() and log.stat().st_size else "ro&immutable=1"
        return f"{self.path.absolute().as_uri()}?mode={mode}"

    def _check_version(self, connection: sqlite3.Connection) -> int:
        """Return the number of the file's format, or 0 for a new file. Raises TrackingError for an unknown format."""
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if tables and version not in (VERSION, WITH_SEALS):
            raise TrackingError(
                f"{self.path} was written by another version of ragsweep (format {version}; this version writes format"
                f" {VERSION}); move the file, or set {FOLDER} to another folder; runs in MLflow are not affected"
            )
        return int(version)
