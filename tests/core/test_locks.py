"""One process at a time, and the kernel frees the lock of whoever dies."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ragsweep.core.locks import locks

Start = Callable[[Path, str], subprocess.Popen[str]]
HOLD = """
import sys
from pathlib import Path
from ragsweep.core.locks import locks
with locks(Path(sys.argv[1])).alone(sys.argv[2]):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def started() -> Iterator[Start]:
    """Start processes that hold a lock until they die."""
    processes = []

    def start(path: Path, name: str) -> subprocess.Popen[str]:
        processes.append(
            subprocess.Popen([sys.executable, "-c", HOLD, str(path), name], stdin=-1, stdout=-1, text=True)
        )
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def says_within(process: subprocess.Popen[str], seconds: float) -> bool:
    assert process.stdout is not None
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        return bool(selector.select(seconds)) and process.stdout.readline() == "held\n"


def test_lock_of_another_process_is_waited_for_until_it_dies(tmp_path: Path, started: Start) -> None:
    other, heard = started(tmp_path / "locks", "x"), []
    assert says_within(other, 60)

    def waiting() -> None:
        heard.append(time.monotonic())
        os.kill(other.pid, signal.SIGKILL)

    with locks(tmp_path / "locks").alone("x", waiting):
        assert len(heard) == 1


def test_other_names_are_free(tmp_path: Path, started: Start) -> None:
    other = started(tmp_path / "locks", "x")
    assert says_within(other, 60)
    with locks(tmp_path / "locks").alone("y", pytest.fail):
        pass


def test_lock_is_held_until_the_outermost_block_ends(tmp_path: Path, started: Start) -> None:
    own = locks(tmp_path / "locks")
    with own.alone("x"):
        with own.alone("x"), locks(tmp_path / "locks").alone("x"):
            pass
        other = started(tmp_path / "locks", "x")
        assert not says_within(other, 0.5)
    assert says_within(other, 60)


def test_lock_is_freed_where_the_block_fails(tmp_path: Path, started: Start) -> None:
    with pytest.raises(KeyError), locks(tmp_path / "locks").alone("x"):
        raise KeyError
    assert says_within(started(tmp_path / "locks", "x"), 60)


def test_file_is_for_its_owner_only_and_the_same_for_every_spelling(tmp_path: Path) -> None:
    assert locks(tmp_path / "locks") is locks(tmp_path / "." / "locks")
    assert (tmp_path / "locks").stat().st_mode & 0o077 == 0
