"""Judge by a service that speaks OpenAI's protocol (vLLM, Ollama and others do)."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from functools import cached_property
from typing import Any

from ragsweep.core.errors import ConfigError
from ragsweep.core.identity import content_hash
from ragsweep.core.reasons import MALFORMED
from ragsweep.core.types import Embedder, Usage
from ragsweep.parts import fences
from ragsweep.parts.judging import Form, Said, total
from ragsweep.services.calls import CallFailed, Endpoint

REMEMBERED = 200_000
"""Answers that are remembered in this process at most, so that metrics that ask the same share the answer."""

_REPEATED = 100_000
"""Between the seeds of two replicates there is room for this many samples and repetitions."""


class OpenAIJudge:
    """Ask an OpenAI-compatible endpoint for verdicts, and for embeddings where a metric compares meanings.

    An answer counts only if it is JSON that conforms to the schema; one that does not is sent back once. What two
    metrics ask in the same words is asked once in a process; at temperature 0 so is what one metric repeats.
    ``replicate`` stands in the address and nowhere else (but in the seed): another one judges everything anew.

    Args:
        base_url: Of the endpoint, to which /chat/completions is added.
        model: As the endpoint names it.
        key_env: Name of the environment variable that holds the key; None: no key.
        temperature: 0 for verdicts that can be repeated.
        max_tokens: Of one answer; an answer that is cut there is a failure.
        seed: Sent with every call where it is given; samples and replicates get seeds of their own.
        samples: How often everything is judged; the verdict is the mean, and fails if one sample fails.
        replicate: Number of this judging of the same things.
        fence: Whether text under judgement stands behind a fence; without, prompts are RAGAS's own to the letter.
        structured: Whether the endpoint is given the JSON schema; without, only the prompt holds it.
        embeddings_model: As the endpoint names it; None: no embeddings from an endpoint.
        embeddings_base_url: Where that is another endpoint.
        embeddings_key_env: As key_env, for the other endpoint.
        embeddings: A part that embeds in this process, in place of an endpoint.
        concurrency: Calls at a time.
        timeout: Seconds of one attempt.
        deadline: Seconds of a call with all its attempts.
        retries: Further attempts.
        requests_per_minute: None: as fast as concurrency lets.
        tokens_per_minute: None: no limit.
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
        self.limits: dict[str, Any] = {
            "concurrency": concurrency, "timeout": timeout, "deadline": deadline, "retries": retries,
            "requests_per_minute": requests_per_minute, "tokens_per_minute": tokens_per_minute,
        }  # fmt: skip
        self.models: set[str] = set()  # as the endpoint named them in its answers
        self._known: dict[str, asyncio.Future[Any]] = {}

    def check(self) -> None:
        """Raise ConfigError for values that could not work, or that would put a secret into a config; calls nobody."""
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
        """Raise ConfigError where the key is not in the environment; calls nobody."""
        self.endpoint.check_key("judge")
        if self.embeddings_model is not None:
            self.embedding_endpoint.check_key("judge")

    def fingerprint(self) -> dict[str, str]:
        """Return what else decides a verdict: how text is fenced."""
        return {"fence": fences.VERSION} if self.fence else {}

    def ready(self, metric: str, embeddings: bool) -> None:
        """Raise ConfigError where a metric needs embeddings and this judge has none."""
        if embeddings and self.embeddings_model is None and self.embeddings is None:
            raise ConfigError(
                f"{metric} needs embeddings; set judge.embeddings_model to a model of the judge's endpoint, or leave"
                f" the metric out with ~metrics.{metric}"
            )

    async def ask(self, prompt: str, form: Form, sample: int, repetition: int) -> Said:
        """Answer a prompt by a form; see :class:`ragsweep.parts.judging.Judge`. Raises CallFailed."""
        number = sample if not self.temperature else sample * _REPEATED + repetition
        key = content_hash([prompt, form.name, form.schema, number])
        return await self._once(key, lambda: self._conforming(prompt, form, sample, repetition))

    async def embed(self, texts: Sequence[str]) -> Said:
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
        return Said([vectors.get(text, []) for text in texts], paid)

    # --- inside ------------------------------------------------------------------------------------------------

    @cached_property
    def endpoint(self) -> Endpoint:
        """Where verdicts come from."""
        return Endpoint(base_url=self.base_url, model=self.model, key_env=self.key_env, **self.limits)

    @cached_property
    def embedding_endpoint(self) -> Endpoint:
        """Where embeddings come from."""
        return Endpoint(
            base_url=self.embeddings_base_url, model=self.embeddings_model or "", key_env=self.embeddings_key_env,
            **self.limits,
        )  # fmt: skip

    async def _conforming(self, prompt: str, form: Form, sample: int, repetition: int) -> Said:
        """Ask, and ask once more where the answer does not conform."""
        messages = [{"role": "user", "content": prompt}]
        paid = Usage()
        for attempt in range(2):
            try:
                reply = await self.endpoint.chat(
                    messages, **self._form(form), **self._sampling(sample, repetition + attempt)
                )
            except CallFailed as failure:
                raise CallFailed(str(failure), failure.reason, total(paid, failure.usage)) from None
            paid = total(paid, reply.usage)
            self.models.add(reply.model)
            try:
                return Said(form.read(reply.text), paid, reply.text)
            except ValueError as fault:
                fact = str(fault)
            messages = [*messages[:1], {"role": "assistant", "content": reply.text}, _again(fact)]
        raise CallFailed(f"{self.model} gave no {form.name} by its schema: {fact}", MALFORMED, paid)

    def _form(self, form: Form) -> dict[str, Any]:
        return {"schema": dict(form.schema), "schema_name": form.name} if self.structured else {}

    def _sampling(self, sample: int, repetition: int) -> dict[str, Any]:
        asked: dict[str, Any] = {"temperature": self.temperature, "max_tokens": self.max_tokens}
        if self.seed is not None:
            asked["seed"] = self.seed + self.replicate * _REPEATED + sample * 100 + repetition
        return asked

    async def _once(self, key: str, ask: Callable[[], Awaitable[Said]]) -> Said:
        """Ask what nobody in this process has asked; wait for the answer where it is being asked."""
        if key in self._known:
            said: Said = await asyncio.shield(self._known[key])
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
        """Forget what failed: it may be asked again. Whoever waits for it fails in the same way."""
        for key in keys:
            known = self._known.pop(key)
            if isinstance(failure, Exception):
                # A copy without what was paid: that is counted once, by whoever asked.
                known.set_exception(
                    CallFailed(str(failure), failure.reason) if isinstance(failure, CallFailed) else failure
                )
                known.exception()  # perhaps nobody waits
            else:
                known.cancel()


def _again(fact: str) -> dict[str, str]:
    asked = (
        "Give the answer to the first message again, as one JSON value that conforms to its schema, and nothing else."
    )
    return {"role": "user", "content": f"That does not conform to the schema: {fact}. {asked}"}
