"""compute=ray: the same files as in one process, whichever worker dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from command_line import RUN, user_environment
from ray_cluster import QUIET, workers

pytest.importorskip("ray")

EMBED = ["retriever=vector", "chunker.size=150", "tracking=none"]


def start(folder: Path, compute: str) -> subprocess.Popen[bytes]:
    folder.mkdir()
    with (folder / "log.txt").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, RUN, *EMBED, f"compute={compute}"], cwd=folder, env={**user_environment(), **QUIET},
            stdout=log, stderr=log,
        )  # fmt: skip


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / ".ragsweep" / "stages" / "whole").iterdir()}


@pytest.mark.nightly
def test_killed_worker_changes_no_bit_of_what_is_embedded(tmp_path: Path) -> None:
    alone, process = start(tmp_path / "alone", "local"), start(tmp_path / "ray", "ray")
    while not (running := workers(process.pid, "_compute")) and process.poll() is None:
        time.sleep(0.02)
    time.sleep(1)
    for worker in running[:1]:
        os.kill(worker, signal.SIGKILL)
    assert process.wait(timeout=1800) == 0, (tmp_path / "ray" / "log.txt").read_text()
    assert alone.wait(timeout=1800) == 0
    assert running
    assert files(tmp_path / "ray") == files(tmp_path / "alone")
    assert list((tmp_path / "ray" / ".ragsweep" / "stages" / "pieces").iterdir()) == []
