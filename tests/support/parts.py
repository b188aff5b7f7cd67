"""Small parts for tests: they implement the protocols as a user's own would, and need no model."""

import os
import resource
import signal
import sqlite3
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ragsweep.core.identity import BuiltPart, Spec
from ragsweep.core.types import (
    Answer,
    Arrays,
    Chunker,
    Corpus,
    Embeddings,
    Evidence,
    Floats,
    GoldenSet,
    PartTraits,
    Question,
    Rankings,
    Request,
    Spans,
    Usage,
)
from ragsweep.parts.indexes import Flat
from ragsweep.parts.ranking import arrange
from ragsweep.parts.retrievers import HybridRrf, Vector

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
    """One chunk per document."""

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
    """Pad rankings to ``depth``."""
    missing = ((0, 0), (0, depth - positions.shape[1]))
    return Rankings(np.pad(positions, missing, constant_values=-1), np.pad(scores, missing, constant_values=-np.inf))


class LongestFirst:
    """Rerank by length of the chunk, and record the pairs."""

    TRAITS = PartTraits(version="1")

    def __init__(self, candidates: int = 3) -> None:
        self.candidates = candidates
        self.scored: list[tuple[str, str]] = []

    def score(self, pairs: Sequence[tuple[str, str]]) -> np.ndarray:
        """Return the length of each pair's chunk."""
        self.scored.extend(pairs)
        return np.array([len(text) for _, text in pairs], dtype=np.float32)


def built(value: Any, **parameters: Any) -> BuiltPart:
    """Pair a part with a spec made of its class and parameters."""
    return BuiltPart(value, Spec(type(value).__name__, "1", parameters))


def vector(weight: float = 1.0) -> BuiltPart:
    """Make a vector retriever that embeds texts by their counts of letters."""
    index = Spec("Flat", "1")
    spec = Spec("Vector", "1", {"embedder": Spec("Letters", "1", {"weight": weight}), "index": index, "exact": index})
    return BuiltPart(Vector(Letters(weight), Flat(), Flat()), spec)


def fused(legs: Mapping[str, BuiltPart], kind: type = HybridRrf, **parameters: Any) -> BuiltPart:
    """Make a hybrid retriever of these legs."""
    specs = {name: leg.spec for name, leg in legs.items()}
    part = kind({name: leg.value for name, leg in legs.items()}, **parameters)
    return BuiltPart(part, Spec(kind.__name__, "1", {**parameters, "legs": specs}))


def drawn(number: int, seed: int = 0, dimension: int = 8) -> Floats:
    """Draw unit vectors."""
    vectors = np.random.default_rng(seed).normal(size=(number, dimension))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def exact(vectors: Floats, queries: Floats) -> Rankings:
    """Return the ten vectors nearest to each query, by the exact index."""
    return Flat().search(Flat().build(vectors), vectors, queries, 10)


def recall(found: Rankings, ideal: Rankings) -> float:
    """Return the mean share of the ideal positions that are found."""
    rows = zip(found.positions, ideal.positions, strict=True)
    return float(np.mean([len({*one} & {*other}) / len(other) for one, other in rows]))


def clustered(number: int, seed: int = 0, centres: int = 20, spread: float = 0.5) -> Floats:
    """Draw unit vectors of dimension 32 around the same centres."""
    chance = np.random.default_rng(seed)
    middles = np.random.default_rng(99).normal(size=(centres, 32))
    vectors = middles[chance.integers(0, centres, number)] + spread * chance.normal(size=(number, 32))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def untitled(*texts: str) -> Corpus:
    """Make a corpus without titles."""
    return Corpus([str(n) for n in range(len(texts))], [""] * len(texts), texts)


def cut(chunker: Chunker, text: str) -> list[str]:
    """Return the texts of a document's chunks."""
    spans = chunker.split(untitled(text))
    return [text[start:end] for start, end in zip(spans.start, spans.end, strict=True)]


class Fateful:
    """Rank in the order of positions, or end in the way that ``fate`` names."""

    TRAITS = PartTraits(version="1")

    def __init__(self, fate: str = "good") -> None:
        self.fate = fate

    def build(self, texts: Sequence[str]) -> Arrays:
        return {"count": np.array([len(texts)])}

    def retrieve(self, index: Arrays, queries: Sequence[str], depth: int) -> Rankings:
        if self.fate == "raises":
            raise ValueError("no luck today")
        if self.fate == "exits":
            sys.exit(3)
        if self.fate == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.fate == "hangs":
            time.sleep(600)
        if self.fate == "unwritten":  # the outcome of this job cannot be recorded
            with sqlite3.connect(Path(".ragsweep", "ledger.db")) as connection:
                connection.execute(
                    "CREATE TRIGGER IF NOT EXISTS full BEFORE INSERT ON records"
                    " BEGIN SELECT RAISE(FAIL, 'no room for it'); END"
                )
            connection.close()
        if self.fate == "memory":
            before = resource.getrlimit(resource.RLIMIT_AS)
            resource.setrlimit(resource.RLIMIT_AS, (8 << 30, before[1]))
            try:
                np.ones(16 << 30, dtype=np.uint8)
            finally:
                resource.setrlimit(resource.RLIMIT_AS, before)
        positions = np.tile(np.arange(int(index["count"][0])), (len(queries), 1))
        return arrange(positions, -positions.astype(np.float32), depth)


class Mortal:
    """A generator that kills its process after ``lives`` questions, counted in a file, if its name is ``dies``."""

    TRAITS = PartTraits(version="1", needs_context=False)

    def __init__(self, name: str, dies: str, lives: int) -> None:
        self.name = name
        self.dies = dies
        self.lives = lives

    def generate(self, requests: Sequence[Request], done: Callable[[int, Answer], None]) -> None:
        asked = Path(f"{self.name}.asked")
        for number in range(len(requests)):
            if self.name == self.dies and asked.exists() and asked.stat().st_size >= self.lives:
                os.kill(os.getpid(), signal.SIGKILL)
            with asked.open("a") as log:
                log.write(".")
            done(number, Answer("salt"))


class Flaky:
    """Answer with the question itself, and append each question to the file ``asked``."""

    TRAITS = PartTraits(version="1")

    def generate(self, requests: Sequence[Request], done: Callable[[int, Answer], None]) -> None:
        """Answer in order; questions that contain the text of the file ``down`` fail."""
        down = Path("down").read_text() if Path("down").exists() else None
        for number, request in enumerate(requests):
            with Path("asked").open("a") as file:
                file.write(f"{request.question}\n")
            failed = "timed out" if down and down in request.question else ""
            done(number, Answer("" if failed else request.question, failed=failed, usage=Usage(1, 7, 3)))
