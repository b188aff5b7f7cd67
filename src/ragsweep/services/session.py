"""The state that all calls of a command share: an event loop with connections, limits per service, a usage meter."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self, TypeVar

from ragsweep.core.errors import ConfigError
from ragsweep.services.limits import CircuitBreaker, RateLimiter
from ragsweep.services.usage import UsageMeter

if TYPE_CHECKING:
    from ssl import SSLContext

    import httpx

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass
class HostState:
    """The state that all calls to one base URL with the same key share."""

    breaker: CircuitBreaker = field(default_factory=CircuitBreaker)
    requests: RateLimiter = field(default_factory=RateLimiter)
    tokens: RateLimiter = field(default_factory=RateLimiter)

    @asynccontextmanager
    async def admit(self) -> AsyncIterator[None]:
        """Wait until the circuit breaker admits the call made in the ``with`` block.

        Raises EndpointFailed if the service is down.
        """
        while wait := self.breaker.delay(time.monotonic()):
            await asyncio.sleep(wait)
        self.breaker.in_flight += 1
        self.breaker.start(time.monotonic())
        try:
            yield
        finally:
            self.breaker.in_flight -= 1


@dataclass
class Connections:
    """The HTTP client of an event loop, and the loop's semaphores by id of a HostState and limit."""

    client: httpx.AsyncClient
    slots: dict[tuple[object, int], asyncio.Semaphore] = field(default_factory=dict)


class ServiceSession:
    """A session with shared limits and a shared usage meter; all parts of a command use one session for their calls.

    Connections are kept for one batch of calls or, in a ``with`` block, until the block ends. Outside a command, each
    part has its own session, without a budget.
    """

    def __init__(self) -> None:
        self.meter = UsageMeter()
        self._hosts: dict[tuple[str, str], HostState] = {}
        self._connections: dict[asyncio.AbstractEventLoop, Connections] = {}
        self._lifetimes: dict[asyncio.AbstractEventLoop, AsyncGenerator[Connections]] = {}
        self._runner: asyncio.Runner | None = None
        self._thread = threading.current_thread()

    def __enter__(self) -> Self:
        self._runner, self._thread = asyncio.Runner(), threading.current_thread()
        return self

    def __exit__(self, *_: object) -> None:
        runner, self._runner = self._runner, None
        if runner is not None:
            runner.close()

    def connect(self, part: object) -> None:
        """Call ``connect`` of every attribute of a part that has this method, such as a `Service`."""
        for value in vars(part).values() if hasattr(part, "__dict__") else ():
            if hasattr(value, "connect"):
                value.connect(self)

    def host(self, base_url: str, key: str) -> HostState:
        """Return the state that all calls to a base URL with this key share; only a hash of the key is stored."""
        name = (base_url.rstrip("/"), hashlib.blake2b(key.encode(), digest_size=16).hexdigest())
        return self._hosts.setdefault(name, HostState())

    async def connections(self) -> Connections:
        """Return the connections of the running event loop; they are closed together with the loop."""
        loop = asyncio.get_running_loop()
        if loop not in self._connections:
            # The loop closes its asynchronous generators (loop.shutdown_asyncgens); this generator closes the client.
            self._lifetimes[loop] = self._open(loop)
            await anext(self._lifetimes[loop])
        return self._connections[loop]

    async def slot(self, host: HostState, limit: int) -> asyncio.Semaphore:
        """Return the semaphore of the running event loop that allows ``limit`` simultaneous calls to a service."""
        slots = (await self.connections()).slots
        return slots.setdefault((id(host), limit), asyncio.Semaphore(limit))

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run a coroutine to its end, and return its result.

        If an event loop is running in this thread, as in a notebook, the coroutine runs in another thread.
        """
        if _is_in_loop():
            with ThreadPoolExecutor(1) as thread:
                return thread.submit(asyncio.run, work).result()
        if self._runner is None or threading.current_thread() is not self._thread:
            return asyncio.run(work)
        return self._runner.run(work)

    @cached_property
    def _tls(self) -> SSLContext:
        """The TLS context with the certificates; reading these takes longer than a short call and is done only once."""
        import httpx

        return httpx.create_ssl_context()

    async def _open(self, loop: asyncio.AbstractEventLoop) -> AsyncGenerator[Connections]:
        import httpx

        for name in ("httpx", "httpcore"):  # at DEBUG they log response headers, which may contain a key
            logging.getLogger(name).setLevel(logging.WARNING)
        # The timeouts of Service cover whole attempts, whereas the timeouts of httpx cover the time between two bytes.
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=64)
        try:
            client = httpx.AsyncClient(timeout=None, verify=self._tls, limits=limits, follow_redirects=False)
        except (ImportError, OSError, ValueError, httpx.InvalidURL) as fault:
            raise ConfigError(
                f"the proxy or the certificates that the environment names cannot be used: {fault}; correct or unset"
                " ALL_PROXY, HTTPS_PROXY, HTTP_PROXY or SSL_CERT_FILE"
            ) from None
        async with client:
            try:
                self._connections[loop] = Connections(client)
                yield self._connections[loop]
            finally:
                del self._connections[loop], self._lifetimes[loop]


def each(
    items: Sequence[Item],
    work: Callable[[Item], Awaitable[Result]],
    done: Callable[[int, Result], None],
    at_once: int = 32,
    run: Callable[[Coroutine[Any, Any, None]], None] = asyncio.run,
) -> None:
    """Process items, at most ``at_once`` at a time, and call ``done(index, result)`` as soon as a result is available.

    Items are started in order; when one is finished, the next is started. ``work`` and ``done`` run in the thread of
    ``run``, normally the caller's. The first exception that ``work`` or ``done`` raises cancels all other items and
    is re-raised.
    """

    async def work_through(rest: Any) -> None:
        for number, item in rest:
            done(number, await work(item))

    async def work_all() -> None:
        rest = enumerate(items)
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(at_once, len(items))):
                    group.create_task(work_through(rest))
        except BaseExceptionGroup as several:
            raise _first(several) from None

    if items:
        run(work_all())


def each_in_threads(
    items: Sequence[Item], work: Callable[[Item], Result], done: Callable[[int, Result], None], threads: int
) -> None:
    """Process items as ``each`` does, but call ``work`` in threads; ``done`` is called in the thread of the caller.

    After an exception, items that have been started are still finished before the exception is re-raised.
    """
    with ThreadPoolExecutor(threads) as pool:
        futures = {pool.submit(work, item): number for number, item in enumerate(items)}
        try:
            for future in as_completed(futures):
                done(futures[future], future.result())
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _is_in_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _first(several: BaseExceptionGroup[BaseException]) -> BaseException:
    first = several.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first
