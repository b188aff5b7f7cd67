"""Decide with a language model whether a question needs a search of the corpus."""

import json
import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from ragsweep.core.errors import ConfigError
from ragsweep.core.missing import MALFORMED
from ragsweep.core.types import CostEstimate, Request, RequestSize, Route
from ragsweep.parts.judging import without_code_block
from ragsweep.parts.limits import check_at_least
from ragsweep.parts.prompts import fenced_messages
from ragsweep.parts.service_settings import EndpointSettings
from ragsweep.services.errors import CallFailed
from ragsweep.services.replies import estimate_tokens

SCHEMA = {
    "type": "object",
    "properties": {"search": {"type": "boolean"}},
    "required": ["search"],
    "additionalProperties": False,
}
_FORM = 'Reply with a JSON object and nothing else: {"search": true} or {"search": false}.'
"""The last sentence of the instruction. It states the form of the reply, because some services ignore the schema."""


@dataclass(eq=False)
class Llm(EndpointSettings):
    """A router that uses a model, called through OpenAI's protocol, to decide whether a question needs a search.

    The model must reply with a JSON object, optionally in a code block, in which ``search`` is true or false; after any
    other reply, the decision counts as failed. The prompt encloses the conversation in tags that contain its hash, so
    that the conversation cannot imitate the tags. The model is instructed not to follow instructions between the tags.
    """

    TRAITS = replace(EndpointSettings.TRAITS, version="2")
    KEY = "router"

    instruction: str
    temperature: float | None = 0.0
    max_tokens: int | None = 50
    seed: int | None = None

    def check(self) -> None:
        """Raise ConfigError for invalid values and for secrets in the config. No call is made."""
        super().check()
        check_at_least("router", 1, max_tokens=self.max_tokens)
        if not self.instruction.strip():
            raise ConfigError("router.instruction is empty; describe which messages need the corpus")

    def route(self, requests: Sequence[Request], done: Callable[[int, Route], None]) -> None:
        """Report a decision for every request, based on its conversation and question.

        If the call for a request fails, the decision counts as failed. Raises ConfigError if the key is missing, and
        EndpointFailed as soon as no further call can succeed.
        """
        self.service.each(requests, self._decide, done)

    def estimate_cost(self, size: RequestSize) -> CostEstimate:
        """Return an estimate of the highest cost of one decision; output tokens are NaN if ``max_tokens`` is None."""
        messages = self._messages(Request(""))
        prompt = estimate_tokens(sum(len(message["content"]) for message in messages) + len(json.dumps(SCHEMA)))
        return CostEstimate(1, prompt + size.rest, self.max_tokens or math.nan, self.service.model)

    async def _decide(self, request: Request) -> Route:
        sampling = {"temperature": self.temperature, "max_tokens": self.max_tokens, "seed": self.seed}
        try:
            reply = await self.service.chat(self._messages(request), schema=SCHEMA, schema_name="route", **sampling)
        except CallFailed as failure:
            return Route(failed=failure.reason, usage=failure.usage)
        with suppress(ValueError):
            match json.loads(without_code_block(reply.text)):
                case {"search": bool(search)}:
                    return Route(search, float(not search), usage=reply.usage)
        fact = f'{self.model} did not reply with {{"search": true}} or {{"search": false}}'
        fact = f"{fact}; set router.model to another model"
        self.service.session.meter.note_failure(CallFailed(fact, MALFORMED))
        return Route(failed=MALFORMED, usage=reply.usage)

    def _messages(self, request: Request) -> list[dict[str, str]]:
        return fenced_messages(f"{self.instruction.strip()}\n{_FORM}", request)
