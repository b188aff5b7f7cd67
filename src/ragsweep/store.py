"""Keep stage results on disk under their addresses, for all processes of a machine and all days to come.

A whole value is one file (see `blobs`), written under another name, synced and renamed. Rows are segments: some keys
and their values together, in one SQLite table. Whatever is read back is checked; what is damaged is put aside with a
warning and counts as missing. A store that cannot be written costs time, never a result.
"""

from __future__ import annotations

import mmap
import os
import shutil
import socket
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ragsweep.blobs import Damaged, OtherFormat, Piece, pack, unpack
from ragsweep.identity import Node, Rows, content_hash
from ragsweep.latency import machine
from ragsweep.locks import Locks, locks
from ragsweep.rows import cut

SCHEMA = """
CREATE TABLE IF NOT EXISTS entries (
    address TEXT PRIMARY KEY, stage TEXT NOT NULL, target TEXT NOT NULL, spec TEXT NOT NULL, kind TEXT NOT NULL,
    bytes INTEGER NOT NULL, rows INTEGER NOT NULL, amount REAL NOT NULL, seconds REAL NOT NULL, machine TEXT NOT NULL,
    made REAL NOT NULL, used REAL NOT NULL
);
CREATE INDEX IF NOT EXISTS entries_by_stage ON entries (stage, target);
CREATE TABLE IF NOT EXISTS segments (
    id INTEGER PRIMARY KEY AUTOINCREMENT, address TEXT NOT NULL, keys TEXT NOT NULL, data BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS segments_by_address ON segments (address);
CREATE TABLE IF NOT EXISTS uses (address TEXT, user TEXT, at REAL NOT NULL, PRIMARY KEY (address, user));
"""
ROWS_A_SEGMENT = 4096
STALE = 24 * 3600.0
"""Seconds after which a temporary file of another machine is nobody's."""


class Segment(NamedTuple):
    """Some rows of a node, and the number by which later ones are told from it."""

    number: int
    piece: Piece


@dataclass(frozen=True)
class Cost:
    """What a value cost when it was computed: how much work it was, and how long that took."""

    amount: float
    seconds: float


