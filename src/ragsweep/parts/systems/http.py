"""Ask a system by HTTP: POST a question, and find answer and context in what comes back by paths."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ragsweep.core.errors import ConfigError
from ragsweep.core.types import Ahead, Answer, Request, Response, Size, Usage
from ragsweep.parts.responses import response
from ragsweep.services.errors import CallFailed
from ragsweep.services.http_client import HttpRequest, Service
from ragsweep.services.json_paths import PathNotFound, parse_path, value_at
from ragsweep.services.replies import MAX_TOKENS

QUESTION, HISTORY = "{question}", "{history}"


class Http:
    """POST each question as JSON to ``url``.

    In ``body`` every ``{question}`` becomes the question, and a value that is ``{history}`` the conversation so far, a
    list of role and content. ``answer``, ``contexts``, ``ids``, ``tokens_in`` and ``tokens_out`` are paths into what
    comes back (see :mod:`ragsweep.services.json_paths`); all but ``answer`` may be null. ``version`` is yours: change
    it when the system changes, since what it said is kept.
    """

    VERSION = "1"
    OPERATIONAL = frozenset({"key_env", "timeout", "deadline", "retries", "concurrency", "requests_per_minute"})

    def __init__(
        self,
        url: str,
        body: Mapping[str, Any],
        answer: str,
        contexts: str | None = None,
        ids: str | None = None,
        tokens_in: str | None = None,
        tokens_out: str | None = None,
        refusals: Sequence[str] = (),
        version: str = "",
        key_env: str | None = None,
        timeout: float = 60,
        deadline: float | None = 300,
        retries: int = 5,
        concurrency: int = 4,
        requests_per_minute: float | None = None,
    ) -> None:
        """Say where the system is, what is sent, and where in its replies is what; nothing is called yet."""
        self.url = url
        self.body = body
        self.answer = answer
        self.paths = {"contexts": contexts, "ids": ids, "tokens_in": tokens_in, "tokens_out": tokens_out}
        self.refusals = refusals
        base, _, self.path = url.rpartition("/")
        self.service = Service(base, key_env, timeout, retries, concurrency, deadline, requests_per_minute)

    def check(self) -> None:
        """Raise ConfigError for values that could not work, or that would put a secret into a config; calls nobody."""
        if "?" in self.path or "#" in self.path or not self.path or "://" not in self.service.base_url:
            raise ConfigError("system.url must name a path on a host, and hold no query; what is sent stands in body")
        self.service.check("system", "url")
        if QUESTION not in str(self.body):
            raise ConfigError(f"system.body must hold {QUESTION} somewhere, given {dict(self.body)!r}")
        for name, path in {"answer": self.answer, **self.paths}.items():
            try:
                parse_path(path or "")
            except ValueError as fault:
                raise ConfigError(f"system.{name}: {fault}") from None

    def check_key(self) -> None:
        """Raise ConfigError where the key is not in the environment; calls nobody."""
        self.service.check_key("system")

    def ask(self, requests: Sequence[Request], done: Callable[[int, Response], None]) -> None:
        """Ask every request. Raises EndpointFailed where no call can do better."""
        self.service.each(requests, self._asked, done)

    def ahead(self, size: Size) -> Ahead:
        """Tell that one question is one call; what it reads and writes for that only the system knows."""
        return Ahead(1, math.nan, math.nan, self.url)

    async def _asked(self, request: Request) -> Response:
        try:
            found = await self.service.post(HttpRequest(self.path, _filled(self.body, request)), self._read)
        except CallFailed as failure:
            self.service.session.meter.record(self.url, failure.usage)
            return Response(Answer(failed=failure.reason, usage=failure.usage))
        self.service.session.meter.record(self.url, found.value.answer.usage)
        return found.value._replace(answer=found.value.answer._replace(seconds=found.seconds))

    def _read(self, answered: Any) -> Response:
        try:
            found = {name: value_at(answered, path) for name, path in self.paths.items() if path}
            answer = value_at(answered, self.answer)
        except PathNotFound as fault:
            raise ValueError(str(fault)) from None
        read, written = found.get("tokens_in") or 0, found.get("tokens_out") or 0
        if not all(isinstance(count, int) and 0 <= count <= MAX_TOKENS for count in (read, written)):
            raise ValueError(f"the tokens are {[read, written]!r:.60}, not counts")
        usage = Usage(1, read, written)
        return response(answer, found.get("contexts"), found.get("ids"), self.refusals, usage)


def _filled(value: Any, request: Request) -> Any:
    """Put a request into the body."""
    if isinstance(value, Mapping):
        return {key: _filled(item, request) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_filled(item, request) for item in value]
    if value == HISTORY:
        return [{"role": turn.role, "content": turn.text} for turn in request.history]
    return value.replace(QUESTION, request.question) if isinstance(value, str) else value
