"""Make one HTTP call: repeat failed attempts, obey the circuit breaker, and interpret failures."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from ragsweep.core.interruption import is_overdue
from ragsweep.core.missing import (
    CONNECTION_LOST,
    FILTERED,
    MALFORMED,
    RATE_LIMITED,
    REFUSED_BY_SERVICE,
    SERVER_ERROR,
    TIMED_OUT,
    TOO_LONG,
)
from ragsweep.core.plurals import counted
from ragsweep.core.secrets import MASK, SHORTEST, spellings
from ragsweep.services.errors import CallFailed, EndpointFailed, quote
from ragsweep.services.limits import backoff, parse_retry_after
from ragsweep.services.replies import MAX_BYTES, HttpResponse, NoAnswer
from ragsweep.services.session import HostState

if TYPE_CHECKING:
    from ragsweep.services.http_client import Service

Read = TypeVar("Read")

MAY_PASS = frozenset({408, 409, 429})
"""Status codes that, like 5xx except 501, lead to a retry, unless the quota is spent or the prompt is too long."""

FOR_ALL = frozenset({*range(300, 400), 401, 402, 403, 404, 405, 501})
"""Status codes that all other calls would also get, for example because of a wrong key, a wrong path or a redirect."""

QUOTA_SPENT = (
    *("insufficient_quota", "billing_hard_limit_reached", "billing_not_active"),  # OpenAI
    *("exceeded_current_quota_error", '"1113"'),  # Moonshot, Z.ai
)
"""Strings that, in a response of status 429, mean that waiting does not help."""

WINDOW_EXCEEDED = (
    *("context_length_exceeded", "exceed_context_size", "maximum context length"),  # OpenAI, llama.cpp, vLLM
    *("model's context length", "maximum model length"),  # vLLM from 0.16 on and Together, vLLM
    *("context length of only", "Context size has been exceeded", "greater than the context length"),  # LM Studio
    *("exceeds the context length", "too large to process"),  # Ollama, llama.cpp for texts to embed
    *("prompt is too long", "exceed context limit", "input token count"),  # Anthropic, Anthropic, Gemini
    *("maximum prompt length", "too many tokens: "),  # xAI, Cohere
    *("`inputs` must have less than", "`inputs` tokens + `max_new_tokens` must"),  # TGI
    *("exceeds the available context size", "Range of input length"),  # llama.cpp before September 2025, Alibaba
    *("exceeded model token limit", "Input is too long", "tokens_limit_reached"),  # Moonshot, Bedrock, GitHub
)
"""Strings in the responses of services to a prompt that is longer than the model's context window."""

BATCH_EXCEEDED = ("batch", "tokens per request", "number of texts")
"""Strings in the responses of TEI, Mistral, Voyage, OpenAI and Cohere to a batch that is too large."""

WITHHELD = ("content_filter", "flagged_input", "Content Exists Risk", "data_inspection_failed")
"""Strings in the responses of Azure, OpenRouter, DeepSeek and Alibaba to a prompt that their filters reject."""


class HttpRequest(NamedTuple):
    """A request: its path below the base URL, its JSON body, and the tokens to reserve in the rate limiter."""

    path: str
    body: Any
    tokens: int = 0


class Timed(NamedTuple, Generic[Read]):
    """A value read from a response, and the seconds that the service took, including earlier unusable replies."""

    value: Read
    seconds: float = 0.0


_AGAIN = "; check the service and its address, or run again"
_WAYS_OUT = {
    RATE_LIMITED: (
        "; set requests_per_minute (of an llm, judge, router or system) or lower concurrency (of other parts), or run"
        " again later"
    ),
    **dict.fromkeys((CONNECTION_LOST, MALFORMED, SERVER_ERROR), _AGAIN),
}
"""Reason for a failed attempt -> remedy. For a timeout, the description of the failure includes the remedy."""


_SMALLER = "; lower batch_size of the part that makes the call, such as embedder.batch_size, or shorten its texts"


