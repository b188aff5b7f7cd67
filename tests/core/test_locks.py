"""One process at a time; the kernel frees the lock of a dead process; a process is alive or dead."""

import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from ragsweep.core.locks import LAPSE, Holder, locks, myself

Start = Callable[[], subprocess.Popen[str]]
HOLD = """
import sys
from pathlib import Path
from ragsweep.core.locks import locks
with locks(Path(sys.argv[1])).alone("x"):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start processes that hold the lock "x" until they die."""
    command = [sys.executable, "-c", HOLD, str(tmp_path / "locks")]
    processes = []

    def start() -> subprocess.Popen[str]:
        processes.append(subprocess.Popen(command, stdin=-1, stdout=-1, text=True))
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def holds_within(process: subprocess.Popen[str], seconds: float) -> bool:
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        return bool(selector.select(seconds)) and process.stdout.readline() == "held\n"


def test_lock_is_waited_for_until_its_process_dies_and_other_names_are_free(tmp_path: Path, start: Start) -> None:
    other, calls = start(), []
    assert holds_within(other, 60)

    def waiting() -> None:
        calls.append(1)
        os.kill(other.pid, signal.SIGKILL)

    with locks(tmp_path / "locks").alone("y", pytest.fail), locks(tmp_path / "locks").alone("x", waiting):
        assert calls == [1]


def test_lock_is_held_until_the_outermost_block_ends_also_with_an_error(tmp_path: Path, start: Start) -> None:
    own = locks(tmp_path / "locks")
    with suppress(KeyError), own.alone("x"):
        with own.alone("x"), locks(tmp_path / "locks").alone("x"):
            pass
        other = start()
        assert not holds_within(other, 0.5)
        raise KeyError
    assert holds_within(other, 60)


def test_file_is_for_its_owner_only_and_the_same_for_every_spelling(tmp_path: Path) -> None:
    assert locks(tmp_path / "locks") is locks(tmp_path / "." / "locks")
    assert (tmp_path / "locks").stat().st_mode & 0o077 == 0


def test_this_process_is_alive_without_a_heartbeat_and_a_reused_number_is_another_process() -> None:
    assert myself().lives(10 * LAPSE)
    assert myself().process == os.getpid()
    assert not myself()._replace(started="1").lives(0)


def test_process_that_ended_is_dead_at_once_even_before_it_is_waited_for() -> None:
    process = subprocess.Popen(["true"])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # it ended, and stays in the table of processes
    assert not Holder(myself().host, process.pid, myself().started).lives(0)
    process.communicate()
    assert not Holder(myself().host, process.pid, "").lives(0)


def test_process_of_another_machine_is_alive_by_its_heartbeat() -> None:
    other = myself()._replace(host="elsewhere")
    assert other.lives(LAPSE - 1)
    assert not other.lives(LAPSE)
