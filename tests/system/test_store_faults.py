"""Whatever write fails, or is a process's last: results are right, and no entry is half of one."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ragsweep.core.identity import Node, Spec
from ragsweep.core.types import Rankings
from ragsweep.stages.blobs import StoredPiece
from ragsweep.stages.executor import Executor
from ragsweep.stages.store import Cost, Store
from support import nightly
from support.commands import user_environment
from support.inputs.write_faults import KINDS, attempt
from support.servers import forked
from test_store import TRUTH, folder, small

pytestmark = pytest.mark.slow

__all__ = ["folder"]

SHIM = str(Path(__file__).parents[1] / "support" / "inputs" / "write_faults.py")
ENVIRONMENT = user_environment(PYTHONPATH=os.pathsep.join(sys.path), OPENBLAS_NUM_THREADS="1")
QUICK = 14
"""The quick tier lets every fourteenth call fail, for two kinds.

The others are like them: killed and written in part as torn, an error or a full disk as no space.
"""


def outcomes(folder: Path, kind: str, begin: int, step: int) -> list[dict[str, Any]]:
    command = [sys.executable, SHIM, str(folder), kind, str(begin), str(step)]
    done = forked.run(command, capture_output=True, text=True, check=False, env=ENVIRONMENT)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize(
    ("kind", "begin", "step"),
    [("torn", 2, QUICK), ("enospc", 4, QUICK), *(nightly(kind, 1, 1) for kind in KINDS)],
)
def test_failing_calls_cost_time_and_no_result(kind: str, begin: int, step: int, folder: Path) -> None:
    found = outcomes(folder, kind, begin, step)
    assert len(found) > (80 if step == 1 else 2)
    for outcome in found:
        first, then, where = outcome["first"], outcome["then"], json.dumps(outcome)
        assert "raised" not in first, where
        assert then["digest"] == then["recalled"] == TRUTH, where
        assert (then["warnings"], then["executed_again"], then["temporary"]) == ([], 0, 0), where
        kept = {note.removeprefix("kept ") for note in first["notes"] if note.startswith("kept ")}
        made = {note.removeprefix("made ") for note in then["notes"] if note.startswith("made ")}
        if kind in ("kill", "torn", "short"):
            assert not kept & made, where
        if first["killed"]:
            assert kind in ("kill", "torn"), where
            continue
        assert first["digest"] == first["recalled"] == TRUTH, where
        assert first["temporary"] == 0, where
        assert len(first["warnings"]) <= (kind in ("enospc", "eio", "full")), where
        assert first["warnings"] or not made, where  # what was not kept was reported


# --- many processes, and a killer --------------------------------------------------------------------------------


def value_of(n: int) -> np.ndarray:
    return np.full((50, 20), n, np.float64) + np.arange(20)


def whole(n: int) -> Node:
    return Node("index", Spec("many.Whole", "1", {"n": n}), (), lambda work, rows: value_of(n), result=np.ndarray)


def rows(n: int) -> Node:
    return Node("retrieve", Spec("many.Rows", "1", {"n": n}), (), lambda work, rows: None, "rows", result=Rankings)


def ranked(n: int) -> Rankings:
    return Rankings(np.full((3, 4), n, np.int32), np.full((3, 4), n / 2, np.float32), str(n))


def write_for_ever(folder: Path, seed: int, say: Callable[[str], None]) -> None:
    store, draw = Store(folder, say), random.Random(seed)
    while True:
        n = draw.randrange(25)
        store.keep_whole(whole(n), value_of(n), 1.0)
        store.keep_rows(rows(n), StoredPiece((f"a{draw.random()}", "b", "c"), ranked(n)), Cost(3, 1.0))
        time.sleep(draw.random() / 50)


def read_for_ever(folder: Path, seed: int, say: Callable[[str], None]) -> None:
    store, draw = Store(folder, say), random.Random(seed)
    last = dict.fromkeys(range(25), 0)
    while True:
        n = draw.randrange(25)
        found = store.whole(whole(n))
        if found is not None and not np.array_equal(found, value_of(n)):
            say(f"a wrong value for {n}")
        for segment in store.segments(rows(n), last[n]):
            last[n] = segment.number
            right = zip(segment.value, ranked(n), strict=True)
            if len(segment.keys) != 3 or not all(np.array_equal(one, other) for one, other in right):
                say(f"wrong rows for {n}")
        time.sleep(draw.random() / 100)


def started(work: Callable[[Path, int, Callable[[str], None]], None], folder: Path, seed: int) -> int:
    process = os.fork()
    if not process:
        try:
            work(folder, seed, lambda text: (folder / f"said-{os.getpid()}").write_text(text))
        except BaseException as fault:
            (folder / f"said-{os.getpid()}").write_text(repr(fault))
        os._exit(0)
    return process


def killed(seconds: float, every: float, folder: Path) -> None:
    """Let 8 processes write and 4 read, kill one now and then, and hold that nobody ever saw anything wrong."""
    Store(folder, pytest.fail)
    works = {n: write_for_ever if n < 8 else read_for_ever for n in range(12)}
    processes = {n: started(work, folder, n) for n, work in works.items()}
    draw, end = random.Random(7), time.monotonic() + seconds
    try:
        while time.monotonic() < end:
            time.sleep(every)
            n = draw.randrange(12)
            os.kill(processes[n], signal.SIGKILL)
            os.waitpid(processes[n], 0)
            processes[n] = started(works[n], folder, draw.randrange(10**6))
    finally:
        for process in processes.values():
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
    assert [path.read_text() for path in folder.glob("said-*")] == []
    store = Store(folder, pytest.fail)
    assert list((folder / "temporary").iterdir()) == []
    assert not (folder / "quarantine").exists()
    assert sum(store.whole(whole(n)) is not None for n in range(25)) > 10
    assert sum(len(store.segments(rows(n))) for n in range(25)) > 10


def run_apart(call: str) -> None:
    """Run a call in a process with one thread, from which others can be forked."""
    code = f"from pathlib import Path; import test_store_faults as tests; tests.{call}"
    done = forked.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=ENVIRONMENT)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.nightly
@pytest.mark.parametrize(("seconds", "every"), [(1.5, 0.15), (60, 1)])
def test_writers_that_are_killed_leave_nothing_wrong(seconds: float, every: float, folder: Path) -> None:
    run_apart(f"killed({seconds}, {every}, Path({str(folder)!r}))")


# --- a disk that is full, a folder that is not ours ---------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 2 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=2m", "ragsweep-test", str(folder)]
    if os.geteuid() or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small disk needs root")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_full_disk_is_said_once_and_freed_space_is_used(small_disk: Path) -> None:
    warnings: list[str] = []
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(1_400_000))
    executor = Executor(Store(small_disk / "store", warnings.append))
    nodes = [_large(n) for n in range(6)]
    for n, node in enumerate(nodes):
        assert float(executor.get(node)[0]) == n
    assert float(executor.get(_many_rows(), ["x", "yy"])[1, 0]) == 2
    (warning,) = warnings
    assert str(small_disk / "store") in warning
    assert "No space left" in warning
    assert "MB free)" in warning
    assert list((small_disk / "store" / "temporary").iterdir()) == []
    del executor
    ballast.unlink()
    again = Executor(Store(small_disk / "store", pytest.fail))
    assert [float(again.get(node)[0]) for node in nodes] == [0, 1, 2, 3, 4, 5]
    again.get(_many_rows(), ["x", "yy"])
    assert 0 < again.work["index"].recalled < 6
    last = Executor(Store(small_disk / "store", pytest.fail))
    assert [float(last.get(node)[0]) for node in nodes] == [0, 1, 2, 3, 4, 5]
    assert float(last.get(_many_rows(), ["x", "yy"])[1, 0]) == 2
    assert {stage: work.executed for stage, work in last.work.items()} == {"index": 0, "retrieve": 0}


def _large(n: int) -> Node:
    return Node(
        "index", Spec("full.Large", "1", {"n": n}), (), lambda work, rows: np.full(20_000, float(n)), result=np.ndarray
    )


def _many_rows() -> Node:
    return Node(
        "retrieve", Spec("full.Rows", "1"), (),
        lambda work, rows: np.array([[len(row)] * 20_000 for row in rows], np.float64), "rows", result=np.ndarray,
    )  # fmt: skip


def as_nobody(folder: Path) -> None:
    """Compute as a user who may not write the folder, where we are root and permissions mean nothing."""
    if not os.geteuid():
        os.setgid(65534)
        os.setuid(65534)
    result = attempt(folder, None)
    assert result["digest"] == result["recalled"] == TRUTH, result
    assert len(result["warnings"]) == 2, result  # the store is opened twice
    assert all(f"cannot use the store in {folder}" in warning for warning in result["warnings"]), result


@pytest.mark.parametrize("filled", [False, True])
def test_folder_that_cannot_be_written_is_done_without(filled: bool, folder: Path) -> None:
    if filled:
        small().results(Executor(Store(folder, pytest.fail)))
    else:
        folder.mkdir()
    folder.parent.chmod(0o755)
    paths = [folder, *(path for path in folder.rglob("*") if path.is_dir())]
    for path in paths:
        path.chmod(0o555)
    try:
        run_apart(f"as_nobody(Path({str(folder)!r}))")
    finally:
        for path in paths:
            path.chmod(0o755)


def test_folder_that_vanishes_is_said_once(tmp_path: Path) -> None:
    warnings: list[str] = []
    store = Store(tmp_path / "store", warnings.append)
    graph = small()
    Executor(store).get(graph.chunk)
    shutil.rmtree(tmp_path / "store")
    assert graph.results(Executor(store)) == TRUTH
    (warning,) = warnings
    assert str(tmp_path / "store") in warning
