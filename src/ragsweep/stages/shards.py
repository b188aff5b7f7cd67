"""Process all chunks of a chunking in shards (groups of chunks), in this process or on a Ray cluster.

If there is a store, finished shards survive an interruption. The values of the shards, and the order of the chunks in
the result, do not depend on where the shards are computed.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from importlib.util import find_spec
from typing import Any

import numpy as np

from ragsweep.core.errors import ConfigError, RagsweepError
from ragsweep.core.foreign_results import check_dimension, embed_checked, read_checked
from ragsweep.core.identity import StageContext
from ragsweep.core.types import (
    Arrays,
    Chunks,
    CountingRetriever,
    Embedder,
    Embeddings,
    ReadingReranker,
    TextRetriever,
    TokenVectors,
)
from ragsweep.stages.blobs import pack, unpack

SHARD = 256
"""Maximum number of chunks per shard that a model processes; a fixed number, because it determines the batches."""


def embed_chunks(work: StageContext, embedder: Embedder, chunks: Chunks) -> Embeddings:
    """Return the embeddings of all chunks, in chunk order; raise ConfigError if the embedder's results are invalid."""
    columns: list[np.ndarray] = []
    for rows, shard in _shards(work, partial(embed_checked, embedder), chunks):
        if not columns:
            columns = [work.space((len(chunks), *column.shape[1:]), column.dtype) for column in shard]
        check_dimension(embedder, columns[0], shard.vectors)
        for column, values in zip(columns, shard, strict=True):
            column[rows] = values
    return Embeddings(*columns) if columns else embed_checked(embedder, [])


def read_chunks(work: StageContext, part: ReadingReranker, chunks: Chunks) -> TokenVectors:
    """Return the token vectors of all chunks, in chunk order, as encoded by the reranker ``part``."""
    shards = list(_shards(work, partial(read_checked, part), chunks))
    if not shards:
        return part.read([])
    lengths = np.zeros(len(chunks), dtype=np.int64)
    for rows, shard in shards:
        lengths[rows] = np.diff(shard.start)
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    first = shards[0][1].vectors
    vectors = work.space((int(starts[-1]), first.shape[1]), first.dtype)
    for rows, shard in shards:
        check_dimension(part, first, shard.vectors)
        for n, row in enumerate(rows.tolist()):
            vectors[starts[row] : starts[row + 1]] = shard.of(n)
    return TokenVectors(vectors, starts)


def index_chunks(work: StageContext, part: TextRetriever, chunks: Chunks) -> Arrays:
    """Return a retriever's index of all chunks, built in shards if the retriever divides the chunks into several."""
    if not isinstance(part, CountingRetriever):
        return part.build(chunks)
    shards = part.shards((chunks.spans.end - chunks.spans.start).tolist())
    if len(shards) < 2:
        return part.build(chunks)
    rows = {f"{shard.start}-{shard.stop}": np.arange(shard.start, shard.stop) for shard in shards}
    numbers = {name: n for n, name in enumerate(rows)}
    return part.assemble((numbers[name], counts) for name, counts in _computed(work, part.count, chunks, rows))


def _shards(work: StageContext, make: Callable[[list[str]], Any], chunks: Chunks) -> Iterator[tuple[np.ndarray, Any]]:
    """Yield the chunk positions of each shard and the result of ``make`` for their texts; the shards are in any order.

    Each shard contains chunks of similar length, because a batch of texts of similar length needs little padding.
    """
    order = np.argsort(chunks.spans.start - chunks.spans.end, kind="stable")
    starts = range(0, len(chunks), SHARD)
    rows = {f"{start}-{min(start + SHARD, len(chunks))}": order[start : start + SHARD] for start in starts}
    for name, shard in _computed(work, make, chunks, rows):
        yield rows[name], shard


def _computed(
    work: StageContext, make: Callable[[list[str]], Any], chunks: Chunks, rows: Mapping[str, np.ndarray]
) -> Iterator[tuple[str, Any]]:
    """Yield the name and value of each shard, in any order, and report how many chunks are done.

    ``rows`` maps the name of each shard to the positions of its chunks.
    """
    done = 0
    work.progress(done, len(chunks))
    for name, shard in work.pieces(make, list(rows), lambda name: [chunks[row] for row in rows[name].tolist()]):
        yield name, shard
        done += len(rows[name])
        work.progress(done, len(chunks))


