"""Name this machine, and measure its current speed with a fixed workload."""

import math
import os
import platform
import time
from collections.abc import Mapping, MutableMapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ragsweep.core.question_results import Doubles
from ragsweep.stats.latencies import BUSY

REPETITIONS = 25
"""Number of runs of the fixed work by which `is_quiet_now` measures whether the machine is idle."""
QUIET_SHARE = 0.1
"""Quantile of the fixed work's times that counts as its time on an idle machine.

Even on a busy machine, some runs are not disturbed.
"""


@cache
def machine() -> str:
    """Return a name for this machine that consists of its architecture, its processor and its number of cores."""
    facts = Path("/proc/cpuinfo")
    lines = [line for line in facts.read_text().splitlines() if line.startswith("model name")] if facts.exists() else []
    model = lines[0].split(":", 1)[1].strip() if lines else platform.processor()  # the call starts a process
    return f"{platform.machine()} {model} x{os.cpu_count()}"


@cache
def _material() -> tuple[Doubles, list[str]]:
    return np.random.default_rng(0).random(20_000), [str(n) for n in range(3_000)]


def time_fixed_work() -> float:
    """Run a fixed workload, about 1 ms of numpy and Python on one core; return how many seconds it took."""
    numbers, words = _material()
    begin = time.perf_counter()
    for _ in range(4):
        np.sqrt(np.sort(numbers)).sum()
    counts: dict[str, int] = {}
    for word in words:
        counts[word] = counts.get(word, 0) + len(word)
    return time.perf_counter() - begin


def load() -> float:
    """Return the load average of the last minute; NaN if the system does not report it."""
    with suppress(OSError):
        return os.getloadavg()[0]
    return math.nan


def store_speed(notes: MutableMapping[str, str], work: Doubles) -> None:
    """Store the time of the fixed work on an idle machine, unless ``notes`` already contains an equal or shorter time.

    The time is the quantile `QUIET_SHARE` of ``work``, the measured seconds; if ``work`` is empty, nothing is stored.
    """
    if len(work):
        quiet = float(np.quantile(work, QUIET_SHARE))
        if not quiet >= quiet_seconds(notes):
            notes[f"{quiet:.9f}"] = ""


def quiet_seconds(notes: Mapping[str, Any]) -> float:
    """Return the seconds that the fixed work takes on an idle machine, the shortest time in ``notes``; NaN if empty."""
    return min(map(float, notes), default=math.nan)


def is_busy(work: Doubles, quiet: float) -> bool:
    """Return whether the machine was busy; ``work`` lists the seconds that each repetition of the fixed work took.

    It was busy if their mean is at least BUSY times ``quiet``, the time on an idle machine. Return False if
    ``work`` is empty, or if ``quiet`` is NaN (unknown).
    """
    return bool(len(work)) and float(work.mean()) >= BUSY * quiet


def is_quiet_now(quiet: float) -> bool:
    """Return whether the machine is idle, after measuring for some tens of milliseconds; True if ``quiet`` is NaN.

    The measurement stops as soon as the machine is certainly busy (see `is_busy`).
    """
    spent = 0.0
    for _ in range(REPETITIONS):
        spent += time_fixed_work()
        if spent >= REPETITIONS * BUSY * quiet:
            return False
    return True
