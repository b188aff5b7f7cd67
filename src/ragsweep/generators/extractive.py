"""Answer with the sentences of the context that are most like the question: offline, and the same every time."""

from __future__ import annotations

import importlib.metadata
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ragsweep.errors import ConfigError
from ragsweep.sentences import LIBRARY, check_language, sentences
from ragsweep.spans import shortened
from ragsweep.types import Answer, Embedder, Floats, Request

LONGEST = 300
"""Characters from which on a sentence is cut where it pauses: a listing, a table; nobody quotes these as a whole."""

MOST = 50_000
"""Sentences whose vectors are remembered."""

TINY = float(np.finfo(np.float32).tiny)


class Sentence(NamedTuple):
    """A sentence of the context, and the number, from 1, of the first passage that says it."""

    text: str
    passage: int


class Extractive:
    """Quote the best-supported sentences: those whose vectors are nearest to the question's, in the context's order.

    ``support`` is the cosine of the best one; below ``threshold``, and without context, the answer is an abstention.
    Each sentence cites its passage as ``[1]``. Every sentence is embedded by itself, once, so that an answer depends on
    nothing but its request; the seconds of an answer leave that out, as who serves it would embed sentences beforehand.
    """

    VERSION = "1"
    NEEDS_CONTEXT = True

    def __init__(
        self, embedder: Embedder, sentences: int = 2, threshold: float = 0.4, language: str = "english"
    ) -> None:
        """Take what compares sentences with the question; nothing is loaded before it is used."""
        self.embedder = embedder
        self.sentences = sentences
        self.threshold = threshold
        self.language = language
        self._known: dict[str, Floats] = {}

    def check(self) -> None:
        """Raise ConfigError for numbers out of range, or a language whose sentences are not known."""
        if self.sentences < 1:
            raise ConfigError(f"sentences is {self.sentences}; an answer has 1 or more")
        if not -1 <= self.threshold <= 1:
            raise ConfigError(f"threshold is {self.threshold}; it is a cosine, between -1 and 1")
        check_language(self.language)

    def fingerprint(self) -> Mapping[str, str]:
        """Name the version of the library that finds sentences."""
        return {LIBRARY: importlib.metadata.version(LIBRARY)}

    def generate(self, requests: Sequence[Request], done: Callable[[int, Answer], None]) -> None:
        """Answer one request after the other."""
        for number, request in enumerate(requests):
            found = self._sentences(request)
            vectors = [self._vector(sentence.text) for sentence in found]
            if number == 0 and found:
                self.embedder.embed_queries([request.question])  # loads what is loaded once
            begin = time.perf_counter()
            answer = self._answer(request.question, found, vectors)
            done(number, answer._replace(seconds=time.perf_counter() - begin))

    def _answer(self, question: str, found: Sequence[Sentence], vectors: Sequence[Floats]) -> Answer:
        if not found:
            return Answer(abstained=True)
        near = _cosines(np.stack(vectors), self.embedder.embed_queries([question])[0])
        support = float(near.max())
        if support < self.threshold:
            return Answer(abstained=True, support=support)
        # Stable, so that of equal ones the first is taken; then as they follow each other in the context.
        best = np.sort(np.argsort(-near, kind="stable")[: self.sentences])
        chosen = [found[n] for n in best.tolist() if near[n] >= self.threshold]
        return Answer(" ".join(f"{text} [{passage}]" for text, passage in chosen), support=support)

    def _sentences(self, request: Request) -> list[Sentence]:
        """Cut the passages into sentences; one that several passages say is that of the first."""
        said: dict[str, int] = {}
        for number, passage in enumerate(request.passages, 1):
            for piece in sentences(passage.text, self.language):
                for start, end in shortened(passage.text, piece, LONGEST):
                    text = " ".join(passage.text[start:end].split())
                    if any(map(str.isalnum, text)):
                        said.setdefault(text, number)
        return [Sentence(text, number) for text, number in said.items()]

    def _vector(self, text: str) -> Floats:
        """Embed a sentence, or recall its vector."""
        if text not in self._known:
            if len(self._known) >= MOST:
                self._known.clear()
            self._known[text] = self.embedder.embed_documents([text]).vectors[0]
        return self._known[text]


def _cosines(vectors: Floats, asked: Floats) -> Floats:
    lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(asked)
    near: Floats = (vectors @ asked) / np.maximum(lengths, TINY)
    return near.astype(np.float32)
