"""A JSON service over HTTP, and the settings for calling it: retries, limits, and the key."""

import os
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from ragsweep.core.errors import ConfigError
from ragsweep.services.http_call import Call, HttpRequest, Read, Timed
from ragsweep.services.session import Item, Result, ServiceSession, each


@dataclass(eq=False)
class Service:
    """An HTTP service, and the settings for calling it.

    ``key_env`` is the name of the environment variable that contains the key; the key is read for every call and is not
    stored. A call is retried up to ``retries`` times, with the waits of :func:`ragsweep.services.limits.backoff`, after
    a timeout, a lost connection, a response that is not JSON or is too large, or a status of 408, 409, 429 or 5xx
    except 501. It is not retried if, according to the response, the quota is spent (429) or the prompt is too long
    (any other status). Any other status except 2xx is a permanent refusal. For JSON that is not usable, see ``post``.
    """

    base_url: str
    key_env: str | None = None
    timeout: float = 60  # seconds for one attempt, to its last byte
    retries: int = 5
    concurrency: int = 4
    deadline: float | None = None  # seconds for all attempts and waits between them
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    key_header: str = "Authorization"  # this header contains "Bearer KEY"; any other header contains only KEY
    session: ServiceSession = field(default_factory=ServiceSession, repr=False)

    def connect(self, session: ServiceSession) -> None:
        """Make all further calls with the connections, limits and usage meter of ``session``."""
        self.session = session

    def check(self, where: str, url: str = "base_url", key_env: str = "key_env") -> None:
        """Raise ConfigError for invalid values, such as a URL with a password, or a key in place of a variable's name.

        In the messages, ``where`` is the config key of the part; ``url`` and ``key_env`` are the names of its keys for
        the base URL and for the environment variable.
        """
        if not re.fullmatch(r"https?://[^\s/?#@]+[^\s?#@]*", self.base_url):
            got = "" if re.search("[?#@]", self.base_url) else f", got {self.base_url!r}"  # else it may contain a key
            raise ConfigError(
                f"{where}.{url} must begin with http:// or https:// and contain no user, password or query{got}; "
                f"a key belongs in the environment variable that {where}.{key_env} names"
            )
        import httpx

        try:
            _ = urlsplit(self.base_url).port, httpx.URL(self.base_url)
        except (ValueError, httpx.InvalidURL) as fault:
            raise ConfigError(f"{where}.{url} is {self.base_url!r}: {fault}; correct the address") from None
        # The value is not quoted: it may be the key itself.
        if self.key_env is not None and not re.fullmatch(r"[A-Z_][A-Z0-9_]*", self.key_env):
            raise ConfigError(
                f"{where}.{key_env} must be the NAME of an environment variable, in capitals, not the key"
            )
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9-]*", self.key_header):
            raise ConfigError(f"{where}.key_header must be the name of a header, such as api-key")
        for name, least in (("retries", 0), ("concurrency", 1)):
            if getattr(self, name) < least:
                raise ConfigError(f"{where}.{name} must be at least {least}, got {getattr(self, name)}")
        for name in ("timeout", "deadline", "requests_per_minute", "tokens_per_minute"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                unit = "" if name.endswith("minute") else " seconds"
                null = "" if name == "timeout" else ", or null"
                raise ConfigError(f"{where}.{name} must be more than 0{unit}{null}, got {value}")

    def check_key(self, where: str, key_env: str = "key_env") -> None:
        """Raise ConfigError with a remedy if the environment lacks a usable key; for the arguments, see ``check``."""
        try:
            self.key()
        except ConfigError as fault:
            raise ConfigError(
                f"{where}: {fault}; export the key, or set {where}.{key_env} to another variable, or to null for no key"
            ) from None

    def key(self) -> str:
        """Return the key from the environment, or "" if ``key_env`` is None; raise ConfigError if it is unusable."""
        if self.key_env is None:
            return ""
        key = os.environ.get(self.key_env, "").strip()
        if not key:
            raise ConfigError(f"the environment variable {self.key_env}, for the service's key, is not set or is empty")
        if not key.isascii() or not key.isprintable():
            raise ConfigError(
                f"the environment variable {self.key_env}, for the service's key, contains characters that no key has,"
                " such as a line break or an accent"
            )
        return key

    def each(self, items: Sequence[Item], work: Callable[[Item], Any], done: Callable[[int, Result], None]) -> None:
        """Process items with the session's event loop; see :func:`ragsweep.services.session.each`.

        The number of items in progress is up to twice the number of calls allowed at a time, because an item that waits
        for a retry makes no call.
        """
        each(items, work, done, 2 * self.concurrency, self.session.run)

    async def post(self, request: HttpRequest, read: Callable[[Any], Read], retry_unread: bool = False) -> Timed[Read]:
        """Send a POST request, and return ``read(response)`` and the response time.

        ``read`` is called with the response as parsed JSON or an ``EventStream``. If the response is not usable,
        ``read`` must raise ValueError with the fault as its message; the call is then retried only if ``retry_unread``
        is true.

        Raises:
            CallFailed: The call was refused, its response could not be read, all attempts within ``retries`` and
            ``deadline`` failed, or the budget is spent.
            EndpointFailed: No call to this service can succeed.
            ConfigError: The environment's key is missing or invalid, or its proxy or certificates cannot be used.
        """
        return await Call(self, self.key(), request, read, retry_unread).run()


def note_answers(part: object) -> None:
    """Record, for the circuit breakers, that a part's services have answered an earlier process.

    The services of the parts among its attributes are included.
    """
    for holder in (part, *getattr(part, "__dict__", {}).values()):
        for value in getattr(holder, "__dict__", {}).values():
            if isinstance(value, Service):
                with suppress(ConfigError):  # without a key, no call is made
                    value.session.host(value.base_url, value.key()).breaker.answered_before = True
