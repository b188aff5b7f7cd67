"""A store with a remote half: machines share results through an object store.

    whole/ADDRESS              the file of a whole value
    costs/ADDRESS              its cost, as JSON
    rows/ADDRESS/HASH          a segment of rows, named by the hash of its bytes
    pieces/ADDRESS/NAME        a piece of a whole value that is being computed
    leases/ADDRESS/NUMBER      the process that computes ADDRESS (see `leases`)

New results are written to the local half immediately and queued for the remote half. While the object store is
unreachable, they are not queued and therefore stay local. An entry that is missing locally is read from the remote
half, verified like a local entry and, unless it is a piece, kept locally. An object that is damaged or from another
version is deleted with a warning and counts as missing, so that it is computed and written again.
"""

import hashlib
import json
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ragsweep.core.identity import Node, Rows
from ragsweep.stages.blobs import Damaged, OtherFormat, StoredPiece, pack, unpack
from ragsweep.stages.database import Cost, insert_entry
from ragsweep.stages.leases import Leases
from ragsweep.stages.machine import machine
from ragsweep.stages.remote import Remote
from ragsweep.stages.store import Store, keys_digest
from ragsweep.stages.store_files import map_file

LONGEST_COST = 10_000
"""Size of a cost object, in bytes, from which the object counts as malformed."""


