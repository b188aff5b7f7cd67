"""Store the values of nodes on disk, by address, for all processes on a machine.

A whole value is one file (see `blobs`); it is written under a temporary name, synced and renamed. Rows are stored in
one SQLite table (see `database`), in segments; a segment contains the keys and values of some rows. Everything that is
read is verified; a damaged entry is moved to quarantine with a warning and counts as missing. If the store cannot be
written, results are still returned, but later processes must compute them again.
"""

import shutil
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ragsweep.core.identity import Node, Rows, content_hash
from ragsweep.core.interruption import raise_overdue
from ragsweep.core.locks import locks
from ragsweep.core.mapped_array import mapped_array
from ragsweep.stages.blobs import Damaged, NotPlain, OtherFormat, StoredPiece, pack, size, unpack
from ragsweep.stages.database import FILES, Cost, Database, damaged, insert_entry
from ragsweep.stages.machine import machine
from ragsweep.stages.rows import cut, size_of
from ragsweep.stages.store_files import StoreFiles, map_file

EXTRAPOLATED = 50
"""Maximum ratio between the amount of work whose duration is estimated and the amount of measured work."""

ROWS_A_SEGMENT = 4096
BYTES_A_SEGMENT = 64 * 2**20
"""Maximum rows and bytes in a segment; the bytes are estimated from the rows' mean size (SQLite allows 1 GB)."""


class Segment(NamedTuple):
    """Some rows of a node that were written together; later segments have larger numbers."""

    number: int
    keys: tuple[str, ...]
    value: Any


