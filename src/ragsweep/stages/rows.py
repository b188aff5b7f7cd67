"""The rows of nodes in memory, and the access of running computations to their inputs and to storage."""

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
"""Estimated bytes of memory per key in addition to its characters: string object, dictionary entry, integer."""


@dataclass
class RowTable:
    """The rows of one node that are in memory; their values are read-only."""

    position: dict[str, int] = field(default_factory=dict)  # key -> index of its row
    added: list[Any] = field(default_factory=list)  # NamedTuples of arrays, or arrays; `columns` concatenates them
    seen: int = 0  # the number of the last segment that was read from the store
    bytes: int = 0  # estimated memory of the keys and the values
    cacheable: bool = True  # whether all rows can be read from the store again
    failed: set[str] = field(default_factory=set)  # keys of rows that must not be stored

    @property
    def columns(self) -> Any:
        """The values of all rows: a NamedTuple of arrays, or one array; None if nothing was added."""
        if len(self.added) > 1:  # concatenated here, because concatenation at each addition would take quadratic time
            self.added = [_map(self.added, _seal)]
        return self.added[0] if self.added else None

    def missing(self, rows: Rows) -> list[str]:
        """List the distinct keys among ``rows`` that the table lacks, in the given order."""
        return [key for key in dict.fromkeys(rows) if key not in self.position]

    def covers(self, rows: Rows) -> bool:
        """Return whether the table contains all of ``rows``.

        If ``rows`` is empty, return whether anything was ever added: until then, `take` fails, as there are no columns.
        """
        return bool(self.added) and not self.missing(rows)

    def add(self, rows: Rows, columns: Any) -> tuple[Rows, Any]:
        """Append the rows whose keys the table lacks; return their keys and values."""
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
        """Drop the failed rows, so that they are computed again when they are needed."""
        kept = [key for key in self.position if key not in self.failed]
        self.added = [self.take(kept)]
        self.position, self.failed = {key: n for n, key in enumerate(kept)}, set()
        self.bytes = sum(map(len, kept)) + KEY * len(kept) + size_of(self.columns)

    def take(self, rows: Rows) -> Any:
        """Return the values of ``rows``, in this order; raises KeyError if the table lacks a row."""
        wanted = np.fromiter((self.position[key] for key in rows), dtype=np.int64, count=len(rows))
        if len(wanted) == len(self.position) and np.array_equal(wanted, np.arange(len(wanted))):
            return self.columns
        return cut(self.columns, wanted)


