"""Call a service that answers JSON over HTTP, with retries, limits, masked keys and one-line errors."""

from __future__ import annotations

import asyncio
import json
import os
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

from ragsweep.core.errors import ConfigError
from ragsweep.core.interruption import is_overdue
from ragsweep.core.missing import (
    CONNECTION_LOST,
    MALFORMED,
    RATE_LIMITED,
    REFUSED_BY_SERVICE,
    SERVER_ERROR,
    TIMED_OUT,
    TOO_LONG,
)
from ragsweep.core.secrets import MASK, spellings
from ragsweep.services.errors import CallFailed, EndpointFailed, quote
from ragsweep.services.limits import backoff, parse_retry_after
from ragsweep.services.replies import MAX_BYTES, HttpResponse
from ragsweep.services.session import HostState, Item, Result, ServiceSession, each

Read = TypeVar("Read")

MAY_PASS = frozenset({408, 409, 429})
"""Status codes that are retried, in addition to all of 5xx."""

FOR_ALL = frozenset({*range(300, 400), 401, 402, 403, 404, 405, 501})
"""Status codes that every other call would get, too: a wrong key, no such model or path, another address."""

QUOTA_SPENT = ("insufficient_quota", "billing_hard_limit_reached")
"""Marks of a 429 that waiting does not resolve."""

WINDOW_EXCEEDED = ("context_length_exceeded", "exceed_context_size", "maximum context length")
"""Marks of a 400 for a prompt that is longer than the model's window: OpenAI's, llama.cpp's, vLLM's."""


class HttpRequest(NamedTuple):
    """The path below the base URL, the JSON body, and the tokens to reserve of their rate."""

    path: str
    body: Any
    tokens: int = 0


class Timed(NamedTuple, Generic[Read]):
    """A value read from a response, and the seconds that the service took."""

    value: Read
    seconds: float = 0.0


