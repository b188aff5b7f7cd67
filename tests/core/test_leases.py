"""A process lives, or it does not: also where its number is used again."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys

from ragsweep.core.locks import LAPSE, Holder, myself


def test_this_process_lives_however_silent() -> None:
    assert myself().lives(10 * LAPSE)
    assert myself().process == os.getpid()


def test_process_that_ended_is_dead_at_once_even_before_it_is_waited_for() -> None:
    process = subprocess.Popen([sys.executable, "-c", "pass"], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.read()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # it ended, and stays in the table of processes
    assert not Holder(myself().host, process.pid, myself().started).lives(0)
    process.communicate()
    assert not Holder(myself().host, process.pid, "").lives(0)


def test_number_that_is_used_again_is_another_process() -> None:
    assert not dataclasses.replace(myself(), started="1").lives(0)


def test_process_of_another_machine_lives_by_its_heartbeat() -> None:
    other = dataclasses.replace(myself(), host="elsewhere")
    assert other.lives(LAPSE - 1)
    assert not other.lives(LAPSE)


def test_holder_is_told_in_words() -> None:
    assert str(Holder("box", 7, "x")) == "process 7 on box"
