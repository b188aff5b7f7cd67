"""One computation's access to its inputs, to storage for partial results, and to the listener."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ragsweep.core.identity import Node, Rows
from ragsweep.stages.blobs import StoredPiece
from ragsweep.stages.database import Cost
from ragsweep.stages.rows import RowTable, cut

if TYPE_CHECKING:
    from ragsweep.stages.executor import Executor


class Computation:
    """A running computation of a node, and its access to inputs and storage: a `StageContext`.

    ``table``: the table of a rows node, to which kept rows are added.
    """

    def __init__(self, executor: Executor, node: Node, table: RowTable | None = None) -> None:
        self.node = node
        self._executor = executor
        self._table = table
        self._begun = time.perf_counter()
        self._elsewhere = 0.0  # seconds spent in other nodes
        self._kept = 0.0  # seconds up to the last kept rows
        self._pieces = [0, 0]  # numbers of computed and of recalled pieces

    def seconds(self) -> float:
        """Return the seconds spent in this node, not its inputs, counting recalled pieces like computed ones."""
        made, recalled = self._pieces
        spent = time.perf_counter() - self._begun - self._elsewhere
        return spent * (made + recalled) / made if made else spent

    def get(self, node: Node, rows: Rows | None = None) -> Any:
        """Return an input's result; its computing time does not count as this node's."""
        assert any(node is source for source in self.node.inputs), f"{self.node.stage} reads what is not an input"
        begin = time.perf_counter()
        try:
            return self._executor.get(node, rows)
        finally:
            self._elsewhere += time.perf_counter() - begin

    def progress(self, done: int, total: int) -> None:
        """Report progress to the listener."""
        self._executor.listener.progressed(self.node, done, total)

    def arrived(self, request: Any, result: Any) -> None:
        """Report the result of one request to the listener."""
        self._executor.listener.arrived(self.node, request, result)

    def piece(self, name: str, make: Callable[[], Any]) -> Any:
        """Return a named piece of this node's value, such as a shard: stored, or else computed and stored."""
        store = self._executor.store
        value = store.piece(self.node, name) if store else None
        self._pieces[value is not None] += 1
        if value is None:
            value = make()
            if store:
                store.keep_piece(self.node, name, value)
        return value

    def pieces(
        self, make: Callable[[Any], Any], names: Sequence[str], read: Callable[[str], Any]
    ) -> Iterator[tuple[str, Any]]:
        """Yield the pieces of this node's value by name: stored ones, and those computed here or on a cluster."""
        shards, store = self._executor.shards, self._executor.store
        if shards is None or self.node.check:  # a part calls services only in this process, within its limits
            for name in names:
                yield name, self.piece(name, lambda name=name: make(read(name)))  # type: ignore[misc]
            return
        missing = []
        for name in names:
            if (value := store.piece(self.node, name) if store else None) is None:
                missing.append(name)
            else:
                self._pieces[True] += 1
                yield name, value
        for name, value in shards.compute(make, missing, read, self.node.address, self.node.result):
            self._pieces[False] += 1
            if store:
                store.keep_piece(self.node, name, value)
            yield name, value

    def space(self, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        """Allocate an array, in a file of the store if there is one, else in memory."""
        store = self._executor.store
        return store.space(shape, dtype) if store else np.empty(shape, dtype)

    def reason(self, node: Node, row: str) -> str:
        """Return why a row of the input ``node`` failed."""
        return self._executor.failure(node, row).reason

    def notes(self, node: Node) -> MutableMapping[str, str]:
        """Return the stored replies of a node."""
        return self._executor.notes(node)

    def keep(self, rows: Rows, value: Any) -> None:
        """Add rows to the table, and store the cacheable ones."""
        assert self._table is not None, f"{self.node.stage} has no rows to keep"
        table, seconds = self._table, self.seconds() - self._kept
        self._kept += seconds
        keys, columns = table.add(rows, value)
        if self.node.cacheable and keys:
            chosen = np.flatnonzero(self.node.cacheable(columns))
            stored = [keys[n] for n in chosen.tolist()]
            table.failed |= set(keys).difference(stored)
            table.cacheable = table.cacheable and len(chosen) == len(keys)
            keys, columns = stored, cut(columns, chosen)
        store = self._executor.store if self.node.stored else None
        if store and keys:
            saved = store.keep_rows(self.node, StoredPiece(tuple(keys), columns), Cost(len(keys), seconds))
            table.cacheable = table.cacheable and saved
