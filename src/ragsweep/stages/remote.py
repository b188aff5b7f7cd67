"""The remote half of a store: an object store shared by several machines.

Results are immutable objects, named by address, so get, put-if-absent, list and delete suffice for them. The library
obstore makes all requests; it reads credentials from the environment. If the object store is unreachable or too slow,
the user is warned, and no request is made for a minute. Each successive failure doubles this pause, without another
warning.
"""

import asyncio
import mmap
import threading
import time
import weakref
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

from ragsweep.core.errors import ConfigError
from ragsweep.core.interruption import raise_overdue, waiting_for
from ragsweep.stages.remote_url import KEY, check_remote

PAUSE = 60.0
"""Length in seconds of the first pause after a failure of the object store."""

NOTICE, ANSWER = 10.0, 60.0
"""Seconds without an answer after which the user is warned, and after which a request counts as failed."""

SLOWEST = 10**6
"""Lowest tolerated upload rate in bytes per second; an upload's size divided by this rate is added to its timeout."""

AT_ONCE = 8
"""Maximum number of queued writes, or of reads by ``get_all``, that run at the same time."""

WAITING = 64
"""Maximum number of unfinished writes; once it is reached, the computation waits before it queues another."""

LARGE = 2**30
"""Minimum bytes of a file that is uploaded in parts; such an upload may replace an equal object."""

_CLIENT = {"allow_http": True, "connect_timeout": "5s", "timeout": "600s"}
_RETRIES: Any = {"max_retries": 3, "retry_timeout": timedelta(seconds=20)}

Found = TypeVar("Found")


