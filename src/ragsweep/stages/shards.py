"""Process all chunks of a chunking in shards, which survive an interruption.

The place of computation, this process or a cluster, changes neither a shard nor the order of the chunks.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ragsweep.core.identity import StageContext
from ragsweep.core.types import (
    Arrays,
    Chunks,
    CountingRetriever,
    Embeddings,
    ReadingReranker,
    Spans,
    TextRetriever,
    TokenVectors,
)

SHARD = 256
"""Chunks per shard. Fixed, so that batches do not depend on settings."""


class Texts(Sequence[str]):
    """The chunks' texts, created on access, so that a million chunks need not be a million strings in memory."""

    def __init__(self, chunks: Chunks) -> None:
        self._chunks = chunks

    def __len__(self) -> int:
        """Count the chunks."""
        return len(self._chunks)

    def __getitem__(self, item: Any) -> Any:
        """Return one text, or a list of texts for a slice."""
        if isinstance(item, slice):
            return [self._chunks.text(n) for n in range(*item.indices(len(self)))]
        if not -len(self) <= item < len(self):
            raise IndexError(item)
        return self._chunks.text(int(item) % len(self))


def embed_chunks(work: StageContext, embedder: Any, texts: Texts, spans: Spans) -> Embeddings:
    """Embed all chunks; the vectors are in chunk order."""
    columns: list[np.ndarray] = []
    for rows, shard in _shards(work, embedder.embed_documents, texts, spans):
        if not columns:
            columns = [work.space((len(texts), *column.shape[1:]), column.dtype) for column in shard]
        for column, values in zip(columns, shard, strict=True):
            column[rows] = values
    return Embeddings(*columns) if columns else embedder.embed_documents([])


def read_chunks(work: StageContext, part: ReadingReranker, texts: Texts, spans: Spans) -> TokenVectors:
    """Compute the token vectors of all chunks, in chunk order, with a reranker that reads chunks in advance."""
    shards = list(_shards(work, part.read, texts, spans))
    if not shards:
        return part.read([])
    lengths = np.zeros(len(texts), dtype=np.int64)
    for rows, shard in shards:
        lengths[rows] = np.diff(shard.start)
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    first = shards[0][1].vectors
    vectors = work.space((int(starts[-1]), first.shape[1]), first.dtype)
    for rows, shard in shards:
        for n, row in enumerate(rows.tolist()):
            vectors[starts[row] : starts[row + 1]] = shard.of(n)
    return TokenVectors(vectors, starts)


def index_chunks(work: StageContext, part: TextRetriever, texts: Texts, spans: Spans) -> Arrays:
    """Index the words of all chunks, shard by shard if the retriever supports this and there are several shards."""
    if not isinstance(part, CountingRetriever):
        return part.build(texts)
    shards = part.shards((spans.end - spans.start).tolist())
    if len(shards) < 2:
        return part.build(texts)
    rows = {f"{shard.start}-{shard.stop}": np.arange(shard.start, shard.stop) for shard in shards}
    numbers = {name: n for n, name in enumerate(rows)}
    return part.assemble((numbers[name], counts) for name, counts in _computed(work, part.count, texts, rows))


def _shards(
    work: StageContext, make: Callable[[list[str]], Any], texts: Texts, spans: Spans
) -> Iterator[tuple[np.ndarray, Any]]:
    """Yield chunk numbers and the results for their texts, in any order.

    Chunks are sorted by length, longest first: a batch of texts of similar length needs little padding.
    """
    order = np.argsort(spans.start - spans.end, kind="stable")
    starts = range(0, len(texts), SHARD)
    rows = {f"{start}-{min(start + SHARD, len(texts))}": order[start : start + SHARD] for start in starts}
    for name, shard in _computed(work, make, texts, rows):
        yield rows[name], shard


def _computed(
    work: StageContext, make: Callable[[list[str]], Any], texts: Texts, rows: Mapping[str, np.ndarray]
) -> Iterator[tuple[str, Any]]:
    """Yield shards by name, in any order, and report how many chunks are done."""
    done = 0
    work.progress(done, len(texts))
    for name, shard in work.pieces(make, list(rows), lambda name: [texts[row] for row in rows[name].tolist()]):
        yield name, shard
        done += len(rows[name])
        work.progress(done, len(texts))
