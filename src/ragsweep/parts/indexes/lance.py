"""Search tables of LanceDB, a vector database without a server, on disk or in object storage."""

import importlib.util
import math
import re
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ragsweep.core.errors import ConfigError
from ragsweep.core.interruption import raise_overdue
from ragsweep.core.locks import locks, private_folder
from ragsweep.core.types import Floats, PartTraits
from ragsweep.parts.indexes.external import ExternalIndex, name_by_content
from ragsweep.parts.indexes.vectors import blocks, check_pieces
from ragsweep.parts.libraries import UsesLibraries
from ragsweep.parts.limits import check_at_least
from ragsweep.services.errors import CallFailed, quote

COMPLETE = "complete"
"""The tag of the table version that contains all vectors and their index; it is written last."""

LEAST = 256
"""Minimum number of vectors in an indexed table and, on average, in a partition, because LanceDB trains 256 means."""

A_GRAPH = 2**20
"""Maximum average number of vectors per graph; a larger table has several graphs."""

ALL = 10_000
"""An upper bound on the number of graphs of a table, so that a search visits all graphs."""

MOST = 1_000_000
"""An upper bound on the number of tables in a database, so that all tables are listed."""


@dataclass(eq=False)
class LanceTable(UsesLibraries, ExternalIndex):
    """Base class of indexes in a LanceDB table; candidates are scored by the original vectors, as in the exact index.

    A table is filled, indexed and then tagged. If ``uri`` is a folder, a table without a tag, left by an interrupted
    process, is rebuilt by one process at a time. Object storage has no locks, so a table without a tag is rejected
    there: another process may still be filling it.

    LanceDB samples without a seed and builds with several threads; the approximate search of a rebuilt table may
    therefore miss different neighbours. Fewer than 256 vectors are not indexed but compared one by one.
    """

    TRAITS: ClassVar[PartTraits] = PartTraits(operational=frozenset({"uri", "table"}), requires=("lancedb",))
    LIBRARIES = ("lancedb",)

    uri: str = ".ragsweep/lancedb"
    table: str = "ragsweep"

    def check(self) -> None:
        """Raise ConfigError for invalid values, a secret in the config, or a missing library. No table is opened."""
        if not self.uri or re.search(r"://[^/]*@|[?#]", self.uri):  # the value is not quoted: it may contain a key
            raise ConfigError(
                "index.uri must be a folder or the address of object storage, without a user, a key, ? or #; put keys"
                " into the environment variables that LanceDB reads, such as AWS_ACCESS_KEY_ID"
            )
        if not re.fullmatch(r"[A-Za-z0-9_]+", self.table):
            raise ConfigError(f"index.table is {self.table!r}; it may contain only letters, digits and _")
        if importlib.util.find_spec("lancedb") is None:
            raise ConfigError("lancedb is not installed; pip install 'ragsweep[lancedb]'")

    @abstractmethod
    def _config(self, number: int, dimension: int) -> Any:
        """Return the configuration of a LanceDB index for ``number`` vectors with ``dimension`` values each."""

    @abstractmethod
    def _tuned(self, query: Any, depth: int) -> Any:
        """Return ``query`` with the search effort and the number of candidates for rankings of ``depth`` vectors."""

    @abstractmethod
    def _facts(self) -> list[Any]:
        """List the build parameters; with the vectors and the version of LanceDB, they identify a table."""

    def _local(self) -> str:
        return "" if "://" in self.uri else "uri"

    def _name(self, vectors: Floats) -> str:
        facts = [type(self).__name__, *self.fingerprint().values(), vectors.shape, *self._facts()]
        return name_by_content(self.table, facts, vectors)

    def _fill(self, name: str, vectors: Floats) -> None:
        with self._alone(name):
            exists = name in self._database.list_tables(limit=MOST).tables
            if exists and not self._is_complete(name):
                if not self._local():
                    raise CallFailed(
                        f"{self.uri}: the table {name} is incomplete: another process is filling it, or was killed"
                        " while filling it; wait, or delete the table"
                    )
                self._database.drop_table(name)
                exists = False
            if not exists:
                self._make(name, vectors)
        self._check(self._open(name), name, len(vectors))

    def _make(self, name: str, vectors: Floats) -> None:
        config = self._config(*vectors.shape) if len(vectors) >= LEAST else None
        table = self._database.create_table(name, data=_batches(vectors))
        if config:
            table.create_index("vector", config=config)
        self._check(table, name, len(vectors))
        table.tags.create(COMPLETE, table.version)

    def _check(self, table: Any, name: str, number: int) -> None:
        """Raise CallFailed unless a table has exactly ``number`` vectors, all of them indexed if ``number`` >= 256."""
        count = table.count_rows()
        indexed = [int(one.num_indexed_rows or 0) for one in table.list_indices()] if number >= LEAST else [number]
        if count != number or indexed != [number]:
            raise CallFailed(
                f"{self.uri}: the table {name} must contain {number} vectors, all indexed, but contains {count}, and"
                f" its index contains {sum(indexed)}; delete the table"
            )

    def _near(self, name: str, queries: Floats, number: int) -> list[Sequence[int]]:
        table, found = self._open(name), []
        for query in queries:
            search = table.search(query, vector_column_name="vector", query_type="vector").distance_type("dot")
            answer = self._tuned(search, number).select(["position", "_distance"]).to_arrow()
            found.append(answer["position"].to_numpy())
        return found

    def _open(self, name: str) -> Any:
        """Return the complete version of a table, opened once; vectors that are added later are not searched."""
        if name not in self._opened:
            self._opened[name] = self._database.open_table(name)
            self._opened[name].checkout(COMPLETE)
        return self._opened[name]

    def _is_complete(self, name: str) -> bool:
        """Return whether a listed table is tagged; False for a folder without a table, left by a killed process."""
        try:
            return COMPLETE in self._database.open_table(name).tags.list()
        except ValueError as fault:
            if "not found" not in str(fault):
                raise
            return False

    def _alone(self, name: str) -> AbstractContextManager[None]:
        if not self._local():
            return nullcontext()
        folder = Path(self.uri).expanduser()  # as LanceDB does
        private_folder(folder)
        return locks(folder / "locks").alone(name)

    @cached_property
    def _opened(self) -> dict[str, Any]:
        return {}

    @cached_property
    def _database(self) -> Any:
        import lancedb

        return lancedb.connect(self.uri)

    @contextmanager
    def _readable_faults(self) -> Iterator[None]:
        """Convert OSError, RuntimeError and ValueError in the block to CallFailed, with a one-line message.

        LanceDB raises exceptions of these classes and has no exception classes of its own.
        """
        try:
            yield
        except (OSError, RuntimeError, ValueError) as fault:
            raise_overdue(fault)
            folder = "check the folder, or delete it to build the index again"
            way = folder if self._local() else "check the index's uri, and the keys in the environment"
            raise CallFailed(f"{self.uri} failed: {quote(str(fault))}; {way}") from None


