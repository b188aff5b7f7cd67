"""Compute or recall the result of a node: every distinct one once, and of a rows node only the rows not yet known."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from ragsweep.graph import SOURCE
from ragsweep.identity import Node, Rows


class Listener(Protocol):
    """Hear how far the work has come."""

    def started(self, node: Node, rows: int) -> None:
        """Hear that a node is computed for so many rows."""

    def progressed(self, node: Node, done: int, total: int) -> None:
        """Hear how far it is."""

    def finished(self, node: Node, seconds: float) -> None:
        """Hear that it is done."""


class Silence:
    """Listen to nothing."""

    def started(self, node: Node, rows: int) -> None:
        """Ignore."""

    def progressed(self, node: Node, done: int, total: int) -> None:
        """Ignore."""

    def finished(self, node: Node, seconds: float) -> None:
        """Ignore."""


@dataclass
class StageWork:
    """What was done for one stage: runs, results that were there already, and the stage's own seconds."""

    executed: int = 0
    recalled: int = 0
    seconds: float = 0.0


@dataclass
class RowTable:
    """The known rows of one node: keys, and their values as arrays over the keys."""

    position: dict[str, int] = field(default_factory=dict)
    columns: Any = None  # a NamedTuple of arrays, or one array

    def missing(self, rows: Rows) -> list[str]:
        """List the keys without a value, each once, in the order asked."""
        return [key for key in dict.fromkeys(rows) if key not in self.position]

    def add(self, rows: Sequence[str], columns: Any) -> None:
        """Append rows."""
        start = len(self.position)
        self.position.update({key: start + n for n, key in enumerate(rows)})
        self.columns = columns if self.columns is None else _combine([self.columns, columns])

    def take(self, rows: Rows) -> Any:
        """Return the rows asked for, in that order."""
        wanted = np.fromiter((self.position[key] for key in rows), dtype=np.int64, count=len(rows))
        if len(wanted) == len(self.position) and np.array_equal(wanted, np.arange(len(wanted))):
            return self.columns
        return _map(self.columns, lambda column: column[wanted])


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


class Executor:
    """Keep results by address, for as long as the process lives, and count what was done."""

    def __init__(self, listener: Listener | None = None) -> None:
        self.listener: Listener = listener or Silence()
        self.work: dict[str, StageWork] = {}
        self._whole: dict[str, Any] = {}
        self._rows: dict[str, RowTable] = {}

    def get(self, node: Node, rows: Rows | None = None) -> Any:
        """Return a node's value; for a rows node, the rows asked for in that order."""
        if node.kind == "whole":
            return self._get_whole(node)
        return self._get_rows(node, rows if rows is not None else ())

    def stored(self, node: Node) -> bool:
        """Say whether something is known of this node already."""
        return node.address in self._whole or node.address in self._rows

    def _get_whole(self, node: Node) -> Any:
        if node.address in self._whole:
            self._count(node).recalled += 1
        else:
            self._whole[node.address] = self._compute(node, ())
        return self._whole[node.address]

    def _get_rows(self, node: Node, rows: Rows) -> Any:
        table = self._rows.get(node.address)
        missing = table.missing(rows) if table is not None else list(dict.fromkeys(rows))
        if missing or table is None:
            computed = self._compute(node, missing)
            # Looked up anew: computing may have asked for rows of this very node.
            table = self._rows.setdefault(node.address, RowTable())
            table.add(missing, computed)
        else:
            self._count(node).recalled += 1
        return table.take(rows)

    def _compute(self, node: Node, rows: Rows) -> Any:
        self.listener.started(node, len(rows))
        work = _Work(self, node)
        begin = time.perf_counter()
        value = node.compute(work, rows)
        seconds = time.perf_counter() - begin - work.elsewhere
        count = self._count(node)
        count.executed += 1
        count.seconds += seconds
        self.listener.finished(node, seconds)
        return value

    def _count(self, node: Node) -> StageWork:
        if node.stage == SOURCE:
            return StageWork()
        return self.work.setdefault(node.stage, StageWork())


class _Work:
    """What one computation sees: its inputs and nothing else."""

    def __init__(self, executor: Executor, node: Node) -> None:
        self._executor = executor
        self._node = node
        self.elsewhere = 0.0  # seconds spent in other nodes

    def get(self, node: Node, rows: Rows | None = None) -> Any:
        assert any(node is given for given in self._node.inputs), f"{self._node.stage} reads what is not its input"
        begin = time.perf_counter()
        try:
            return self._executor.get(node, rows)
        finally:
            self.elsewhere += time.perf_counter() - begin

    def progress(self, done: int, total: int) -> None:
        self._executor.listener.progressed(self._node, done, total)
