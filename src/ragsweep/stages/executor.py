"""Compute or reload the results of nodes: each distinct node once, and only the missing rows of a rows node."""

import math
from collections import deque
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from ragsweep.core.identity import Node, Rows
from ragsweep.core.missing import MALFORMED
from ragsweep.services.errors import CallFailed, EndpointFailed, quote
from ragsweep.stages.graph import SOURCE, walk
from ragsweep.stages.rows import Computation, RowTable, RowTables, size_of
from ragsweep.stages.shards import RayShards
from ragsweep.stages.store import Store
from ragsweep.stages.stored_replies import StoredReplies

MOST = 512 * 2**20
"""Maximum bytes of rows in memory if there is a store; rows that are not in the store are never evicted.

Whole values do not count, because they are mapped from the files of the store.
"""

PIECES = 8
"""Maximum number of pieces into which rows are divided after a failed call."""


class Listener:
    """A receiver of an executor's events; this base class ignores all events."""

    def started(self, node: Node, rows: int) -> None:
        """Handle the start of a node's computation; ``rows`` is the number of rows, 0 for a whole value."""

    def progressed(self, node: Node, done: int, total: int) -> None:
        """Handle the progress of a node's computation: ``done`` of ``total`` rows or chunks."""

    def arrived(self, node: Node, request: Any, result: Any) -> None:
        """Handle the arrival of the result of one of a node's requests."""

    def finished(self, node: Node, seconds: float) -> None:
        """Handle the successful end of a node's computation; ``seconds`` excludes the computation of its inputs."""

    def failed(self, node: Node) -> None:
        """Handle an exception that has ended a node's computation."""

    def waiting(self, node: Node) -> None:
        """Handle the start of a wait for another process that is computing the node."""

    def warned(self, text: str) -> None:
        """Handle a warning for the user."""


@dataclass
class StageWork:
    """The work on one stage: the numbers of computed and of reused results, and the computing time without inputs."""

    executed: int = 0
    recalled: int = 0
    seconds: float = 0.0