@dataclass(eq=False)
class Service:
    """An HTTP service and how it is called.

    ``key_env`` names the environment variable of the key, which is read when calls are made and not stored. A call is
    retried ``retries`` times after 408, 409, 429, 5xx, a timeout, a lost connection or a malformed response, with the
    waits of :func:`ragsweep.services.limits.backoff`. Any other refusal is final.
    """

    base_url: str
    key_env: str | None = None
    timeout: float = 60  # seconds for one attempt, to its last byte
    retries: int = 5
    concurrency: int = 4
    deadline: float | None = None  # seconds for all attempts and the waits between them
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    key_header: str = "Authorization"  # has the key: as a bearer token, in any other header alone
    session: ServiceSession = field(default_factory=ServiceSession, repr=False)

    def connect(self, session: ServiceSession) -> None:
        """Use the connections, limits and usage meter of a session."""
        self.session = session

    def check(self, where: str, url: str = "base_url") -> None:
        """Raise ConfigError for invalid values, and for a secret in the config.

        ``where`` names the part, ``url`` its key for the address.
        """
        if not re.fullmatch(r"https?://[^\s/?#@]+[^\s?#@]*", self.base_url):
            raise ConfigError(
                f"{where}.{url} must begin with http:// or https:// and hold no user, password or query; "
                f"a key goes into the environment variable that {where}.key_env names"
            )
        # The value is not repeated: it may be the key itself.
        if self.key_env is not None and not re.fullmatch(r"[A-Z_][A-Z0-9_]*", self.key_env):
            raise ConfigError(f"{where}.key_env must be the NAME of an environment variable, in capitals, not the key")
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9-]*", self.key_header):
            raise ConfigError(f"{where}.key_header must be the name of a header, such as api-key")
        for name, least in (("retries", 0), ("concurrency", 1)):
            if getattr(self, name) < least:
                raise ConfigError(f"{where}.{name} is {getattr(self, name)}; it must be {least} or more")
        for name in ("timeout", "deadline", "requests_per_minute", "tokens_per_minute"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                is_rate = name.endswith("minute")
                raise ConfigError(
                    f"{where}.{name} is {value}{'' if is_rate else ' seconds'}; it must be more than 0"
                    f"{', or null' if is_rate else ''}"
                )

    def check_key(self, where: str) -> None:
        """Raise ConfigError, with the way out, where the key is not in the environment; ``where`` names the part."""
        try:
            self.key()
        except ConfigError as fault:
            raise ConfigError(
                f"{where}: {fault}; export it, or name another variable by {where}.key_env (null: it needs no key)"
            ) from None

    def key(self) -> str:
        """Read the key from the environment; empty where none is named. Raise ConfigError where it is not set."""
        if self.key_env is None:
            return ""
        key = os.environ.get(self.key_env, "").strip()
        if not key:
            raise ConfigError(f"the environment variable {self.key_env}, named by key_env, is not set or is empty")
        if not key.isascii() or not key.isprintable():
            raise ConfigError(f"the environment variable {self.key_env} holds characters that no key has")
        return key

    def each(self, items: Sequence[Item], work: Callable[[Item], Any], done: Callable[[int, Result], None]) -> None:
        """Work on items in the session; see :func:`ragsweep.services.session.each`.

        More items are in progress than calls in flight: an item that waits for its retry frees its slot.
        """
        each(items, work, done, 2 * self.concurrency, self.session.run)

    async def post(self, request: HttpRequest, read: Callable[[Any], Read], retry_unread: bool = False) -> Timed[Read]:
        """Post one body; return ``read(response)``.

        ``read`` raises ValueError, with the fact, for a response that it cannot read; ``retry_unread``: another attempt
        may be read.

        Raises:
            CallFailed: The call was refused, could not be read, failed once more than ``retries`` times, or the budget
                is spent.
            EndpointFailed: No call to this service can succeed.
            ConfigError: The key is not in the environment.
        """
        return await _Call(self, self.key(), request, read, retry_unread).run()

    def post_all(self, path: str, bodies: Sequence[Any], read: Callable[[Any, int], Read]) -> list[Read]:
        """Post every body, ``concurrency`` at a time; return what ``read(response, number of the body)`` makes of each.

        Raises:
            CallFailed: One of them failed permanently. The others are cancelled.
            EndpointFailed: No call to this service can succeed.
            ConfigError: The key is not in the environment.
        """
        values: dict[int, Read] = {}

        async def work(number: int) -> Read:
            request = HttpRequest(path, bodies[number])
            return (await self.post(request, lambda response: read(response, number))).value

        self.each(range(len(bodies)), work, values.__setitem__)
        return [values[number] for number in range(len(bodies))]


class _Failure(NamedTuple):
    """A failed attempt that may be repeated, and the service's Retry-After in seconds."""

    reason: str
    fact: str
    retry_after: float = 0.0


@dataclass
class _Call(Generic[Read]):
    """One call with all its attempts."""

    service: Service
    key: str
    request: HttpRequest
    read: Callable[[Any], Read]
    retry_unread: bool
    elapsed: float = 0.0  # seconds of attempts and of the waits between them, not of waiting for a slot

    @property
    def url(self) -> str:
        return f"{self.service.base_url.rstrip('/')}/{self.request.path}"

    async def run(self) -> Timed[Read]:
        """Make the call; a failure is noted with the service's own words."""
        try:
            return await self._repeat()
        except CallFailed as failure:
            self.service.session.meter.note_failure(failure)
            raise

    async def _repeat(self) -> Timed[Read]:
        """Repeat the attempt until it succeeds, is refused permanently, or retries or time run out."""
        host = self.service.session.host(self.service.base_url, self.key)
        slot = await self.service.session.slot(host, self.service.concurrency)
        attempts = 0
        while True:
            async with slot, host.admit():
                if not attempts:
                    self.service.session.meter.admit()
                now = time.monotonic()
                wait = host.requests.reserve(1, self.service.requests_per_minute, now)
                wait = max(wait, host.tokens.reserve(self.request.tokens, self.service.tokens_per_minute, now))
                if wait:
                    await asyncio.sleep(wait)
                result = await self._attempt(host)
            if not isinstance(result, _Failure):
                return result
            attempts += 1
            wait = backoff(attempts - 1, result.retry_after)
            if attempts > self.service.retries or self._remaining() <= wait:
                raise CallFailed(f"{self._describe(result.fact)} (after {attempts} calls)", result.reason)
            self.elapsed += wait
            await asyncio.sleep(wait)

    async def _attempt(self, host: HostState) -> _Failure | Timed[Read]:
        """Make one request and record its outcome in the circuit breaker."""
        began = time.monotonic()
        try:
            response = await self._send()
            result = response if isinstance(response, _Failure) else self._parse(response)
        except CallFailed as failure:
            host.breaker.refuse(failure)
            raise
        finally:
            seconds = time.monotonic() - began
            self.elapsed += seconds
        if isinstance(result, _Failure):
            host.breaker.fail(self._describe(result.fact), began, time.monotonic(), result.retry_after)
            return result
        host.breaker.succeed()
        return result._replace(seconds=seconds)

    async def _send(self) -> HttpResponse | _Failure:
        """Return the response, or a failure of the transport: a timeout, a lost connection.

        The key is masked in the response, so that a service that repeats it does not get it stored in an answer.
        """
        import httpx

        limit = min(self.service.timeout, self._remaining())
        headers = {"Content-Type": "application/json"}
        if self.key:
            bearer = self.service.key_header.lower() == "authorization"
            headers[self.service.key_header] = f"Bearer {self.key}" if bearer else self.key
        too_large = _Failure(MALFORMED, f"an answer of more than {MAX_BYTES >> 20} MiB")
        body = json.dumps(self.request.body).encode()  # ASCII: half a surrogate pair in a text cannot be UTF-8
        client = (await self.service.session.connections()).client
        try:
            async with (
                asyncio.timeout(limit),
                client.stream("POST", self.url, content=body, headers=headers) as response,
            ):
                content = bytearray()
                if int(response.headers.get("Content-Length", "0")) > MAX_BYTES:
                    return too_large
                async for piece in response.aiter_bytes():
                    content += piece
                    if len(content) > MAX_BYTES:
                        return too_large
                for form in spellings(self.key) if self.key else ():
                    content = content.replace(form.encode("utf-8", "surrogateescape"), MASK.encode())
                return HttpResponse(response.status_code, response.headers, bytes(content))
        except TimeoutError:
            if is_overdue():  # of the config's own timeout, whose signal arrived here
                raise
            way_out = "; raise the timeout of the service" if limit == self.service.timeout else ""
            return _Failure(TIMED_OUT, f"no answer within {limit:.3g} seconds{way_out}")
        except httpx.TransportError as error:
            return _Failure(CONNECTION_LOST, f"{type(error).__name__} {error}".strip())
        except httpx.HTTPError as error:  # a body that cannot be decoded
            return _Failure(MALFORMED, f"{type(error).__name__} {error}".strip())

    def _parse(self, response: HttpResponse) -> _Failure | Timed[Read]:
        if response.status != 200:
            return self._refusal(response)
        try:
            parsed = response.json()
        except ValueError as fault:
            return _Failure(MALFORMED, f"status 200, but {fault}")
        try:
            return Timed(self.read(parsed))
        except ValueError as fault:
            fact = f"status 200, but {fault}: {response.text}"
            if self.retry_unread:
                return _Failure(MALFORMED, fact)
            raise CallFailed(self._describe(fact), MALFORMED) from None
        except CallFailed as failure:
            raise CallFailed(self._describe(str(failure)), failure.reason, failure.usage) from None

    def _refusal(self, response: HttpResponse) -> _Failure:
        """Return a transient refusal; raise a final one."""
        status, fact = response.status, f"status {response.status}: {response.text}"
        if status in FOR_ALL or (status == 429 and any(mark in response.text for mark in QUOTA_SPENT)):
            raise EndpointFailed(self._describe(fact), REFUSED_BY_SERVICE)
        if status < 500 and status not in MAY_PASS:
            is_long = any(mark in response.text for mark in WINDOW_EXCEEDED)
            raise CallFailed(self._describe(fact), TOO_LONG if is_long else REFUSED_BY_SERVICE)
        reason = RATE_LIMITED if status == 429 else SERVER_ERROR
        return _Failure(reason, fact, parse_retry_after(response.headers.get("Retry-After")))

    def _remaining(self) -> float:
        """Return the remaining seconds of this call."""
        return float("inf") if self.service.deadline is None else max(self.service.deadline - self.elapsed, 0.0)

    def _describe(self, fact: str) -> str:
        return f"{self.url} failed: {quote(fact, self.key)}"
