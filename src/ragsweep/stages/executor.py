"""Compute or recall the result of a node: every distinct one once, and of a rows node only the rows not yet known."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, MutableMapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ragsweep.core.identity import Node, Rows
from ragsweep.stages.blobs import Piece
from ragsweep.stages.graph import SOURCE
from ragsweep.stages.rows import RowTable, RowTables, cut, size_of
from ragsweep.stages.store import Cost, Store
from ragsweep.stages.stored_replies import StoredReplies

MOST = 512 * 2**20
"""Bytes of rows held in memory where a store has them too. Whole values are mapped from their files."""


class Listener(Protocol):
    """Hear how far the work has come."""

    def started(self, node: Node, rows: int) -> None:
        """Hear that a node is computed for so many rows."""

    def progressed(self, node: Node, done: int, total: int) -> None:
        """Hear how far it is."""

    def finished(self, node: Node, seconds: float) -> None:
        """Hear that it is done."""

    def waiting(self, node: Node) -> None:
        """Hear that another process computes a node, and that this one waits for it."""

    def warned(self, text: str) -> None:
        """Receive a warning for the user."""


class Silence:
    """Listen to nothing."""

    def started(self, node: Node, rows: int) -> None:
        """Ignore."""

    def progressed(self, node: Node, done: int, total: int) -> None:
        """Ignore."""

    def finished(self, node: Node, seconds: float) -> None:
        """Ignore."""

    def waiting(self, node: Node) -> None:
        """Ignore."""

    def warned(self, text: str) -> None:
        """Ignore."""


@dataclass
class StageWork:
    """Work on one stage: runs, recalled results, and the stage's own seconds."""

    executed: int = 0
    recalled: int = 0
    seconds: float = 0.0


class Executor:
    """Keep results by address: in memory for as long as the process lives, and in a store where there is one.

    What was done is counted by stage, and what each value cost when it was first computed is remembered.
    """

    def __init__(self, store: Store | None = None, listener: Listener | None = None) -> None:
        self.store = store
        self.listener: Listener = listener or Silence()
        self.work: dict[str, StageWork] = {}
        self._whole: dict[str, Any] = {}
        self._rows = RowTables()
        self._costs: dict[str, float] = {}
        self._sizes: dict[str, int] = {}
        self._notes: dict[str, StoredReplies] = {}

    def get(self, node: Node, rows: Rows | None = None) -> Any:
        """Return a node's value; for a rows node, the rows asked for in that order."""
        if node.kind == "rows":
            return self._get_rows(node, rows if rows is not None else ())
        if node.address in self._whole:
            self._count(node).recalled += 1
        else:
            self._whole[node.address] = self._get_whole(node)
        return self._whole[node.address]

    def known(self, node: Node, rows: Rows | None = None) -> bool:
        """Return whether a value, or all these rows of it, need not be computed."""
        if node.address in self._whole:
            return True
        if self._rows.of(node.address).covers(rows or ()):
            return True
        store = self._store_of(node)
        return store is not None and store.has(node, rows or ())

    def missing(self, node: Node, rows: Rows) -> Rows:
        """List the rows that must be computed, each once; the rows themselves where that is all of them."""
        known: set[str] = set(self._rows.of(node.address).position)
        if store := self._store_of(node):
            known |= store.keys(node)
        return [key for key in dict.fromkeys(rows) if key not in known] if known else rows

    def forget_failed(self) -> None:
        """Compute rows that failed in this process again where they are needed next: another budget may allow them."""
        self._rows.forget_failed()

    def sample(self, node: Node, most: int, alike: bool = False) -> list[Any]:
        """Return values of some rows that are known of a rows node, or of others of its class and stage."""
        columns = None if alike else self._rows.of(node.address).columns
        if columns is not None:
            return [columns]
        store = self._store_of(node)
        return store.sample(node, most, alike) if store else []

    def estimate(self, node: Node, rows: Rows) -> float | None:
        """Estimate the seconds of a value, or of these rows, from measurements on this machine."""
        if self.store is None:
            return None
        return self.store.seconds(node, node.amount if node.kind == "whole" else len(rows))

    def seconds(self, node: Node) -> float:
        """Return the seconds that a node's value took to compute, in any process; 0 where unknown."""
        if node.address not in self._costs:
            store = self._store_of(node)
            self._costs[node.address] = store.cost(node) if store else 0.0
        return self._costs[node.address]

    def size(self, node: Node) -> int | None:
        """Count the bytes of a whole value's arrays; None where it is not there."""
        if node.address in self._whole:
            return size_of(self._whole[node.address])
        if node.address not in self._sizes:
            store = self._store_of(node)
            if store is None or (found := store.size(node)) is None:
                return None
            self._sizes[node.address] = found
        return self._sizes[node.address]

    def notes(self, node: Node) -> StoredReplies:
        """Return the notes of a node: those of earlier processes too, where there is a store."""
        if node.address not in self._notes:
            self._notes[node.address] = StoredReplies(node, self._store_of(node))
        return self._notes[node.address]

    def _get_whole(self, node: Node) -> Any:
        """Read a whole value from the store; compute it where it is not there, unless another process just does."""
        store = self._store_of(node)
        if store is None:
            return self._compute(node, (), None)[0]
        value = store.whole(node)
        if value is None:
            with self._alone(node, store):
                value = store.whole(node)
                if value is None:
                    value, seconds = self._compute(node, (), None)
                    store.keep_whole(node, value, seconds)
                    # Read back where it can be: the memory is free again, and cold and warm are the same bits.
                    kept = store.whole(node)
                    return value if kept is None else kept
        self._count(node).recalled += 1
        return value

    def _get_rows(self, node: Node, rows: Rows) -> Any:
        table, store = self._rows.of(node.address), self._store_of(node)
        if table.covers(rows):
            self._count(node).recalled += 1
            return table.take(rows)
        if store:
            _read(table, store, node)
        if table.covers(rows):
            self._count(node).recalled += 1
        else:
            self._rows.hold(node.address, table, MOST if self.store else math.inf)  # with what is kept on the way
            with self._alone(node, store):
                self._add_rows(node, rows, table, store)
        self._rows.hold(node.address, table, MOST if self.store else math.inf)
        return table.take(rows)

    def _add_rows(self, node: Node, rows: Rows, table: RowTable, store: Store | None) -> None:
        if store:
            _read(table, store, node)  # another process may have added them while this one waited
        if table.covers(rows):
            self._count(node).recalled += 1
            return
        kept = _Kept(node, table, store)
        missing = table.missing(rows)
        value, seconds = self._compute(node, missing, kept)
        kept.keep(missing, value, seconds - kept.seconds)

    def _compute(self, node: Node, rows: Rows, kept: _Kept | None) -> tuple[Any, float]:
        self.listener.started(node, len(rows))
        work = _Work(self, node, kept)
        value = node.compute(work, rows)
        seconds = work.seconds()
        count = self._count(node)
        count.executed += 1
        count.seconds += seconds
        self._costs[node.address] = self._costs.get(node.address, 0.0) + seconds
        self.listener.finished(node, seconds)
        return value, seconds

    def _alone(self, node: Node, store: Store | None) -> AbstractContextManager[None]:
        if store is None:
            return nullcontext()
        return store.locks.alone(node.address, lambda: self.listener.waiting(node))

    def _store_of(self, node: Node) -> Store | None:
        return self.store if node.stored else None

    def _count(self, node: Node) -> StageWork:
        if node.stage == SOURCE:
            return StageWork()
        return self.work.setdefault(node.stage, StageWork())