KEY = "compute"
LOCAL, RAY = "local", "ray"

RETRIES = 3
"""Maximum number of retries of a shard after its worker, or a machine of the cluster, has died."""

IN_FLIGHT = 2
"""Maximum number of unfinished shards per processor: one runs and the other waits, so that no processor is idle."""


def check_compute(value: object, in_process: bool = True) -> None:
    """Raise ConfigError unless ``value`` is a usable value of the key ``compute``.

    "ray" requires that Ray is installed, and that configs are evaluated in this process (``in_process``), not in jobs
    of hydra/launcher.
    """
    if value not in (LOCAL, RAY):
        raise ConfigError(f"{KEY}: must be local or ray, got {value!r}")
    if value == RAY and not in_process:
        raise ConfigError(
            f"{KEY}=ray: shards would wait for processors taken by hydra/launcher's jobs; use {KEY}=local, or"
            " hydra/launcher=inline"
        )
    if value == RAY and find_spec("ray") is None:
        raise ConfigError(f"{KEY}=ray: ray is not installed; pip install 'ragsweep[ray]'")


class RayShards:
    """A Ray cluster that computes shards: the cluster at RAY_ADDRESS or, if it is not set, a new one on this machine.

    A worker gets one CPU (one thread), or one GPU if the cluster has any. It loads the part only once and returns each
    shard as the bytes of an entry (see `blobs`). Checksums and address are verified on arrival.
    """

    def compute(
        self, make: Callable[[Any], Any], shards: Sequence[str], read: Callable[[str], Any], address: str, result: type
    ) -> Iterator[tuple[str, Any]]:
        """Yield the name and value of each shard as it is completed, in any order.

        Args:
            make: Computes a shard from its input; sent to each worker once.
            shards: Names of the shards.
            read: Returns the input of a shard, by name; called when the shard is submitted.
            address: Address of the shards' node.
            result: Type of a shard's value.

        Raises:
            ConfigError: No cluster can be reached or started.
            RagsweepError: ``make`` raised it in a worker; any other exception there becomes Ray's RayTaskError.
        """
        ray, kind = _connected()
        task = ray.remote(_compute).options(max_retries=RETRIES, **{f"num_{kind}s": 1})
        at_once = max(1, int(ray.cluster_resources().get(kind.upper(), 1))) * IN_FLIGHT
        part, waiting, running = ray.put(make), iter(shards), dict[Any, str]()

        def hand_out() -> None:
            for name in waiting:
                running[task.remote([part], read(name), f"{address}/{name}")] = name
                if len(running) >= at_once:
                    return

        try:
            hand_out()
            while running:
                (done,), _ = ray.wait(list(running), num_returns=1)
                name = running.pop(done)
                hand_out()
                try:
                    data = ray.get(done)
                except ray.exceptions.RayTaskError as fault:
                    raise (fault.cause if isinstance(fault.cause, RagsweepError) else fault) from None
                yield name, unpack(data, f"{address}/{name}", result).value
        finally:
            for reference in running:
                ray.cancel(reference, force=True)


def _connected() -> tuple[Any, str]:
    """Return the ray module, connected to a cluster, and the kind of processor of a worker: "gpu" or "cpu".

    Raises ConfigError if no cluster can be reached or started.
    """
    import ray as library

    ray: Any = library
    if not ray.is_initialized():
        there = os.environ.get("RAY_ADDRESS", "local")  # without an address, Ray would join any cluster on this machine
        more = {"include_dashboard": False} if there == "local" else {}
        try:
            ray.init(there, log_to_driver=False, logging_level="error", **more)
        except (ConnectionError, ValueError) as fault:
            way = f"correct RAY_ADDRESS, or unset it to start a cluster here; {KEY}=local needs no cluster"
            raise ConfigError(f"{KEY}=ray: no cluster at {there}: {fault}; {way}") from None
    return ray, "gpu" if ray.cluster_resources().get("GPU") else "cpu"


def _compute(part: list[Any], given: Any, address: str) -> bytes:
    """Compute one shard in a worker; return the bytes of its entry."""
    return b"".join(pack(address, _loaded(part[0])(given)))


@lru_cache(1)
def _loaded(part: Any) -> Callable[[Any], Any]:
    """Return the function behind a Ray reference; each worker process receives and loads it only once."""
    import ray

    made: Callable[[Any], Any] = ray.get(part)
    return made
