"""Hold the rows of one node that are known: keys, and their values as arrays over the keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ragsweep.identity import Rows


@dataclass
class RowTable:
    """The known rows of one node."""

    position: dict[str, int] = field(default_factory=dict)
    columns: Any = None  # a NamedTuple of arrays, or one array
    seen: int = 0  # the last segment of the store that is in here

    def missing(self, rows: Rows) -> list[str]:
        """List the keys without a value, each once, in the order asked."""
        return [key for key in dict.fromkeys(rows) if key not in self.position]

    def covers(self, rows: Rows) -> bool:
        """Say whether all these rows are known; none at all are only known once it is known what a row looks like."""
        return self.columns is not None and not self.missing(rows)

    def add(self, rows: Sequence[str], columns: Any) -> None:
        """Append rows; those that are known already stay as they are."""
        new = [n for n, key in enumerate(rows) if key not in self.position]
        if len(new) < len(rows):
            rows, columns = [rows[n] for n in new], cut(columns, np.array(new, dtype=np.int64))
        start = len(self.position)
        self.position.update({key: start + n for n, key in enumerate(rows)})
        self.columns = columns if self.columns is None else _combine([self.columns, columns])

    def take(self, rows: Rows) -> Any:
        """Return the rows asked for, in that order."""
        wanted = np.fromiter((self.position[key] for key in rows), dtype=np.int64, count=len(rows))
        if len(wanted) == len(self.position) and np.array_equal(wanted, np.arange(len(wanted))):
            return self.columns
        return cut(self.columns, wanted)


def cut(columns: Any, wanted: np.ndarray) -> Any:
    """Take some rows, by position, of a NamedTuple of arrays or of one array."""
    return _map(columns, lambda column: column[wanted])


def _map(columns: Any, change: Any) -> Any:
    if isinstance(columns, tuple):
        return columns._replace(  # type: ignore[attr-defined]
            **{name: change(value) if isinstance(value, np.ndarray) else value for name, value in _fields(columns)}
        )
    return change(columns)


def _fields(columns: Any) -> list[tuple[str, Any]]:
    return list(zip(columns._fields, columns, strict=True))


def _combine(tables: list[Any]) -> Any:
    first = tables[0]
    if isinstance(first, tuple):
        joined = {
            name: np.concatenate([getattr(table, name) for table in tables])
            for name, value in _fields(first)
            if isinstance(value, np.ndarray)
        }
        return first._replace(**joined)  # type: ignore[attr-defined]
    return np.concatenate(tables)
