"""Call a service that answers JSON by HTTP: with patience, with a key that is kept nowhere, and with plain errors."""

from __future__ import annotations

import math
import os
import random
import re
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

from ragsweep.errors import ConfigError, RagsweepError
from ragsweep.secrets import MASK

Read = TypeVar("Read")

AGAIN = frozenset({408, 409, 429})
"""Refusals that may pass; of 5xx, all may."""

LONGEST_WAIT = 60.0
"""Seconds waited at most before a call is made again, whatever the service asks for."""

SHORTEST_WAIT = 0.5
QUOTED = 160
"""Characters of an answer that are quoted in an error."""


class CallFailed(RagsweepError):
    """A service gave no usable answer: the config failed, and running it again may help."""

    exit_status = 1


@dataclass(frozen=True)
class Service:
    """Where a service is, and how patiently it is called.

    ``key_env`` names the environment variable that holds the key, which is read when calls are made and kept nowhere.
    ``retries`` more calls are made after 408, 409, 429, 5xx, a timeout or a lost connection, each after a wait: see
    :func:`waiting`. Any other refusal is final.
    """

    base_url: str
    key_env: str | None = None
    timeout: float = 60  # seconds without a byte
    retries: int = 5
    concurrency: int = 4

    def check(self, where: str) -> None:
        """Raise ConfigError for what could not work, or would put a secret into a config; ``where`` names the part."""
        if not re.fullmatch(r"https?://[^\s/?#@]+[^\s?#@]*", self.base_url):
            raise ConfigError(
                f"{where}.base_url must begin with http:// or https:// and hold no user, password or query; "
                f"a key goes into the environment variable that {where}.key_env names"
            )
        # The value is not repeated: it may be the key itself.
        if self.key_env is not None and not re.fullmatch(r"[A-Z_][A-Z0-9_]*", self.key_env):
            raise ConfigError(f"{where}.key_env must be the NAME of an environment variable, in capitals, not the key")
        for name, least in (("retries", 0), ("concurrency", 1)):
            if getattr(self, name) < least:
                raise ConfigError(f"{where}.{name} is {getattr(self, name)}; it must be {least} or more")
        if not self.timeout > 0:
            raise ConfigError(f"{where}.timeout is {self.timeout} seconds; it must be more than 0")

    def post_all(self, path: str, bodies: Sequence[Any], read: Callable[[Any, int], Read]) -> list[Read]:
        """Post every body, ``concurrency`` at a time; return what ``read(answer, number of the body)`` makes of each.

        ``read`` raises ValueError, with the fact, for an answer that is not what it should be.

        Raises:
            CallFailed: A call was refused, was answered wrongly, or failed once more than ``retries`` times. The calls
                that wait are given up.
            ConfigError: The key is not in the environment.
        """
        if not bodies:
            return []
        import httpx

        key = self.key()
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        with (
            httpx.Client(headers=headers, timeout=self.timeout) as client,
            ThreadPoolExecutor(self.concurrency) as threads,
        ):
            calling = _Calling(self, client, f"{self.base_url.rstrip('/')}/{path}", key)
            calls = [threads.submit(calling.answer, body, n, read) for n, body in enumerate(bodies)]
            try:
                return [call.result() for call in calls]
            except BaseException:
                calling.stopped.set()
                threads.shutdown(wait=False, cancel_futures=True)
                raise

    def key(self) -> str:
        """Read the key from the environment; empty where none is named. Raises ConfigError where it is not there."""
        if self.key_env is None:
            return ""
        key = os.environ.get(self.key_env, "").strip()
        if not key:
            raise ConfigError(f"the environment variable {self.key_env}, named by key_env, is not set or is empty")
        if not key.isascii() or not key.isprintable():
            raise ConfigError(f"the environment variable {self.key_env} holds characters that no key has")
        return key


class _Calling:
    """The calls of one batch; once one of them has failed, the others wait no longer."""

    def __init__(self, service: Service, client: Any, url: str, key: str) -> None:
        self.service = service
        self.client = client
        self.url = url
        self.key = key
        self.stopped = threading.Event()

    def answer(self, body: Any, number: int, read: Callable[[Any, int], Read]) -> Read:
        """Call until there is an answer, and read it."""
        fault, calls = "", 0
        while calls <= self.service.retries and not self.stopped.is_set():
            calls += 1
            wait, answered = None, self._post(body)
            if isinstance(answered, str):
                fault = answered
            elif answered.status_code == 200:
                return self._read(answered, number, read)
            else:
                fault = f"status {answered.status_code}: {answered.text}"
                if answered.status_code not in AGAIN and answered.status_code < 500:
                    raise self._failed(fault)
                wait = retry_after(answered.headers.get("Retry-After"))
            if calls <= self.service.retries:
                self.stopped.wait(waiting(calls - 1, wait))
        raise self._failed(f"{fault} (after {calls} calls)")

    def _post(self, body: Any) -> Any:
        """Return the response, or what was lost on the way: a timeout, a connection."""
        import httpx

        try:
            return self.client.post(self.url, json=body)
        except httpx.TransportError as error:
            return f"{type(error).__name__} {error}".strip()
        except httpx.HTTPError as error:
            raise self._failed(f"{type(error).__name__} {error}") from None

    def _read(self, response: Any, number: int, read: Callable[[Any, int], Read]) -> Read:
        try:
            answer = response.json()
        except ValueError:
            raise self._failed(f"status 200, but no JSON: {response.text}") from None
        try:
            return read(answer, number)
        except ValueError as fault:
            raise self._failed(f"status 200, but {fault}: {response.text}") from None

    def _failed(self, fact: str) -> CallFailed:
        """Say in one line what went wrong; services have been seen to repeat the key they were given."""
        line = " ".join((fact.replace(self.key, MASK) if self.key else fact).split())
        return CallFailed(f"{self.url} failed: {line if len(line) <= QUOTED else line[:QUOTED] + '...'}")


def retry_after(value: str | None) -> float | None:
    """Read how many seconds a service asks to wait: a number, or a date; None where it does not say."""
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            date = parsedate_to_datetime(value)
        except ValueError:
            return None
        seconds = (date.replace(tzinfo=date.tzinfo or UTC) - datetime.now(UTC)).total_seconds()
    return max(seconds, 0.0) if math.isfinite(seconds) else None


def waiting(attempt: int, asked: float | None) -> float:
    """Choose how long to wait after the failed call number ``attempt``, from 0: seconds, at most LONGEST_WAIT.

    What the service asks for and a little more, so that not all come back at once; else half to all of a time that
    doubles with every call.
    """
    if asked is not None:
        return min(asked + random.uniform(0, SHORTEST_WAIT), LONGEST_WAIT)
    return min(SHORTEST_WAIT * 2.0 ** min(attempt, 16), LONGEST_WAIT) * random.uniform(0.5, 1)
