"""Replies of services, and measurements of this machine, stored one by one as strings by key."""

import json
from collections.abc import Iterator, MutableMapping
from typing import NoReturn

import numpy as np

from ragsweep.core.identity import Node, Rows, Spec, StageContext
from ragsweep.stages.blobs import StoredPiece
from ragsweep.stages.database import Cost
from ragsweep.stages.machine import machine
from ragsweep.stages.store import Store


def reply_node(spec: Spec, label: str) -> Node:
    """Return the node under whose address the replies to a part's requests are stored; ``spec`` is the part's spec."""
    return Node("reply", spec, (), _never, "rows", label, np.ndarray)


def speed_node() -> Node:
    """Return the node whose row keys are times of the fixed work, in seconds, on idle machines like this one."""
    spec = Spec("ragsweep.machine.time_fixed_work", "1", files={"machine": machine()})
    return Node("speed", spec, (), _never, "rows", result=np.ndarray)


def _never(work: StageContext, rows: Rows) -> NoReturn:
    raise AssertionError("these strings are stored as they arrive, not computed")


class StoredReplies(MutableMapping[str, str]):
    """A mapping of keys to the replies stored under a node's address; a new reply is stored immediately.

    All threads may read the mapping, but only the thread that created it may add replies. Without a store, or if a
    reply cannot be stored, replies stay in memory only.
    """

    def __init__(self, node: Node, store: Store | None) -> None:
        self._node = node
        self._store = store
        self._known: dict[str, str] = {}
        self._seen = 0  # the number of the last segment that was read from the store
        self.read()

    def read(self) -> None:
        """Add the replies that other processes have stored since the last call."""
        if self._store is None:
            return
        self._store.fetch_rows(self._node)
        for segment in self._store.segments(self._node, self._seen):
            for key, row in zip(segment.keys, segment.value.tolist(), strict=True):
                self._known.setdefault(key, json.loads(row))
            self._seen = segment.number

    def __getitem__(self, key: str) -> str:
        return self._known[key]

    def __setitem__(self, key: str, text: str) -> None:
        """Store a reply, unless the mapping already has one for this key."""
        if key in self._known:
            return
        self._known[key] = text
        if self._store:
            value = np.array([json.dumps(text).encode()], dtype=np.bytes_)  # JSON, because numpy strips trailing NULs
            self._store.keep_rows(self._node, StoredPiece((key,), value), Cost(0, 0.0))

    def __delitem__(self, key: str) -> None:
        """Raise TypeError: stored replies, which cost money, cannot be deleted."""
        raise TypeError("stored replies cannot be deleted")

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)
