"""Generate answers through OpenAI's protocol, as implemented by OpenAI, Mistral, Ollama, vLLM and other services."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ragsweep.core.errors import ConfigError
from ragsweep.core.secrets import is_secret
from ragsweep.core.types import Answer, CostEstimate, Passage, Request, RequestSize
from ragsweep.parts.limits import SEEDS, check_at_least
from ragsweep.parts.prompts import Prompt
from ragsweep.parts.service_settings import EndpointSettings
from ragsweep.services.errors import CallFailed
from ragsweep.services.replies import estimate_tokens

RESERVED = ("model", "messages", "temperature", "max_tokens", "seed", "stream", "n")
"""Request fields that ``extra`` must not set: they have separate settings or change the response format."""


@dataclass(eq=False)
class OpenAI(EndpointSettings):
    """A generator that answers each request with a call of ``POST {base_url}/chat/completions``.

    :class:`ragsweep.services.endpoint.Endpoint` makes the calls. If a call fails permanently, or its reply is truncated
    at ``max_tokens``, the answer counts as failed. If the key is wrong, the model is unknown or the endpoint is
    unavailable, the whole config fails. A request gets ``replicates`` answers, each generated with different
    values of ``seed`` and ``extra.random_seed``, if they are set.
    """

    TRAITS = replace(EndpointSettings.TRAITS.with_operational("replicates"), version="1")
    KEY = "llm"

    prompt: Prompt
    temperature: float | None = 0.0
    max_tokens: int | None = 512
    seed: int | None = 0
    extra: dict[str, Any] | None = None
    replicates: int = 1

    def check(self) -> None:
        """Raise ConfigError for invalid values and for secrets in the config. No call is made."""
        super().check()
        for name in self.extra or {}:
            if is_secret(name):  # the message must not contain the value
                raise ConfigError(
                    f"llm.extra.{name}: a secret in a config ends up in files; put the secret in an environment"
                    " variable, and the variable's name in llm.key_env"
                )
            if name in RESERVED:
                way = f"set llm.{name}" if hasattr(self, name) else "remove it"
                raise ConfigError(f"llm.extra.{name} is not an additional request field; {way}")
        if self.max_tokens is not None and self.max_tokens < 1:
            raise ConfigError(f"llm.max_tokens must be at least 1, or null, got {self.max_tokens}")
        check_at_least("llm", 1, replicates=self.replicates)

    def generate(self, requests: Sequence[Request], done: Callable[[int, Answer], None], replicate: int = 0) -> None:
        """Answer every request with the seeds of repetition ``replicate``, counted from 0.

        If a call fails permanently, the answer counts as failed. Raises ConfigError if the key is missing, and
        EndpointFailed as soon as no further call can succeed; all pending requests are then cancelled.
        """
        self.service.each(requests, partial(self._answer, replicate), done)

    repeat = generate

    def estimate_cost(self, size: RequestSize) -> CostEstimate:
        """Return an estimate of the highest cost of one answer; output tokens are NaN if no setting limits them."""
        passages = 0 if math.isnan(size.passages) else round(size.passages)
        empty = Request("", tuple(Passage(str(n), "") for n in range(passages)))
        prompt = estimate_tokens(sum(len(message["content"]) for message in self.prompt.messages(empty)))
        limits = (self.max_tokens, (self.extra or {}).get("max_completion_tokens"))
        most = next((one for one in limits if isinstance(one, int)), math.nan)
        return CostEstimate(1, prompt + size.context + size.rest, most, self.model)

    async def _answer(self, replicate: int, request: Request) -> Answer:
        options: dict[str, Any] = {"temperature": self.temperature, "max_tokens": self.max_tokens, "seed": self.seed}
        options |= self.extra or {}
        seeds = {name: seed for name in ("seed", "random_seed") if isinstance(seed := options.get(name), int)}
        options |= {name: seed + replicate * SEEDS for name, seed in seeds.items()}
        try:
            reply = await self.service.chat(self.prompt.messages(request), **options)
        except CallFailed as failure:
            return Answer(failed=failure.reason, usage=failure.usage, model=self.model)
        abstained = self.prompt.is_refusal(reply.text)
        return Answer(
            reply.text, abstained, seconds=reply.seconds, usage=reply.usage, model=reply.model, thoughts=reply.thoughts
        )
