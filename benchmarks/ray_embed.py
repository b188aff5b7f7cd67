"""Measure how much faster two workers of compute=ray embed than one; write docs/measurements.md, docs/million.json.

    python benchmarks/ray_embed.py [--rounds 3] [--shards 24]

Each worker has one thread. Runs with one and two alternate; the best of each counts, because other programs slow some.
Times begin when every worker has returned a shard, which excludes the start of workers and the loading of the model;
the column "all" includes both.
"""

import argparse
import os
import time

from million import keep
from ragsweep.core.types import Embeddings
from ragsweep.parts.embedders import SentenceTransformerEmbedder
from ragsweep.stages.shards import RayShards
from tables import keep_results

TEXTS = 64
"""Texts per shard in this benchmark; a sweep has 256."""


def measure(workers: int, shards: int) -> tuple[float, float]:
    """Return texts per second after all workers have loaded the model, and the seconds of the whole run."""
    import ray

    ray.init("local", num_cpus=workers, include_dashboard=False, log_to_driver=False, logging_level=40)
    begun, times = time.monotonic(), []
    model = SentenceTransformerEmbedder("bundled", dtype="float32")
    names = [str(n) for n in range(shards)]
    results = RayShards().compute(
        model.embed_documents,
        names,
        lambda name: [f"{n} {name} " + "word " * 60 for n in range(TEXTS)],
        "x",
        Embeddings,
    )
    times = [time.monotonic() - begun for _ in results]
    ray.shutdown()
    start = 2 * workers - 1  # after two shards per worker, by which time all have loaded the model
    return TEXTS * (shards - 1 - start) / (times[-1] - times[start]), times[-1]


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure compute=ray.")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--shards", type=int, default=24)
    parser.add_argument("--print", action="store_true", help="print only")
    given = parser.parse_args()
    found: dict[int, list[tuple[float, float, float]]] = {1: [], 2: []}
    for _ in range(given.rounds):
        for workers, known in found.items():
            known.append((*measure(workers, given.shards), os.getloadavg()[0]))
            print(workers, *(f"{figure:.1f}" for figure in known[-1]), flush=True)
    best = {workers: max(known) for workers, known in found.items()}
    lines = ["| workers | texts a second | all, seconds | load |", "| --- | --- | --- | --- |"]
    lines += [f"| {n} | {rate:.1f} | {whole:.0f} | {load:.1f} |" for n, (rate, whole, load) in best.items()]
    speedup = best[2][0] / best[1][0]
    lines += ["", f"Two are {speedup:.2f} times as fast as one, on {os.cpu_count()} cores."]
    print("\n".join(lines))
    if not given.print:
        keep_results("ray-embed", lines)
        keep({"cluster": {"workers": 2, "speedup": round(speedup, 2)}})


if __name__ == "__main__":
    main()