class SharedStore(Store):
    """A store with two halves: a local one in ``folder``, which is created if it does not exist, and ``remote``.

    The constructor raises the same exceptions as the constructor of `Store`.
    """

    def __init__(self, folder: Path, warn: Callable[[str], None], remote: Remote) -> None:
        super().__init__(folder, warn)
        self.remote = remote
        self._leases = Leases(remote)

    def close(self) -> None:
        """Wait for the queued uploads, then close the database."""
        self.remote.flush()
        super().close()

    @contextmanager
    def alone(self, node: Node, waiting: Callable[[], None] = lambda: None) -> Iterator[None]:
        """Prevent all other processes, on every machine, from computing a node while the block runs.

        The lease on the node is released when the queued uploads are finished. While the object store is unreachable,
        only processes on this machine are excluded.
        """
        with super().alone(node, waiting), self._leases.alone(node.address, waiting):
            try:
                yield
            finally:
                self.remote.flush()

    # --- whole values ------------------------------------------------------------------------------------------

    def whole(self, node: Node) -> Any | None:
        """Return a whole value, from the remote half if it is missing locally; None if there is no valid one."""
        value = super().whole(node)
        if value is None and self._fetch_whole(node):
            value = super().whole(node)
        return value

    def keep_whole(self, node: Node, value: Any, seconds: float) -> bool:
        """Write a whole value locally and return whether this succeeded; if so, queue it for the remote half."""
        kept = super().keep_whole(node, value, seconds)
        if kept:
            cost = {"amount": node.amount, "seconds": seconds, "machine": machine()}
            self.remote.put_later(f"costs/{node.address}", json.dumps(cost).encode())
            self.remote.upload_later(
                f"whole/{node.address}",
                self._files.whole(node.address),
                lambda: self.remote.remove_below(f"pieces/{node.address}/"),
            )
        return kept

    def piece(self, node: Node, name: str) -> Any | None:
        """Return a stored piece of a node's value, such as a shard, from either half; None if there is no valid one."""
        value = super().piece(node, name)
        remote = f"pieces/{node.address}/{name}"
        if value is None and (data := self.remote.get(remote)) is not None:
            with self._healing(remote):
                return unpack(data, f"{node.address}/{name}", node.result).value
        return value

    def keep_piece(self, node: Node, name: str, value: Any) -> None:
        """Write a piece of an unfinished whole value to the local half, and queue it for the remote half."""
        super().keep_piece(node, name, value)
        with self._writing(f"a piece of {node.stage}"):
            self.remote.put_later(f"pieces/{node.address}/{name}", b"".join(pack(f"{node.address}/{name}", value)))

    # --- rows --------------------------------------------------------------------------------------------------

    def drop_rows(self, node: Node) -> None:
        """Delete the rows of a node in both halves."""
        super().drop_rows(node)
        self.remote.flush()
        self.remote.remove_below(f"rows/{node.address}/")

    def fetch_rows(self, node: Node) -> None:
        """Copy the segments of a node that exist only in the remote half to the local half."""
        prefix = f"rows/{node.address}/"
        names = self.remote.names(prefix)
        if not names:
            return
        stored = self._database.rows("SELECT CAST(data AS BLOB) FROM segments WHERE address = ?", node.address)
        here = {prefix + _hash(data or b"") for (data,) in stored}
        found = []
        for name, data in self.remote.get_all(name for name in names if name not in here):
            with self._healing(name):
                keys = unpack(data, node.address, node.result).keys
                if keys is None or name != prefix + _hash(data):
                    raise Damaged("it does not match its digest")
                found.append((keys, data))
        if found:
            with self._writing(node.title), self._database.transaction() as connection:
                for keys, data in found:
                    connection.execute(
                        "INSERT INTO segments (address, keys, data) VALUES (?, ?, ?)",
                        (node.address, keys_digest(keys), data),
                    )
                    insert_entry(connection, node, len(data), len(keys), Cost(0, 0.0))

    def has(self, node: Node, rows: Rows) -> bool:
        """Return whether one half has the whole value or, for a rows node, both halves together have all ``rows``."""
        if super().has(node, rows):
            return True
        if node.kind == "whole":
            return self.remote.has(f"whole/{node.address}")
        self.fetch_rows(node)
        return super().has(node, rows)

    def _pack_rows(self, node: Node, rows: StoredPiece) -> Iterator[tuple[str, bytes]]:
        for keys, data in super()._pack_rows(node, rows):
            self.remote.put_later(f"rows/{node.address}/{_hash(data)}", data)
            yield keys, data

    # --- internals ---------------------------------------------------------------------------------------------

    def _fetch_whole(self, node: Node) -> bool:
        """Copy a whole value and its cost from the remote half, unless it is absent or damaged.

        Return whether this succeeded.
        """
        name, temporary = f"whole/{node.address}", self._files.temporary()
        try:
            if not self.remote.download(name, temporary):
                return False
            with self._healing(name):
                data = map_file(temporary)
                unpack(data, node.address, node.result)
                with self._writing(node.title):
                    temporary.replace(self._files.whole(node.address))
                    cost, where = _read_cost(self.remote.get(f"costs/{node.address}") or b"")
                    with self._database.transaction() as connection:
                        insert_entry(connection, node, len(data), 0, cost, where)
                    return True
            return False
        except OSError as fault:
            self._complain(fault, f"cannot store {node.title} in")
            return False
        finally:
            temporary.unlink(missing_ok=True)

    @contextmanager
    def _healing(self, name: str) -> Iterator[None]:
        """Delete an object, with a warning, if the block raises Damaged or OtherFormat for it."""
        try:
            yield
        except (Damaged, OtherFormat) as fault:
            kind = "was written by another version of ragsweep" if isinstance(fault, OtherFormat) else "is damaged"
            self._warn(f"{self.remote.url}/{name} {kind} ({fault}); the object is deleted and recomputed")
            self.remote.remove(name)


def _read_cost(data: bytes) -> tuple[Cost, str]:
    """Return a cost, and the machine on which it was measured; for malformed data, a cost of 0 and ""."""
    try:
        facts: Any = json.loads(data) if len(data) < LONGEST_COST else None
        amount, seconds, where = facts["amount"], facts["seconds"], facts["machine"]
        if all(type(one) in (int, float) and 0 <= one < math.inf for one in (amount, seconds)):
            where.encode()  # a lone surrogate cannot be stored
            return Cost(float(amount), float(seconds)), where
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError):
        pass
    return Cost(0, 0.0), ""


def _hash(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=20).hexdigest()
