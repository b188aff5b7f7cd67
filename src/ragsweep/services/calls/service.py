"""Call a service that answers JSON by HTTP: with patience, with a key that is kept nowhere, and with plain errors."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from ragsweep.core.errors import ConfigError
from ragsweep.services.calls.calling import Calling, Value
from ragsweep.services.calls.failures import CallFailed, EndpointFailed
from ragsweep.services.calls.loop import background, each

Read = TypeVar("Read")


class Question(NamedTuple):
    """What is sent: the path below the base URL, the body, and how many tokens it will use, for their limit."""

    path: str
    body: Any
    tokens: int = 0


@dataclass(frozen=True)
class Service:
    """Where a service is, and how patiently it is called.

    ``key_env`` names the environment variable that holds the key, which is read when calls are made and kept nowhere.
    ``retries`` more calls are made after 408, 409, 429, 5xx, a timeout, a lost connection or an answer that is no JSON,
    each after a wait: see :func:`ragsweep.services.calls.waiting.waiting`. Any other refusal is final. The calls of all
    parts to one base URL with one key are counted together.
    """

    base_url: str
    key_env: str | None = None
    timeout: float = 60  # seconds for one attempt, to its last byte
    retries: int = 5
    concurrency: int = 4
    deadline: float | None = None  # seconds for all attempts and the waits between them
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None

    def check(self, where: str, url: str = "base_url") -> None:
        """Raise ConfigError for what could not work, or would put a secret into a config.

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
        for name, least in (("retries", 0), ("concurrency", 1)):
            if getattr(self, name) < least:
                raise ConfigError(f"{where}.{name} is {getattr(self, name)}; it must be {least} or more")
        for name in ("timeout", "deadline"):
            if getattr(self, name) is not None and not getattr(self, name) > 0:
                raise ConfigError(f"{where}.{name} is {getattr(self, name)} seconds; it must be more than 0")
        for name in ("requests_per_minute", "tokens_per_minute"):
            if getattr(self, name) is not None and not getattr(self, name) > 0:
                raise ConfigError(f"{where}.{name} is {getattr(self, name)}; it must be more than 0, or null")

    async def post(self, question: Question, read: Callable[[Any], Read], again: bool = False) -> Value[Read]:
        """Post one body; return what ``read`` makes of the answer, and the seconds that it took.

        ``read`` raises ValueError, with the fact, for an answer that is not what it should be; ``again`` says whether
        the same question may be answered better.

        Raises:
            CallFailed: The call was refused, answered wrongly, or failed once more than ``retries`` times.
            EndpointFailed: No call to this service can do better.
            ConfigError: The key is not in the environment.
        """
        key = self.key()
        return await Calling(self, background().desk(self.base_url, key), key).answer(question, read, again)

    def post_all(self, path: str, bodies: Sequence[Any], read: Callable[[Any, int], Read]) -> list[Read]:
        """Post every body, ``concurrency`` at a time; return what ``read(answer, number of the body)`` makes of each.

        Raises:
            CallFailed: One of them failed for good. The calls that wait are given up.
            ConfigError: The key is not in the environment.
        """
        if not bodies:
            return []
        self.key()
        found: dict[int, Read] = {}

        async def work(number: int) -> Read:
            return (await self.post(Question(path, bodies[number]), lambda answer: read(answer, number))).value

        try:
            each(range(len(bodies)), work, found.__setitem__)
        except EndpointFailed as failure:
            raise CallFailed(str(failure), failure.reason) from None
        return [found[number] for number in range(len(bodies))]

    def check_key(self, where: str) -> None:
        """Raise ConfigError, with the way out, where the key is not in the environment; ``where`` names the part."""
        try:
            self.key()
        except ConfigError as fault:
            raise ConfigError(
                f"{where}: {fault}; export it, or name another variable by {where}.key_env (null: it needs no key)"
            ) from None

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
