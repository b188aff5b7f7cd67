"""Answer without a language model, by quoting the sentences of the context that are most similar to the question."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np

from ragsweep.core.errors import ConfigError
from ragsweep.core.foreign_results import check_dimension, embed_checked, embed_queries_checked
from ragsweep.core.spans import split_long
from ragsweep.core.types import Answer, Embedder, Floats, PartTraits, Request
from ragsweep.parts.limits import check_at_least
from ragsweep.parts.sentences import LANGUAGES, SentenceSplitter, check_language, sentences

LONGEST = 300
"""Maximum number of characters in a sentence; a longer sentence, such as a table, is split at pauses."""

MOST = 10_000
"""Maximum number of passages whose sentences and vectors are cached."""

TINY = float(np.finfo(np.float32).tiny)


@dataclass(eq=False)
class Extractive(SentenceSplitter):
    """A generator that quotes the context's sentences whose vectors are nearest to the question's vector.

    At most ``sentences`` sentences with a cosine of at least ``threshold`` are quoted, in the order of the context;
    each is followed by the number of its passage, such as ``[1]``. If no sentence reaches ``threshold``, the answer is
    an abstention. The ``support`` of an answer is the highest cosine of any sentence. The ``seconds`` of an answer
    exclude the time to split and embed the passages, because a production system splits and embeds them in advance.
    """

    TRAITS: ClassVar[PartTraits] = PartTraits(version="1", needs_context=True, languages=tuple(LANGUAGES))

    embedder: Embedder
    sentences: int = 2
    threshold: float = 0.4
    language: str = "english"

    def __post_init__(self) -> None:
        self._read_once = lru_cache(MOST)(self._read)

    def check(self) -> None:
        """Raise ConfigError if a number is out of range or the language is unknown."""
        check_at_least("llm", 1, sentences=self.sentences)
        if not -1 <= self.threshold <= 1:
            raise ConfigError(f"llm.threshold must be a cosine between -1 and 1, got {self.threshold}")
        check_language(self.language, "llm")

    def generate(self, requests: Sequence[Request], done: Callable[[int, Answer], None]) -> None:
        """Answer the requests one by one; a request without passages gets an abstention."""
        if any(request.passages for request in requests):
            embed_queries_checked(self.embedder, [requests[0].question])  # load the model before time is measured
        for number, request in enumerate(requests):
            read = [self._read_once(passage.text) for passage in request.passages]
            begin = time.perf_counter()
            answer = self._answer(request.question, read)
            done(number, answer._replace(seconds=time.perf_counter() - begin))

    def _answer(self, question: str, read: Sequence[tuple[list[str], Floats]]) -> Answer:
        quotable = [(text, number) for number, (texts, _) in enumerate(read, 1) for text in texts]
        if not quotable:
            return Answer(abstained=True)
        vectors = np.concatenate([vectors for texts, vectors in read if texts])
        query = embed_queries_checked(self.embedder, [question])[0]
        check_dimension(self.embedder, vectors, query[None])
        lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(query)
        near = ((vectors @ query) / np.maximum(lengths, TINY)).astype(np.float32)
        support = float(near.max())
        if support < self.threshold:
            return Answer(abstained=True, support=support)
        # The sort is stable: of equally near sentences, the first is preferred. A sentence that occurs in two passages
        # is quoted once, from the first, although rounding may make another occurrence nearer.
        first = {text: n for n, (text, _) in reversed([*enumerate(quotable)])}
        best: dict[str, int] = {}
        for n in np.argsort(-near, kind="stable").tolist():
            if len(best) < self.sentences and near[n] >= self.threshold:
                best.setdefault(quotable[n][0], first[quotable[n][0]])
        chosen = [quotable[n] for n in sorted(best.values())]  # in the context's order
        return Answer(" ".join(f"{text} [{number}]" for text, number in chosen), support=support)

    def _read(self, passage: str) -> tuple[list[str], Floats]:
        """Return the sentences of a passage that contain a letter or digit, and their vectors."""
        texts = []
        for piece in sentences(passage, self.language):
            for start, end in split_long(passage, piece, LONGEST):
                text = " ".join(passage[start:end].split())
                if any(map(str.isalnum, text)):
                    texts.append(text)
        return texts, embed_checked(self.embedder, texts).vectors if texts else np.empty((0, 1), np.float32)