class Store:
    """A store in ``folder``, which is created if it does not exist.

    ``warn`` is called with a message for damaged entries, and for failed reads and writes. The constructor raises
    OSError or sqlite3.Error if the folder cannot be created or is not writable.
    """

    def __init__(self, folder: Path, warn: Callable[[str], None]) -> None:
        self.folder = folder
        self._warn = warn
        self._works = True
        self._files = StoreFiles(folder)
        self._database = Database(folder / "store.db", self._put_aside, self._complain)
        self._database.open()

    def close(self) -> None:
        """Close the database; the next access reopens it."""
        self._database.close()

    def alone(self, node: Node, waiting: Callable[[], None] = lambda: None) -> AbstractContextManager[None]:
        """Prevent other processes from computing a node while the block runs; call ``waiting`` once before a wait."""
        return locks(self.folder / "locks").alone(node.address, waiting)

    # --- whole values ------------------------------------------------------------------------------------------

    def whole(self, node: Node) -> Any | None:
        """Return a whole value, mapped from its file; None if there is no valid file."""
        return self._file(self._files.whole(node.address), node.address, node.result)

    def keep_whole(self, node: Node, value: Any, seconds: float) -> bool:
        """Write a whole value, and delete its pieces; return whether this succeeded."""
        with self._writing(node.title):
            size = self._files.write(self._files.whole(node.address), pack(node.address, value))
            shutil.rmtree(self._files.pieces(node.address), ignore_errors=True)
            with self._database.transaction() as connection:
                insert_entry(connection, node, size, 0, Cost(node.amount, seconds))
            return True
        return False

    def piece(self, node: Node, name: str) -> Any | None:
        """Return a stored piece of a node's value, such as a shard; None if there is no valid one."""
        return self._file(self._files.pieces(node.address) / name, f"{node.address}/{name}", node.result)

    def keep_piece(self, node: Node, name: str, value: Any) -> None:
        """Write a piece, such as a shard, of a whole value that is still being computed."""
        with self._writing(f"a piece of {node.stage}"):
            self._files.pieces(node.address).mkdir(exist_ok=True, mode=0o700)
            self._files.write(self._files.pieces(node.address) / name, pack(f"{node.address}/{name}", value))

    def space(self, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        """Allocate an array backed by an unlinked file, or in memory if the disk has no space for it."""
        return mapped_array(shape, dtype, self.folder / "temporary")

    # --- rows --------------------------------------------------------------------------------------------------

    def segments(self, node: Node, after: int = 0) -> list[Segment]:
        """Return the valid segments of a node that were written after the segment number ``after``, oldest first."""
        rows = self._database.rows(
            "SELECT id, CAST(data AS BLOB) FROM segments WHERE address = ? AND id > ? ORDER BY id", node.address, after
        )
        return list(filter(None, (self._segment(node, number, data or b"") for number, data in rows)))

    def keep_rows(self, node: Node, rows: StoredPiece, cost: Cost) -> bool:
        """Write rows as segments, in one transaction; return whether this succeeded."""
        with self._writing(node.title):
            segments = list(self._pack_rows(node, rows))  # may wait for an object store, so before the transaction
            with self._database.transaction() as connection:
                connection.executemany(
                    "INSERT INTO segments (address, keys, data) VALUES (?, ?, ?)",
                    [(node.address, *segment) for segment in segments],
                )
                size = sum(len(data) for _, data in segments)
                insert_entry(connection, node, size, len(rows.keys or ()), cost)
            return True
        return False

    def drop_rows(self, node: Node) -> None:
        """Delete the rows of a node, and its entry with the cost."""
        with self._writing(node.title, "remove"), self._database.transaction() as connection:
            for table in ("segments", "entries"):
                connection.execute(f"DELETE FROM {table} WHERE address = ?", (node.address,))

    def fetch_rows(self, node: Node) -> None:
        """Copy the rows of a node from the remote half; do nothing in this class, because it has no remote half."""

    # --- existing entries -----------------------------------------------------------------------------------------

    def has(self, node: Node, rows: Rows) -> bool:
        """Return whether a whole value is stored or, for a rows node, all of ``rows`` (any row if there are none)."""
        if node.kind == "whole":
            return self._files.whole(node.address).exists()
        digests = self._database.rows("SELECT keys FROM segments WHERE address = ?", node.address)
        if not digests or (keys_digest(rows),) in digests:  # exactly the rows of one segment
            return bool(digests)
        keys = self.keys(node)
        return bool(keys) and keys.issuperset(rows)

    def keys(self, node: Node) -> set[str]:
        """Return the keys of a node's stored rows."""
        return {key for segment in self.segments(node) for key in segment.keys}

    def sample(self, node: Node, most: int, alike: bool = False) -> list[Any]:
        """Return the values of the last ``most`` segments of a node, latest first; unreadable ones are omitted.

        With ``alike``, the segments are those of all other nodes with the same stage and class of part.
        """
        others = "IN (SELECT address FROM entries WHERE stage = ? AND target = ? AND address != ?)"
        parameters = (node.stage, node.spec.target, node.address) if alike else (node.address,)
        segments = self._database.rows(
            f"SELECT address, CAST(data AS BLOB) FROM segments WHERE address {others if alike else '= ?'}"
            " ORDER BY id DESC LIMIT ?",
            *parameters,
            most,
        )
        values = []
        for address, data in segments:
            with suppress(Damaged, OtherFormat):  # reported when the value is needed
                values.append(unpack(data or b"", address, node.result).value)
        return values

    def seconds(self, node: Node, amount: float) -> float | None:
        """Estimate how many seconds an amount of work in a stage takes; None if nothing comparable was measured.

        The estimate uses the latest 20 measurements of the stage on this machine: of the same part with the same
        parameters, else of parts of the same class, else of any part. For a part with a model, only measurements with
        the same parameters are used, because the speeds of models differ. Measurements that together cover much less
        work than ``amount`` (see EXTRAPOLATED) are ignored, because they may be mostly start-up time.
        """
        alike = (("spec", node.spec.digest), ("target", node.spec.target), ("stage", node.stage))
        for column, value in alike[:1] if node.spec.has_model else alike:
            measured = self._database.rows(
                "SELECT total(seconds), total(amount) FROM (SELECT CAST(seconds AS REAL) AS seconds, amount"
                f" FROM entries WHERE stage = ? AND {column} = ? AND machine = ? AND amount > 0 AND seconds >= 0"
                " ORDER BY made DESC LIMIT 20)",
                node.stage,
                value,
                machine(),
            )
            for seconds, done in measured:  # one row, or none if the database is unreadable
                if done and done * EXTRAPOLATED >= amount:
                    return float(seconds / done * amount)
        return None

    def size(self, node: Node) -> int | None:
        """Return the size of a whole value's arrays in bytes, from the header; None if there is no readable file."""
        with suppress(OSError, Damaged):
            return size(map_file(self._files.whole(node.address)))
        return None

    def cost(self, node: Node) -> float:
        """Return the seconds that a node's stored value or rows took to compute; 0 if unknown."""
        costs = self._database.rows("SELECT CAST(seconds AS REAL) FROM entries WHERE address = ?", node.address)
        return float(costs[0][0] or 0.0) if costs else 0.0

    def used(self, addresses: Iterable[str], user: str) -> None:
        """Record, with the current time, that the result of the config with the signature ``user`` uses the entries."""
        now, used = time.time(), list(addresses)
        with self._writing("the users of entries"), self._database.transaction() as connection:
            connection.executemany(
                "INSERT INTO uses VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET at = excluded.at",
                [(address, user, now) for address in used],
            )
            connection.executemany(
                "UPDATE entries SET used = ? WHERE address = ?", [(now, address) for address in used]
            )

    # --- internals ---------------------------------------------------------------------------------------------

    def _pack_rows(self, node: Node, rows: StoredPiece) -> Iterator[tuple[str, bytes]]:
        """Divide rows into segments; yield the digest of each segment's keys, and the segment's bytes."""
        keys = rows.keys or ()
        step = max(1, min(ROWS_A_SEGMENT, BYTES_A_SEGMENT * len(keys) // max(size_of(rows.value), 1)))
        for start in range(0, len(keys), step):
            some = keys[start : start + step]
            value = rows.value if len(some) == len(keys) else cut(rows.value, np.arange(start, start + len(some)))
            yield keys_digest(some), b"".join(pack(node.address, value, some))

    def _file(self, path: Path, address: str, result: type) -> Any | None:
        """Return the value in a file; None if the file is missing or, with a warning, unreadable or damaged."""
        try:
            return unpack(map_file(path), address, result).value
        except FileNotFoundError:
            return None
        except OSError as fault:  # the file may be intact, but unreadable by this user or at this moment
            raise_overdue(fault)
            self._warn(f"cannot read {path}: {fault}; the result will be recomputed")
        except (Damaged, OtherFormat) as fault:
            self._put_aside(path, fault)
        return None

    def _segment(self, node: Node, number: int, data: bytes) -> Segment | None:
        try:
            keys, value = unpack(data, node.address, node.result)
            if keys is None:
                raise Damaged("it has no keys")
            return Segment(number, keys, value)
        except (Damaged, OtherFormat) as fault:
            self._warn_of(f"{self._database.path}, segment {number}", fault)
            with self._writing("a damaged segment", "remove"), self._database.transaction() as connection:
                self._files.quarantine(f"segment-{number}").write_bytes(data)
                connection.execute("DELETE FROM segments WHERE id = ?", (number,))
            return None

    def _put_aside(self, path: Path, fault: Exception) -> None:
        """Move a file, and the companion files of a database, to quarantine, with a warning."""
        for file in [path.with_name(path.name + suffix) for suffix in FILES]:
            with suppress(OSError):
                file.replace(self._files.quarantine(f"{path.parent.name}-{file.name}"))
        self._warn_of(str(path), fault, "it cannot be moved to" if path.exists() else "moved to")

    def _warn_of(self, what: str, fault: Exception, done: str = "moved to") -> None:
        is_other = isinstance(fault, OtherFormat)
        why = f"was written by another version of ragsweep ({fault})" if is_other else f"is damaged ({fault})"
        self._warn(f"{what} {why}; {done} {self.folder / 'quarantine'}; the results will be recomputed")

    @contextmanager
    def _writing(self, what: str, action: str = "store") -> Iterator[None]:
        """Turn a failed write in the block into a warning, so that work continues with results in memory."""
        try:
            yield
            self._works = True
        except NotPlain as fault:
            self._warn(f"cannot {action} {what}: {fault}")
        except (OSError, sqlite3.Error) as fault:
            if not damaged(fault):  # otherwise the database was quarantined, with a warning
                self._complain(fault, f"cannot {action} {what} in")

    def _complain(self, fault: Exception, what: str = "cannot read") -> None:
        """Warn about a failed read or write, but only once until a write succeeds; later attempts are still made."""
        raise_overdue(fault)
        if self._works:
            free = f" ({shutil.disk_usage(self.folder).free / 1e6:,.0f} MB free)" if self.folder.exists() else ""
            way = "check the folder's disk and permissions"
            self._warn(f"{what} {self.folder}: {fault}{free}; the run continues, but results may not be stored; {way}")
        self._works = False


def open_store(
    folder: Path, warn: Callable[[str], None], make: Callable[[Path, Callable[[str], None]], Store] = Store
) -> Store | None:
    """Return the store ``make(folder, warn)``; if the folder cannot be created or written, warn and return None."""
    try:
        return make(folder, warn)
    except (OSError, sqlite3.Error) as fault:
        way = "set store.path to a writable folder"
        warn(f"cannot use the store in {folder}: {fault}; results of stages are not stored; {way}")
        return None


def keys_digest(keys: Rows) -> str:
    """Return a hash of the distinct keys of a segment, in their order."""
    return content_hash(list(dict.fromkeys(keys)))
