"""compute=ray: the same files as in one process, whichever worker dies."""

import os
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

from ragsweep.core.identity import Node, Spec
from ragsweep.core.types import Chunks, Spans
from ragsweep.parts.retrievers import Bm25
from ragsweep.stages.executor import Executor, Listener
from ragsweep.stages.shards import RayShards, index_chunks
from support.commands import begin
from support.parts import corpus
from support.servers.ray_nodes import QUIET, workers

ray = pytest.importorskip("ray")

EMBED = ["retriever=vector", "chunker.size=150", "tracking=none"]


def start(folder: Path, compute: str) -> subprocess.Popen[bytes]:
    folder.mkdir()
    return begin(folder, *EMBED, f"compute={compute}", **QUIET)


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


@pytest.mark.nightly
def test_words_counted_on_a_cluster_make_the_index_of_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in QUIET.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    documents = [f"{'alpha ' * (n % 3)}beta{n % 977} gamma{n}" for n in range(3 * 16_384 + 5)]
    ends = np.array([len(text) for text in documents], dtype=np.int64)
    spans = Spans(np.arange(len(documents), dtype=np.int32), np.zeros_like(ends), ends)
    chunks, part = Chunks(corpus(documents), spans), Bm25(language="none")
    counted: list[int] = []

    class Listening(Listener):
        def progressed(self, node: Node, done: int, total: int) -> None:
            counted.append(done)

    node = Node("index", Spec("Bm25", "1"), (), lambda work, rows: index_chunks(work, part, chunks))
    try:
        index = Executor(None, Listening(), RayShards()).get(node)
    finally:
        ray.shutdown()
    assert len(counted) == 1 + 4
    expected = part.build(documents)
    assert {name: array.tobytes() for name, array in index.items()} == {
        name: array.tobytes() for name, array in expected.items()
    }
