"""Keep rows of nodes in memory, and give running computations access to their inputs and to storage."""

from __future__ import annotations

import itertools
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ragsweep.core.identity import Node, Rows
from ragsweep.stages.blobs import StoredPiece
from ragsweep.stages.database import Cost

if TYPE_CHECKING:
    from ragsweep.stages.executor import Executor


KEY = 150
"""Bytes per key in addition to its characters: string object, dictionary entry, number."""


@dataclass
class RowTable:
    """The known rows of one node; their values are read-only."""

    position: dict[str, int] = field(default_factory=dict)
    added: list[Any] = field(default_factory=list)  # NamedTuples of arrays, or arrays; concatenated on reading
    seen: int = 0  # the last loaded segment of the store
    bytes: int = 0
    cacheable: bool = True  # all rows can be recalled without computing them
    failed: set[str] = field(default_factory=set)  # keys of rows that must not be stored

    @property
    def columns(self) -> Any:
        """All values: a NamedTuple of arrays, or one array; None if there are none."""
        if len(self.added) > 1:  # concatenated once: appending row by row would be quadratic
            self.added = [_map(self.added, _seal)]
        return self.added[0] if self.added else None

    def missing(self, rows: Rows) -> list[str]:
        """List the distinct keys without a value, in the given order."""
        return [key for key in dict.fromkeys(rows) if key not in self.position]

    def covers(self, rows: Rows) -> bool:
        """Return whether all these rows exist; for no rows, whether the table has columns, which `take` needs."""
        return bool(self.added) and not self.missing(rows)

    def add(self, rows: Rows, columns: Any) -> tuple[Rows, Any]:
        """Append the rows that are not present yet; return their keys and values."""
        new = {key: n for n, key in reversed(list(enumerate(rows))) if key not in self.position}
        if len(new) < len(rows):
            wanted = sorted(new.values())
            rows, columns = [rows[n] for n in wanted], cut(columns, np.array(wanted, dtype=np.int64))
        start = len(self.position)
        self.position.update(zip(rows, itertools.count(start), strict=False))
        if rows or not self.added:
            self.added.append(_map([columns], _seal))
        self.bytes += sum(map(len, rows)) + KEY * len(rows) + size_of(columns)
        return rows, columns

    def forget_failed(self) -> None:
        """Drop the failed rows, so that they are recomputed."""
        kept = [key for key in self.position if key not in self.failed]
        self.added = [self.take(kept)]
        self.position, self.failed = {key: n for n, key in enumerate(kept)}, set()
        self.bytes = sum(map(len, kept)) + KEY * len(kept) + size_of(self.columns)

    def take(self, rows: Rows) -> Any:
        """Return the values of these rows, in this order; raises KeyError for a missing row."""
        wanted = np.fromiter((self.position[key] for key in rows), dtype=np.int64, count=len(rows))
        if len(wanted) == len(self.position) and np.array_equal(wanted, np.arange(len(wanted))):
            return self.columns
        return cut(self.columns, wanted)


class RowTables:
    """A process's row tables by address; the least recently used are evicted beyond a size limit."""

    def __init__(self) -> None:
        self._tables: OrderedDict[str, RowTable] = OrderedDict()
        self._sizes: dict[str, int] = {}  # bytes of each table when last used
        self.bytes = 0  # of all tables

    def of(self, address: str) -> RowTable:
        """Return a node's table; a new, empty one if there is none."""
        if address in self._tables:
            self._tables.move_to_end(address)
        return self._tables.get(address) or RowTable()

    def forget_failed(self) -> None:
        """Drop the failed rows of all tables."""
        for table in self._tables.values():
            if table.failed:
                table.forget_failed()

    def drop(self, address: str) -> None:
        """Drop the rows of a node."""
        if self._tables.pop(address, None):
            self.bytes -= self._sizes.pop(address)

    def put(self, address: str, table: RowTable, most: float) -> None:
        """Keep a table that was just used or extended; beyond ``most`` bytes, evict the least recently used ones.

        Only tables that can be recalled from the store are evicted.
        """
        self._tables[address] = table
        self._tables.move_to_end(address)
        self.bytes += table.bytes - self._sizes.get(address, 0)
        self._sizes[address] = table.bytes
        if self.bytes <= most:
            return
        for other, dropped in list(self._tables.items())[:-1]:
            if self.bytes <= most:
                return
            if dropped.cacheable:
                self.bytes -= self._sizes.pop(other)
                del self._tables[other]


def size_of(columns: Any) -> int:
    """Return the size of a NamedTuple or mapping of arrays, or of one array, in bytes."""
    items = columns.values() if isinstance(columns, Mapping) else columns if isinstance(columns, tuple) else (columns,)
    return sum(item.nbytes for item in items if isinstance(item, np.ndarray))


def cut(columns: Any, wanted: np.ndarray) -> Any:
    """Return some rows, by position, of a NamedTuple of arrays or of one array."""
    return _map([columns], lambda column: column[0][wanted])


def _map(tables: list[Any], change: Callable[[list[np.ndarray]], np.ndarray]) -> Any:
    """Combine values column by column with ``change``; a column that is not an array is that of the first value."""
    first = tables[0]
    if not isinstance(first, tuple):
        return change(tables)
    columns = zip(*tables, strict=True)
    return type(first)(*(change(list(some)) if isinstance(some[0], np.ndarray) else some[0] for some in columns))


def _seal(columns: list[np.ndarray]) -> np.ndarray:
    """Concatenate arrays into a read-only one, because arrays from a store are read-only, too."""
    column = np.concatenate(columns) if len(columns) > 1 else columns[0]
    whole = column.base
    # A slice would keep its whole base array in memory.
    sealed = column.copy() if isinstance(whole, np.ndarray) and whole.nbytes > column.nbytes else column.view()
    sealed.flags.writeable = False
    return sealed


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

    def pieces(
        self, make: Callable[[Any], Any], names: Sequence[str], read: Callable[[str], Any]
    ) -> Iterator[tuple[str, Any]]:
        """Yield the pieces of this node's value by name: stored ones, then those computed here or on a cluster."""
        shards, store, missing = self._executor.shards, self._executor.store, list[str]()
        for name in names:
            if (value := store.piece(self.node, name) if store else None) is None:
                missing.append(name)
            else:
                self._pieces[True] += 1
                yield name, value
        computed: Iterator[tuple[str, Any]] = ((name, make(read(name))) for name in missing)
        if shards and not self.node.check:  # a part calls services only in this process, within its limits
            computed = shards.compute(make, missing, read, self.node.address, self.node.result)
        for name, value in computed:
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