class Store:
    """Open (or make) the store in a folder; ``warn`` hears of damage and of what cannot be written.

    The constructor raises OSError or sqlite3.Error where the folder can be neither made nor read.
    """

    def __init__(self, folder: Path, warn: Callable[[str], None]) -> None:
        self.folder = folder
        self._warn = warn
        self._written = True
        self._connection: tuple[int, sqlite3.Connection] | None = None
        for name in ("whole", "pieces", "temporary"):
            (folder / name).mkdir(parents=True, exist_ok=True, mode=0o700)
        self._sweep_temporary()
        self.locks: Locks = locks(folder / "locks")
        with self._database() as connection:
            connection.execute("SELECT count(*) FROM entries")

    # --- whole values ------------------------------------------------------------------------------------------

    def whole(self, node: Node) -> Any | None:
        """Return a whole value, mapped from its file, or None where there is none to be trusted."""
        found = self._file(self._path(node.address), node.address, node.result)
        return None if found is None else found.value

    def keep_whole(self, node: Node, value: Any, seconds: float) -> None:
        """Write a whole value; its pieces are no longer needed."""
        with self._writing(f"{node.stage} {node.label}".strip()):
            size = self._write(self._path(node.address), pack(node.address, value))
            self._enter(node, size, 0, Cost(node.amount, seconds))
            shutil.rmtree(self._pieces(node), ignore_errors=True)

    def piece(self, node: Node, name: str) -> Any | None:
        """Return a piece of a whole value that an interrupted computation left behind."""
        found = self._file(self._pieces(node) / name, f"{node.address}/{name}", node.result)
        return None if found is None else found.value

    def keep_piece(self, node: Node, name: str, value: Any) -> None:
        """Write a piece of a whole value that is being computed."""
        with self._writing(f"a piece of {node.stage}"):
            self._pieces(node).mkdir(exist_ok=True, mode=0o700)
            self._write(self._pieces(node) / name, pack(f"{node.address}/{name}", value))

    def space(self, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        """Return an array in a file that nobody else sees; in memory where the disk has no room."""
        size = max(int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize, 1)
        with suppress(OSError):
            with tempfile.TemporaryFile(dir=self.folder / "temporary") as file:
                os.posix_fallocate(file.fileno(), 0, size)  # else a full disk would kill the process on writing
                mapped = mmap.mmap(file.fileno(), size)
            return np.frombuffer(mapped, dtype, count=int(np.prod(shape, dtype=np.int64))).reshape(shape)
        return np.empty(shape, dtype)

    # --- rows --------------------------------------------------------------------------------------------------

    def segments(self, node: Node, after: int = 0) -> list[Segment]:
        """Return the segments of a node that were written after the one of this number."""
        with self._reading() as connection:
            rows = connection.execute(
                "SELECT id, data FROM segments WHERE address = ? AND id > ? ORDER BY id", (node.address, after)
            ).fetchall()
            return [Segment(number, piece) for number, data in rows if (piece := self._segment(node, number, data))]
        return []

    def keep_rows(self, node: Node, rows: Piece, cost: Cost) -> None:
        """Write rows as segments, in one transaction."""
        keys = rows.keys or ()
        with self._writing(f"{node.stage} {node.label}".strip()), self._database() as connection:
            connection.execute("BEGIN IMMEDIATE")
            size = 0
            for start in range(0, len(keys), ROWS_A_SEGMENT):
                part = np.arange(start, min(start + ROWS_A_SEGMENT, len(keys)))
                value = rows.value if len(part) == len(keys) else cut(rows.value, part)
                data = b"".join(pack(node.address, value, keys[start : start + ROWS_A_SEGMENT]))
                connection.execute(
                    "INSERT INTO segments (address, keys, data) VALUES (?, ?, ?)",
                    (node.address, _digest(keys[start : start + ROWS_A_SEGMENT]), data),
                )
                size += len(data)
            _insert_entry(connection, node, size, len(keys), cost)
            connection.execute("COMMIT")

    # --- what is there -----------------------------------------------------------------------------------------

    def has(self, node: Node, rows: Rows) -> bool:
        """Say whether a value, or all these rows of it, are there; they may still prove to be damaged."""
        if node.kind == "whole":
            return self._path(node.address).exists()
        with self._reading() as connection:
            said = connection.execute("SELECT keys FROM segments WHERE address = ?", (node.address,)).fetchall()
            if not said or (_digest(rows),) in said:  # the rows as they were written: nothing need be read
                return bool(said)
        known = {key for segment in self.segments(node) for key in segment.piece.keys or ()}
        return bool(known) and known.issuperset(rows)

    def seconds(self, node: Node, amount: float) -> float | None:
        """Tell from what was measured how long so much of a stage will take; None where nothing like it was.

        The same part with the same parameters tells best, then the same class, then the same stage.
        """
        with self._reading() as connection:
            for column, value in (("spec", node.spec.digest), ("target", node.spec.target), ("stage", node.stage)):
                rates = connection.execute(
                    f"SELECT seconds / amount FROM entries WHERE stage = ? AND {column} = ? AND machine = ?"
                    " AND amount > 0 ORDER BY made DESC LIMIT 20",
                    (node.stage, value, machine()),
                ).fetchall()
                if rates:
                    return amount * float(np.median([rate for (rate,) in rates]))
        return None

    def cost(self, node: Node) -> float:
        """Return the seconds that an entry took to compute; 0 where that is not known."""
        with self._reading() as connection:
            found = connection.execute("SELECT seconds FROM entries WHERE address = ?", (node.address,)).fetchone()
            return float(found[0]) if found else 0.0
        return 0.0

    def used(self, addresses: Iterable[str], user: str) -> None:
        """Note which result was made from these entries, and when."""
        now = time.time()
        with self._writing("who uses what"), self._database() as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(
                "INSERT INTO uses VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET at = excluded.at",
                [(address, user, now) for address in addresses],
            )
            connection.executemany("UPDATE entries SET used = ? WHERE address = ?", [(now, one) for one in addresses])
            connection.execute("COMMIT")

    # --- inside ------------------------------------------------------------------------------------------------

    def _path(self, address: str) -> Path:
        return self.folder / "whole" / address

    def _pieces(self, node: Node) -> Path:
        return self.folder / "pieces" / node.address

    def _file(self, path: Path, address: str, result: type) -> Piece | None:
        """Map and check a file; one that is not what was written is put aside."""
        try:
            with path.open("rb") as file:
                data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            return unpack(memoryview(data), address, result)
        except FileNotFoundError:
            return None
        except (Damaged, OtherFormat, ValueError, KeyError, TypeError, OSError) as fault:
            self._put_aside(path, fault)
            return None

    def _segment(self, node: Node, number: int, data: bytes) -> Piece | None:
        try:
            return unpack(data, node.address, node.result)
        except (Damaged, OtherFormat, ValueError, KeyError, TypeError) as fault:
            self._say(f"{self.folder / 'store.db'}, segment {number}", fault)
            with self._writing("without a damaged segment"), self._database() as connection:
                self._quarantine(f"segment-{number}").write_bytes(data)
                connection.execute("DELETE FROM segments WHERE id = ?", (number,))
            return None

    def _put_aside(self, path: Path, fault: Exception) -> None:
        self._say(str(path), fault)
        with suppress(OSError):
            os.replace(path, self._quarantine(f"{path.parent.name}-{path.name}"))

    def _say(self, what: str, fault: Exception) -> None:
        if isinstance(fault, OtherFormat):
            self._warn(f"{what} was written by another version of ragsweep ({fault}); it is computed again")
        else:
            self._warn(f"{what} is damaged ({fault}); it is put into quarantine/ and computed again")

    def _quarantine(self, name: str) -> Path:
        folder = self.folder / "quarantine"
        folder.mkdir(exist_ok=True, mode=0o700)
        return folder / f"{time.time_ns()}-{name}"

    def _write(self, path: Path, parts: Iterator[memoryview | bytes]) -> int:
        """Write a file so that it is there as a whole or not at all."""
        temporary = self.folder / "temporary" / f"{socket.gethostname()}-{os.getpid()}-{time.monotonic_ns()}"
        try:
            handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(handle, "wb", buffering=0) as file:
                size = sum(_write_all(handle, part) for part in parts)
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        return size

    def _enter(self, node: Node, size: int, rows: int, cost: Cost) -> None:
        with self._database() as connection:
            _insert_entry(connection, node, size, rows, cost)

    def _sweep_temporary(self) -> None:
        """Remove what processes that are no more had begun to write."""
        for path in (self.folder / "temporary").iterdir():
            host, _, rest = path.name.rpartition("-")[0].rpartition("-")
            with suppress(OSError):
                alive = _alive(int(rest)) if host == socket.gethostname() and rest.isdigit() else None
                if alive is False or (alive is None and time.time() - path.stat().st_mtime > STALE):
                    path.unlink()

    @contextmanager
    def _database(self) -> Iterator[sqlite3.Connection]:
        """Yield this process's connection; a transaction that an exception leaves open is undone."""
        if self._connection is None or self._connection[0] != os.getpid():
            self._connection = (os.getpid(), self._connect())
        connection = self._connection[1]
        try:
            yield connection
        finally:
            if connection.in_transaction:
                connection.rollback()

    def _connect(self) -> sqlite3.Connection:
        path = self.folder / "store.db"
        with self.locks.alone("store.db"):
            try:
                return _open_database(path)
            except sqlite3.DatabaseError as fault:
                if isinstance(fault, sqlite3.OperationalError):  # locked, full or not readable: not damaged
                    raise
                for suffix in ("", "-wal", "-shm"):
                    with suppress(FileNotFoundError):
                        self._put_aside(path.with_name(path.name + suffix), Damaged(str(fault)))
                return _open_database(path)

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        """Treat a database that cannot be read as empty."""
        try:
            with self._database() as connection:
                yield connection
        except sqlite3.DatabaseError as fault:
            self._lose(fault)

    def _lose(self, fault: sqlite3.DatabaseError) -> None:
        """Say that the database fails, and open it anew next time: then a damaged one is put aside."""
        self._warn(f"{self.folder / 'store.db'}: {fault}; what it held is computed again")
        if self._connection:
            with suppress(sqlite3.Error):
                self._connection[1].close()
            self._connection = None

    @contextmanager
    def _writing(self, what: str) -> Iterator[None]:
        """Let a write fail with one warning: results stay in memory, and the work goes on without the store."""
        if not self._written:
            # Tried again all the same: space may have been freed.
            with suppress(OSError, sqlite3.Error):
                yield
                self._written = True
            return
        try:
            yield
        except (OSError, sqlite3.OperationalError) as fault:
            self._written = False
            free = shutil.disk_usage(self.folder).free if self.folder.exists() else 0
            self._warn(
                f"cannot store {what} in {self.folder}: {fault} ({free / 1e6:,.0f} MB free); going on without storing:"
                " what is computed now is computed again next time"
            )
        except sqlite3.DatabaseError as fault:
            self._lose(fault)


def open_store(folder: Path, warn: Callable[[str], None]) -> Store | None:
    """Open the store; one that can be neither made nor read is a warning, and work goes on without."""
    try:
        return Store(folder, warn)
    except (OSError, sqlite3.Error) as fault:
        warn(f"cannot use the store in {folder}: {fault}; going on without: what is computed now is computed again")
        return None


def _open_database(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=60, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        for statement in SCHEMA.split(";"):
            connection.execute(statement)
    except BaseException:
        connection.close()
        raise
    return connection


def _insert_entry(connection: sqlite3.Connection, node: Node, size: int, rows: int, cost: Cost) -> None:
    now = time.time()
    connection.execute(
        "INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET"
        " bytes = excluded.bytes + bytes * (excluded.kind = 'rows'), rows = rows + excluded.rows,"
        " amount = excluded.amount + amount * (excluded.kind = 'rows'),"
        " seconds = excluded.seconds + seconds * (excluded.kind = 'rows')",
        (
            node.address, node.stage, node.spec.target, node.spec.digest, node.kind, size, rows, cost.amount,
            cost.seconds, machine(), now, now,
        ),
    )  # fmt: skip


def _digest(keys: Rows) -> str:
    return content_hash(list(dict.fromkeys(keys)))


def _write_all(handle: int, part: memoryview | bytes) -> int:
    view, done = memoryview(part), 0
    while done < len(view):
        done += os.write(handle, view[done:])
    return done


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
