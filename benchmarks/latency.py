"""Count the latency differences that rules report between configs that do the same work, with and without load.

    python benchmarks/latency.py [--sweeps 4] [--hogs 0 2] [--backend rank_bm25]

Six configs differ by one character of 800 in the size of a chunk. Every sweep has its own store. Hogs are
processes that run a busy loop.
"""

import argparse
import itertools
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from ragsweep.core.results import Result
from ragsweep.stats.latencies import LEAST_MS, busy_sentence, latency_apart, slowness
from ragsweep.sweep.concluding.recorded_runs import open_ledger

NAME = "latency_p95_ms"
RATIO = 1.5
"""Ratio of two p95s from which a reader of a table without intervals would see a difference."""


def sweep(folder: Path, backend: str) -> list[Result]:
    """Evaluate six configs that do the same work."""
    sizes = ",".join(str(800 + n) for n in range(6))
    given = ["chunker=fixed_size", f"chunker.size={sizes}", "retriever=bm25", f"retriever.backend={backend}"]
    command = [sys.executable, "-m", "ragsweep", "run", "-m", *given, "tracking=none", f"store.path={folder}"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    ledger = open_ledger(str(folder))
    found = [record.outcome for record in ledger.records(ledger.sweeps()[-1].id)]
    return [one for one in found if isinstance(one, Result)]


def overlap(first: Result, second: Result) -> bool:
    """Return whether the intervals of two configs overlap, or less than a millisecond separates them."""
    low, high = sorted((one.summaries.metrics[NAME] for one in (first, second)), key=lambda one: one.value)
    return high.value - low.value < LEAST_MS or not high.low > low.high


def row(results: list[Result], hogs: int, load: float) -> str:
    """Return a line of the table: what each rule would state about pairs of equal configs."""
    values = [one.summaries.metrics[NAME].value for one in results]
    pairs = list(itertools.combinations(results, 2))
    ratios = [max(one / other, other / one) for one, other in itertools.combinations(values, 2)]
    stated = [sum(ratio >= RATIO for ratio in ratios), sum(not overlap(*pair) for pair in pairs),
              sum(latency_apart(*pair, NAME) for pair in pairs)]  # fmt: skip
    slow = [slowness(one) for one in results]
    cells = [str(hogs), f"{load:.1f}", f"{min(values):.2f} to {max(values):.2f}", f"{min(slow):.1f} to {max(slow):.1f}",
             *map(str, stated), busy_sentence(results, NAME) or "-"]  # fmt: skip
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Print a table with one line per sweep."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sweeps", type=int, default=4)
    parser.add_argument("--hogs", type=int, nargs="+", default=[0, 2])
    parser.add_argument("--backend", default="rank_bm25")
    given = parser.parse_args()
    print("| hogs | load | p95, ms | slowness | ratio of 1.5 | intervals apart | stated | sentence |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for hogs in given.hogs:
        busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(hogs)]
        try:
            for _ in range(given.sweeps):
                with tempfile.TemporaryDirectory() as folder:
                    print(row(sweep(Path(folder), given.backend), hogs, os.getloadavg()[0]), flush=True)
        finally:
            for one in busy:
                one.kill()


if __name__ == "__main__":
    main()
