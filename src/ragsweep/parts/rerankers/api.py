"""Rerank by a service that speaks the protocol of Cohere, Jina and vLLM: ``POST {base_url}/rerank``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ragsweep.core.errors import ConfigError
from ragsweep.core.types import Floats
from ragsweep.parts.reordering import REORDERING, Reordering
from ragsweep.services.http_client import Service

HIGHEST = float(np.finfo(np.float32).max)


class Request(NamedTuple):
    """One call: a question, distinct texts, and for each text the pairs it stands for."""

    query: str
    texts: list[str]
    pairs: list[list[int]]


class ApiReranker:
    """Score pairs by ``POST {base_url}/rerank``; the service's ``relevance_score`` is the score.

    How it is called (key, retries, waits) is :class:`ragsweep.services.http_client.Service`.
    """

    VERSION = "1"
    REORDERING = REORDERING
    OPERATIONAL = frozenset({"key_env", "timeout", "retries", "concurrency", "batch_size"})

    def __init__(
        self,
        base_url: str,
        model: str,
        key_env: str | None = None,
        candidates: int = 50,
        min_score: float | None = None,
        mix: float = 0.0,
        timeout: float = 60,
        retries: int = 5,
        concurrency: int = 4,
        batch_size: int = 100,
    ) -> None:
        """Name the service and its model; nothing is called before it is used. Raise ConfigError for a wrong number."""
        self.service = Service(base_url, key_env, timeout, retries, concurrency)
        self.model = model
        self.candidates = candidates
        self.min_score = min_score
        self.mix = mix
        self.batch_size = batch_size
        Reordering(candidates, min_score, mix).check()

    def check(self) -> None:
        """Raise ConfigError for values that could not work, or that would put a secret into a config; calls nobody."""
        self.service.check("reranker")
        if self.batch_size < 1:
            raise ConfigError(f"reranker.batch_size is {self.batch_size}; it must be 1 or more")

    def check_key(self) -> None:
        """Raise ConfigError where the key is not in the environment; calls nobody."""
        self.service.check_key("reranker")

    def score(self, pairs: Sequence[tuple[str, str]]) -> Floats:
        """Score pairs, with one call for each question and ``batch_size`` distinct texts; a blank question scores 0.

        Raises CallFailed where a call fails for good: a ranking cannot be half reranked.
        """
        asked = [request for request in _requests(pairs, self.batch_size) if request.query.strip()]
        bodies = [
            {
                "model": self.model,
                "query": request.query,
                "documents": request.texts,
                "top_n": len(request.texts),
                "return_documents": False,
            }
            for request in asked
        ]
        answers = self.service.post_all("rerank", bodies, lambda answer, n: read(answer, len(asked[n].texts)))
        scores = np.zeros(len(pairs), dtype=np.float32)
        for request, answer in zip(asked, answers, strict=True):
            for rows, score in zip(request.pairs, answer, strict=True):
                scores[rows] = score
        return scores


def read(answer: Any, texts: int) -> list[float]:
    """Return one score a text; raise ValueError unless every text has one finite score, and there is nothing else."""
    try:
        found = [(entry["index"], entry["relevance_score"]) for entry in answer["results"]]
    except (KeyError, TypeError):
        raise ValueError("no results with index and relevance_score") from None
    if any(type(index) is not int for index, _ in found) or sorted(index for index, _ in found) != list(range(texts)):
        raise ValueError(f"{len(found)} results for {texts} texts, or not one for each of them")
    for _, score in found:
        if isinstance(score, bool) or not isinstance(score, int | float) or not abs(score) <= HIGHEST:
            raise ValueError(f"a score of {score!r}, which is no finite number")
    return [float(score) for _, score in sorted(found)]


def _requests(pairs: Sequence[tuple[str, str]], batch_size: int) -> Iterator[Request]:
    """Group pairs by question, in the order they come, each distinct text once."""
    asked: dict[str, dict[str, list[int]]] = {}
    for row, (query, text) in enumerate(pairs):
        asked.setdefault(query, {}).setdefault(text, []).append(row)
    for query, texts in asked.items():
        for start in range(0, len(texts), batch_size):
            some = list(texts)[start : start + batch_size]
            yield Request(query, some, [texts[text] for text in some])