def _read(table: RowTable, store: Store, node: Node) -> None:
    """Add the stored rows that the table lacks."""
    for segment in store.segments(node, table.seen):
        table.add(segment.piece.keys or (), segment.piece.value)
        table.seen = segment.number


@dataclass
class _Kept:
    """Where the rows of a running computation go: into the table, and into the store."""

    node: Node
    table: RowTable
    store: Store | None
    seconds: float = 0.0  # of the computation, up to the rows kept last

    def keep(self, rows: Rows, value: Any, seconds: float) -> None:
        self.seconds += seconds
        keys, columns = self.table.add(rows, value)
        if self.node.cacheable and keys:
            wanted = np.flatnonzero(self.node.cacheable(columns))
            stored = [keys[n] for n in wanted.tolist()]
            self.table.failed |= set(keys).difference(stored)
            self.table.cacheable = self.table.cacheable and len(wanted) == len(keys)
            keys, columns = stored, cut(columns, wanted)
        if self.store and keys:
            saved = self.store.keep_rows(self.node, Piece(tuple(keys), columns), Cost(len(keys), seconds))
            self.table.cacheable = self.table.cacheable and saved


class _Work:
    """The inputs of one computation."""

    def __init__(self, executor: Executor, node: Node, kept: _Kept | None) -> None:
        self._executor = executor
        self._node = node
        self._kept = kept
        self._begun = time.perf_counter()
        self._elsewhere = 0.0  # seconds spent in other nodes
        self._pieces = [0, 0]  # made, and recalled

    def seconds(self) -> float:
        """Return how long this node's own work has taken so far; pieces that were there already count as made."""
        made, recalled = self._pieces
        spent = time.perf_counter() - self._begun - self._elsewhere
        return spent * (made + recalled) / made if made else spent

    def get(self, node: Node, rows: Rows | None = None) -> Any:
        assert any(node is given for given in self._node.inputs), f"{self._node.stage} reads what is not its input"
        begin = time.perf_counter()
        try:
            return self._executor.get(node, rows)
        finally:
            self._elsewhere += time.perf_counter() - begin

    def progress(self, done: int, total: int) -> None:
        self._executor.listener.progressed(self._node, done, total)

    def piece(self, name: str, make: Callable[[], Any]) -> Any:
        store = self._executor.store
        found = store.piece(self._node, name) if store else None
        self._pieces[found is not None] += 1
        if found is not None:
            return found
        made = make()
        if store:
            store.keep_piece(self._node, name, made)
        return made

    def space(self, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        store = self._executor.store
        return store.space(shape, dtype) if store else np.empty(shape, dtype)

    def notes(self, node: Node) -> MutableMapping[str, str]:
        return self._executor.notes(node)

    def keep(self, rows: Rows, value: Any) -> None:
        assert self._kept is not None, f"{self._node.stage} has no rows to keep"
        self._kept.keep(rows, value, self.seconds() - self._kept.seconds)
