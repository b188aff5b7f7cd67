"""Every distinct node is computed once, and of rows only those not yet known."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragsweep.core.identity import Node, Rows, Spec, StageContext
from ragsweep.core.types import Rankings
from ragsweep.services.errors import CallFailed
from ragsweep.stages.executor import Executor, Listener
from ragsweep.stages.store import Store
from support.inputs.write_faults import Small
from support.servers import forked

pytestmark = pytest.mark.slow

WORDS = st.lists(st.text("abc", min_size=1, max_size=3), max_size=8)


class Lengths:
    """A rows node that remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    def __call__(self, work: StageContext, rows: Rows) -> Rankings:
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
    with pytest.raises(AssertionError, match="not an input"):
        Executor().get(node, ["a"])


def test_failed_computation_leaves_nothing_behind() -> None:
    outcomes: list[Exception | int] = [RuntimeError("first"), 7]

    def compute(work: StageContext, rows: Rows) -> int:
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    node, executor = Node("chunk", Spec("x", "1"), (), compute), Executor()
    with pytest.raises(RuntimeError, match="first"):
        executor.get(node)
    assert executor.get(node) == 7


class Heard(Listener):
    """A listener that writes down what it hears."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str]] = []

    def started(self, node: Node, rows: int) -> None:
        self.events.append(("started", node.stage))

    def progressed(self, node: Node, done: int, total: int) -> None:
        self.events.append((f"{done}/{total}", node.stage))

    def finished(self, node: Node, seconds: float) -> None:
        self.events.append(("finished", node.stage))


def test_listener_hears_start_progress_and_end() -> None:
    heard = Heard()

    def compute(work: StageContext, rows: Sequence[str]) -> int:
        work.progress(1, 2)
        return 0

    Executor(listener=heard).get(Node("embed", Spec("x", "1"), (), compute))
    assert heard.events == [("started", "embed"), ("1/2", "embed"), ("finished", "embed")]


def test_seconds_of_a_stage_leave_out_its_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr("ragsweep.stages.rows.time.perf_counter", lambda: clock[0])

    def take(seconds: float) -> int:
        clock[0] += seconds
        return 0

    slow = Node("embed", Spec("x", "1"), (), lambda work, rows: take(10.0))
    quick = Node("index", Spec("y", "1"), (slow,), lambda work, rows: work.get(slow) + take(1.0))
    executor = Executor()
    executor.get(quick)
    assert {stage: work.seconds for stage, work in executor.work.items()} == {"embed": 10.0, "index": 1.0}


# --- with a store ------------------------------------------------------------------------------------------------

SLOW = """
import sys, time
from pathlib import Path
import numpy as np
from support.inputs.write_faults import Executor, Node, Spec, open_store
from ragsweep.core.types import Embeddings

class Heard:
    def started(self, node, rows): print("started", flush=True)
    def progressed(self, node, done, total): pass
    def finished(self, node, seconds): print("finished", flush=True)
    def waiting(self, node): print("waiting", flush=True)
    def warned(self, text): print("warned", text, flush=True)

folder, calls, pause = Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3])

def shard(start):
    with calls.open("a") as file:
        file.write(f"{start}\\n")
    print("shard", start, flush=True)
    column = np.arange(start, start + 2, dtype=np.int32)
    return Embeddings(np.sin(column[:, None].astype(np.float32)), column, column)

def embed(work, rows):
    shards = {}
    for name, value in work.pieces(shard, [str(start) for start in range(0, 12, 2)], int):
        shards[int(name)] = value
        time.sleep(pause)
    return Embeddings(*(np.concatenate([shards[start][n] for start in sorted(shards)]) for n in range(3)))

node = Node("embed", Spec("slow", "1"), (), embed, result=Embeddings)
store = open_store(folder, print) if sys.argv[4] == "stored" else None
value = Executor(store, Heard()).get(node)
print("value", *(column.tobytes().hex() for column in value), flush=True)
"""


def embedding(folder: Path, pause: float = 0.0, stored: str = "stored") -> forked.Popen:
    """Embed in six shards in a process of its own, with a pause after each."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])}
    command = [sys.executable, "-c", SLOW, str(folder / "store"), str(folder / "calls"), str(pause), stored]
    return forked.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)


def said(process: forked.Popen) -> list[str]:
    lines = process.communicate(timeout=120)[0].splitlines()
    assert process.returncode == 0, lines
    return lines


def read_until(process: forked.Popen, line: str) -> None:
    assert process.stdout is not None
    assert any(found.strip() == line for found in process.stdout), f"it never said {line}"


def test_two_processes_that_need_one_value_compute_it_once(tmp_path: Path) -> None:
    first = embedding(tmp_path, pause=0.5)
    read_until(first, "shard 0")
    second = embedding(tmp_path)
    heard, own = said(second), said(first)
    assert heard[0] == "waiting"
    assert not any(line.startswith(("started", "shard")) for line in heard)
    assert heard[-1] == own[-1]
    assert (tmp_path / "calls").read_text().split() == ["0", "2", "4", "6", "8", "10"]


def test_process_that_waits_takes_over_from_one_that_dies_and_makes_only_the_rest(tmp_path: Path) -> None:
    first = embedding(tmp_path, pause=1)
    read_until(first, "shard 0")
    second = embedding(tmp_path)
    read_until(second, "waiting")
    read_until(first, "shard 4")
    first.kill()
    first.communicate()
    heard = said(second)
    assert heard[:1] == ["started"]
    made = (tmp_path / "calls").read_text().split()
    assert len(made) <= 7  # the shard that the first was at may be made again
    assert set(made) == {"0", "2", "4", "6", "8", "10"}
    assert not list((tmp_path / "store" / "pieces").iterdir())
    assert heard[-1] == said(embedding(tmp_path))[-1] == said(embedding(tmp_path, stored="not"))[-1]


