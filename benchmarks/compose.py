"""Measure what Hydra costs a job, with its basic sweeper and launcher and with ours, side by side, with an empty task.

    python benchmarks/compose.py [JOBS]

CPU time of this process, so that what else the machine does matters little; wall time beside it.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hydra
from hydra import version
from hydra.core.global_hydra import GlobalHydra

from ragsweep.sweep.command import CONFIG, VERSION_BASE, compose_jobs, config_folder, read_command

SWEPT = ["retriever=bm25,vector", "metrics=retrieval"]


def measured(act: Callable[[], Any]) -> tuple[float, float]:
    """CPU and wall seconds of a call."""
    cpu, wall = time.process_time(), time.perf_counter()
    act()
    return time.process_time() - cpu, time.perf_counter() - wall


def sweep(kind: list[str], jobs: int) -> tuple[float, float]:
    """Run an empty task as so many jobs, as the command line would."""
    arguments = ["-m", *kind, *SWEPT, f"top_k=range(1,{jobs // 2 + 1})"]
    before, sys.argv = sys.argv, [sys.argv[0], *arguments]
    run = hydra.main(config_path=str(config_folder()), config_name=CONFIG, version_base=VERSION_BASE)(lambda _: 1.0)
    try:
        return measured(run)
    finally:
        sys.argv = before
        GlobalHydra.instance().clear()


def compose_all(jobs: int) -> None:
    compose_jobs(read_command([*SWEPT, f"top_k=range(1,{jobs // 2 + 1})"], multirun=True))


def main() -> None:
    jobs = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    few = max(jobs // 10, 4)  # Hydra's own is slow: a tenth is enough to see what one costs
    version.setbase(VERSION_BASE)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        basic, ours = ["hydra/sweeper=basic", "hydra/launcher=basic"], ["hydra/sweeper=grid", "hydra/launcher=inline"]
        sweep(ours, 2)  # imports, and files that are read for the first time
        rows = []
        for name, kind, number in (("Hydra basic", basic, few), ("grid, inline", ours, jobs)):
            start, end = sweep(kind, 2), sweep(kind, number + 2)
            rows.append((name, number, *((b - a) / number * 1000 for a, b in zip(start, end, strict=True))))
        start, end = measured(lambda: compose_all(2)), measured(lambda: compose_all(jobs + 2))
        rows.append(("compose_jobs", jobs, *((b - a) / jobs * 1000 for a, b in zip(start, end, strict=True))))
        os.chdir(Path(__file__).parent)
    for name, number, cpu, wall in rows:
        print(
            f"{name:14}{number:6} jobs{cpu:9.2f} ms CPU a job{wall:9.2f} ms wall{rows[0][2] / cpu:8.1f} times as fast"
        )


if __name__ == "__main__":
    main()
