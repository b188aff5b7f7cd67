"""Indexes that lie outside of the store, in a database of their own: what is stored is the name of a table there."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.errors import InputError
from ragsweep.core.types import Arrays, Floats, Rankings
from ragsweep.parts.indexes.vectors import blocks, rank_candidates
from ragsweep.parts.ranking import empty_rankings
from ragsweep.services.errors import CallFailed, EndpointFailed


class ExternalIndex(ABC):
    """Fill a table of a database with the vectors, search it for candidates, and rank these by the vectors themselves.

    Every set of vectors, and of parameters that build, has a table of its own, named by their hash. A table that is not
    there, or is incomplete, is filled before it is searched; a complete one is used as it is. Nothing deletes tables.
    """

    NAME: ClassVar[str] = "table"
    """The key of the stored value, and what messages call it."""

    REQUIRES: ClassVar[tuple[str, ...]]
    """Packages beyond those that everything requires."""

    def build(self, vectors: Floats) -> Arrays:
        """Fill a table, unless there is one that is complete, and return its name."""
        name = self._name(vectors)
        if len(vectors):
            with self._readable_faults():
                self._fill(name, vectors)
            self._complete.add(name)
        return {self.NAME: np.frombuffer(name.encode(), dtype=np.uint8)}

    def search(self, index: Arrays, vectors: Floats, queries: Floats, depth: int) -> Rankings:
        """Return at most ``depth`` near vectors of every query.

        Raises:
            CallFailed: The database did not answer, or refused.
            EndpointFailed: The table cannot be filled, or holds other vectors: no search in it can succeed.
            ConfigError: The key is not in the environment.
        """
        if not len(vectors) or not len(queries):
            return empty_rankings(len(queries), depth)
        name, queries = index[self.NAME].tobytes().decode(), np.asarray(queries, dtype=np.float32)
        with self._readable_faults():
            self._ensure(name, vectors)
            candidates = self._near(name, queries, min(depth, len(vectors)))
        if candidates.size and candidates.max() >= len(vectors):
            raise EndpointFailed(
                f"the {self.NAME} {name} holds a point {candidates.max()}, of {len(vectors)} vectors; delete it"
            )
        return rank_candidates(vectors, queries, candidates, depth)

    def _ensure(self, name: str, vectors: Floats) -> None:
        """Fill the table unless it was found complete. Raise EndpointFailed where that fails."""
        if name in self._complete:
            return
        try:
            with self._readable_faults():
                self._fill(name, vectors)
        except CallFailed as failure:
            raise EndpointFailed(str(failure), failure.reason) from None
        self._complete.add(name)

    def check_ship(self) -> None:
        """Raise InputError where the table lies on this machine only: a bundle holds its name, and not the table."""
        if key := self._local():
            raise InputError(
                f"retriever.index.{key}: the {self.NAME} lies in a folder of this machine and goes into no bundle;"
                " evaluate the config with a database that the serving machine reaches too, or with an index that is"
                " stored, such as retriever/index=hnsw"
            )

    @cached_property
    def _complete(self) -> set[str]:
        """Tables that were found to hold all their vectors."""
        return set()

    @abstractmethod
    def _name(self, vectors: Floats) -> str:
        """Name the table; see :func:`name_by_content`."""

    @abstractmethod
    def _fill(self, name: str, vectors: Floats) -> None:
        """Make sure that a table holds all vectors, by position, and is indexed."""

    @abstractmethod
    def _near(self, name: str, queries: Floats, number: int) -> NDArray[np.int64]:
        """Return the positions (queries, any number) of near vectors, in any order, padded with NO_CHUNK."""

    @abstractmethod
    def _local(self) -> str:
        """Return the key of the folder that holds the tables; empty where they lie in no folder of this machine."""

    @abstractmethod
    def _readable_faults(self) -> AbstractContextManager[None]:
        """Turn the faults of a client library into one line without secrets."""


def name_by_content(prefix: str, facts: Sequence[Any], vectors: Floats, separator: str = "-") -> str:
    """Name a table by a hash of its vectors and of the facts that built it."""
    state = hashlib.blake2b(json.dumps(facts).encode(), digest_size=16)
    for _, block in blocks(vectors):
        state.update(block.data)
    return f"{prefix}{separator}{state.hexdigest()}"