class RowTables:
    """A process's cache of row tables, by address; above a size limit, the least recently used tables are evicted."""

    def __init__(self) -> None:
        self._tables: OrderedDict[str, RowTable] = OrderedDict()
        self._sizes: dict[str, int] = {}  # bytes of each table when last used
        self.bytes = 0  # of all tables

    def of(self, address: str) -> RowTable:
        """Return the table of a node or, if there is none, a new, empty table, which only `put` adds to the cache."""
        if address in self._tables:
            self._tables.move_to_end(address)
        return self._tables.get(address) or RowTable()

    def forget_failed(self) -> None:
        """Drop the failed rows of all tables."""
        for table in self._tables.values():
            if table.failed:
                table.forget_failed()

    def drop(self, address: str) -> None:
        """Drop the table of a node, if there is one."""
        if self._tables.pop(address, None):
            self.bytes -= self._sizes.pop(address)

    def put(self, address: str, table: RowTable, most: float) -> None:
        """Keep a table as the most recently used; if the tables exceed ``most`` bytes, evict the least recently used.

        The given table, and tables with rows that cannot be read from the store again, are never evicted.
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
    """Return the size in bytes of one array, or of all arrays in a NamedTuple or a mapping."""
    items = columns.values() if isinstance(columns, Mapping) else columns if isinstance(columns, tuple) else (columns,)
    return sum(item.nbytes for item in items if isinstance(item, np.ndarray))


def cut(columns: Any, wanted: np.ndarray) -> Any:
    """Return the rows at the indices ``wanted`` of one array, or of every array in a NamedTuple."""
    return _map([columns], lambda column: column[0][wanted])


def _map(tables: list[Any], change: Callable[[list[np.ndarray]], np.ndarray]) -> Any:
    """Combine values column by column with ``change``; a field that is not an array is taken from the first value."""
    first = tables[0]
    if not isinstance(first, tuple):
        return change(tables)
    columns = zip(*tables, strict=True)
    return type(first)(*(change(list(some)) if isinstance(some[0], np.ndarray) else some[0] for some in columns))


def _seal(columns: list[np.ndarray]) -> np.ndarray:
    """Concatenate arrays into one array, read-only like the arrays that are read from a store."""
    column = np.concatenate(columns) if len(columns) > 1 else columns[0]
    whole = column.base
    # A view would keep its larger base array in memory.
    sealed = column.copy() if isinstance(whole, np.ndarray) and whole.nbytes > column.nbytes else column.view()
    sealed.flags.writeable = False
    return sealed


class Computation:
    """One computation of a node, with its access to inputs and storage; implements `StageContext`.

    ``table`` is the table to which the rows of a rows node are added.
    """

    def __init__(self, executor: Executor, node: Node, table: RowTable | None = None) -> None:
        self.node = node
        self._executor = executor
        self._table = table
        self._begun = time.perf_counter()
        self._elsewhere = 0.0  # seconds spent in other nodes
        self._kept = 0.0  # seconds up to the last kept rows
        self._pieces = [0, 0]  # numbers of pieces: computed, and read from the store

    def seconds(self) -> float:
        """Return the seconds spent in this node without its inputs.

        Each piece read from the store counts as much as the mean of the computed pieces.
        """
        made, recalled = self._pieces
        spent = time.perf_counter() - self._begun - self._elsewhere
        return spent * (made + recalled) / made if made else spent

    def get(self, node: Node, rows: Rows | None = None) -> Any:
        """Return the value of an input; the time taken is not counted towards this node."""
        assert any(node is source for source in self.node.inputs), f"the node is not an input of {self.node.stage}"
        begin = time.perf_counter()
        try:
            return self._executor.get(node, rows)
        finally:
            self._elsewhere += time.perf_counter() - begin

    def progress(self, done: int, total: int) -> None:
        """Report to the listener that ``done`` of ``total`` rows or chunks are computed."""
        self._executor.listener.progressed(self.node, done, total)

    def arrived(self, request: Any, result: Any) -> None:
        """Report the result of one request to the listener."""
        self._executor.listener.arrived(self.node, request, result)

    def pieces(
        self, make: Callable[[Any], Any], names: Sequence[str], read: Callable[[str], Any]
    ) -> Iterator[tuple[str, Any]]:
        """Yield the name and value of each piece: first all stored pieces, then the pieces that must be computed."""
        shards, store, missing = self._executor.shards, self._executor.store, list[str]()
        for name in names:
            if (value := store.piece(self.node, name) if store else None) is None:
                missing.append(name)
            else:
                self._pieces[True] += 1
                yield name, value
        computed: Iterator[tuple[str, Any]] = ((name, make(read(name))) for name in missing)
        if shards and not self.node.check:  # only this process calls services, because it enforces limits
            computed = shards.compute(make, missing, read, self.node.address, self.node.result)
        for name, value in computed:
            self._pieces[False] += 1
            if store:
                store.keep_piece(self.node, name, value)
            yield name, value

    def space(self, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        """Allocate an array; if there is a store and its disk has space, the array is backed by a file."""
        store = self._executor.store
        return store.space(shape, dtype) if store else np.empty(shape, dtype)

    def reason(self, node: Node, row: str) -> str:
        """Return why a row of the input ``node`` failed."""
        return self._executor.failure(node, row).reason

    def notes(self, node: Node) -> MutableMapping[str, str]:
        """Return the stored replies of a node."""
        return self._executor.notes(node)

    def keep(self, rows: Rows, value: Any) -> None:
        """Add computed rows to the table and, if there is a store, store the cacheable rows (see `Node`)."""
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
