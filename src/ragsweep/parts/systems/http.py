"""Evaluate a system over HTTP: POST each question, and extract the answer and the context from the response."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any
from urllib.parse import parse_qsl

from ragsweep.core.errors import ConfigError
from ragsweep.core.missing import MALFORMED
from ragsweep.core.secrets import SIGNATURES, is_secret, texts
from ragsweep.core.types import Answer, CostEstimate, Request, RequestSize, Response, Usage
from ragsweep.parts.prompts import check_refusals
from ragsweep.parts.service_settings import ServiceSettings
from ragsweep.parts.systems.responses import PathNotFound, Returned, parse_path, to_response, value_at, value_in_events
from ragsweep.services.errors import CallFailed
from ragsweep.services.http_call import HttpRequest
from ragsweep.services.http_client import Service
from ragsweep.services.replies import MAX_TOKENS, EventStream, check_finish
from ragsweep.services.thoughts import TAGS, Separated, check_tags

QUESTION, HISTORY = "{question}", "{history}"
PATHS = (*Returned._fields, "tokens_in", "tokens_out")
FURTHER = ("key_header", "deadline", "requests_per_minute")
"""Settings for calls to the system, in addition to the settings for any service."""
SIGNED = ("code", *SIGNATURES)
"""Names of query parameters whose value is a secret, in addition to the names that ``is_secret`` recognises."""


@dataclass(eq=False)
class Http(ServiceSettings):
    """A system over HTTP: each question is sent by POST, as JSON, to ``url``.

    ``body`` is a mapping or a JSON string. In its values, every ``{question}`` is replaced by the question. A value
    ``{history}`` is replaced by a list of the earlier turns, each an object with ``role`` and ``content``. If
    ``{history}`` is an item of a list, the turns become items of this list. ``answer``, ``contexts``, ``ids``,
    ``scores``, ``tokens_in`` and ``tokens_out`` are paths of values in the response (see
    :mod:`ragsweep.parts.systems.responses`), or null. Without ``answer``, the system only searches. If the response is
    a stream of events, the strings at a path are joined. If the path ``answer`` contains ``choices[0]``, the response
    is a chat completion. Its answer fails if ``finish_reason`` means that it was truncated, withheld or aborted, or if
    the message has no text (for example, only a ``refusal``).
    """

    TRAITS = replace(ServiceSettings.TRAITS.with_operational(*FURTHER), version="3")
    KEY = "system"

    url: str
    body: Mapping[str, Any] | str
    answer: str | None
    contexts: str | None = None
    ids: str | None = None
    scores: str | None = None
    tokens_in: str | None = None
    tokens_out: str | None = None
    refusals: Sequence[str] = ()
    thoughts: Sequence[str] | None = TAGS
    version: str = ""
    key_header: str = "Authorization"
    deadline: float | None = 300
    requests_per_minute: float | None = None

    def __post_init__(self) -> None:
        """Parse ``url`` and ``body``, and create the client of the service, without sending a request."""
        address, _, self.query = self.url.partition("?")
        base, _, self.path = address.rpartition("/")
        self.service = Service(base, **self.call_settings(*FURTHER))
        with suppress(ValueError):
            self.body = json.loads(self.body) if isinstance(self.body, str) else self.body
        above, choice, _ = (self.answer or "").partition("choices[0].")
        self._choice = f"{above}{choice}".rstrip(".") if choice else ""
        self.paths = {name: getattr(self, name) for name in PATHS}

    @property
    def answers(self) -> bool:
        """Whether the system answers questions; if false, it only searches."""
        return self.answer is not None

    def check(self) -> None:
        """Raise ConfigError for invalid values and for secrets in the config. No call is made."""
        if "#" in self.url or not self.path or "://" not in self.service.base_url:
            raise ConfigError(
                "system.url must have a scheme, a host and a path that does not end with /, and must not contain #; for"
                " example, http://localhost:8080/ask"
            )
        for name, _ in parse_qsl(self.query, keep_blank_values=True):
            if is_secret(name) or name.lower() in SIGNED:
                raise ConfigError(
                    f'system.url: the query parameter "{name}" looks like a secret; put its value in an environment'
                    " variable, name the variable in system.key_env, and the header that sends it in system.key_header"
                )
        if not self.answers and self.contexts is None and self.ids is None:
            raise ConfigError("system.answer, system.contexts and system.ids are null; set at least one to a path")
        self.service.check(self.KEY, "url")
        check_tags(self.thoughts, "system")
        check_refusals(self.refusals, "system")
        if isinstance(self.body, str) or QUESTION not in str(self.body):
            raise ConfigError(f"system.body must be a mapping or JSON that contains {QUESTION}, got {self.body!r:.200}")
        if any(HISTORY in text != HISTORY for text in texts(self.body)):
            raise ConfigError(
                f"system.body: {HISTORY} becomes a list of turns, so it must be a whole value, not part of a string,"
                f" got {self.body!r:.200}"
            )
        for name, path in self.paths.items():
            try:
                parse_path(path or "")
            except ValueError as fault:
                raise ConfigError(f"system.{name}: {fault}") from None

    def ask(self, requests: Sequence[Request], done: Callable[[int, Response], None]) -> None:
        """Send every request, and report its response by calling ``done(index, response)``.

        If a call fails, its answer counts as failed. Raises ConfigError if the key is missing, and EndpointFailed as
        soon as no further call can succeed.
        """
        self.service.each(requests, self._respond, done)

    def estimate_cost(self, size: RequestSize) -> CostEstimate:
        """Return the cost of one request: one call, with NaN for the unknown numbers of tokens."""
        return CostEstimate(1, math.nan, math.nan, self.url)

    async def _respond(self, request: Request) -> Response:
        counted = bool(self.tokens_in or self.tokens_out)
        if counted or self.answers:  # a search uses no tokens
            self.service.session.meter.check_price(self.url, counted)
        billed, incomplete = Usage(), Response()

        def read(body: Any) -> Response:
            nonlocal billed, incomplete
            try:
                return self._parse(body)
            except (ValueError, CallFailed) as fault:
                with suppress(ValueError):  # unusable, but billed
                    used = self._usage(body)
                    billed = used if used.tokens_in or used.tokens_out else billed
                    if isinstance(fault, CallFailed):  # only the answer is incomplete
                        incomplete = self._found(body, *Returned._fields[1:])
                raise

        try:
            reply = await self.service.post(
                HttpRequest(f"{self.path}?{self.query}".rstrip("?"), _fill(self.body, request)), read
            )
        except CallFailed as failure:
            self.service.session.meter.record(self.url, billed)
            return incomplete._replace(answer=Answer(failed=failure.reason, usage=billed))
        self.service.session.meter.record(self.url, reply.value.answer.usage)
        return reply.value._replace(answer=reply.value.answer._replace(seconds=reply.seconds))

    def _parse(self, body: Any) -> Response:
        response = Response(Answer(usage=self._usage(body)))
        try:
            response = self._found(body, *Returned._fields)
        finally:  # even if there is no value at the path of the answer, as in some withheld replies
            said = Separated(response.answer.text, response.answer.thoughts)
            refused = not said.answer and bool(self._in_chat(body, f"{(self.answer or '').rpartition('.')[0]}.refusal"))
            reason = self._in_chat(body, f"{self._choice}.finish_reason")
            check_finish(reason, said, response.answer.usage, refused)
        if self._choice and not said.answer and not response.answer.failed:
            raise CallFailed("the message contains no text", MALFORMED, response.answer.usage)
        return response

    def _found(self, body: Any, *names: str) -> Response:
        values = Returned(**{name: self._value(body, name) for name in names})
        return to_response(values, self.refusals, self._usage(body), self.thoughts)

    def _in_chat(self, body: Any, path: str) -> Any:
        """Return the last value at ``path`` in a chat completion; None if there is none, or for any other response."""
        found = []
        for event in body.events if isinstance(body, EventStream) else [body]:
            with suppress(PathNotFound):
                found.append(value_at(event, path) if self._choice else None)
        return next(filter(None, reversed(found)), None)

    def _usage(self, body: Any) -> Usage:
        tokens = [self._value(body, name) or 0 for name in ("tokens_in", "tokens_out")]
        if not all(type(count) is int and 0 <= count <= MAX_TOKENS for count in tokens):
            way = "correct system.tokens_in and system.tokens_out"
            raise ValueError(f"the token counts are {tokens!r:.60}, not whole numbers from 0 to {MAX_TOKENS:,}; {way}")
        return Usage(1, tokens[0], tokens[1])

    def _value(self, body: Any, name: str) -> Any:
        read = value_in_events if isinstance(body, EventStream) else value_at
        try:
            return None if self.paths[name] is None else read(body, self.paths[name])
        except PathNotFound as missing:
            optional = "" if name == "answer" else ", or set it to null if replies may lack it"
            raise PathNotFound(f"{missing}; correct system.{name}{optional}") from None


def _fill(value: Any, request: Request) -> Any:
    """Return a value of the body with the question and the history of a request inserted, at any depth."""
    if isinstance(value, Mapping):
        return {key: _fill(item, request) for key, item in value.items()}
    if isinstance(value, list | tuple):
        filled = [_fill(item, request) if item == HISTORY else [_fill(item, request)] for item in value]
        return list(chain.from_iterable(filled))
    if value == HISTORY:
        return [{"role": turn.role, "content": turn.text} for turn in request.history]
    return value.replace(QUESTION, request.question) if isinstance(value, str) else value