class Remote:
    """An object store; if an object is absent or cannot be reached, methods return None or False.

    Args:
        objects: An obstore store.
        url: The store's name in warnings.
        warn: Called, in any thread, with the text of a warning.
        pause: Seconds without requests after a failure; doubled after each successive failure.
        answer: Timeout in seconds for a response, or for its next part; longer for an upload (see SLOWEST).
    """

    def __init__(
        self, objects: Any, url: str, warn: Callable[[str], None], pause: float = PAUSE, answer: float = ANSWER
    ) -> None:
        self.url = url.rstrip("/")
        self.warn = warn
        self._objects = objects
        self._pause = self._first_pause = pause
        self._answer = answer
        self._silent = 0.0  # monotonic time at which the pause ends
        self._works = True
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._threads = ThreadPoolExecutor(AT_ONCE, "ragsweep-remote")
        self._room = threading.BoundedSemaphore(WAITING)
        self._pending: set[Future[object]] = set()

    @property
    def reachable(self) -> bool:
        """Whether requests are made; False during the pause after a failure."""
        return time.monotonic() >= self._silent

    # --- reading -----------------------------------------------------------------------------------------------

    def get(self, name: str) -> bytes | None:
        """Return an object's bytes; None if the object is absent or cannot be reached."""

        async def read() -> bytes:
            return b"".join([chunk async for chunk in self._chunks(name)])

        return self._reach(read())

    def get_all(self, names: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        """Yield the name and content of each readable object, in the given order; several are read concurrently."""
        listed = list(names)
        for name, data in zip(listed, self._threads.map(self.get, listed), strict=True):
            if data is not None:
                yield name, data

    def download(self, name: str, path: Path) -> bool:
        """Write an object to a new file; return whether this succeeded. Raises OSError if the file is not writable."""

        async def copy() -> OSError | bool:
            async for chunk in self._chunks(name):
                try:
                    file.write(chunk)
                except OSError as fault:  # of the local disk, not of the object store
                    return fault
            return True

        with path.open("xb") as file:
            if isinstance(found := self._reach(copy()), OSError):
                raise found
        return bool(found)

    def has(self, name: str) -> bool:
        """Return whether an object exists, damaged or not; False if the object store is unreachable."""
        import obstore

        return self._reach(self._answered(lambda: obstore.head_async(self._objects, name))) is not None

    def names(self, prefix: str) -> list[str] | None:
        """Return the sorted names below a prefix ending with a slash; None if the object store is unreachable."""
        import obstore

        async def read() -> list[str]:
            batches = self._each(obstore.list(self._objects, prefix=prefix))
            return sorted([meta["path"] async for batch in batches for meta in batch])

        return self._reach(read())

    # --- writing -----------------------------------------------------------------------------------------------

    def put(self, name: str, data: Any) -> bool | None:
        """Write an object; return False if it already exists, True if it was written, None if the write failed."""
        import obstore

        async def write() -> bool:
            try:
                await self._answered(
                    lambda: obstore.put_async(self._objects, name, data, mode="create", use_multipart=False), len(data)
                )
            except obstore.exceptions.AlreadyExistsError:
                return False
            return True

        return self._reach(write(), writing=True)

    def overwrite(self, name: str, data: bytes) -> bool:
        """Write or replace an object that no other process writes; return whether this succeeded."""
        import obstore

        put = self._answered(lambda: obstore.put_async(self._objects, name, data, use_multipart=False), len(data))
        return self._reach(put, writing=True) is not None

    def put_later(self, name: str, data: bytes) -> None:
        """Queue an object for writing by another thread unless it exists; do nothing during a pause."""
        self._later(lambda: self.put(name, data))

    def upload_later(self, name: str, path: Path, then: Callable[[], object] = lambda: None) -> None:
        """Queue a file for upload by another thread unless the object exists; ``flush`` waits for the upload.

        Once the object exists, ``then`` is called in that thread. It is not called if the upload fails. While the
        object store is unreachable, nothing is queued.
        """
        self._later(lambda: then() if self._upload(name, path) is not None else None)

    def remove(self, name: str) -> None:
        """Delete an object, if it exists; do nothing if the object store is unreachable."""
        import obstore

        self._reach(self._answered(lambda: obstore.delete_async(self._objects, name)))

    def remove_below(self, prefix: str) -> None:
        """Delete all objects whose names begin with ``prefix``, which must end with a slash."""
        for name in self.names(prefix) or ():
            self.remove(name)

    def flush(self) -> None:
        """Wait until all queued writes have succeeded or failed."""
        for future in list(self._pending):
            future.result()

    # --- internals ---------------------------------------------------------------------------------------------

    def _upload(self, name: str, path: Path) -> bool | None:
        import obstore

        try:
            if (size := path.stat().st_size) < LARGE:
                with path.open("rb") as file:
                    return self.put(name, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
            if self.has(name):
                return False
            put = self._answered(lambda: obstore.put_async(self._objects, name, path), size)
            return self._reach(put, writing=True) is not None or None
        except (OSError, ValueError):  # the file was evicted in the meantime
            return None

    def _later(self, action: Callable[[], object]) -> None:
        if not self.reachable:
            return
        self._room.acquire()
        future = self._threads.submit(action)
        self._pending.add(future)
        future.add_done_callback(self._pending.discard)
        future.add_done_callback(lambda _: self._room.release())

    async def _answered(self, request: Callable[[], Awaitable[Found]], size: int = 0) -> Found:
        """Return the answer to a request that sends ``size`` bytes; raises TimeoutError if it takes too long."""
        return await asyncio.wait_for(request(), self._answer + size / SLOWEST)

    async def _each(self, items: AsyncIterable[Found]) -> AsyncIterator[Found]:
        """Yield the pieces of an answer; raises TimeoutError if a piece takes too long."""
        iterator = aiter(items)
        with suppress(StopAsyncIteration):
            while True:
                yield await self._answered(lambda: anext(iterator))

    async def _chunks(self, name: str) -> AsyncIterator[Any]:
        import obstore

        found = await self._answered(lambda: obstore.get_async(self._objects, name))
        async for chunk in self._each(found.stream()):
            yield chunk

    def _reach(self, request: Coroutine[Any, Any, Found], writing: bool = False) -> Found | None:
        """Return the result of a request; None if the object is absent, if the request fails, or during a pause.

        The request runs in another thread, because the library would block signals in this thread.
        """
        import obstore

        if not self.reachable:
            request.close()
            return None
        future = asyncio.run_coroutine_threadsafe(request, self._running_loop())
        try:
            with waiting_for(self.url, NOTICE, self.warn):
                found = future.result()
        except FileNotFoundError as fault:  # on a write, the bucket itself is missing
            if writing:
                self._fail(fault)
            return None
        except (obstore.exceptions.BaseError, OSError, NotImplementedError) as fault:
            raise_overdue(fault)
            self._fail(fault)
            return None
        finally:
            future.cancel()
        self._works, self._pause = True, self._first_pause
        return found

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=_serve, args=(self._loop,), name="ragsweep-requests", daemon=True).start()
                weakref.finalize(self, self._loop.call_soon_threadsafe, self._loop.stop).atexit = False
            return self._loop

    def _fail(self, fault: Exception) -> None:
        with self._lock:
            if self.reachable:  # parallel requests fail together: count them once
                self._silent, self._pause = time.monotonic() + self._pause, 2 * self._pause
            first, self._works = self._works, False
        if first:
            why = (str(fault).partition("\n")[0] or f"no answer within {self._answer:g} s") + f"; check {KEY}"
            self.warn(f"cannot use {self.url}: {why}; continuing without sharing: other machines may repeat the work")


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    """Run a loop until it is stopped, then close its sockets."""
    loop.run_forever()
    loop.close()


def open_remote(url: object, warn: Callable[[str], None]) -> Remote | None:
    """Open the object store at ``url``, the value of store.remote; return None if ``url`` is None.

    No request is made, but the folder of a file:// URL is created. Raises ConfigError if the value is not the URL of a
    supported object store, if obstore rejects the URL, or if obstore is not installed.
    """
    if url is None:
        return None
    scheme = check_remote(url)
    from obstore.store import from_url

    more: dict[str, Any] = {"client_options": _CLIENT, "retry_config": _RETRIES}
    if scheme == "file":
        more = {"mkdir": True}
        with suppress(OSError):  # the first request reports the failure
            Path(unquote(urlsplit(str(url)).path)).mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        objects = from_url(str(url), **more)
    except Exception as fault:  # an exception of obstore, or ValueError
        why = str(fault).partition("\n")[0]
        way = "correct the URL, or set the account and the credentials in the environment"
        raise ConfigError(f"{KEY}: {url}: {why}; {way}") from None
    return Remote(objects, str(url), warn)
