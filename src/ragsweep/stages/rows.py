"""In-memory rows of nodes: keys, and their values as arrays over the keys."""

import itertools
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ragsweep.core.identity import Rows

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
