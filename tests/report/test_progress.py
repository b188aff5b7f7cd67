"""How far a running stage is, is shown in a log as well, and what is left is never blank."""

import io
import re
import time
from collections.abc import Callable

import pytest
from rich.progress import Progress

from ragsweep.core.identity import Node, Rows, Spec, StageContext
from ragsweep.report import progress
from ragsweep.report.terminal import Terminal
from ragsweep.services.errors import CallFailed, EndpointFailed
from ragsweep.services.usage import UsageMeter
from ragsweep.stages.executor import Executor

Compute = Callable[[StageContext, Rows], int]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in {"WORTH_A_LINE": 0.0, "SHOWN_FROM": 0.05, "INTERVAL": 0.05, "TICK": 0.01}.items():
        monkeypatch.setattr(progress, name, seconds)


def lines(compute: Compute) -> list[str]:
    """Compute a stage; return what a log shows."""
    stream, executor = io.StringIO(), Executor()
    with Terminal(stream, bars=False).listening(executor, UsageMeter()):
        executor.get(Node("embed", Spec("x", "1"), (), compute))
    return stream.getvalue().splitlines()


def wait_until_shown() -> None:
    time.sleep(0.3)


def test_running_stage_shows_its_share_and_the_time_left_and_at_its_end_its_seconds() -> None:
    def compute(work: StageContext, rows: Rows) -> int:
        work.progress(300, 1200)
        wait_until_shown()
        work.progress(1200, 1200)
        return 0

    *during, last = lines(compute)
    assert during
    assert all(re.fullmatch(r"embed     300 of 1,200 chunks, 25 % · .+ left · \S+/s", line) for line in during), during
    assert re.fullmatch(r"embed     1,200 chunks · \d\.\d s · \S+/s", last)


def test_stage_that_has_done_nothing_yet_shows_how_long_it_runs() -> None:
    def compute(work: StageContext, rows: Rows) -> int:
        wait_until_shown()
        return 0

    *during, last = lines(compute)
    assert during
    assert all(re.fullmatch(r"embed     .+ so far", line) for line in during)
    assert re.fullmatch(r"embed     \d\.\d s", last)


class Clock:
    """A clock that is set by hand."""

    now = 0.0

    def perf_counter(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    monkeypatch.setattr(progress, "time", made := Clock())
    return made


def node(stage: str) -> Node:
    return Node(stage, Spec(stage, "1"), (), lambda work, rows: None)


def test_time_in_inner_stages_is_none_of_the_outer_ones(clock: Clock) -> None:
    stream = io.StringIO()
    shown = progress.StageProgress(Terminal(stream, bars=False), Progress(disable=True), UsageMeter())
    shown.started(node("outer"), 0)
    for inner in ("first", "second"):
        shown.started(node(inner), 0)
        clock.now += 100
        shown.show()
        shown.finished(node(inner), 100)
    shown.progressed(node("outer"), 1, 4)
    clock.now += 10
    shown.show()
    assert [line.split(" · ")[0].split()[0] for line in stream.getvalue().splitlines()] == [
        "first", "first", "second", "second", "outer",
    ]  # fmt: skip
    assert stream.getvalue().splitlines()[-1] == "outer     1 of 4 chunks, 25 % · about 30 s left · 0.1/s"


def test_stage_that_failed_is_shown_no_longer(clock: Clock) -> None:
    stream = io.StringIO()
    shown = progress.StageProgress(Terminal(stream, bars=False), Progress(disable=True), UsageMeter())
    executor = Executor(listener=shown)

    def broken(work: StageContext, rows: Rows) -> int:
        raise CallFailed("http://host failed", "refused")

    with pytest.raises(EndpointFailed):
        executor.get(Node("retrieve", Spec("x", "1"), (), broken))
    clock.now += 100
    shown.show()
    assert not stream.getvalue()


def test_nothing_is_shown_after_the_block() -> None:
    stream, executor = io.StringIO(), Executor()
    with Terminal(stream, bars=False).listening(executor, UsageMeter()):
        pass
    executor.get(Node("embed", Spec("x", "1"), (), lambda work, rows: wait_until_shown()))
    assert not stream.getvalue()


@pytest.mark.parametrize(("speed", "shown"), [(0.042, "0.042/s"), (1.96, "2/s"), (9.94, "9.9/s"), (1234.5, "1,234/s")])
def test_speed_of_a_slow_model_is_not_0(speed: float, shown: str) -> None:
    assert progress._rate(speed) == shown
