"""Let calls to one endpoint through: so many at a time, so many a minute, the first items' calls first."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from ragsweep.services.calls.health import TOUCHED, Health


@dataclass(order=True)
class _Place:
    turn: int  # the item that the call is for: what was begun first is finished first
    number: int
    most: int = field(compare=False)
    admitted: asyncio.Future[None] = field(compare=False)


class Line:
    """The calls that wait for one endpoint, and the number of those that are open."""

    def __init__(self) -> None:
        self.health = Health()
        self.requests = Pace()
        self.tokens = Pace()
        self.open = 0
        self._waiting: list[_Place] = []
        self._numbers = itertools.count()
        self._timer: asyncio.TimerHandle | None = None

    @asynccontextmanager
    async def place(self, most: int, turn: int) -> AsyncIterator[None]:
        """Wait until at most ``most`` calls are open with this one, and be one of them inside the block.

        Raises EndpointFailed where the endpoint is taken to be down.
        """
        await self._enter(most, turn)
        try:
            yield
        finally:
            self.open -= 1
            self._move()

    async def _enter(self, most: int, turn: int) -> None:
        place = _Place(turn, next(self._numbers), most, asyncio.get_running_loop().create_future())
        heapq.heappush(self._waiting, place)
        self._move()
        try:
            await place.admitted
        except asyncio.CancelledError:
            if place.admitted.done() and not place.admitted.cancelled() and not place.admitted.exception():
                self.open -= 1  # it had been let through just before
                self._move()
            raise

    def _move(self) -> None:
        """Let through whoever may go."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        while self._waiting:
            place = self._waiting[0]
            failure = self.health.down(now)
            if not place.admitted.done() and failure is None and not self._may_go(place, now):
                return
            heapq.heappop(self._waiting)
            if place.admitted.done():  # given up
                continue
            if failure is not None:
                place.admitted.set_exception(failure)
                continue
            self.open += 1
            self.health.went(now)
            place.admitted.set_result(None)

    def _may_go(self, place: _Place, now: float) -> bool:
        pause = self.health.wait(now)
        if pause:
            self._look_again(pause)
            return False
        if self.open < self.health.most(place.most, now):
            return True
        if not self.health.answered:
            self._look_again(TOUCHED)
        return False

    def _look_again(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, self._move)


class Pace:
    """Spread what is used evenly over time, with a second's worth at once."""

    AT_ONCE = 1.0

    def __init__(self) -> None:
        self._free: float | None = None

    async def take(self, amount: float, per_minute: float | None) -> None:
        """Wait until so much may be used."""
        if not per_minute:
            return
        now = asyncio.get_running_loop().time()
        free = max(self._free if self._free is not None else 0.0, now - self.AT_ONCE)
        self._free = free + amount * 60 / per_minute
        if free > now:
            await asyncio.sleep(free - now)

    def correct(self, amount: float, per_minute: float | None) -> None:
        """Count what was used beyond what was taken; negative where it was less."""
        if per_minute and self._free is not None:
            self._free += amount * 60 / per_minute
