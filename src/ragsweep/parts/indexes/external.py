"""Search vectors in a table of an external database; ragsweep itself stores only the name of the table."""

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from ragsweep.core.errors import InputError
from ragsweep.core.types import NO_CHUNK, Arrays, Floats, PartTraits, Rankings
from ragsweep.parts.indexes.vectors import blocks, rank_candidates
from ragsweep.parts.ranking import empty_rankings
from ragsweep.services.errors import CallFailed, EndpointFailed


class ExternalIndex(ABC):
    """Base class of indexes in a database; candidates are found in a table and scored by the original vectors.

    Each combination of vectors and build parameters has its own table, and the table's name contains a hash of both.
    Before a search, a missing table is created and filled; an incomplete table is completed, rebuilt or rejected,
    depending on the database. A complete table is reused and never deleted.
    """

    NAME: ClassVar[str] = "table"
    """The key under which the name of a table is stored, and the word for a table in messages."""

    TRAITS: ClassVar[PartTraits]

    def build(self, vectors: Floats) -> Arrays:
        """Fill the table unless it is complete, and return its name as an array of bytes.

        If there are no vectors, no table is created. Raises CallFailed if the table cannot be filled. Raises
        ConfigError if the key or the URL is not in the environment, or if a setting does not suit the vectors.
        """
        name = self._name(vectors)
        if len(vectors):
            self._complete_table(name, vectors)
        return {self.NAME: np.frombuffer(name.encode(), dtype=np.uint8)}

    def search(self, index: Arrays, vectors: Floats, queries: Floats, depth: int) -> Rankings:
        """Return rankings of at most ``depth`` vectors near each query, padded to ``depth``.

        Raises:
            CallFailed: The database did not answer, or it rejected the request.
            EndpointFailed: No search can succeed: the table cannot be filled or contains positions beyond the vectors.
            ConfigError: The key or the URL is not in the environment, or a setting does not suit the vectors.
        """
        if not len(vectors) or not len(queries):
            return empty_rankings(len(queries), depth)
        name, queries = index[self.NAME].tobytes().decode(), np.asarray(queries, dtype=np.float32)
        if name not in self._complete:
            try:
                self._complete_table(name, vectors)
            except CallFailed as failure:
                raise EndpointFailed(str(failure), failure.reason) from None
        with self._readable_faults():
            found = self._near(name, queries, min(depth, len(vectors)))
        candidates = np.full((len(found), max(map(len, found))), NO_CHUNK, dtype=np.int64)
        for row, near in zip(candidates, found, strict=True):
            row[: len(near)] = near
        if candidates.size and candidates.max() >= len(vectors):
            raise EndpointFailed(
                f"the {self.NAME} {name} contains position {candidates.max()}, but only {len(vectors)} vectors exist;"
                f" delete the {self.NAME}"
            )
        return rank_candidates(vectors, queries, candidates, depth)

    def _complete_table(self, name: str, vectors: Floats) -> None:
        with self._readable_faults():
            self._fill(name, vectors)
        self._complete.add(name)

    def check_ship(self) -> None:
        """Raise InputError if the table is in a folder on this machine: a bundle contains only the table's name."""
        if key := self._local():
            raise InputError(
                f"the index's {key} is a folder on this machine, and the bundle does not contain its {self.NAME};"
                " evaluate the config with a database that the serving machine can reach, or with retriever/index=hnsw"
            )

    @cached_property
    def _complete(self) -> set[str]:
        """The names of the tables that this object has filled or has found to be complete."""
        return set()

    @abstractmethod
    def _name(self, vectors: Floats) -> str:
        """Return the name of the table for ``vectors``; see :func:`name_by_content`."""

    @abstractmethod
    def _fill(self, name: str, vectors: Floats) -> None:
        """Create a table with all vectors and their positions, and index it, unless a complete table exists.

        Raises CallFailed if the table remains incomplete.
        """

    @abstractmethod
    def _near(self, name: str, queries: Floats, number: int) -> list[Sequence[int]]:
        """Return, for each query, the positions of about ``number`` vectors near the query, in any order."""

    def _local(self) -> str:
        """Return the config key of the folder that contains the tables, or "" if they are not on this machine."""
        return ""

    @abstractmethod
    def _readable_faults(self) -> AbstractContextManager[None]:
        """Convert the client library's errors in the block to CallFailed; the one-line message omits secrets."""


def name_by_content(prefix: str, facts: Sequence[Any], vectors: Floats, separator: str = "-") -> str:
    """Return ``prefix``, ``separator``, and a hash of the vectors and of ``facts`` (the build parameters)."""
    state = hashlib.blake2b(json.dumps(facts).encode(), digest_size=16)
    for _, block in blocks(vectors):
        state.update(block.data)
    return f"{prefix}{separator}{state.hexdigest()}"
