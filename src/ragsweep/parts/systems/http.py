"""A system behind HTTP: POST a question, and extract answer and context from the response by paths."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ragsweep.core.errors import ConfigError
from ragsweep.core.types import Answer, CostEstimate, Request, RequestSize, Response, Usage
from ragsweep.parts.systems.responses import PathNotFound, parse_path, to_response, value_at
from ragsweep.services.errors import CallFailed
from ragsweep.services.http_client import HttpRequest, Service
from ragsweep.services.replies import MAX_TOKENS
from ragsweep.services.thoughts import TAGS, check_tags

QUESTION, HISTORY = "{question}", "{history}"
PATHS = ("answer", "contexts", "ids", "tokens_in", "tokens_out")


@dataclass(eq=False)
class Http:
    """POST each question as JSON to ``url``.

    In ``body`` every ``{question}`` is replaced by the question, and a value ``{history}`` by the conversation so far
    (a list of role and content). ``answer``, ``contexts``, ``ids``, ``tokens_in`` and ``tokens_out`` are paths into the
    response (see :mod:`ragsweep.parts.systems.responses`); all but ``answer`` may be null. Text within tags of
    ``thoughts`` is no part of an answer. Change ``version`` when the system changes, since its responses are stored.
    """

    VERSION: ClassVar[str] = "2"
    OPERATIONAL: ClassVar[frozenset[str]] = frozenset(
        {"key_env", "timeout", "deadline", "retries", "concurrency", "requests_per_minute"}
    )

    url: str
    body: Mapping[str, Any]
    answer: str
    contexts: str | None = None
    ids: str | None = None
    tokens_in: str | None = None
    tokens_out: str | None = None
    refusals: Sequence[str] = ()
    thoughts: Sequence[str] | None = TAGS
    version: str = ""
    key_env: str | None = None
    timeout: float = 60
    deadline: float | None = 300
    retries: int = 5
    concurrency: int = 4
    requests_per_minute: float | None = None

    def __post_init__(self) -> None:
        """Set up the service, without any call."""
        base, _, self.path = self.url.rpartition("/")
        self.service = Service(base, **{name: getattr(self, name) for name in self.OPERATIONAL})
        self.paths = {name: getattr(self, name) for name in PATHS}

    def check(self) -> None:
        """Raise ConfigError for invalid values and for secrets in the config, without any call."""
        if "?" in self.path or "#" in self.path or not self.path or "://" not in self.service.base_url:
            raise ConfigError("system.url must be a path on a host without a query; put what is sent into system.body")
        self.service.check("system", "url")
        check_tags(self.thoughts, "system")
        if QUESTION not in str(self.body):
            raise ConfigError(f"system.body must contain {QUESTION} somewhere, given {dict(self.body)!r}")
        for name, path in self.paths.items():
            try:
                parse_path(path or "")
            except ValueError as fault:
                raise ConfigError(f"system.{name}: {fault}") from None

    def check_key(self) -> None:
        """Raise ConfigError where the key is not in the environment, without any call."""
        self.service.check_key("system")

    def ask(self, requests: Sequence[Request], done: Callable[[int, Response], None]) -> None:
        """Send every request. Raises EndpointFailed where none can be answered."""
        self.service.each(requests, self._respond, done)

    def estimate_cost(self, size: RequestSize) -> CostEstimate:
        """Return one call with an unknown number of tokens."""
        return CostEstimate(1, math.nan, math.nan, self.url)

    async def _respond(self, request: Request) -> Response:
        try:
            reply = await self.service.post(HttpRequest(self.path, _fill(self.body, request)), self._parse)
        except CallFailed as failure:
            self.service.session.meter.record(self.url, failure.usage)
            return Response(Answer(failed=failure.reason, usage=failure.usage))
        self.service.session.meter.record(self.url, reply.value.answer.usage)
        return reply.value._replace(answer=reply.value.answer._replace(seconds=reply.seconds))

    def _parse(self, body: Any) -> Response:
        try:
            values = {name: None if path is None else value_at(body, path) for name, path in self.paths.items()}
        except PathNotFound as fault:
            raise ValueError(str(fault)) from None
        read, written = values["tokens_in"] or 0, values["tokens_out"] or 0
        if not all(isinstance(count, int) and 0 <= count <= MAX_TOKENS for count in (read, written)):
            raise ValueError(f"the tokens are {[read, written]!r:.60}, not counts")
        usage = Usage(1, read, written)
        found = values["answer"], values["contexts"], values["ids"]
        return to_response(*found, self.refusals, usage, self.thoughts)


def _fill(value: Any, request: Request) -> Any:
    """Insert a request into the body."""
    if isinstance(value, Mapping):
        return {key: _fill(item, request) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_fill(item, request) for item in value]
    if value == HISTORY:
        return [{"role": turn.role, "content": turn.text} for turn in request.history]
    return value.replace(QUESTION, request.question) if isinstance(value, str) else value
