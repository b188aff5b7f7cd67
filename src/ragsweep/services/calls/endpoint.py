"""Ask a model behind OpenAI's protocol: chat completions, with or without a schema, and embeddings."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from ragsweep.core.types import Usage
from ragsweep.services.calls.calling import Value
from ragsweep.services.calls.failures import CallFailed
from ragsweep.services.calls.reading import Chat, counted, estimate, read_chat, read_usage, read_vectors
from ragsweep.services.calls.service import Question, Service
from ragsweep.services.calls.spending import spending

Found = TypeVar("Found")
Messages = Sequence[Mapping[str, str]]


class Reply(NamedTuple):
    """What a model said: its text, why it ended, the model's name as the service gives it, what it cost, how long."""

    text: str
    finish_reason: str
    model: str
    usage: Usage
    seconds: float  # of the attempt that was answered: neither those before it nor waiting for a place


class Endpoint:
    """A model at a service that speaks OpenAI's protocol; how it is called is :class:`ragsweep.services.calls.Service`.

    Nothing is called before it is asked. Its methods are coroutines: see :func:`ragsweep.services.calls.run` and
    :func:`ragsweep.services.calls.each`.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        key_env: str | None = None,
        timeout: float = 60,
        deadline: float | None = 300,
        retries: int = 5,
        concurrency: int = 16,
        requests_per_minute: float | None = None,
        tokens_per_minute: float | None = None,
    ) -> None:
        """Name the service and its model."""
        self.service = Service(
            base_url, key_env, timeout, retries, concurrency, deadline, requests_per_minute, tokens_per_minute
        )
        self.model = model

    def check(self, where: str) -> None:
        """Raise ConfigError for values that could not work, or would put a secret into a config; calls nobody."""
        self.service.check(where)

    def check_key(self, where: str) -> None:
        """Raise ConfigError, with the way out, where the key is not in the environment."""
        self.service.check_key(where)

    async def chat(
        self, messages: Messages, *, schema: Mapping[str, Any] | None = None, schema_name: str = "", **sampling: Any
    ) -> Reply:
        """Ask for the next message; ``schema`` (JSON Schema) has the service hold it to that shape.

        ``sampling`` goes into the body as it is (temperature, max_tokens, seed ...), less what is None.

        Raises:
            CallFailed: There is no usable answer; ``reason`` says why, and an answer that was cut is none.
            EndpointFailed: No call to this endpoint can do better.
            ConfigError: The key is not in the environment.
        """
        body = {"model": self.model, "messages": list(messages), **_given(sampling)}
        if schema is not None:
            body["response_format"] = _response_format(schema, schema_name or "answer")
        asked = sum(len(message["content"]) for message in messages) + (len(json.dumps(schema)) if schema else 0)
        tokens = estimate(asked) + int(sampling.get("max_tokens") or 0)
        lost: list[Usage] = []

        def read(answer: Any) -> tuple[Chat, Usage]:
            try:
                chat = read_chat(answer, asked)
            except ValueError:
                lost.append(counted(answer) or Usage())  # of no use, and paid all the same
                raise
            return chat, _sum(chat.usage, *lost)

        (chat, usage), seconds = await self._post(Question("chat/completions", body, tokens), read, True, lost)
        return Reply(chat.text, chat.finish_reason, chat.model or self.model, usage, seconds)

    async def embed(self, texts: Sequence[str]) -> tuple[list[list[float]], Usage]:
        """Embed texts, none of them blank: a vector each, in their order. Raises as :meth:`chat` does."""
        asked = sum(map(len, texts))
        body = {"model": self.model, "input": list(texts)}

        def read(answer: Any) -> tuple[list[list[float]], Usage]:
            return read_vectors(answer, len(texts)), read_usage(answer, asked, 0)

        return (await self._post(Question("embeddings", body, estimate(asked)), read, again=False)).value

    async def _post(
        self, question: Question, read: Callable[[Any], tuple[Found, Usage]], again: bool, lost: Sequence[Usage] = ()
    ) -> Value[tuple[Found, Usage]]:
        """Call, and count what it cost."""
        spending.check(self.model)
        try:
            found = await self.service.post(question, read, again)
        except CallFailed as failure:
            failure.usage = _sum(failure.usage, *lost)
            spending.paid(self.model, failure.usage)
            raise
        spending.paid(self.model, found.value[1])
        return found


def _sum(*several: Usage) -> Usage:
    read, written = sum(one.tokens_in for one in several), sum(one.tokens_out for one in several)
    return Usage(sum(one.calls for one in several), read, written, any(one.estimated for one in several))


def _given(sampling: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in sampling.items() if value is not None}


def _response_format(schema: Mapping[str, Any], name: str) -> dict[str, Any]:
    asked: dict[str, Any] = {"name": name, "schema": dict(schema)}
    if _is_strict(schema):
        asked["strict"] = True
    return {"type": "json_schema", "json_schema": asked}


def _is_strict(schema: Any) -> bool:
    """Say whether every object of a schema requires all its properties and admits no other, as strict mode demands."""
    if isinstance(schema, Mapping):
        if schema.get("type") == "object" or "properties" in schema:
            properties = schema.get("properties", {})
            if schema.get("additionalProperties") is not False or set(schema.get("required", ())) != set(properties):
                return False
        return all(map(_is_strict, schema.values()))
    return all(map(_is_strict, schema)) if isinstance(schema, list) else True
