"""How far a running stage is, is shown in a log as well, and what is left is never blank."""

from __future__ import annotations

import io
import re
import time
from collections.abc import Callable

import pytest

from ragsweep.core.identity import Node, Rows, Spec, StageContext
from ragsweep.report import progress
from ragsweep.report.terminal import Terminal
from ragsweep.services.errors import CallFailed
from ragsweep.services.usage import UsageMeter
from ragsweep.stages.executor import Executor

Compute = Callable[[StageContext, Rows], int]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in {"WORTH_A_LINE": 0.0, "SHOWN_FROM": 0.05, "INTERVAL": 0.05, "TICK": 0.01}.items():
        monkeypatch.setattr(progress, name, seconds)


def lines(*computes: Compute, kind: str = "whole") -> list[str]:
    """Compute stages, each of which reads the one before it; return what a log shows."""
    stream, node = io.StringIO(), None
    for number, compute in enumerate(computes):
        inputs = () if node is None else (node,)
        node = Node(("embed", "retrieve")[number], Spec(f"x{number}", "1"), inputs, compute, kind)
    assert node
    executor = Executor()
    with Terminal(stream, bars=False).listening(executor, UsageMeter()):
        executor.get(node)
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
    assert all(re.fullmatch(r"embed     300 of 1,200 chunks, 25% · .+ left · \S+/s", line) for line in during), during
    assert re.fullmatch(r"embed     1,200 chunks · \d\.\d s · \S+/s", last)


def test_stage_that_has_done_nothing_yet_shows_how_long_it_runs() -> None:
    def compute(work: StageContext, rows: Rows) -> int:
        wait_until_shown()
        return 0

    *during, last = lines(compute)
    assert during
    assert all(re.fullmatch(r"embed     .+ so far", line) for line in during)
    assert re.fullmatch(r"embed     \d\.\d s", last)


def test_only_the_innermost_stage_is_shown_and_its_time_is_none_of_the_outer_ones() -> None:
    def inner(work: StageContext, rows: Rows) -> int:
        wait_until_shown()
        return 0

    def outer(work: StageContext, rows: Rows) -> int:
        (source,) = sources
        work.get(source)
        work.progress(1, 2)
        return 0

    sources: list[Node] = []
    stream, executor = io.StringIO(), Executor()
    sources.append(Node("embed", Spec("x", "1"), (), inner))
    with Terminal(stream, bars=False).listening(executor, UsageMeter()):
        executor.get(Node("retrieve", Spec("y", "1"), tuple(sources), outer))
    shown = stream.getvalue().splitlines()
    assert [line.split()[0] for line in shown[:-1]] == ["embed"] * (len(shown) - 1)
    assert re.match(r"retrieve  2 chunks · 0\.[01] s", shown[-1]), shown[-1]


def test_stage_that_failed_is_shown_no_longer() -> None:
    def broken(work: StageContext, rows: Rows) -> int:
        raise CallFailed("http://host failed", "refused")

    def whole(work: StageContext, rows: Rows) -> int:
        wait_until_shown()
        return 0

    stream, executor = io.StringIO(), Executor()
    with Terminal(stream, bars=False).listening(executor, UsageMeter()):
        with pytest.raises(CallFailed):
            executor.get(Node("retrieve", Spec("x", "1"), (), broken))
        executor.get(Node("embed", Spec("y", "1"), (), whole))
    assert {line.split()[0] for line in stream.getvalue().splitlines()} == {"embed"}


def test_nothing_is_shown_after_the_block() -> None:
    stream, executor = io.StringIO(), Executor()
    with Terminal(stream, bars=False).listening(executor, UsageMeter()):
        pass
    executor.get(Node("embed", Spec("x", "1"), (), lambda work, rows: wait_until_shown()))
    assert not stream.getvalue()


@pytest.mark.parametrize(("speed", "shown"), [(0.042, "0.042/s"), (1.96, "2/s"), (9.94, "9.9/s"), (1234.5, "1,234/s")])
def test_speed_of_a_slow_model_is_not_0(speed: float, shown: str) -> None:
    assert progress._rate(speed) == shown
