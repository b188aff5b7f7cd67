"""Indexes in an external database; the store contains only the name of a table in the database."""

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
from ragsweep.core.types import Arrays, Floats, PartTraits, Rankings
from ragsweep.parts.indexes.vectors import blocks, rank_candidates
from ragsweep.parts.ranking import empty_rankings
from ragsweep.services.errors import CallFailed, EndpointFailed


class ExternalIndex(ABC):
    """Base class: fill a database table with the vectors, search it for candidates, and rank them by the vectors.

    Every set of vectors and build parameters has its own table, named after their hash. Before a search, a missing
    table is created and filled, and an incomplete one is completed, rebuilt or rejected, depending on the database. A
    complete table is reused, and never deleted.
    """

    NAME: ClassVar[str] = "table"
    """The key under which a table's name is stored, and the word for a table in messages."""

    TRAITS: ClassVar[PartTraits]

    def build(self, vectors: Floats) -> Arrays:
        """Fill a table, unless a complete one exists; return its name as an index. Raises CallFailed or ConfigError."""
        name = self._name(vectors)
        if len(vectors):
            with self._readable_faults():
                self._fill(name, vectors)
            self._complete.add(name)
        return {self.NAME: np.frombuffer(name.encode(), dtype=np.uint8)}

    def search(self, index: Arrays, vectors: Floats, queries: Floats, depth: int) -> Rankings:
        """Return at most ``depth`` nearby vectors for every query.

        Raises:
            CallFailed: The database did not answer, or rejected the request.
            EndpointFailed: The table cannot be filled, or has a position beyond the vectors: no search can succeed.
            ConfigError: The key or the URL is not in the environment, or a setting does not suit the vectors.
        """
        if not len(vectors) or not len(queries):
            return empty_rankings(len(queries), depth)
        name, queries = index[self.NAME].tobytes().decode(), np.asarray(queries, dtype=np.float32)
        with self._readable_faults():
            self._ensure(name, vectors)
            candidates = self._near(name, queries, min(depth, len(vectors)))
        if candidates.size and candidates.max() >= len(vectors):
            raise EndpointFailed(
                f"the {self.NAME} {name} has position {candidates.max()}, beyond its {len(vectors)} vectors; delete"
                f" the {self.NAME}"
            )
        return rank_candidates(vectors, queries, candidates, depth)

    def _ensure(self, name: str, vectors: Floats) -> None:
        """Fill the table unless it is complete. Raise EndpointFailed if that fails."""
        if name in self._complete:
            return
        try:
            with self._readable_faults():
                self._fill(name, vectors)
        except CallFailed as failure:
            raise EndpointFailed(str(failure), failure.reason) from None
        self._complete.add(name)

    def check_ship(self) -> None:
        """Raise InputError if the table is in a folder on this machine: a bundle contains only the table's name."""
        if key := self._local():
            raise InputError(
                f"the index's {key}: the {self.NAME} is in a folder on this machine, outside the bundle; evaluate the"
                " config with a database that the serving machine can reach, or with a stored index, such as hnsw"
            )

    @cached_property
    def _complete(self) -> set[str]:
        """Names of the tables that this process has filled or found complete."""
        return set()

    @abstractmethod
    def _name(self, vectors: Floats) -> str:
        """Return a table's name; see :func:`name_by_content`."""

    @abstractmethod
    def _fill(self, name: str, vectors: Floats) -> None:
        """Fill a table with all vectors, keyed by position, and index it, unless it is already complete."""

    @abstractmethod
    def _near(self, name: str, queries: Floats, number: int) -> NDArray[np.int64]:
        """Return the positions (queries, any number) of nearby vectors, in any order, padded with NO_CHUNK."""

    @abstractmethod
    def _local(self) -> str:
        """Return the config key of the folder with the tables; empty if they are not in a folder on this machine."""

    @abstractmethod
    def _readable_faults(self) -> AbstractContextManager[None]:
        """Convert a client library's errors in the block to CallFailed, whose message is one line without secrets."""


def name_by_content(prefix: str, facts: Sequence[Any], vectors: Floats, separator: str = "-") -> str:
    """Return a table's name: ``prefix``, and a hash of the table's vectors and of ``facts``, the build parameters."""
    state = hashlib.blake2b(json.dumps(facts).encode(), digest_size=16)
    for _, block in blocks(vectors):
        state.update(block.data)
    return f"{prefix}{separator}{state.hexdigest()}"
