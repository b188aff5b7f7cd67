"""Backoff, rates and the circuit breaker, at times that the tests choose."""

from contextlib import nullcontext

import pytest

from ragsweep.core.missing import CIRCUIT_OPEN, FILTERED, MALFORMED, REFUSED_BY_SERVICE, THINKING, TOO_LONG, TRUNCATED
from ragsweep.services.errors import CallFailed, EndpointFailed
from ragsweep.services.limits import (
    DOWN_AFTER,
    FIRST_ALONE,
    LONGEST_PAUSE,
    LONGEST_WAIT,
    PATIENCE,
    POLL,
    REST,
    SLOW_AFTER,
    CircuitBreaker,
    RateLimiter,
    backoff,
    parse_retry_after,
)


def test_backoff_grows_is_jittered_and_bounded() -> None:
    for attempt in range(40):
        longest = min(0.5 * 2**attempt, LONGEST_WAIT)
        drawn = [backoff(attempt) for _ in range(20)]
        assert all(0 <= seconds <= longest for seconds in drawn)
        assert len(set(drawn)) > 1
    assert all(7 <= backoff(0, 7.0) <= 7.5 for _ in range(20))
    assert backoff(0, LONGEST_WAIT) == LONGEST_WAIT


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("3", 3), ("0.5", 0.5), ("-4", 0), ("Wed, 21 Oct 2015 07:28:00 GMT", 0), ("61", 0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 0), (None, 0), ("", 0), ("soon", 0), ("nan", 0), ("inf", 0),
        ("99 Foo 2020", 0), ("99999999999999 Jan 2026 00:00:00 GMT", 0),
    ],
)  # fmt: skip
def test_retry_after_is_seconds_or_a_date_up_to_the_longest_wait(value: str | None, seconds: float) -> None:
    assert parse_retry_after(value) == seconds


def test_rate_is_spread_evenly_with_one_second_at_once() -> None:
    limiter = RateLimiter()
    waits = [limiter.reserve(1, 1200, now=100.0) for _ in range(60)]  # 20 a second
    assert waits[:21] == [0] * 21
    assert waits[21:] == pytest.approx([n / 20 for n in range(1, 40)])
    assert limiter.reserve(1, None, now=100.0) == 0
    assert limiter.reserve(1, 1200, now=200.0) == 0


def fail(breaker: CircuitBreaker, now: float, retry_after: float = 0.0) -> float:
    """Make a call fail immediately; return the time when the next call may start."""
    breaker.start(now)
    breaker.fail("status 500", now, now, retry_after)
    return now + breaker.delay(now)


def test_first_call_goes_alone_until_it_is_answered_or_slow() -> None:
    breaker = CircuitBreaker()
    assert breaker.delay(0) == 0
    breaker.start(0)
    breaker.in_flight = 1
    assert breaker.delay(0.5) == POLL
    assert breaker.delay(FIRST_ALONE) == 0
    breaker.succeed()
    assert breaker.delay(0.5) == 0


def test_failures_slow_calls_down_and_a_success_ends_that() -> None:
    breaker, now = CircuitBreaker(), 0.0
    for _ in range(SLOW_AFTER - 1):
        now = fail(breaker, now) + 1
        assert breaker.delay(now) == 0
    pauses = []
    for _ in range(4):
        later = fail(breaker, now)
        pauses.append(later - now)
        now = later
    assert pauses == [0.5, 1, 2, 4]
    breaker.in_flight = 1
    assert breaker.delay(now) == POLL  # one call at a time
    breaker.succeed()
    assert breaker.delay(now) == 0


def test_parallel_failures_count_once() -> None:
    breaker = CircuitBreaker()
    for _ in range(100):
        breaker.fail("status 500", 0.0, 1.0, 0.0)
    breaker.in_flight = 1
    assert breaker.delay(2.0) > 0  # slow
    for now in (3.0, 4.0, 5.0):
        assert fail(breaker, now) <= now + LONGEST_PAUSE


def test_service_that_fails_for_long_is_down_rests_and_is_tested_by_one_call() -> None:
    breaker, now = CircuitBreaker(), 0.0
    while now < PATIENCE:
        now = fail(breaker, now)
    assert now <= PATIENCE + LONGEST_PAUSE
    breaker.fail("status 500", now, now, 0.0)
    said = (
        r"^status 500; the service is considered down after \d+ failures; check its address, lower concurrency if .*$"
    )
    with pytest.raises(EndpointFailed, match=said) as caught:
        breaker.delay(now + REST - 1)
    assert caught.value.reason == CIRCUIT_OPEN
    assert breaker.delay(now + REST + LONGEST_PAUSE) == 0
    breaker.succeed()
    assert fail(breaker, now + REST + LONGEST_PAUSE) == now + REST + LONGEST_PAUSE


@pytest.mark.parametrize(
    ("reason", "is_answer"),
    [(TRUNCATED, True), (THINKING, True), (FILTERED, True), (MALFORMED, False), (TOO_LONG, False)],
)
def test_only_refusals_count_towards_a_service_that_refuses_everything(reason: str, is_answer: bool) -> None:
    breaker = CircuitBreaker()
    for _ in range(DOWN_AFTER):
        breaker.refuse(CallFailed("no answer", reason))
    for _ in range(DOWN_AFTER - 1):
        breaker.refuse(CallFailed("status 400", REFUSED_BY_SERVICE))
    expected = nullcontext() if is_answer else pytest.raises(EndpointFailed, match=r"^status 400.*; 7 earlier calls")
    with expected:
        breaker.refuse(CallFailed("status 400", REFUSED_BY_SERVICE))


def test_requested_waits_pause_all_calls_and_are_no_failure_time() -> None:
    breaker, now = CircuitBreaker(), 0.0
    for _ in range(2 * DOWN_AFTER):
        later = fail(breaker, now, retry_after=10.0)
        assert later - now == 10
        now = later
    assert now > PATIENCE
