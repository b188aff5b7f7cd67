"""A judge behind a service with OpenAI's protocol, such as OpenAI, vLLM or Ollama, and the placeholder for no judge."""

import asyncio
import math
import threading
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NoReturn

from ragsweep.core.errors import ConfigError
from ragsweep.core.identity import content_hash
from ragsweep.core.missing import MALFORMED
from ragsweep.core.types import Embedder, PartTraits, Usage
from ragsweep.parts import fences
from ragsweep.parts.judging import JudgeReply, ResponseSchema
from ragsweep.parts.limits import SEEDS, check_at_least, check_between
from ragsweep.parts.service_settings import LIMITS, EndpointSettings
from ragsweep.services.endpoint import Endpoint
from ragsweep.services.errors import CallFailed
from ragsweep.services.usage import sum_usage

_AGAIN = """\
That does not conform to the schema: {fault}. Give the answer to the first message again, as one JSON value that \
conforms to its schema, and nothing else."""


@dataclass(eq=False, kw_only=True)
class OpenAIJudge(EndpointSettings):
    """A judge behind an OpenAI-compatible endpoint, with embeddings for the metrics that need them.

    A reply must be JSON that conforms to the schema. A malformed reply is sent back to the model once, with a
    description of its fault. For each sample, a process sends a prompt once, even if several metrics use it; if one
    judgement repeats the prompt and the temperature is not 0, each repetition is sent. ``replicate`` changes only the
    seed and the address of stored judgements; a new value causes new requests for all judgements.

    Embeddings come from ``embeddings_model``, a model at ``embeddings_base_url`` (by default the judge's endpoint), or
    from ``embeddings``, an embedder of ragsweep; only one of the two may be set.
    """

    TRAITS = replace(EndpointSettings.TRAITS.with_operational("embeddings_key_env", "labels"), version="1")
    KEY = "judge"

    temperature: float | None = 0.0
    max_tokens: int | None = 2048
    seed: int | None = 0
    samples: int = 1
    replicate: int = 0
    fence: bool = True
    structured: bool = True
    embeddings_model: str | None = None
    embeddings_base_url: str | None = None
    embeddings_key_env: str | None = None
    embeddings: Embedder | None = None
    concurrency: int = 8
    deadline: float | None = 180
    labels: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        key_env = self.embeddings_key_env or (None if self.embeddings_base_url else self.key_env)
        calls = self.call_settings(*LIMITS) | {"key_env": key_env}
        url = self.embeddings_base_url or self.base_url
        self.embedding_endpoint = Endpoint(url, self.embeddings_model or "", **calls)
        self._replies: dict[str, JudgeReply] = {}
        self._vectors: dict[str, list[float]] = {}
        self._in_flight: dict[str, asyncio.Lock] = {}
        self._embedding = threading.Lock()

    def check(self) -> None:
        """Raise ConfigError for invalid values, and for secrets in the config. No call is made."""
        super().check()
        if self.embeddings_model is not None:
            self.embedding_endpoint.check("judge", "embeddings_base_url", "embeddings_key_env")
        for key in ("embeddings_base_url", "embeddings_key_env"):
            if getattr(self, key) and self.embeddings_model is None:
                raise ConfigError(
                    f"judge.{key} has no effect without judge.embeddings_model; set both, or set judge.{key}=null"
                )
        check_at_least("judge", 1, samples=self.samples, max_tokens=self.max_tokens)
        check_at_least("judge", 0, replicate=self.replicate)
        check_between("judge", 0, 2, temperature=self.temperature)
        if self.embeddings_model is not None and self.embeddings is not None:
            raise ConfigError(
                "judge.embeddings_model and judge.embeddings are both set; use one of them, and set the other to null"
            )

    def check_key(self) -> None:
        """Raise ConfigError if the judge's key, or the key for embeddings, is not in the environment.

        Also raises ConfigError if a budget limits the cost and the price of a model is unknown. No call is made.
        """
        super().check_key()
        if self.embeddings_model is not None:
            self.embedding_endpoint.check_key("judge", "embeddings_key_env")

    def fingerprint(self) -> dict[str, str]:
        """Return the version of the fences as {"fence": VERSION}, or {} if the text to be judged is not fenced."""
        return {"fence": fences.VERSION} if self.fence else {}

    def check_metric(self, metric: str, embeddings: bool) -> None:
        """Raise ConfigError if the metric needs embeddings (``embeddings`` is true) but no embedder is configured."""
        if embeddings and self.embeddings_model is None and self.embeddings is None:
            raise ConfigError(
                "needs embeddings; set judge.embeddings_model to an embedding model of the judge's endpoint, or remove"
                f" the metric with ~metrics.{metric}"
            )

    async def ask(self, prompt: str, schema: ResponseSchema, sample: int, repetition: int) -> JudgeReply:
        """Return the reply to a prompt; see :class:`ragsweep.parts.judging.Judge`.

        A reply that this process has already received is returned with zero usage. Raises CallFailed if a call fails,
        or if neither the first nor the second reply conforms to the schema.
        """
        number = sample if self.temperature == 0 else sample * SEEDS + repetition
        key = content_hash([prompt, schema.name, schema.json_schema, number])
        lock = self._in_flight.setdefault(key, asyncio.Lock())
        async with lock:  # a concurrent call with an equal prompt waits for this reply
            if key in self._replies:
                return self._replies[key]._replace(usage=Usage())
            try:
                self._replies[key] = reply = await self._request(prompt, schema, sample, repetition)
                return reply
            finally:
                self._in_flight.pop(key, None)

    async def embed(self, texts: Sequence[str]) -> JudgeReply:
        """Return one vector per text, empty for a blank text; see :class:`ragsweep.parts.judging.Judge`.

        Raises CallFailed if the call fails, or if ``embeddings_model`` returns a vector that is zero or not finite.
        """
        new = [text for text in dict.fromkeys(texts) if text.strip() and text not in self._vectors]
        async with AsyncExitStack() as locks:
            for text in sorted(new):  # sorted, to prevent a deadlock of two calls
                lock = self._in_flight.setdefault(text, asyncio.Lock())
                if lock.locked():  # a concurrent call embeds the text; if it fails, all waiting calls continue
                    async with lock:
                        pass
                else:
                    locks.callback(self._in_flight.pop, text, None)
                    await locks.enter_async_context(lock)
            usage = await self._add_vectors([text for text in new if text not in self._vectors])
        return JudgeReply([self._vectors.get(text, []) for text in texts], usage)

    async def _add_vectors(self, new: Sequence[str]) -> Usage:
        """Embed texts and keep their vectors; return the usage. Raises the errors of ``embed``."""
        vectors, usage = list[list[float]](), Usage()
        if new and self.embeddings is not None:
            vectors = await asyncio.to_thread(self._embed_locally, self.embeddings, new)
        elif new:
            vectors, usage = await self.embedding_endpoint.embed(new)
            if not all(any(vector) and math.isfinite(sum(vector)) for vector in vectors):
                fact = f"{self.embeddings_model} returned a vector that is zero or contains a number that is not finite"
                raise self._malformed(f"{fact}; set judge.embeddings_model to another model", usage)
        self._vectors |= zip(new, vectors, strict=True)
        return usage

    def _embed_locally(self, embedder: Embedder, texts: Sequence[str]) -> list[list[float]]:
        with self._embedding:  # concurrent threads would each load the model
            vectors: list[list[float]] = embedder.embed_queries(texts).tolist()
            return vectors

    async def _request(self, prompt: str, schema: ResponseSchema, sample: int, repetition: int) -> JudgeReply:
        """Send a prompt and return the reply; request a second reply if the first does not conform to the schema.

        The second request contains the prompt, the first reply and a description of the fault. Raises CallFailed if a
        call fails, or if the second reply does not conform either.
        """
        options: dict[str, Any] = {"temperature": self.temperature, "max_tokens": self.max_tokens}
        if self.structured:
            options |= {"schema": dict(schema.json_schema), "schema_name": schema.name}
        first = {"role": "user", "content": prompt}
        messages, usage = [first], Usage()
        for attempt in range(2):
            if self.seed is not None:
                options["seed"] = self.seed + self.replicate * SEEDS + sample * 100 + repetition + attempt
            try:
                reply = await self.service.chat(messages, **options)
            except CallFailed as failure:
                raise CallFailed(str(failure), failure.reason, sum_usage(usage, failure.usage)) from None
            usage = sum_usage(usage, reply.usage)
            try:
                return JudgeReply(schema.parse(reply.text), usage, reply.text)
            except ValueError as error:
                fault = str(error)
            again = {"role": "user", "content": _AGAIN.format(fault=fault)}
            messages = [first, {"role": "assistant", "content": reply.text}, again]
        way_out = "" if self.structured else "set judge.structured=true, or "
        fact = f"{self.model} did not return JSON that conforms to the schema {schema.name}: {fault}"
        raise self._malformed(f"{fact}; {way_out}set judge.model to another model", usage)

    def _malformed(self, fact: str, usage: Usage) -> CallFailed:
        """Return a CallFailed for an unusable reply, and record it, so that the command prints the remedy."""
        failure = CallFailed(fact, MALFORMED, usage)
        self.service.session.meter.note_failure(failure)
        return failure


class NoJudge:
    """Placeholder for a missing judge: a metric that needs a judge is rejected before any case is judged."""

    TRAITS: ClassVar[PartTraits] = PartTraits(version="1")

    def check_metric(self, metric: str, embeddings: bool) -> NoReturn:
        """Raise ConfigError, because no judge is configured."""
        raise ConfigError(
            "needs a judge; choose judge=openai, judge=ollama or judge=vllm, or remove every metric that needs a judge"
            f" (this one with ~metrics.{metric})"
        )
