"""Make one call: again after what may pass, within its time, and never a second time where the first was final."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from ragsweep.core.reasons import (
    CONNECTION_LOST,
    MALFORMED,
    RATE_LIMITED,
    REFUSED_BY_SERVICE,
    SERVER_ERROR,
    TIMED_OUT,
)
from ragsweep.core.secrets import MASK, written
from ragsweep.services.calls.failures import CallError, CallFailed, EndpointFailed, said
from ragsweep.services.calls.loop import Desk, current_turn
from ragsweep.services.calls.reading import LARGEST, Answered
from ragsweep.services.calls.spending import spending
from ragsweep.services.calls.waiting import honoured, retry_after, waiting

if TYPE_CHECKING:
    from ragsweep.services.calls.service import Question, Service

Read = TypeVar("Read")

AGAIN = frozenset({408, 409, 429})
"""Refusals that may pass; of 5xx, all may."""

FOR_ALL = frozenset({*range(300, 400), 401, 402, 403, 404, 405})
"""Refusals that every other call would meet too: a wrong key, no such model or path, another address."""

SPENT = ("insufficient_quota", "billing_hard_limit_reached")
"""What services write into a 429 that waiting does not help against."""


class Fault(NamedTuple):
    """Why an attempt gave nothing, though another may; and how long the service asks to wait."""

    reason: str
    fact: str
    asked: float | None = None


class Value(NamedTuple, Generic[Read]):
    """What was read from an answer, and the seconds that the service took for it."""

    value: Read
    seconds: float = 0.0


class Calling:
    """One call to a service: all its attempts."""

    def __init__(self, service: Service, desk: Desk, key: str) -> None:
        self.service = service
        self.desk = desk
        self.key = key
        self.url = service.base_url.rstrip("/")
        self.spent = 0.0  # seconds of attempts and of waits between them; not of waiting for a place
        self.attempts = 0

    async def answer(self, question: Question, read: Callable[[Any], Read], again: bool) -> Value[Read]:
        """Call until there is an answer, and read it."""
        self.url = f"{self.url}/{question.path}"
        while True:
            fault = await self._attempt(question, read, again)
            if not isinstance(fault, Fault):
                return fault
            wait = waiting(self.attempts - 1, fault.asked)
            if self.attempts > self.service.retries or self._left() <= wait:
                raise CallFailed(f"{self._line(fault.fact)} (after {self.attempts} calls)", fault.reason)
            self.spent += wait
            await asyncio.sleep(wait)

    async def _attempt(self, question: Question, read: Callable[[Any], Read], again: bool) -> Fault | Value[Read]:
        """Wait for a place, and call once."""
        loop, turn, service = asyncio.get_running_loop(), current_turn(), self.service
        async with self.desk.line.place(service.concurrency, turn.number):
            if not self.attempts:
                spending.admit(turn)
            await self.desk.line.requests.take(1, service.requests_per_minute)
            await self.desk.line.tokens.take(question.tokens, service.tokens_per_minute)
            began = loop.time()
            self.attempts += 1
            health = self.desk.line.health
            try:
                found = await self._post(question.body)
                result = found if isinstance(found, Fault) else self._judge(found, read, again)
            except CallFailed as failure:
                health.refused(failure)
                raise
            finally:
                seconds = loop.time() - began
                self.spent += seconds
            if isinstance(result, Fault):
                health.failed(self._line(result.fact), began, loop.time(), honoured(result.asked))
                return result
            health.succeeded()
            return result._replace(seconds=seconds)

    async def _post(self, body: Any) -> Answered | Fault:
        """Return the answer, or what was lost on the way: a timeout, a connection."""
        import httpx

        limit = min(self.service.timeout, self._left())
        headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {self.key}"} if self.key else {})}
        too_large = Fault(MALFORMED, f"an answer of more than {LARGEST >> 20} MiB")
        sent = json.dumps(body).encode()  # in ASCII: half a surrogate pair in a text would stop UTF-8
        try:
            async with (
                asyncio.timeout(limit),
                self.desk.client.stream("POST", self.url, content=sent, headers=headers) as response,
            ):
                content = bytearray()
                if int(response.headers.get("Content-Length", "0")) > LARGEST:
                    return too_large
                async for piece in response.aiter_bytes():
                    content += piece
                    if len(content) > LARGEST:
                        return too_large
                return Answered(response.status_code, response.headers, self._without_key(bytes(content)))
        except TimeoutError:
            return Fault(TIMED_OUT, f"no answer within {limit:.3g} seconds")
        except httpx.TransportError as error:
            return Fault(CONNECTION_LOST, f"{type(error).__name__} {error}".strip())
        except httpx.HTTPError as error:  # a body that cannot be decoded
            return Fault(MALFORMED, f"{type(error).__name__} {error}".strip())

    def _judge(self, found: Answered, read: Callable[[Any], Read], again: bool) -> Fault | Value[Read]:
        """Read a good answer; tell a refusal that may pass from one that is final."""
        if found.status != 200:
            return self._refusal(found)
        try:
            answer = found.json()
        except ValueError as fault:
            return Fault(MALFORMED, f"status 200, but {fault}")
        try:
            return Value(read(answer))
        except ValueError as fault:
            fact = f"status 200, but {fault}: {found.text}"
            if again:
                return Fault(MALFORMED, fact)
            raise self._failed(CallFailed, MALFORMED, fact) from None
        except CallFailed as failure:
            raise CallFailed(self._line(str(failure)), failure.reason, failure.usage) from None

    def _refusal(self, found: Answered) -> Fault:
        fact = f"status {found.status}: {found.text}"
        if found.status in FOR_ALL or (found.status == 429 and any(word in found.text for word in SPENT)):
            raise self._failed(EndpointFailed, REFUSED_BY_SERVICE, fact)
        asked = retry_after(found.headers.get("Retry-After"))
        if found.status >= 500:
            return Fault(SERVER_ERROR, fact, asked)
        if found.status in AGAIN:
            return Fault(RATE_LIMITED if found.status == 429 else SERVER_ERROR, fact, asked)
        raise self._failed(CallFailed, REFUSED_BY_SERVICE, fact)

    def _without_key(self, content: bytes) -> bytes:
        """Mask the key in an answer: a service that repeats it must not have it stored as what it said."""
        for form in written(self.key) if self.key else ():
            content = content.replace(form.encode("utf-8", "surrogateescape"), MASK.encode())
        return content

    def _left(self) -> float:
        """Return the seconds that this call may still take."""
        return float("inf") if self.service.deadline is None else max(self.service.deadline - self.spent, 0.0)

    def _failed(self, kind: type[CallError], reason: str, fact: str) -> CallError:
        return kind(self._line(fact), reason)

    def _line(self, fact: str) -> str:
        return f"{self.url} failed: {said(fact, self.key)}"
