"""Limits on the calls to one service: backoff between attempts, a rate limiter, and a circuit breaker.

Nothing in this module sleeps or reads the monotonic clock: callers pass the clock's time in seconds. Only
`parse_retry_after` reads the wall clock, to compare the time with a date.
"""

import math
import random
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from ragsweep.core.missing import CIRCUIT_OPEN, FILTERED, REFUSED_BY_SERVICE, THINKING, TRUNCATED
from ragsweep.services.errors import CallFailed, EndpointFailed

SHORTEST_WAIT = 0.5
"""Upper bound, in seconds, of the wait before the first retry, and of the jitter that is added to a requested wait."""

LONGEST_WAIT = 60.0
"""Longest wait before a retry, in seconds. A Retry-After header that requests a longer wait is ignored."""

FIRST_ALONE = 1.0
"""Maximum seconds for which the first call to a service runs alone, so that a wrong key costs a single request."""

SLOW_AFTER = 4
"""Number of consecutive failures after which calls are made one at a time, with growing pauses between them."""

DOWN_AFTER = 8
"""Number of consecutive failures, over at least PATIENCE seconds, after which a service is considered down."""

PATIENCE = 20.0
"""Seconds without a success, excluding requested waits, after which a failing service is considered down."""

PAUSE = 0.5
LONGEST_PAUSE = 8.0

REST = 30.0
"""Seconds for which calls to a service that is down are refused; then, a single call is made to probe it."""

POLL = 0.01
"""Interval in seconds at which to check whether the only call allowed in flight is finished."""

BURST = 1.0
"""Seconds for which unused capacity is saved: calls or tokens saved over this time may be used in one burst."""


def parse_retry_after(value: str | None) -> float:
    """Return the wait in seconds that a Retry-After header requests.

    Return 0 if the header is absent or malformed, if its date is past, or if the wait is longer than LONGEST_WAIT.
    """
    if value is None:
        return 0.0
    try:
        seconds = float(value)
    except ValueError:
        try:
            date = parsedate_to_datetime(value)
        except (ValueError, OverflowError):
            return 0.0
        seconds = (date.replace(tzinfo=date.tzinfo or UTC) - datetime.now(UTC)).total_seconds()
    return max(seconds, 0.0) if math.isfinite(seconds) and seconds <= LONGEST_WAIT else 0.0


def backoff(attempt: int, retry_after: float = 0.0) -> float:
    """Return the seconds to wait, at most LONGEST_WAIT, after the failed attempt number ``attempt``, counted from 0.

    If the service requested the wait ``retry_after``, the result is this wait plus jitter, so that not all calls are
    repeated at the same time. Otherwise, it is a random fraction of a time that doubles with every attempt ("full
    jitter", https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter).
    """
    if retry_after:
        return min(retry_after + random.uniform(0, SHORTEST_WAIT), LONGEST_WAIT)
    return min(SHORTEST_WAIT * 2.0 ** min(attempt, 16), LONGEST_WAIT) * random.uniform(0, 1)


class RateLimiter:
    """A limiter that spreads calls or tokens evenly over time but allows small bursts (see BURST)."""

    def __init__(self) -> None:
        self._free = -math.inf

    def reserve(self, amount: float, per_minute: float | None, now: float) -> float:
        """Reserve an amount of calls or tokens, and return the seconds until it may be used; 0 without a limit."""
        if not per_minute:
            return 0.0
        free = max(self._free, now - BURST)
        self._free = free + amount * 60 / per_minute
        return max(free - now, 0.0)


class CircuitBreaker:
    """A breaker that delays or refuses the calls to one service, depending on the outcomes of earlier calls."""

    def __init__(self) -> None:
        self.in_flight = 0
        self.answered_before = False  # whether the service answered an earlier process; then refuse() never raises
        self._answered = False
        self._first_call = math.inf
        self._failures = 0  # consecutive failures; from SLOW_AFTER on, without calls that began before the last failure
        self._last_failure = -math.inf
        self._failing_since: float | None = None
        self._paused_until = -math.inf
        self._open_until = -math.inf
        self._refusals = 0
        self._fact = ""

    def delay(self, now: float) -> float:
        """Return the seconds to wait before calling this method again; 0 if a call may start immediately.

        Raises EndpointFailed while the circuit is open, that is, while the service is considered down.
        """
        if now < self._open_until:
            way_out = "check its address, lower concurrency if the service limits the rate, and run again later"
            fact = f"{self._fact}; the service is considered down after {self._failures} failures"
            raise EndpointFailed(f"{fact}; {way_out}", CIRCUIT_OPEN)
        if now < self._paused_until:
            return self._paused_until - now
        first = not self._answered and now < self._first_call + FIRST_ALONE
        return POLL if self.in_flight and (first or self._failures >= SLOW_AFTER) else 0.0

    def start(self, now: float) -> None:
        """Record that a call starts."""
        self._first_call = min(self._first_call, now)

    def succeed(self) -> None:
        """Record a successful response."""
        self._answered, self._failures, self._failing_since = True, 0, None

    def note_reply(self) -> None:
        """Record a reply without an answer, as evidence that the service is not down."""
        self._failures, self._failing_since = 0, None

    def refuse(self, failure: CallFailed, unanswered: bool = False) -> None:
        """Record the permanent failure of a call; ``unanswered`` is true if the last reply had no answer.

        Raises EndpointFailed after DOWN_AFTER refused or unanswered calls (this call included) to a service that has
        never answered, in this or an earlier process. A truncated or withheld answer also counts as an answer.
        """
        self.note_reply()
        self._answered |= failure.reason in (TRUNCATED, THINKING, FILTERED)
        is_refused = unanswered or failure.reason == REFUSED_BY_SERVICE
        self._refusals += is_refused
        if is_refused and not (self._answered or self.answered_before) and self._refusals >= DOWN_AFTER:
            fact = f"{failure}; {self._refusals - 1} earlier calls also failed"
            raise EndpointFailed(f"{fact}; check the model and its parameters", failure.reason)

    def fail(self, fact: str, began: float, now: float, retry_after: float, repeated: bool = False) -> None:
        """Record a failed attempt: its error (``fact``), its start and end, and the wait that the service requested.

        If the service has answered, ``repeated`` attempts at a call are not counted, because a few calls that always
        fail do not mean that the service is down.
        """
        self._fact = fact
        paused = max(self._paused_until, now)
        counts = not (repeated and (self._answered or self.answered_before))
        if self._failures < SLOW_AFTER or began >= self._last_failure:
            self._failures, self._last_failure = self._failures + counts, now
            if self._failures >= SLOW_AFTER:
                pause = min(PAUSE * 2.0 ** min(self._failures - SLOW_AFTER, 16), LONGEST_PAUSE)
                self._paused_until = max(paused, now + pause)
        self._failing_since = began if self._failing_since is None else self._failing_since
        if self._failures >= DOWN_AFTER and now - self._failing_since >= PATIENCE:
            self._open_until = now + REST
        if now + retry_after > max(self._paused_until, paused):
            self._failing_since += now + retry_after - paused
            self._paused_until = now + retry_after
