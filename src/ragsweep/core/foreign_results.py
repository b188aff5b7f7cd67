"""Check the results of parts from other packages: an invalid result would give wrong scores instead of an error."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.errors import ConfigError
from ragsweep.core.trust import is_ours
from ragsweep.core.types import (
    NO_CHUNK,
    Chunker,
    Corpus,
    Dataset,
    DatasetReader,
    Embedder,
    Embeddings,
    Floats,
    Question,
    Rankings,
    ReadingReranker,
    Spans,
    TokenVectors,
)


def read_dataset(reader: DatasetReader) -> Dataset:
    """Return the dataset that a part reads; raise ConfigError, which names the part, if texts or ids are invalid."""
    dataset = reader.load()
    if is_ours(reader):
        return dataset
    _check_type(reader, dataset, Dataset)
    corpus, questions = dataset.corpus, dataset.golden.questions
    for question in questions:
        _check_type(reader, question, Question)
    if not len(corpus.ids) == len(corpus.titles) == len(corpus.texts):
        _reject(reader, "a corpus must have one id, one title and one text per document")
    for text in (
        *corpus.ids,
        *corpus.titles,
        *corpus.texts,
        *(text for one in questions for text in (one.id, one.text)),
    ):
        if not isinstance(text, str):
            _reject(reader, f"ids, titles and texts must be strings, got {text!r}")
    for kind, ids in (("document", corpus.ids), ("question", [question.id for question in questions])):
        for name, times in Counter(ids).most_common(1):
            if times > 1:
                _reject(reader, f"the {kind} id {name!r} occurs {times} times; ids must be unique")
    return dataset


def checked_rankings(part: object, found: object, rows: int, kept: NDArray[np.bool_] | None = None) -> Rankings:
    """Return ``found``, a part's rankings of ``rows`` queries; raise ConfigError, which names the part, for a fault.

    Rankings by parts of ragsweep are checked only for their type. If the flags ``kept`` (rows,) are given, rankings
    that they do not mark are not checked, except for their shape, because the caller replaces these rankings.
    """
    _check_type(part, found, Rankings, "; create it with ragsweep.parts.ranking.arrange")
    assert isinstance(found, Rankings)
    if is_ours(part):
        return found
    positions, scores = _integers(part, "positions", found.positions), np.asarray(found.scores)
    if positions.shape != scores.shape or positions.ndim != 2 or len(positions) != rows:
        _reject(
            part, f"positions have the shape {positions.shape}, scores {scores.shape}; both must be ({rows}, depth)"
        )
    if kept is not None:
        positions, scores = positions[kept], scores[kept]
    ranked, ascending = positions != NO_CHUNK, np.sort(positions, axis=1)
    if (positions < NO_CHUNK).any():
        _reject(part, f"a position is {positions.min()}; it must be the number of a chunk, or -1 past the end")
    if (ranked[:, 1:] & ~ranked[:, :-1]).any():
        _reject(part, "a ranking continues after the position -1, which marks its end")
    if ((ascending[:, 1:] == ascending[:, :-1]) & (ascending[:, 1:] != NO_CHUNK)).any():
        _reject(part, "a chunk occurs twice in a ranking; rank each chunk once")
    if not np.isfinite(scores[ranked]).all():
        _reject(part, "the score of a ranked chunk is not finite; set its position to -1 if it must not be ranked")
    if (ranked[:, 1:] & (scores[:, 1:] > scores[:, :-1])).any():
        _reject(part, "scores rise along a ranking; the best chunk must be first and have the highest score")
    return found


def split_checked(part: Chunker, corpus: Corpus) -> Spans:
    """Cut a corpus into chunks; raise ConfigError, which names the chunker, if the chunks are invalid."""
    spans = part.split(corpus)
    _check_type(part, spans, Spans)
    if is_ours(part):
        return spans
    document, start, end = (_integers(part, name, getattr(spans, name)) for name in Spans._fields)
    if not len(document) == len(start) == len(end):
        _reject(part, f"{len(document)} documents, {len(start)} starts and {len(end)} ends; give one of each per chunk")
    lengths = np.array([len(text) for text in corpus.texts])
    outside = (document < 0) | (document >= len(lengths)) | (start < 0) | (start > end)
    outside[~outside] = end[~outside] > lengths[document[~outside]]
    for n in np.flatnonzero(outside)[:1]:
        _reject(part, f"the chunk {start[n]} to {end[n]} of document {document[n]} is not within the document's text")
    starts = list(zip(document.tolist(), start.tolist(), strict=True))
    if starts != sorted(starts) or len(set(zip(starts, end.tolist(), strict=True))) < len(starts):
        _reject(part, "chunks must be sorted by document, then by start, and none may occur twice")
    return spans


def checked_floats(part: object, values: Any, rows: int, dimensions: int) -> Floats:
    """Return ``values``, one score or vector per row; raise ConfigError, which names the part, if they are invalid."""
    if not is_ours(part):
        _check_type(part, values, np.ndarray)
        if values.ndim != dimensions or len(values) != rows:
            _reject(
                part, f"an array has the shape {values.shape}; it must have {dimensions} dimensions and {rows} rows"
            )
        if not np.isfinite(values).all():
            _reject(part, "an array has values that are not finite (NaN or infinite); return finite numbers")
    return values  # type: ignore[no-any-return]


def embed_checked(embedder: Embedder, texts: Sequence[str]) -> Embeddings:
    """Embed the texts of chunks; raise ConfigError, which names the embedder, if the result is invalid."""
    embedded = embedder.embed_documents(texts)
    if not is_ours(embedder):
        _check_type(embedder, embedded, Embeddings)
        checked_floats(embedder, embedded.vectors, len(texts), 2)
        for name in Embeddings._fields[1:]:
            _check_type(embedder, (counts := getattr(embedded, name)), np.ndarray)
            if counts.shape != (len(texts),):
                _reject(
                    embedder, f"{name} has the shape {counts.shape}; it must be ({len(texts)},), one number per text"
                )
    return embedded


def embed_queries_checked(embedder: Embedder, queries: Sequence[str]) -> Floats:
    """Return the vectors of queries, (queries, dimension); raise ConfigError, which names the embedder, for a fault."""
    return checked_floats(embedder, embedder.embed_queries(queries), len(queries), 2)


def read_checked(reranker: ReadingReranker, texts: Sequence[str]) -> TokenVectors:
    """Return the token vectors of the texts of chunks; raise ConfigError, which names the reranker, for a fault."""
    tokens = reranker.read(texts)
    if not is_ours(reranker):
        _check_type(reranker, tokens, TokenVectors)
        start, vectors = _integers(reranker, "start", tokens.start), np.asarray(tokens.vectors)
        checked_floats(reranker, tokens.vectors, len(vectors), 2)
        if start.shape != (len(texts) + 1,) or (start[0], start[-1]) != (0, len(vectors)) or (np.diff(start) < 0).any():
            _reject(reranker, f"start must rise from 0 to {len(vectors)}, the number of vectors, in {len(texts)} steps")
    return tokens


def check_dimension(part: object, vectors: np.ndarray, others: np.ndarray) -> None:
    """Raise ConfigError, which names the part, if two arrays of vectors, one per row, have different dimensions."""
    if len(vectors) and len(others) and vectors.shape[1:] != others.shape[1:]:
        found = f"{vectors.shape[1]} and {others.shape[1]} dimensions"
        _reject(part, f"vectors have {found}; return vectors of one dimension for all texts and queries")


def _integers(part: object, name: str, values: Any) -> np.ndarray:
    array = np.asarray(values)
    if array.dtype.kind not in "iu":
        _reject(part, f"{name} must be an array of integers, got {array.dtype}")
    return array


def _check_type(part: object, found: object, kind: type, remedy: str = "") -> None:
    if not isinstance(found, kind):
        name = f"ragsweep.core.types.{kind.__name__}" if kind is not np.ndarray else "numpy.ndarray"
        _reject(part, f"a result must be of the type {name}, got {type(found).__name__}{remedy}")


def _reject(part: object, fault: str) -> NoReturn:
    raise ConfigError(f"{type(part).__name__}: {fault}")
