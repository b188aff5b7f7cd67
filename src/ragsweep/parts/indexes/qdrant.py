"""Search collections of the vector database Qdrant."""

import atexit
import importlib.util
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ragsweep.core.errors import ConfigError
from ragsweep.core.types import Floats, PartTraits
from ragsweep.parts.indexes.external import ExternalIndex, name_by_content
from ragsweep.parts.limits import check_at_least
from ragsweep.services.errors import CallFailed, quote
from ragsweep.services.http_client import Service

POINTS = 512
"""Number of vectors sent at a time."""

QUERIES = 64
"""Number of queries sent at a time."""

PAUSE = 0.2
"""Seconds between two requests for the status of a collection whose index is being built."""


@dataclass(eq=False)
class Qdrant(ExternalIndex):
    """The index of a Qdrant server; the candidates it finds are scored by the original vectors.

    A search waits until the server has built the index. The server uses several threads to build the index; the search
    of a rebuilt collection may therefore miss different neighbours. A ranking has at most ``ef_search`` vectors; the
    rest is padding. If ``path`` is set instead of ``base_url``, no server is used: the client library stores the
    vectors in the folder ``path`` and searches them exactly, to any depth.
    """

    NAME: ClassVar[str] = "collection"
    TRAITS: ClassVar[PartTraits] = PartTraits(
        version="2",
        operational=frozenset({"path", "key_env", "timeout"}),
        search_only=frozenset({"ef_search"}),
        requires=("qdrant-client",),
    )

    base_url: str | None = "http://localhost:6333"
    path: str | None = None
    collection: str = "ragsweep"
    key_env: str | None = None
    m: int = 16
    ef_construct: int = 128
    ef_search: int = 128
    timeout: int = 60

    def __post_init__(self) -> None:
        check_at_least("index", 2, m=self.m)
        check_at_least("index", 4, ef_construct=self.ef_construct)
        check_at_least("index", 1, ef_search=self.ef_search)
        self.service = Service(self.base_url or "", self.key_env, self.timeout)

    def check(self) -> None:
        """Raise ConfigError for invalid values, a secret in the config, or a missing library. No call is made."""
        if (self.base_url is None) == (self.path is None):
            given = "null; set one of them" if self.path is None else "set; make one of them null"
            raise ConfigError(f"index.base_url and index.path are both {given}")
        if self.base_url is not None:
            self.service.check("index")
        if not self.collection or set(self.collection) & set('/\\<>:"|?*\0'):
            raise ConfigError(f'index.collection must be a name without / \\ < > : " | ? *, got {self.collection!r}')
        if importlib.util.find_spec("qdrant_client") is None:
            raise ConfigError("qdrant-client is not installed; pip install 'ragsweep[qdrant]'")

    def check_key(self) -> None:
        """Raise ConfigError if a server is used and the variable that ``key_env`` names contains no usable key."""
        if self.path is None:
            self.service.check_key("retriever.index")

    def _name(self, vectors: Floats) -> str:
        return name_by_content(
            self.collection, [self.TRAITS.version, vectors.shape, self.m, self.ef_construct], vectors
        )

    def _local(self) -> str:
        return "path" if self.path is not None else ""

    def _fill(self, name: str, vectors: Floats) -> None:
        from qdrant_client import models
        from qdrant_client.http.exceptions import UnexpectedResponse

        if not self._client.collection_exists(name):
            try:
                self._client.create_collection(
                    name,
                    vectors_config=models.VectorParams(size=vectors.shape[1], distance=models.Distance.DOT),
                    hnsw_config=models.HnswConfigDiff(m=self.m, ef_construct=self.ef_construct),
                )
            except UnexpectedResponse as fault:
                if fault.status_code != 409:  # 409: another process has created it
                    raise
        if self._client.count(name, exact=True).count < len(vectors):
            for start in range(0, len(vectors), POINTS):
                batch = np.asarray(vectors[start : start + POINTS], dtype=np.float32)
                ids: list[Any] = list(range(start, start + len(batch)))
                self._client.upsert(name, models.Batch(ids=ids, vectors=batch.tolist()), wait=True)
        count = self._client.count(name, exact=True).count
        if count != len(vectors):
            fact = f"the collection {name} contains {count} points, instead of {len(vectors)}"
            raise CallFailed(f"{fact}; delete the collection")
        while (status := self._client.get_collection(name).status) in ("yellow", "grey"):  # the index is incomplete
            if status == "grey":  # a server that was restarted during the build continues only after an update
                self._client.update_collection(name, optimizers_config=models.OptimizersConfigDiff())
            time.sleep(PAUSE)

    def _near(self, name: str, queries: Floats, number: int) -> list[Sequence[int]]:
        from qdrant_client import models

        # Without a server, the search is exact, and the client warns of settings without effect. A server raises
        # hnsw_ef to the number of results if that number is larger; the number is therefore limited to ef_search.
        effort = None if self.path else models.SearchParams(hnsw_ef=self.ef_search)
        number = number if self.path else min(number, self.ef_search)
        found: list[Sequence[int]] = []
        for start in range(0, len(queries), QUERIES):
            requests = [
                models.QueryRequest(query=query, limit=number, params=effort)
                for query in queries[start : start + QUERIES].tolist()
            ]
            answers = self._client.query_batch_points(name, requests)
            found += [[point.id for point in answer.points] for answer in answers]
        return found

    @cached_property
    def _client(self) -> Any:
        if self.path is not None:
            return _embedded(str(Path(self.path).expanduser()))
        from qdrant_client import QdrantClient

        key, timeout = self.service.key() or None, int(self.service.timeout)
        return QdrantClient(url=self.base_url, api_key=key, timeout=timeout, check_compatibility=False)

    @contextmanager
    def _readable_faults(self) -> Iterator[None]:
        from qdrant_client.http.exceptions import ApiException

        try:
            yield
        except ApiException as fault:
            status = getattr(fault, "status_code", None)
            way = "see the server's log"
            if status is None:  # no response
                way = "start the server, correct the index's base_url or increase its timeout"
            elif status in (401, 403):
                way = "set the index's key_env to the name of the variable that contains the server's key"
            raise CallFailed(f"{self.base_url} failed: {quote(str(fault), self.service.key())}; {way}") from None


@cache
def _embedded(path: str) -> Any:
    """Return this process's only client for the folder ``path``; the folder cannot be opened twice.

    Raises CallFailed if the folder cannot be opened.
    """
    from qdrant_client import QdrantClient

    try:
        client = QdrantClient(path=path)
    except RuntimeError as fault:
        fact = " ".join(str(fault).split())
        raise CallFailed(f"cannot open the index in the folder {path!r}: {fact}") from None
    atexit.register(client.close)
    return client