@dataclass(eq=False)
class LanceIvfPq(LanceTable):
    """A LanceDB table with product quantisation (IVF-PQ); a search reads the ``nprobes`` nearest partitions.

    The table has ``num_partitions`` partitions (None: the square root of the number of vectors), but at most one per
    256 vectors. A vector is cut into ``num_sub_vectors`` pieces of equal length, each stored as a code of one byte.
    The ``oversampling * depth`` vectors with the nearest codes are then scored exactly.
    """

    TRAITS: ClassVar[PartTraits] = replace(
        LanceTable.TRAITS, version="1", search_only=frozenset({"nprobes", "oversampling"})
    )

    num_partitions: int | None = None
    num_sub_vectors: int = 48
    nprobes: int = 32
    oversampling: int = 4

    def __post_init__(self) -> None:
        check_at_least("index", 1, num_partitions=self.num_partitions, num_sub_vectors=self.num_sub_vectors)
        check_at_least("index", 1, nprobes=self.nprobes, oversampling=self.oversampling)

    def _facts(self) -> list[Any]:
        return [self.TRAITS.version, self.num_partitions, self.num_sub_vectors]

    def _config(self, number: int, dimension: int) -> Any:
        from lancedb.index import IvfPq

        check_pieces("num_sub_vectors", self.num_sub_vectors, dimension)
        wanted = self.num_partitions or math.isqrt(number)
        parts = max(1, min(wanted, number // LEAST))
        return IvfPq(distance_type="dot", num_partitions=parts, num_sub_vectors=self.num_sub_vectors)

    def _tuned(self, query: Any, depth: int) -> Any:
        return query.nprobes(self.nprobes).limit(self.oversampling * depth)


@dataclass(eq=False)
class LanceHnsw(LanceTable):
    """A LanceDB table with a graph (HNSW) in which each vector takes one byte per value.

    A table of at most 2^20 vectors has one graph; a larger table has several graphs, and all of them are searched. A
    ranking has at most ``ef_search`` vectors; the rest is padding.
    """

    TRAITS: ClassVar[PartTraits] = replace(LanceTable.TRAITS, version="1", search_only=frozenset({"ef_search"}))

    m: int = 16
    ef_construction: int = 128
    ef_search: int = 128

    def __post_init__(self) -> None:
        check_at_least("index", 2, m=self.m)
        check_at_least("index", 1, ef_construction=self.ef_construction, ef_search=self.ef_search)

    def _facts(self) -> list[Any]:
        return [self.TRAITS.version, self.m, self.ef_construction]

    def _config(self, number: int, dimension: int) -> Any:
        from lancedb.index import HnswSq

        graphs = math.ceil(number / A_GRAPH)
        return HnswSq(distance_type="dot", num_partitions=graphs, m=self.m, ef_construction=self.ef_construction)

    def _tuned(self, query: Any, depth: int) -> Any:
        return query.nprobes(ALL).ef(self.ef_search).limit(self.ef_search)


def _batches(vectors: Floats) -> Any:
    """Return the vectors and their positions as a stream of Arrow batches."""
    import pyarrow as pa

    length = vectors.shape[1]
    schema = pa.schema({"position": pa.int64(), "vector": pa.list_(pa.float32(), length)})

    def stream() -> Iterator[Any]:
        for part, block in blocks(vectors):
            rows = np.arange(part.start, part.start + len(block))
            numbers = pa.FixedSizeListArray.from_arrays(pa.array(block.ravel()), length)
            yield pa.RecordBatch.from_arrays([pa.array(rows), numbers], schema=schema)

    return pa.RecordBatchReader.from_batches(schema, stream())
