"""Measure the cost of storing stage results and of reading them again.

    python benchmarks/store.py [FOLDER]

FOLDER is where the store is made (on the disk that is to be measured); a temporary folder by default. All figures are
medians of several tries. Reads show the cost of checking: the data were just written, so no read waits for the disk.
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from ragsweep.core.identity import Node, Spec
from ragsweep.core.types import Rankings
from ragsweep.stages.blobs import StoredPiece
from ragsweep.stages.executor import Executor
from ragsweep.stages.store import Cost, Store

TRIES = 7


def whole(size: int, n: int = 0) -> Node:
    spec = Spec("benchmark.Whole", "1", {"size": size, "n": n})
    return Node("index", spec, (), lambda work, rows: {}, result=dict)


def ranked(n: int) -> Node:
    return Node("retrieve", Spec("benchmark.Rows", "1", {"n": n}), (), lambda work, rows: None, "rows", result=Rankings)


def median(action: Callable[[int], object]) -> float:
    """Return the median milliseconds of an action, which is given the number of the try."""
    spent = []
    for n in range(TRIES):
        begin = time.perf_counter()
        action(n)
        spent.append(time.perf_counter() - begin)
    return statistics.median(spent) * 1000


def put_and_get(store: Store, value: dict[str, np.ndarray]) -> tuple[float, float]:
    size = value["vectors"].size
    return median(lambda n: store.keep_whole(whole(size, n), value, 1.0)), median(lambda n: store.whole(whole(size, n)))


def warned(text: str) -> None:
    raise SystemExit(f"the store warned: {text}")


def main() -> None:
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as folder:
        store = Store(Path(folder) / "store", warned)
        for megabytes in (10, 100):
            value = {"vectors": np.random.default_rng(0).random(megabytes * 125_000).reshape(-1, 125)}
            put, get = put_and_get(store, value)
            print(f"whole value of {megabytes:>3} MB: put {put:7.1f} ms, get and check {get:6.1f} ms")
            if megabytes == 100:
                print(f"checking: {get / 1000:.2f} s per 100 MB (at most 0.5)")
        keys = tuple(f"what is question number {n}, and how is it asked?" for n in range(300))
        rankings = Rankings(np.zeros((300, 100), np.int32), np.zeros((300, 100), np.float32), "chunks")
        put = median(lambda n: store.keep_rows(ranked(n), StoredPiece(keys, rankings), Cost(300, 1.0)))
        get = median(lambda n: store.segments(ranked(n)))
        print(f"segment of 240 KB (300 rankings of 100): put {put:.2f} ms, get and check {get:.2f} ms")
        recall = median(lambda n: Executor(store).get(ranked(n), keys))
        print(f"the same through the executor: {recall:.2f} ms")
        print(f"opening the store: {median(lambda n: Store(Path(folder) / 'store', warned)):.2f} ms")


if __name__ == "__main__":
    main()
