"""A difference in latency is stated only beyond the drift of the machine, and a busy machine is named."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragsweep.core.results import Result
from ragsweep.report.sweep_document import remedies
from ragsweep.stats.latencies import BUSY, busy_sentence, latency_apart, slowness
from support.results import changed, scored

P95 = "latency_p95_ms"
MS = st.floats(0.01, 1e4)
TIMES = st.tuples(MS, MS, MS).map(sorted)


def timed(low: float, value: float, high: float, slow: float = 1, stage: str = "retrieve", quiet: float = 1) -> Result:
    """Make a result with a p95 and its interval, measured while the fixed work took ``slow`` times as long."""
    one = scored({P95: [value, value]}, name="a")
    facts = {"n": 60.0, "mean_ms": value, "p50_ms": value, "p95_ms": value}
    state = {"work_mean_ms": slow * quiet, "work_p95_ms": slow * quiet, "work_quiet_ms": quiet, "load": 1.0}
    interval = {"value": value, "low": low, "high": high}
    return changed(one, measured={P95: interval}, latency={stage: {**facts, **state}}, warnings=())


def test_distant_intervals_of_a_quiet_machine_are_apart() -> None:
    assert latency_apart(timed(9, 10, 11), timed(90, 100, 110), P95)
    assert latency_apart(timed(90, 100, 110), timed(9, 10, 11), P95)


@pytest.mark.parametrize(
    "slower",
    [
        timed(11.5, 12, 13),  # disjoint, within the drift
        timed(90, 100, 110, slow=8),  # eight times slower, on a machine that was eight times slower
        changed(timed(90, 100, 110), latency={"retrieve": {"mean_ms": 1.0, "p95_ms": 1.0}}),  # no fixed work
        timed(math.nan, 100, math.nan),  # too few probes
    ],
)
def test_what_the_machine_explains_is_not_stated(slower: Result) -> None:
    assert not latency_apart(timed(9, 10, 11), slower, P95)


def test_delay_that_the_fixed_work_met_is_not_stated_of_short_stages() -> None:
    """A time slice of another process is 4 ms, for work of .2 ms as for work of 2."""
    assert not latency_apart(timed(0.2, 0.2, 0.3), timed(4.1, 4.2, 4.3, slow=3, quiet=2.0), P95)


def test_less_than_a_millisecond_is_not_stated() -> None:
    assert not latency_apart(timed(0.01, 0.01, 0.01), timed(0.9, 0.9, 0.9), P95)


def test_latency_of_calls_needs_no_fixed_work() -> None:
    fast, slow = (timed(0.9 * ms, ms, 1.1 * ms, slow=9, stage="generate") for ms in (100, 900))
    assert latency_apart(fast, slow, P95)


@given(TIMES, TIMES, st.floats(1, 20), st.floats(1, 20))
def test_a_busier_machine_shows_less(one: list[float], other: list[float], slow: float, more: float) -> None:
    first, second = timed(*one, slow=slow), timed(*other, slow=slow)
    assert latency_apart(first, second, P95) == latency_apart(second, first, P95)
    assert not latency_apart(first, first, P95)
    busier = [timed(*times, slow=slow * more) for times in (one, other)]
    assert latency_apart(*busier, P95) <= latency_apart(first, second, P95)
    if latency_apart(first, second, P95):
        assert max(one[0], other[0]) > min(one[2], other[2])  # the intervals are disjoint


def test_busy_machine_is_named_once_on_the_screen() -> None:
    results = [timed(1, 2, 3), changed(timed(1, 2, 3, slow=3.9), name="b")]
    (line,) = remedies(results).items
    assert line.text == (
        "latency_p95_ms of b was measured while the machine was busy: 3.9 x slower than on an idle machine; rerun=true"
        " measures it again."
    )
    assert busy_sentence(results[:1], P95) == ""
    assert busy_sentence(results[1:], P95).startswith("latency_p95_ms was measured while the machine was busy: 3.9 x")
    several = [changed(results[1], name=f"#{n} top_k={n}") for n in (1, 2, 3, 4)]
    assert busy_sentence(several[:2], P95).startswith("latency_p95_ms of #1, #2 was measured")
    assert busy_sentence([results[0], *several], P95).startswith("latency_p95_ms of 4 of 5 configs was measured")
    assert slowness(results[0]) < BUSY
    assert not remedies([changed(one, config={"objective": "mrr"}) for one in results]).items  # latency is not shown
    assert math.isnan(slowness(changed(results[0], latency={})))
