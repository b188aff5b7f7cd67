"""Judge by a service that speaks OpenAI's protocol (vLLM, Ollama and others do)."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from ragsweep.core.errors import ConfigError
from ragsweep.core.identity import content_hash
from ragsweep.core.reasons import MALFORMED
from ragsweep.core.types import Embedder, Usage
from ragsweep.parts import fences
from ragsweep.parts.judging import JudgeReply, ResponseSchema, sum_usage
from ragsweep.services.endpoint import Endpoint
from ragsweep.services.errors import CallFailed

REMEMBERED = 200_000
"""Replies cached in memory at most; metrics that send the same prompt share its reply."""

_SEEDS = 100_000
"""Distance between the seeds of two replicates: the room for samples and repetitions."""


class OpenAIJudge:
    """Request judgements from an OpenAI-compatible endpoint, and embeddings where a metric compares meanings.

    A reply must be JSON that conforms to the schema; one that does not is sent back once. Equal prompts of several
    metrics are sent once per process, and at temperature 0 so are repetitions by one metric. ``replicate`` is part of
    the address and of the seed only: a new number judges everything anew.

    Args:
        base_url: Base URL of the endpoint; /chat/completions is appended.
        model: Model name at the endpoint.
        key_env: Name of the environment variable that holds the key; None: no key.
        temperature: 0 for repeatable judgements.
        max_tokens: Length limit of one reply; a reply that reaches it is a failure.
        seed: Base seed; samples and replicates derive their own. None: no seed is sent.
        samples: How often everything is judged; the judgement is the mean, and fails if one sample fails.
        replicate: Number of this repetition of all judgements.
        fence: Whether text under judgement is fenced; without, prompts equal RAGAS's own.
        structured: Whether the JSON schema is sent as response format; otherwise it is in the prompt only.
        embeddings_model: Embedding model at the endpoint; None: no embeddings from an endpoint.
        embeddings_base_url: Another endpoint for embeddings.
        embeddings_key_env: Like key_env, for that endpoint.
        embeddings: A local embedder, in place of an endpoint.
        concurrency: Maximum number of concurrent calls.
        timeout: Time limit of one attempt, seconds.
        deadline: Time limit of a call with all its attempts, seconds.
        retries: Maximum number of further attempts.
        requests_per_minute: Rate limit; None: no limit.
        tokens_per_minute: Rate limit; None: no limit.
    """

    VERSION = "1"
    OPERATIONAL = frozenset(
        {"key_env", "embeddings_key_env", "concurrency", "timeout", "deadline", "retries", "requests_per_minute",
         "tokens_per_minute"}
    )  # fmt: skip

    def __init__(
        self,
        base_url: str,
        model: str,
        key_env: str | None = None,
        temperature: float = 0.0,
        max_tokens: int = 2048,
        seed: int | None = 0,
        samples: int = 1,
        replicate: int = 0,
        fence: bool = True,
        structured: bool = True,
        embeddings_model: str | None = None,
        embeddings_base_url: str | None = None,
        embeddings_key_env: str | None = None,
        embeddings: Embedder | None = None,
        concurrency: int = 8,
        timeout: float = 60,
        deadline: float = 180,
        retries: int = 5,
        requests_per_minute: float | None = None,
        tokens_per_minute: float | None = None,
    ) -> None:
        self.base_url, self.model, self.key_env = base_url, model, key_env
        self.temperature, self.max_tokens, self.seed = temperature, max_tokens, seed
        self.samples, self.replicate = samples, replicate
        self.fence, self.structured = fence, structured
        self.embeddings_model, self.embeddings = embeddings_model, embeddings
        self.embeddings_base_url = embeddings_base_url or base_url
        self.embeddings_key_env = embeddings_key_env if embeddings_base_url else key_env
        self.concurrency = concurrency
        limits: dict[str, Any] = {
            "concurrency": concurrency, "timeout": timeout, "deadline": deadline, "retries": retries,
            "requests_per_minute": requests_per_minute, "tokens_per_minute": tokens_per_minute,
        }  # fmt: skip
        self.endpoint = Endpoint(base_url, model, key_env, **limits)
        self.embedding_endpoint = Endpoint(
            self.embeddings_base_url, embeddings_model or "", self.embeddings_key_env, **limits
        )
        self.models: set[str] = set()  # as named in the endpoint's replies
        self._known: dict[str, asyncio.Future[Any]] = {}

    def check(self) -> None:
        """Raise ConfigError for invalid values and for secrets in the config, without any call."""
        self.endpoint.check("judge")
        if self.embeddings_model is not None:
            self.embedding_endpoint.check("judge")
        for name, least in (("samples", 1), ("max_tokens", 1), ("replicate", 0)):
            if getattr(self, name) < least:
                raise ConfigError(f"judge.{name} is {getattr(self, name)}; it must be {least} or more")
        if not 0 <= self.temperature <= 2:
            raise ConfigError(f"judge.temperature is {self.temperature}; it must be between 0 and 2")
        if self.embeddings_model is not None and self.embeddings is not None:
            raise ConfigError("judge: embeddings_model and embeddings are given; embeddings come from one of them")

    def check_key(self) -> None:
        """Raise ConfigError where the key is not in the environment, without any call."""
        self.endpoint.check_key("judge")
        if self.embeddings_model is not None:
            self.embedding_endpoint.check_key("judge")

    def fingerprint(self) -> dict[str, str]:
        """Return the version of the fence."""
        return {"fence": fences.VERSION} if self.fence else {}

    def ready(self, metric: str, embeddings: bool) -> None:
        """Raise ConfigError where a metric needs embeddings and none are configured."""
        if embeddings and self.embeddings_model is None and self.embeddings is None:
            raise ConfigError(
                f"{metric} needs embeddings; set judge.embeddings_model to a model of the judge's endpoint, or leave"
                f" the metric out with ~metrics.{metric}"
            )

    async def ask(self, prompt: str, schema: ResponseSchema, sample: int, repetition: int) -> JudgeReply:
        """Answer a prompt; see :class:`ragsweep.parts.judging.Judge`. Raises CallFailed."""
        number = sample if not self.temperature else sample * _SEEDS + repetition
        key = content_hash([prompt, schema.name, schema.json_schema, number])
        return await self._cached(key, lambda: self._conforming(prompt, schema, sample, repetition))

    async def embed(self, texts: Sequence[str]) -> JudgeReply:
        """Embed texts; see :class:`ragsweep.parts.judging.Judge`. Raises CallFailed."""
        every = [text for text in dict.fromkeys(texts) if text.strip()]
        keys = {text: content_hash(["embedding", text]) for text in every}
        fresh = [text for text in every if keys[text] not in self._known]
        paid = Usage()
        if fresh:
            loop = asyncio.get_running_loop()
            for text in fresh:
                self._known[keys[text]] = loop.create_future()
            paid = await self._fill(fresh, [keys[text] for text in fresh])
        vectors = {text: await asyncio.shield(self._known[keys[text]]) for text in every}
        return JudgeReply([vectors.get(text, []) for text in texts], paid)

    async def _conforming(self, prompt: str, schema: ResponseSchema, sample: int, repetition: int) -> JudgeReply:
        """Send the prompt, and once more with the fault where the reply does not conform."""
        messages = [{"role": "user", "content": prompt}]
        paid = Usage()
        for attempt in range(2):
            try:
                reply = await self.endpoint.chat(
                    messages, **self._response_format(schema), **self._sampling(sample, repetition + attempt)
                )
            except CallFailed as failure:
                raise CallFailed(str(failure), failure.reason, sum_usage(paid, failure.usage)) from None
            paid = sum_usage(paid, reply.usage)
            self.models.add(reply.model)
            try:
                return JudgeReply(schema.parse(reply.text), paid, reply.text)
            except ValueError as fault:
                fact = str(fault)
            messages = [*messages[:1], {"role": "assistant", "content": reply.text}, _again(fact)]
        raise CallFailed(f"{self.model} gave no {schema.name} by its schema: {fact}", MALFORMED, paid)

    def _response_format(self, schema: ResponseSchema) -> dict[str, Any]:
        return {"schema": dict(schema.json_schema), "schema_name": schema.name} if self.structured else {}

    def _sampling(self, sample: int, repetition: int) -> dict[str, Any]:
        parameters: dict[str, Any] = {"temperature": self.temperature, "max_tokens": self.max_tokens}
        if self.seed is not None:
            parameters["seed"] = self.seed + self.replicate * _SEEDS + sample * 100 + repetition
        return parameters

    async def _cached(self, key: str, ask: Callable[[], Awaitable[JudgeReply]]) -> JudgeReply:
        """Return the cached reply of this process, waiting for one in flight; else make the call."""
        if key in self._known:
            said: JudgeReply = await asyncio.shield(self._known[key])
            return said._replace(usage=Usage())
        if len(self._known) >= REMEMBERED:
            self._known = {key: known for key, known in self._known.items() if not known.done()}
        known = self._known[key] = asyncio.get_running_loop().create_future()
        try:
            said = await ask()
        except BaseException as failure:
            self._failed([key], failure)
            raise
        known.set_result(said)
        return said

    async def _fill(self, texts: Sequence[str], keys: Sequence[str]) -> Usage:
        try:
            vectors, used = await self._vectors(texts)
        except BaseException as failure:
            self._failed(keys, failure)
            raise
        for key, vector in zip(keys, vectors, strict=True):
            self._known[key].set_result(vector)
        return used

    async def _vectors(self, texts: Sequence[str]) -> tuple[list[list[float]], Usage]:
        if self.embeddings is not None:
            found = await asyncio.to_thread(self.embeddings.embed_queries, texts)
            return found.tolist(), Usage()
        vectors, used = await self.embedding_endpoint.embed(texts)
        if not all(any(vector) and math.isfinite(sum(vector)) for vector in vectors):
            raise CallFailed(f"{self.embeddings_model} gave a vector that has no direction", MALFORMED, used)
        return vectors, used

    def _failed(self, keys: Sequence[str], failure: BaseException) -> None:
        """Drop failed calls from the cache, so that they may be made again; those that wait for them fail likewise."""
        for key in keys:
            known = self._known.pop(key)
            if isinstance(failure, Exception):
                # A copy without usage: that is counted once, by the first caller.
                known.set_exception(
                    CallFailed(str(failure), failure.reason) if isinstance(failure, CallFailed) else failure
                )
                known.exception()  # marks it retrieved: there may be no waiter
            else:
                known.cancel()


def _again(fact: str) -> dict[str, str]:
    request = (
        "Give the answer to the first message again, as one JSON value that conforms to its schema, and nothing else."
    )
    return {"role": "user", "content": f"That does not conform to the schema: {fact}. {request}"}
