"""Small parts for tests: they implement the protocols as a user's own would, and need no model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ragsweep.core.identity import BuiltPart, Spec
from ragsweep.core.types import Corpus, Embeddings, Evidence, GoldenSet, PartTraits, Question, Rankings, Spans
from ragsweep.parts.indexes import Flat
from ragsweep.parts.retrievers import Vector

TEXTS = (
    "the cat sat on the mat",
    "dogs chase cats in the yard",
    "a compiler turns source into machine code",
    "an interpreter runs source line by line",
    "bread is made of flour water and salt",
)


def corpus(texts: Sequence[str] = TEXTS) -> Corpus:
    """Make a corpus of short documents d0, d1, ..."""
    return Corpus([f"d{n}" for n in range(len(texts))], [""] * len(texts), list(texts))


def golden(*pairs: tuple[str, str | None]) -> GoldenSet:
    """Make a golden set of (query, document id or None)."""
    questions = [
        Question(f"q{n}", text, "known" if document else "unknown", bool(document),
                 evidence=(Evidence(document),) if document else ())
        for n, (text, document) in enumerate(pairs)
    ]  # fmt: skip
    return GoldenSet(tuple(questions))


class Whole:
    """One chunk a document."""

    TRAITS = PartTraits(version="1")

    def split(self, corpus: Corpus) -> Spans:
        """Return whole documents."""
        n = len(corpus.ids)
        ends = np.array([len(text) for text in corpus.texts], dtype=np.int64)
        return Spans(np.arange(n, dtype=np.int32), np.zeros(n, dtype=np.int64), ends)


class Letters:
    """Embed a text by its counts of letters, and record its calls."""

    TRAITS = PartTraits(version="1", operational=frozenset({"batch_size"}))

    def __init__(self, weight: float = 1.0, batch_size: int = 8) -> None:
        self.weight = weight
        self.batch_size = batch_size
        self.calls: list[int] = []

    def embed_documents(self, texts: Sequence[str]) -> Embeddings:
        """Count letters."""
        self.calls.append(len(texts))
        lengths = np.array([len(text) for text in texts], dtype=np.int32)
        return Embeddings(self._vectors(texts), lengths, np.minimum(lengths, 30).astype(np.int32))

    def embed_queries(self, queries: Sequence[str]) -> np.ndarray:
        """Count letters."""
        return self._vectors(queries)

    def _vectors(self, texts: Sequence[str]) -> np.ndarray:
        counts = np.zeros((len(texts), 26), dtype=np.float32)
        for row, text in enumerate(texts):
            for letter in text.lower():
                if "a" <= letter <= "z":
                    counts[row, ord(letter) - 97] += self.weight
        return counts / np.maximum(np.linalg.norm(counts, axis=1, keepdims=True), 1e-9)


class Words:
    """Rank by the number of shared words."""

    TRAITS = PartTraits(version="1")

    def __init__(self, bonus: float = 0.0) -> None:
        self.bonus = bonus

    def build(self, texts: Sequence[str]) -> Mapping[str, np.ndarray]:
        """Keep the texts as bytes."""
        return {"texts": np.frombuffer("\n".join(texts).encode(), dtype=np.uint8)}

    def retrieve(self, index: Mapping[str, np.ndarray], queries: Sequence[str], depth: int) -> Rankings:
        """Count shared words."""
        texts = index["texts"].tobytes().decode().split("\n")
        scores = np.array(
            [[len(set(query.split()) & set(text.split())) for text in texts] for query in queries], dtype=np.float32
        ).reshape(len(queries), len(texts))
        order = np.argsort(-scores, axis=1, kind="stable")[:, :depth]
        best = np.take_along_axis(scores, order, axis=1)
        positions = np.where(best > 0, order, -1).astype(np.int32)
        values = np.where(best > 0, best + self.bonus, -np.inf).astype(np.float32)
        return padded(positions, values, depth)


def padded(positions: np.ndarray, scores: np.ndarray, depth: int) -> Rankings:
    """Bring rankings to full depth."""
    missing = ((0, 0), (0, depth - positions.shape[1]))
    return Rankings(np.pad(positions, missing, constant_values=-1), np.pad(scores, missing, constant_values=-np.inf))


class LongestFirst:
    """Rerank by length of the chunk, and record the pairs."""

    TRAITS = PartTraits(version="1")

    def __init__(self, candidates: int = 3) -> None:
        self.candidates = candidates
        self.scored: list[tuple[str, str]] = []

    def score(self, pairs: Sequence[tuple[str, str]]) -> np.ndarray:
        """Score pairs."""
        self.scored.extend(pairs)
        return np.array([len(text) for _, text in pairs], dtype=np.float32)


def built(value: Any, **parameters: Any) -> BuiltPart:
    """Pair a part with a spec made of its class and parameters."""
    return BuiltPart(value, Spec(type(value).__name__, "1", parameters))


def vector(weight: float = 1.0) -> BuiltPart:
    """Make a vector retriever of counted letters."""
    index = Spec("Flat", "1")
    spec = Spec("Vector", "1", {"embedder": Spec("Letters", "1", {"weight": weight}), "index": index, "exact": index})
    return BuiltPart(Vector(Letters(weight), Flat(), Flat()), spec)