class Executor:
    """An executor that computes the values of nodes and reuses values in memory and in the store, if there is one.

    ``work`` contains the counts and the computing time of each stage except the corpus.
    """

    def __init__(
        self, store: Store | None = None, listener: Listener | None = None, shards: RayShards | None = None
    ) -> None:
        self.store = store
        self.shards = shards  # None: shards are computed in this process
        self.listener: Listener = listener or Listener()
        self.work: dict[str, StageWork] = {}
        self._whole: dict[str, Any] = {}
        self._unstored: set[str] = set()  # addresses of nodes that are never stored (``Node.stored``)
        self._rows = RowTables()
        self._costs: dict[str, float] = {}
        self._notes: dict[str, StoredReplies] = {}
        self._failures: dict[tuple[str, str], CallFailed] = {}  # by address and row

    def get(self, node: Node, rows: Rows | None = None) -> Any:
        """Return a node's value or, for a rows node, the values of ``rows`` in this order; compute what does not exist.

        If a call to a service fails, raises EndpointFailed for a whole value, and CallFailed for rows of a node without
        substitute values (``Node.failed``).
        """
        if not node.stored:
            self._unstored.add(node.address)
        if node.kind == "rows":
            return self._get_rows(node, rows if rows is not None else ())
        if node.address in self._whole:
            self._count(node).recalled += 1
        else:
            try:
                self._whole[node.address] = self._get_whole(node)
            except CallFailed as failure:  # every row that needs the value would repeat the call
                raise EndpointFailed(str(failure), failure.reason, failure.usage) from None
        return self._whole[node.address]

    def known(self, node: Node, rows: Rows | None = None) -> bool:
        """Return whether a node's whole value, or all of ``rows`` for a rows node, exists in memory or in the store."""
        if node.address in self._whole or self._rows.of(node.address).covers(rows or ()):
            return True
        store = self._store_of(node)
        return store is not None and store.has(node, rows or ())

    def missing(self, node: Node, rows: Rows) -> Rows:
        """List the distinct rows that do not exist yet; if these are all of ``rows``, return ``rows`` itself."""
        known: set[str] = set(self._rows.of(node.address).position)
        if store := self._store_of(node):
            known |= store.keys(node)
        missing = [key for key in dict.fromkeys(rows) if key not in known]
        return missing if len(missing) < len(rows) else rows

    def forget_failed(self) -> None:
        """Drop this process's failed rows, so that the next ``get`` computes them again, perhaps with a new budget.

        Results of nodes that are never stored are also dropped, because they may depend on failed rows.
        """
        self._rows.forget_failed()
        for address in self._unstored:
            self._whole.pop(address, None)
            self._rows.drop(address)
        self._failures = {}

    def failure(self, node: Node, row: str) -> CallFailed:
        """Return the exception that made a row fail in this process.

        If an input failed for the row, at any depth, return the exception of the first such input; otherwise, the
        exception of the node. If no exception is recorded, return a new CallFailed with the reason "malformed".
        """
        found = (self._failures.get((one.address, row)) for one in walk([node]))
        return next(filter(None, found), CallFailed(f"{node.stage}: no result for {quote(row)!r}", MALFORMED))

    def provide(self, node: Node, value: Any) -> None:
        """Keep in memory a node's whole value that was computed elsewhere."""
        self._whole[node.address] = value

    def drop_rows(self, node: Node) -> None:
        """Drop a node's rows in memory and in the store, so that the next ``get`` recomputes them."""
        self._rows.drop(node.address)
        self._costs.pop(node.address, None)
        if store := self._store_of(node):
            with self._alone(node, store):
                store.drop_rows(node)

    def forget_rows(self) -> None:
        """Drop all rows and their failures from memory, so that a long-running server keeps only whole values."""
        self._rows, self._failures = RowTables(), {}

    def sample(self, node: Node, most: int, alike: bool = False) -> list[Any]:
        """Return existing rows of a node or, if ``alike``, of other nodes with the same stage and class of part.

        If rows of the node are in memory and ``alike`` is not set, the list contains one value with all these rows.
        Otherwise, it contains the values of the last ``most`` segments in the store. It is empty if there are no rows.
        """
        columns = None if alike else self._rows.of(node.address).columns
        if columns is not None:
            return [columns]
        store = self._store_of(node)
        return store.sample(node, most, alike) if store else []

    def estimate(self, node: Node, rows: Rows) -> float | None:
        """Estimate the seconds to compute a whole value or, for a rows node, ``rows``.

        Return None if there is no store, or if it has no comparable measurements on this machine.
        """
        if self.store is None:
            return None
        return self.store.seconds(node, node.amount if node.kind == "whole" else len(rows))

    def seconds(self, node: Node) -> float:
        """Return the seconds that a node took to compute in this process, else in earlier processes; 0 if unknown."""
        if node.address not in self._costs:
            store = self._store_of(node)
            self._costs[node.address] = store.cost(node) if store else 0.0
        return self._costs[node.address]

    def size(self, node: Node) -> int | None:
        """Return the size of a whole value's arrays in bytes; None if the value does not exist."""
        if node.address in self._whole:
            return size_of(self._whole[node.address])
        store = self._store_of(node)
        return store.size(node) if store else None

    def notes(self, node: Node) -> StoredReplies:
        """Return the replies recorded for a node, including replies of other processes if there is a store."""
        if node.address in self._notes:
            self._notes[node.address].read()
        else:
            self._notes[node.address] = StoredReplies(node, self._store_of(node))
        return self._notes[node.address]

    def _get_whole(self, node: Node) -> Any:
        """Return a stored whole value; if it is missing, compute it, or wait for the process that is computing it."""
        store = self._store_of(node)
        if store is None:
            return self._compute(Computation(self, node), ())[0]
        value = store.whole(node)
        if value is None:
            with self._alone(node, store):
                value = store.whole(node)
                if value is None:
                    value, seconds = self._compute(Computation(self, node), ())
                    store.keep_whole(node, value, seconds)
                    # Read back if possible: this frees the memory, and later runs get exactly the value of this run.
                    stored = store.whole(node)
                    return value if stored is None else stored
        self._count(node).recalled += 1
        return value

    def _get_rows(self, node: Node, rows: Rows) -> Any:
        table, store = self._rows.of(node.address), self._store_of(node)
        most = MOST if self.store else math.inf
        if store and not table.covers(rows):
            _read(table, store, node, rows)
        if table.covers(rows):
            self._count(node).recalled += 1
        else:
            self._rows.put(node.address, table, most)  # before the computation, to keep the rows that precede a failure
            with self._alone(node, store):
                if store:
                    _read(table, store, node, rows)  # another process may have added them during the wait
                if table.covers(rows):
                    self._count(node).recalled += 1
                else:
                    self._compute_rows(node, table, table.missing(rows))
        self._rows.put(node.address, table, most)
        return table.take(rows)

    def _compute_rows(self, node: Node, table: RowTable, missing: Rows) -> None:
        """Compute and store the missing rows; divide the rows of a failed call until every failing row is isolated.

        A failing row gets the value that ``Node.failed`` returns; if the node has none, CallFailed is raised. Larger
        pieces are computed first, so that successes between the failures keep the service's circuit breaker closed.
        """
        waiting = deque([missing])
        while waiting:
            rows, work = waiting.popleft(), Computation(self, node, table)
            try:
                value = self._compute(work, rows)[0]
            except CallFailed as failure:
                if node.failed is None or not rows:
                    raise
                if len(rows) > 1:
                    step = math.ceil(len(rows) / PIECES)
                    waiting.extend(rows[start : start + step] for start in range(0, len(rows), step))
                    continue
                # A copy, because the exception keeps all frames of the failed call alive.
                self._failures[node.address, rows[0]] = CallFailed(str(failure), failure.reason, failure.usage)
                value = node.failed(rows)
            work.keep(rows, value)

    def _compute(self, work: Computation, rows: Rows) -> tuple[Any, float]:
        """Compute a node; return its value, and the seconds taken, excluding the computation of its inputs."""
        node = work.node
        self.listener.started(node, len(rows))
        try:
            value = node.compute(work, rows)
        except BaseException:
            self.listener.failed(node)
            raise
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
        return store.alone(node, lambda: self.listener.waiting(node))

    def _store_of(self, node: Node) -> Store | None:
        return self.store if node.stored else None

    def _count(self, node: Node) -> StageWork:
        if node.stage == SOURCE:
            return StageWork()
        return self.work.setdefault(node.stage, StageWork())


def _read(table: RowTable, store: Store, node: Node, rows: Rows) -> None:
    """Add the stored rows to the table; if any of ``rows`` is missing locally, also fetch rows from other machines."""
    _add_segments(table, store, node)
    if not table.covers(rows):
        store.fetch_rows(node)
        _add_segments(table, store, node)


def _add_segments(table: RowTable, store: Store, node: Node) -> None:
    for segment in store.segments(node, table.seen):
        table.add(segment.keys, segment.value)
        table.seen = segment.number
