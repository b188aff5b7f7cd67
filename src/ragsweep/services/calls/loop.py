"""Run coroutines in one event loop of the process, from any thread, and give them up when the caller is interrupted."""

from __future__ import annotations

import asyncio
import atexit
import hashlib
import logging
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

from ragsweep.services.calls.line import Line
from ragsweep.services.calls.spending import Turn

Item = TypeVar("Item")
Result = TypeVar("Result")

ENDING = 0.3
"""Seconds that calls get to end when they are given up: an interruption is not kept waiting."""


_turn: ContextVar[Turn] = ContextVar("turn")


_hand_back: ContextVar[Callable[[Callable[[], None]], None]] = ContextVar("hand_back")


def in_caller(act: Callable[[], None]) -> None:
    """Let the thread that called each() do something, before it hears of any later result; outside of it, do it now."""
    hand_back = _hand_back.get(None)
    if hand_back is None:
        act()
    else:
        hand_back(act)


def current_turn() -> Turn:
    """Return the item that is worked on; outside of each(), every call stands for itself."""
    return _turn.get(Turn())


class Desk:
    """What all parts that call one service with one key share: its line and its connections."""

    def __init__(self) -> None:
        import httpx

        for name in ("httpx", "httpcore"):  # at DEBUG they write headers of answers, which may repeat a key
            logging.getLogger(name).setLevel(logging.WARNING)
        self.line = Line()
        # How long a call may take is ours to say, from its first byte to its last: httpx counts between two bytes.
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=64)
        self.client = httpx.AsyncClient(timeout=None, limits=limits, follow_redirects=False)


class Background:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self._turn_over, name="ragsweep-calls", daemon=True)
        self.desks: dict[tuple[str, str], Desk] = {}
        self.thread.start()

    def desk(self, base_url: str, key: str) -> Desk:
        """Return what is shared by the calls to a service with a key; the key itself is not kept."""
        name = (base_url.rstrip("/"), hashlib.blake2b(key.encode(), digest_size=16).hexdigest())
        if name not in self.desks:
            self.desks[name] = Desk()
        return self.desks[name]

    def end(self) -> None:
        """Give up what is running, close all connections, and end the thread."""
        if self.process == os.getpid() and self.loop.is_running():
            wait([asyncio.run_coroutine_threadsafe(self._close(), self.loop)], timeout=1)
            self.loop.call_soon_threadsafe(self.loop.stop)
            self.thread.join(timeout=1)

    async def _close(self) -> None:
        running = asyncio.all_tasks() - {asyncio.current_task()}
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        for desk in self.desks.values():
            await desk.client.aclose()

    def _turn_over(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()
        self.loop.close()


_background: Background | None = None
_making = threading.Lock()


def background() -> Background:
    """Return this process's loop; a forked process has no thread of its parent's, and gets its own."""
    global _background
    with _making:
        if _background is None or _background.process != os.getpid():
            _background = Background()
            atexit.register(_background.end)
        return _background


def run(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine in the process's loop and return its result; it is cancelled if the caller is interrupted."""
    running = _start(coroutine)
    with _given_up(running):
        return running.future.result()


def each(items: Sequence[Item], work: Callable[[Item], Awaitable[Result]], done: Callable[[int, Result], None]) -> None:
    """Work on all items at once; hand over ``done(number of the item, result)`` in this thread as results arrive.

    How many calls are open at a time is their endpoint's affair; those of the first items go first, so that what was
    begun is finished and can be kept. The first exception, of ``work`` or of ``done``, gives up everything else.
    """
    arrived: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
    running = _start(_work_all(items, work, done, arrived.put))
    running.future.add_done_callback(lambda _: arrived.put(None))
    with _given_up(running):
        for act in iter(arrived.get, None):
            act()
        running.future.result()


async def _work_all(
    items: Sequence[Item],
    work: Callable[[Item], Awaitable[Result]],
    done: Callable[[int, Result], None],
    hand_back: Callable[[Callable[[], None]], None],
) -> None:
    async def one(number: int, item: Item) -> None:
        _turn.set(Turn(number))
        _hand_back.set(hand_back)
        hand_back(partial(done, number, await work(item)))

    try:
        async with asyncio.TaskGroup() as group:
            for number, item in enumerate(items):
                group.create_task(one(number, item))
    except BaseExceptionGroup as several:
        raise _first(several) from None


def _first(several: BaseExceptionGroup[BaseException]) -> BaseException:
    first = several.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first


@dataclass(frozen=True)
class _Running(Generic[Result]):
    """A coroutine that was started in the loop: its future, and whether it has really ended, cancelled or not."""

    future: Future[Result]
    ended: threading.Event


def _start(coroutine: Coroutine[Any, Any, Result]) -> _Running[Result]:
    made, ended = background(), threading.Event()
    if threading.current_thread() is made.thread:
        coroutine.close()
        raise RuntimeError("calls would wait for each other: inside a coroutine, await it")

    async def ending() -> Result:
        try:
            return await coroutine
        finally:
            ended.set()

    return _Running(asyncio.run_coroutine_threadsafe(ending(), made.loop), ended)


@contextmanager
def _given_up(running: _Running[Result]) -> Iterator[None]:
    """Cancel what is running if the block ends before it does, and let it end."""
    try:
        yield
    except BaseException:
        if running.future.cancel():
            running.ended.wait(ENDING)
        raise
