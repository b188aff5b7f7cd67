"""Measure exact vector search: ours, that of faiss with its defaults, and a matrix product in numpy.

``python benchmarks/exact.py`` prints the table of benchmarks/results/exact.json.
"""

import time
from collections.abc import Callable

import faiss
import numpy as np

from ragsweep.core.types import Floats
from ragsweep.parts.indexes import Flat

DIMENSION, DEPTH, REPEATS = 384, 100, 40


def unit(number: int, seed: int) -> Floats:
    vectors = np.random.default_rng(seed).normal(size=(number, DIMENSION)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def fastest(search: Callable[[], object]) -> float:
    """Return the shortest of several times, in milliseconds."""
    seconds = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        search()
        seconds.append(time.perf_counter() - start)
    return min(seconds) * 1000


def by_numpy(vectors: Floats, queries: Floats) -> None:
    for start in range(0, len(vectors), 16_384):
        products = queries @ vectors[start : start + 16_384].T
        np.partition(products, -min(DEPTH, products.shape[1]), axis=1)


def row(number: int, size: int) -> str:
    vectors, queries = unit(number, seed=0), unit(size, seed=1)
    index = Flat().build(vectors)
    times = (
        fastest(lambda: Flat().search(index, vectors, queries, DEPTH)),
        fastest(lambda: faiss.knn(queries, vectors, DEPTH, metric=faiss.METRIC_INNER_PRODUCT)),
        fastest(lambda: by_numpy(vectors, queries)),
    )
    return f"| {number:,} | {size} | " + " | ".join(f"{one:.1f}" for one in times) + " |"


def main() -> None:
    print("| vectors | questions | `Flat` ms | `faiss.knn` as it is, ms | numpy ms |")
    print("| --- | --- | --- | --- | --- |")
    for number in (10_000, 100_000):
        for size in (1, 30, 300):
            print(row(number, size))


if __name__ == "__main__":
    main()
