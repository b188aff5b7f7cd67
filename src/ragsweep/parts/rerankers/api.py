"""A reranker behind a service with the protocol of Cohere, Jina and vLLM: ``POST {base_url}/rerank``."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ragsweep.core.plurals import counted
from ragsweep.core.types import Floats, Usage
from ragsweep.parts.limits import check_at_least
from ragsweep.parts.reordering import REORDERING, ReorderingSettings
from ragsweep.parts.service_settings import ServiceSettings
from ragsweep.services.http_call import HttpRequest
from ragsweep.services.http_client import Service
from ragsweep.services.replies import is_float32, read_token_counts


@dataclass(eq=False)
class ApiReranker(ReorderingSettings, ServiceSettings):
    """A reranker behind ``POST {base_url}/rerank``; a score is the reply's ``relevance_score``.

    :class:`ragsweep.services.http_client.Service` makes the calls and handles the API key, retries and waits.
    """

    TRAITS = replace(ServiceSettings.TRAITS.with_operational("batch_size"), version="1", reordering=REORDERING)
    KEY = "reranker"

    base_url: str
    model: str
    batch_size: int = 100

    def __post_init__(self) -> None:
        """Set up the service without making a call. Raises ConfigError for a number out of range."""
        self.service = Service(self.base_url, **self.call_settings())
        super().__post_init__()

    def check(self) -> None:
        """Raise ConfigError for invalid values, and for a secret in the config. No call is made."""
        super().check()
        check_at_least("reranker", 1, batch_size=self.batch_size)

    def score(self, pairs: Sequence[tuple[str, str]]) -> Floats:
        """Return one score per pair (question, text); a call scores up to ``batch_size`` distinct texts of a question.

        A pair with a blank question or text scores 0, without a call, because services reject blank texts. Raises
        ConfigError if a limit on money is set and the model has no price. Raises CallFailed if a call still fails after
        its retries, because a ranking cannot be reranked in part. The pipeline then scores fewer questions at a time; a
        question that fails even alone gets no ranking.
        """
        rows_of: dict[str, dict[str, list[int]]] = {}  # question -> text -> indices of their pairs
        for row, (query, text) in enumerate(pairs):
            if query.strip() and text.strip():
                rows_of.setdefault(query, {}).setdefault(text, []).append(row)
        calls = [
            (query, list(texts)[start : start + self.batch_size])
            for query, texts in rows_of.items()
            for start in range(0, len(texts), self.batch_size)
        ]
        self.service.session.meter.check_price(self.model)
        scores = np.zeros(len(pairs), dtype=np.float32)

        def done(number: int, found: Sequence[float]) -> None:
            query, texts = calls[number]
            for text, score in zip(texts, found, strict=True):
                scores[rows_of[query][text]] = score

        self.service.each(calls, self._score, done)
        return scores

    async def _score(self, call: tuple[str, Sequence[str]]) -> list[float]:
        """Return the scores of texts for one question, in order."""
        query, texts = call
        body = {"model": self.model, "query": query, "documents": texts, "top_n": len(texts)}

        def read_and_count(answer: Any) -> tuple[list[float], Usage | None]:
            return read(answer, len(texts)), read_token_counts(answer)

        scores, used = (await self.service.post(HttpRequest("rerank", body), read_and_count)).value
        meter = self.service.session.meter
        meter.check_price(self.model, counted=used is not None)  # some services, such as Cohere, count searches instead
        meter.record(self.model, (used or Usage())._replace(calls=1))
        return scores


def read(answer: Any, texts: int) -> list[float]:
    """Return the scores in a reply, in the order of the texts; ``texts`` is the number of texts.

    Raises ValueError unless the reply has exactly one score for every text, and each score is a finite 32-bit number.
    """
    try:
        results = [(entry["index"], entry["relevance_score"]) for entry in answer["results"]]
    except (KeyError, TypeError):
        raise ValueError("the response contains no results with index and relevance_score") from None
    fact = f"the response contains {counted(len(results), 'result')} for {counted(texts, 'text')}"
    indexes = [index for index, _ in results]
    if any(type(index) is not int for index in indexes) or sorted(indexes) != list(range(texts)):
        raise ValueError(f"{fact}; there must be exactly one for each text")
    for _, score in results:
        if not is_float32(score):
            raise ValueError(f"a score is {score!r}, which is not a finite 32-bit number")
    return [float(score) for _, score in sorted(results)]
