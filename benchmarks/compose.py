"""Measure the overhead of a job with an empty task, in Hydra's basic sweeper and launcher, and in our loop.

    python benchmarks/compose.py [JOBS]

Prints CPU time of this process, which other programs affect little, and wall time.
"""

import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ragsweep.core.secrets import Secrets
from ragsweep.sweep.composing.command import compose_jobs, read_command
from ragsweep.sweep.running.hydra_launch import call_hydra
from ragsweep.sweep.running.loop import JobLoop

SWEPT = ["retriever=bm25,vector", "metrics=retrieval"]


def measured(act: Callable[[], Any]) -> tuple[float, float]:
    """Return the CPU and wall seconds of a call."""
    cpu, wall = time.process_time(), time.perf_counter()
    act()
    return time.process_time() - cpu, time.perf_counter() - wall


def typed(jobs: int) -> list[str]:
    return [*SWEPT, f"top_k=range(1,{jobs // 2 + 1})"]


def through_hydra(jobs: int) -> None:
    """Run an empty task as jobs of Hydra's own sweeper and launcher."""
    call_hydra(["-m", "hydra/sweeper=basic", "hydra/launcher=basic", *typed(jobs)], _empty)


def in_loop(jobs: int) -> None:
    """Run an empty task as jobs of our loop: compose, write the job's files, call the task."""
    command = read_command(typed(jobs), multirun=True)
    made = compose_jobs(command)
    loop = JobLoop(command, made[0], Secrets())
    for job in made:
        loop.run(_nothing, job)


def compose_all(jobs: int) -> None:
    compose_jobs(read_command(typed(jobs), multirun=True))


def _empty(_: object) -> float:
    return 1.0


def _nothing() -> float:
    return 1.0


def cost(act: Callable[[int], None], jobs: int) -> Sequence[float]:
    """Return the CPU and wall milliseconds per job, without the first two jobs."""
    start, end = measured(lambda: act(2)), measured(lambda: act(jobs + 2))
    return [(b - a) / jobs * 1000 for a, b in zip(start, end, strict=True)]


def main() -> None:
    jobs = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    few = max(jobs // 10, 4)  # Hydra's own loop is slow: a tenth of the jobs suffices
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        in_loop(2)  # imports, and files that are read for the first time
        acts = (("Hydra basic", through_hydra, few), ("our loop", in_loop, jobs), ("compose only", compose_all, jobs))
        rows = [(name, number, *cost(act, number)) for name, act, number in acts]
        os.chdir(Path(__file__).parent)
    for name, number, cpu, wall in rows:
        print(f"{name:14}{number:6} jobs{cpu:9.2f} ms CPU{wall:9.2f} ms wall{rows[0][2] / cpu:8.1f} times as fast")


if __name__ == "__main__":
    main()
