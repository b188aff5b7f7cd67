"""Route by the decision of a language model."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar

from ragsweep.core.errors import ConfigError
from ragsweep.core.missing import MALFORMED
from ragsweep.core.types import CostEstimate, PartTraits, Request, RequestSize, Route
from ragsweep.parts.prompts import fenced_messages
from ragsweep.services.endpoint import Endpoint
from ragsweep.services.errors import CallFailed
from ragsweep.services.replies import estimate_tokens
from ragsweep.services.thoughts import TAGS

SCHEMA = {
    "type": "object",
    "properties": {"search": {"type": "boolean"}},
    "required": ["search"],
    "additionalProperties": False,
}


@dataclass(eq=False)
class Llm:
    """Let a model behind OpenAI's protocol decide whether a message needs the corpus, by a schema of one boolean.

    The message is fenced by a hash of itself, which it cannot contain, so that its instructions are not followed.
    """

    TRAITS: ClassVar[PartTraits] = PartTraits(
        version="1",
        operational=frozenset(
            {"key_env", "timeout", "deadline", "retries", "concurrency", "requests_per_minute", "tokens_per_minute"}
        ),
    )

    base_url: str
    model: str
    instruction: str
    temperature: float | None = 0.0
    max_tokens: int = 50
    seed: int | None = None
    thoughts: Sequence[str] | None = TAGS
    key_env: str | None = None
    timeout: float = 60
    deadline: float | None = 300
    retries: int = 5
    concurrency: int = 16
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None

    def __post_init__(self) -> None:
        """Set up the service, without any call."""
        limits = {name: getattr(self, name) for name in self.TRAITS.operational}
        self.endpoint = Endpoint(self.base_url, self.model, thoughts=self.thoughts, **limits)

    def check(self) -> None:
        """Raise ConfigError for invalid values and for secrets in the config, without any call."""
        self.endpoint.check("router")
        if not self.instruction.strip():
            raise ConfigError("router.instruction is empty; say when a message needs the corpus")

    def check_key(self) -> None:
        """Raise ConfigError if the key is not in the environment, without any call."""
        self.endpoint.check_key("router")

    def route(self, requests: Sequence[Request], done: Callable[[int, Route], None]) -> None:
        """Decide every request with its conversation so far. Raises EndpointFailed if none can be decided."""
        self.endpoint.each(requests, self._decide, done)

    def estimate_cost(self, size: RequestSize) -> CostEstimate:
        """Return the highest cost of one decision."""
        messages = fenced_messages(self.instruction, Request(""))
        prompt = estimate_tokens(sum(len(message["content"]) for message in messages) + len(json.dumps(SCHEMA)))
        return CostEstimate(1, prompt + size.rest, self.max_tokens or math.nan, self.endpoint.model)

    async def _decide(self, request: Request) -> Route:
        sampling = {"temperature": self.temperature, "max_tokens": self.max_tokens, "seed": self.seed}
        try:
            messages = fenced_messages(self.instruction, request)
            reply = await self.endpoint.chat(messages, schema=SCHEMA, schema_name="route", **sampling)
        except CallFailed as failure:
            return Route(failed=failure.reason, usage=failure.usage)
        with suppress(ValueError):
            match json.loads(reply.text):
                case {"search": bool(search)}:
                    return Route(search, float(not search), usage=reply.usage)
        return Route(failed=MALFORMED, usage=reply.usage)
