"""Request chat completions and embeddings from a model at a service that implements OpenAI's protocol."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from ragsweep.core.types import Usage
from ragsweep.services.errors import CallError
from ragsweep.services.http_call import HttpRequest, Timed
from ragsweep.services.http_client import Service
from ragsweep.services.replies import Reply, estimate_tokens, read_chat, read_token_counts, read_usage, read_vectors
from ragsweep.services.thoughts import TAGS, check_tags
from ragsweep.services.usage import sum_usage

Value = TypeVar("Value")
Messages = Sequence[Mapping[str, str]]


class Endpoint(Service):
    """A model at a service that implements OpenAI's protocol.

    ``chat`` and ``embed`` are coroutines; ``each`` runs many of them. ``settings`` are the fields of
    :class:`ragsweep.services.http_client.Service`. ``thoughts`` lists the names of the tags that enclose a reasoning
    model's thoughts in the text of a reply; None means that the whole text is the answer.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        deadline: float | None = 300,
        concurrency: int = 16,
        thoughts: Sequence[str] | None = TAGS,
        **settings: Any,
    ) -> None:
        super().__init__(base_url, deadline=deadline, concurrency=concurrency, **settings)
        self.model = model
        self.thoughts = thoughts

    def check(self, where: str, url: str = "base_url", key_env: str = "key_env") -> None:
        """Raise ConfigError for values that :meth:`Service.check` rejects, and for invalid names of tags."""
        super().check(where, url, key_env)
        check_tags(self.thoughts, where)

    def check_key(self, where: str, key_env: str = "key_env") -> None:
        """Raise ConfigError as :meth:`Service.check_key` does, or if a budget limits money and no price is known."""
        super().check_key(where, key_env)
        self.session.meter.check_price(self.model)

    async def chat(
        self, messages: Messages, *, schema: Mapping[str, Any] | None = None, schema_name: str = "", **sampling: Any
    ) -> Reply:
        """Request the next message of a conversation, and return the model's reply.

        ``schema``, named ``schema_name``, is a JSON Schema that the reply should follow. ``sampling`` (temperature,
        max_tokens, seed ...) is copied into the body of the request, without None values. The usage of the reply
        includes earlier attempts whose replies were unusable.

        Raises:
            CallFailed: No usable reply was received (see ``reason``); a truncated reply is unusable.
            EndpointFailed: No call to this endpoint can succeed.
            ConfigError: The environment's key, proxy or certificates cannot be used, or the budget limits money and
            the model has no price.
        """
        parameters = {name: value for name, value in sampling.items() if value is not None}
        body = {"model": self.model, "messages": list(messages), **parameters}
        if schema is not None:
            strict = {"strict": True} if _is_strict(schema) else {}
            json_schema = {"name": schema_name or "answer", "schema": dict(schema), **strict}
            body["response_format"] = {"type": "json_schema", "json_schema": json_schema}
        characters = sum(len(message["content"]) for message in messages) + (len(json.dumps(schema)) if schema else 0)
        limits = (sampling.get(name) for name in ("max_tokens", "max_completion_tokens"))  # OpenAI uses the second
        tokens = estimate_tokens(characters) + next((one for one in limits if isinstance(one, int)), 0)
        wasted: list[Usage] = []

        def read(response: Any) -> tuple[Reply, Usage]:
            try:
                reply = read_chat(response, characters, self.thoughts)
            except ValueError:
                wasted.append(read_token_counts(response) or Usage())  # unusable, but billed
                raise
            return reply, sum_usage(reply.usage, *wasted)

        request = HttpRequest("chat/completions", body, tokens)
        response = await self._post_and_count(request, read, True, wasted)
        reply, usage = response.value
        return reply._replace(model=reply.model or self.model, usage=usage, seconds=response.seconds)

    async def embed(
        self, texts: Sequence[str], length: int | None = None, dimensions: int | None = None
    ) -> tuple[list[list[float]], Usage]:
        """Return one vector per text, in order, and the usage; no text may be blank. Raises the errors of ``chat``.

        ``length`` is the number of values that every vector must have; None allows any number. ``dimensions`` is the
        number to request from the service; if it is None, the service chooses the number.
        """
        characters = sum(map(len, texts))
        body = {"model": self.model, **({"dimensions": dimensions} if dimensions else {}), "input": list(texts)}

        def read(response: Any) -> tuple[list[list[float]], Usage]:
            return read_vectors(response, len(texts), length), read_usage(response, characters, 0)

        request = HttpRequest("embeddings", body, estimate_tokens(characters))
        return (await self._post_and_count(request, read, False)).value

    async def _post_and_count(
        self,
        request: HttpRequest,
        read: Callable[[Any], tuple[Value, Usage]],
        retry_unread: bool,
        wasted: Sequence[Usage] = (),
    ) -> Timed[tuple[Value, Usage]]:
        meter = self.session.meter
        meter.check_price(self.model)
        try:
            response = await self.post(request, read, retry_unread)
        except CallError as failure:
            used = sum_usage(failure.usage, *wasted)
            billed = used.tokens_in + used.tokens_out > 0  # a failed call counts if tokens were billed
            failure.usage = used._replace(calls=max(used.calls, int(billed)))
            meter.record(self.model, failure.usage)
            raise
        meter.record(self.model, response.value[1])
        return response


def _is_strict(schema: Any) -> bool:
    """Return whether a JSON Schema suits strict mode: every object requires all its properties and allows no others."""
    if isinstance(schema, Mapping):
        if schema.get("type") == "object" or "properties" in schema:
            properties = schema.get("properties", {})
            if schema.get("additionalProperties") is not False or set(schema.get("required", ())) != set(properties):
                return False
        return all(map(_is_strict, schema.values()))
    return all(map(_is_strict, schema)) if isinstance(schema, list) else True