def test_values_are_the_same_bits_cold_warm_and_without_a_store(tmp_path: Path) -> None:
    heard: list[str] = []
    digests = [Small(heard.append).results(Executor(store)) for store in (
        None, Store(tmp_path, pytest.fail), Store(tmp_path, pytest.fail), None
    )]  # fmt: skip
    assert len(set(digests)) == 1
    assert heard.count("made index") == 3


def test_part_cannot_write_into_a_value_with_or_without_a_store(tmp_path: Path) -> None:
    source = Lengths().node()

    def spoil(work: StageContext, rows: Rows) -> Rankings:
        found = work.get(source, rows)
        found.positions[:] = 0
        return found

    spoiled = Node("fuse", Spec("spoil", "1"), (source,), spoil, "rows", result=Rankings)
    for store in (None, Store(tmp_path, pytest.fail)):
        with pytest.raises(ValueError, match="read-only"):
            Executor(store).get(spoiled, ["a"])


def wide(n: int) -> Node:
    def compute(work: StageContext, rows: Rows) -> np.ndarray:
        return np.full((len(rows), 1000), n, np.float64)

    return Node("retrieve", Spec("wide", "1", {"n": n}), (), compute, "rows", result=np.ndarray)


def test_rows_in_memory_are_bounded_where_a_store_has_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragsweep.stages.executor.MOST", 50_000)
    executor = Executor(Store(tmp_path, pytest.fail))
    for n in range(40):
        source = wide(n)
        first = lambda work, rows, source=source: work.get(source, rows)[:, :2]  # noqa: E731
        cut = Node("context", Spec("cut", "1"), (source,), first, "rows", result=np.ndarray, stored=False)
        assert executor.get(cut, ["x", "y"])[0].tolist() == [n, n]
        assert executor._rows.bytes <= 50_000 + 17_000
    assert executor.work["retrieve"].executed == 40
    assert executor.get(wide(0), ["y"])[0, 0] == 0
    assert (executor.work["retrieve"].executed, executor.work["retrieve"].recalled) == (40, 1)


def test_nothing_is_dropped_that_no_store_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragsweep.stages.executor.MOST", 0)
    broken = Store(tmp_path / "store", lambda text: None)
    monkeypatch.setattr(broken, "keep_rows", lambda *given: False)
    for store in (None, broken):
        executor = Executor(store)
        for n in [*range(5), *range(5)]:
            assert executor.get(wide(n), ["x"])[0, 0] == n
        assert executor.work["retrieve"].executed == 5


@given(st.sets(st.integers(0, 40), min_size=1), st.sets(st.integers(0, 40)))
def test_rows_that_fail_are_left_out_of_the_others_and_of_the_store(asked: set[int], failing: set[int]) -> None:
    made: list[list[str]] = []

    def compute(work: StageContext, rows: Rows) -> np.ndarray:
        made.append(list(rows))
        if lost := [row for row in rows if int(row) in failing]:
            raise CallFailed(f"refused: {lost[0]}", "filtered")
        return np.array([float(row) for row in rows])

    node = Node(
        "retrieve", Spec("some fail", "1"), (), compute, "rows", result=np.ndarray,
        cacheable=lambda column: ~np.isnan(column), failed=lambda rows: np.full(len(rows), np.nan),
    )  # fmt: skip
    reading = Node("context", Spec("reading", "1"), (node,), lambda work, rows: work.get(node, rows), "rows")
    executor, rows = Executor(), [str(number) for number in sorted(asked)]
    expected = [np.nan if number in failing else float(number) for number in sorted(asked)]
    np.testing.assert_array_equal(executor.get(reading, rows), expected)
    for number in asked & failing:
        assert str(executor.failure(reading, str(number))) == f"refused: {number}"
    made.clear()
    executor.forget_failed()
    failing, lost = set(), [str(number) for number in sorted(asked & failing)]
    np.testing.assert_array_equal(executor.get(node, rows), [float(row) for row in rows])
    assert [row for some in made for row in some] == lost


@pytest.mark.parametrize("kind", ["whole", "rows"])
def test_what_is_never_stored_is_computed_again_from_rows_that_had_failed(kind: Literal["whole", "rows"]) -> None:
    values = iter([np.nan, 7.0])
    node = Node(
        "respond", Spec("heals", "1"), (), lambda work, rows: np.array([next(values)]), "rows", result=np.ndarray,
        cacheable=lambda column: ~np.isnan(column),
    )  # fmt: skip
    derived = Node("locate", Spec("x", "1"), (node,), lambda work, rows: work.get(node, ["a"]), kind, stored=False)
    executor = Executor()
    assert np.isnan(executor.get(derived, ["a"]))
    executor.forget_failed()
    assert executor.get(derived, ["a"]) == 7.0


def test_failed_call_fails_a_computation_that_has_no_value_for_it() -> None:
    def compute(work: StageContext, rows: Rows) -> np.ndarray:
        raise CallFailed("refused")

    with pytest.raises(CallFailed, match="refused"):
        Executor().get(Node("retrieve", Spec("fails", "1"), (), compute, "rows"), ["a", "b"])