class _Failure(NamedTuple):
    """A failed attempt that may be repeated: reason, description, and the wait in seconds that the service requested.

    If ``is_reply`` is true, the model replied, but without an answer.
    """

    reason: str
    fact: str
    retry_after: float = 0.0
    is_reply: bool = False


@dataclass
class Call(Generic[Read]):
    """One call to a service, with all its attempts; for its exceptions, see `Service.post`."""

    service: Service
    key: str
    request: HttpRequest
    read: Callable[[Any], Read]
    retry_unread: bool
    elapsed: float = 0.0  # seconds of attempts and waits between them, except waits for a slot, rate limit or breaker
    unread: float = 0.0  # seconds of attempts whose replies were unusable: their tokens and time are counted

    @property
    def url(self) -> str:
        """The URL of the request."""
        return f"{self.service.base_url.rstrip('/')}/{self.request.path}"

    async def run(self) -> Timed[Read]:
        """Make the call, and return the value and the response time; record a CallFailed in the usage meter."""
        try:
            return await self._repeat()
        except CallFailed as failure:
            self.service.session.meter.note_failure(failure)
            raise

    async def _repeat(self) -> Timed[Read]:
        """Try until an attempt succeeds; raise CallError after a permanent failure or if no retry or time is left."""
        host = self.service.session.host(self.service.base_url, self.key)
        slot = await self.service.session.slot(host, self.service.concurrency)
        attempts = 0
        while True:
            async with slot:
                await asyncio.sleep(0)  # here, a failure that ends all calls can cancel this call
                async with host.admit():
                    if not attempts:
                        self.service.session.meter.admit()
                    now = time.monotonic()
                    wait = host.requests.reserve(1, self.service.requests_per_minute, now)
                    wait = max(wait, host.tokens.reserve(self.request.tokens, self.service.tokens_per_minute, now))
                if wait:
                    await asyncio.sleep(wait)
                async with host.admit():  # again, because the service may have requested a pause in the meantime
                    result = await self._attempt(host, repeated=attempts > 0)
            if not isinstance(result, _Failure):
                return result
            attempts += 1
            wait = backoff(attempts - 1, result.retry_after)
            if attempts > self.service.retries or self._remaining() <= wait:
                fact = self._describe(result.fact, f" after {counted(attempts, 'attempt')}")
                failure = CallFailed(f"{fact}{_WAYS_OUT.get(result.reason, '')}", result.reason)
                if result.is_reply:
                    host.breaker.refuse(failure, unanswered=True)
                raise failure
            self.elapsed += wait
            await asyncio.sleep(wait)

    async def _attempt(self, host: HostState, repeated: bool) -> _Failure | Timed[Read]:
        """Make a request and record its outcome in the circuit breaker; ``repeated`` is true after a failed attempt."""
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
            if result.is_reply:
                host.breaker.note_reply()
            else:
                fact, now = self._describe(result.fact), time.monotonic()
                host.breaker.fail(fact, began, now, result.retry_after, repeated)
            self.unread += 0.0 if isinstance(response, _Failure) or response.status // 100 != 2 else seconds
            return result
        host.breaker.succeed()
        return result._replace(seconds=seconds + self.unread)

    async def _send(self) -> HttpResponse | _Failure:
        """Send the request, and return the response, or a failure if no complete response arrives.

        The key is masked in the response, because a service may repeat it in an answer, which would be stored. A key of
        fewer than SHORTEST characters is not masked: it may be a placeholder, such as the word "token".
        """
        import httpx

        limit = min(self.service.timeout, self._remaining())
        headers = {"Content-Type": "application/json"}
        if self.key:
            bearer = self.service.key_header.lower() == "authorization"
            headers[self.service.key_header] = f"Bearer {self.key}" if bearer else self.key
        too_large = _Failure(
            MALFORMED, f"the response is larger than {MAX_BYTES >> 20} MiB (for an embedder, lower batch_size)"
        )
        body = json.dumps(self.request.body).encode()  # ASCII: a lone surrogate cannot be encoded as UTF-8
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
                for form in spellings(self.key) if len(self.key) >= SHORTEST else ():
                    content = content.replace(form.encode("utf-8", "surrogateescape"), MASK.encode())
                return HttpResponse(response.status_code, response.headers, bytes(content))
        except TimeoutError:
            if is_overdue():  # the config's own timeout, whose signal arrived here
                raise
            name = "timeout" if limit == self.service.timeout else "deadline"
            way_out = f"raise {name} of the part that makes the call, such as llm.{name}"
            return _Failure(TIMED_OUT, f"no answer within {limit:.6g} seconds; {way_out}")
        except httpx.TransportError as error:
            return _Failure(CONNECTION_LOST, f"{type(error).__name__} {error}".strip())
        except httpx.HTTPError as error:  # a body that cannot be decoded
            return _Failure(MALFORMED, f"{type(error).__name__} {error}".strip())

    def _parse(self, response: HttpResponse) -> _Failure | Timed[Read]:
        if response.status // 100 != 2:
            return self._refusal(response)
        try:
            parsed = response.json()
        except ValueError as fault:
            return self._unread(f"status {response.status}, but {fault}", str(fault), retry=True)
        try:
            return Timed(self.read(parsed))
        except ValueError as fault:
            error = json.dumps(parsed.get("error")) if isinstance(parsed, dict) else ""
            fact = f"status {response.status}, but {fault}: {response.text}"
            return self._unread(fact, error, self.retry_unread)._replace(is_reply=isinstance(fault, NoAnswer))
        except CallFailed as failure:
            raise CallFailed(f"{self.url} failed: {failure}", failure.reason, failure.usage) from None

    def _unread(self, fact: str, error: str, retry: bool) -> _Failure:
        """Return a failure for a response that could not be read; raise CallFailed if ``retry`` is false.

        Also raise CallFailed if ``error`` is about the prompt; LM Studio and OpenRouter may send such an error with
        status 200.
        """
        if reason := _prompt_fault(error):
            raise CallFailed(self._describe(fact), reason) from None
        if retry:
            return _Failure(MALFORMED, fact)
        raise CallFailed(f"{self._describe(fact)}; check the address and the model", MALFORMED) from None

    def _refusal(self, response: HttpResponse) -> _Failure:
        """Return a failure for a temporary refusal; raise CallFailed or EndpointFailed for a permanent refusal."""
        status, fact = response.status, f"status {response.status}: {response.text}"
        prompt_fault = _prompt_fault(response.text)
        if status in (400, 403) and prompt_fault == FILTERED:
            raise CallFailed(self._describe(fact), FILTERED)
        if status in FOR_ALL or (status == 429 and any(mark in response.text for mark in QUOTA_SPENT)):
            at_fault = "key" if status in (401, 403) else "account" if status in (402, 429) else "address and the model"
            raise EndpointFailed(f"{self._describe(fact)}; check the {at_fault}", REFUSED_BY_SERVICE)
        is_long = status != 429 and prompt_fault == TOO_LONG
        if is_long or (status < 500 and status not in MAY_PASS):
            is_large = status == 413 or (not is_long and any(mark in response.text for mark in BATCH_EXCEEDED))
            way_out = _SMALLER if is_large else ""
            raise CallFailed(f"{self._describe(fact)}{way_out}", TOO_LONG if is_long else REFUSED_BY_SERVICE)
        reason = RATE_LIMITED if status == 429 else SERVER_ERROR
        return _Failure(reason, fact, parse_retry_after(response.headers.get("Retry-After")))

    def _remaining(self) -> float:
        """Return the seconds left until the deadline of the call, at least 0; infinity without a deadline."""
        return float("inf") if self.service.deadline is None else max(self.service.deadline - self.elapsed, 0.0)

    def _describe(self, fact: str, after: str = "") -> str:
        return f"{self.url} failed{after}: {quote(fact, self.key)}"


def _prompt_fault(text: str) -> str:
    """Return FILTERED or TOO_LONG if an error message means that the prompt was rejected; "" for other errors."""
    if any(mark in text for mark in WITHHELD):
        return FILTERED
    return TOO_LONG if any(mark in text for mark in WINDOW_EXCEEDED) else ""
