"""Work on all chunks of a chunking in shards, which are kept when the work is interrupted."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from ragsweep.core.identity import StageContext
from ragsweep.core.types import Chunks, Embeddings, ReadingReranker, Spans, TokenVectors

SHARD = 256
"""Chunks worked on at a time, and kept. Fixed, so that batches do not depend on anything a user sets."""


class Texts(Sequence[str]):
    """The chunks' texts, made when they are asked for: a million chunks are not a million strings."""

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


def embedded(work: StageContext, embedder: Any, texts: Texts, spans: Spans) -> Embeddings:
    """Embed all chunks, the longest first: neighbours of one length need no padding."""
    order = np.argsort(spans.start - spans.end, kind="stable")
    filled: list[np.ndarray] = []
    for start in range(0, len(texts), SHARD):
        work.progress(start, len(texts))
        rows = order[start : start + SHARD]
        shard = work.piece(
            f"{start}-{start + len(rows)}",
            partial(embedder.embed_documents, [texts[row] for row in rows.tolist()]),
        )
        if not filled:
            filled = [work.space((len(texts), *column.shape[1:]), column.dtype) for column in shard]
        for column, values in zip(filled, shard, strict=True):
            column[rows] = values
    work.progress(len(texts), len(texts))
    return Embeddings(*filled) if filled else embedder.embed_documents([])


def read_all(work: StageContext, part: ReadingReranker, texts: Texts, spans: Spans) -> TokenVectors:
    """Read all chunks, the longest first, and lay them out in their order."""
    order = np.argsort(spans.start - spans.end, kind="stable")
    shards: list[tuple[np.ndarray, TokenVectors]] = []
    lengths = np.zeros(len(texts), dtype=np.int64)
    for start in range(0, len(texts), SHARD):
        work.progress(start, len(texts))
        rows = order[start : start + SHARD]
        made = partial(part.read, [texts[row] for row in rows.tolist()])
        shards.append((rows, work.piece(f"{start}-{start + len(rows)}", made)))
        lengths[rows] = np.diff(shards[-1][1].start)
    if not shards:
        return part.read([])
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    first = shards[0][1].vectors
    vectors = work.space((int(starts[-1]), first.shape[1]), first.dtype)
    for rows, shard in shards:
        for n, row in enumerate(rows.tolist()):
            vectors[starts[row] : starts[row + 1]] = shard.of(n)
    work.progress(len(texts), len(texts))
    return TokenVectors(vectors, starts)
