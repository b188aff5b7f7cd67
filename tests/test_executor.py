"""Every distinct node is computed once, and of rows only those not yet known."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragsweep.executor import Executor
from ragsweep.identity import Node, Rows, Spec, Work
from ragsweep.types import Rankings

WORDS = st.lists(st.text("abc", min_size=1, max_size=3), max_size=8)


class Lengths:
    """A rows node that remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    def __call__(self, work: Work, rows: Rows) -> Rankings:
        self.asked.append(list(rows))
        column = np.array([[len(row)] for row in rows], dtype=np.int32).reshape(len(rows), 1)
        return Rankings(column, column.astype(np.float32), "chunks")

    def node(self) -> Node:
        return Node("retrieve", Spec("lengths", "1"), (), self, "rows")


def test_whole_node_is_computed_once() -> None:
    calls: list[int] = []
    node = Node("chunk", Spec("x", "1"), (), lambda work, rows: calls.append(1))
    twin = Node("chunk", Spec("x", "1"), (), lambda work, rows: calls.append(2))
    executor = Executor()
    executor.get(node)
    executor.get(twin)
    assert calls == [1]
    assert (executor.work["chunk"].executed, executor.work["chunk"].recalled) == (1, 1)


@given(st.lists(WORDS, min_size=1, max_size=5))
def test_rows_come_in_the_order_asked_and_are_computed_once(requests: list[list[str]]) -> None:
    lengths, executor = Lengths(), Executor()
    for rows in requests:
        found = executor.get(lengths.node(), rows)
        assert found.positions[:, 0].tolist() == [len(row) for row in rows]
        assert found.chunks == "chunks"
    computed = [row for rows in lengths.asked for row in rows]
    assert len(computed) == len(set(computed))


def test_rows_of_an_input_are_computed_only_where_missing() -> None:
    lengths, executor = Lengths(), Executor()
    source = lengths.node()
    doubled = Node("fuse", Spec("y", "1"), (source,), lambda work, rows: work.get(source, rows).positions * 2, "rows")
    executor.get(doubled, ["a"])
    assert executor.get(doubled, ["a", "bb"])[:, 0].tolist() == [2, 4]
    assert lengths.asked == [["a"], ["bb"]]


def test_reading_what_is_no_input_is_our_own_fault() -> None:
    stranger = Lengths().node()
    node = Node("fuse", Spec("z", "1"), (), lambda work, rows: work.get(stranger, rows), "rows")
    with pytest.raises(AssertionError, match="not its input"):
        Executor().get(node, ["a"])


def test_failed_computation_leaves_nothing_behind() -> None:
    outcomes: list[Exception | int] = [RuntimeError("first"), 7]

    def compute(work: Work, rows: Rows) -> int:
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    node, executor = Node("chunk", Spec("x", "1"), (), compute), Executor()
    with pytest.raises(RuntimeError, match="first"):
        executor.get(node)
    assert executor.get(node) == 7


class Heard:
    """A listener that writes down what it hears."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str]] = []

    def started(self, node: Node, rows: int) -> None:
        self.events.append(("started", node.stage))

    def progressed(self, node: Node, done: int, total: int) -> None:
        self.events.append((f"{done}/{total}", node.stage))

    def finished(self, node: Node, seconds: float) -> None:
        self.events.append(("finished", node.stage))

    def waiting(self, node: Node) -> None:
        self.events.append(("waiting", node.stage))

    def warned(self, text: str) -> None:
        self.events.append(("warned", text))


def test_listener_hears_start_progress_and_end() -> None:
    heard = Heard()

    def compute(work: Work, rows: Sequence[str]) -> int:
        work.progress(1, 2)
        return 0

    Executor(listener=heard).get(Node("embed", Spec("x", "1"), (), compute))
    assert heard.events == [("started", "embed"), ("1/2", "embed"), ("finished", "embed")]


def test_seconds_of_a_stage_leave_out_its_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr("ragsweep.executor.time.perf_counter", lambda: clock[0])

    def take(seconds: float) -> int:
        clock[0] += seconds
        return 0

    slow = Node("embed", Spec("x", "1"), (), lambda work, rows: take(10.0))
    quick = Node("index", Spec("y", "1"), (slow,), lambda work, rows: work.get(slow) + take(1.0))
    executor = Executor()
    executor.get(quick)
    assert {stage: work.seconds for stage, work in executor.work.items()} == {"embed": 10.0, "index": 1.0}
