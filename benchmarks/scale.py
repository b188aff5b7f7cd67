"""Measure how indexes and BM25 grow with the number of chunks, and write docs/measurements.md.

    python benchmarks/scale.py [--sizes 10000 100000 1000000] [--parts flat bm25 ivf hnsw]

The chunks are synthetic: vectors of 384 numbers around seeded centres, and texts of 60 words drawn by Zipf's law. Every
build, and every search, runs in a separate process, whose anonymous memory is sampled from outside. It excludes mapped
pages of files, which the system may drop whenever it needs the room. Needs about 4 GB of disk for a million chunks.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from tables import keep_results

PARTS = ("flat", "bm25", "ivf", "hnsw")
DIMENSION, INNER, WORDS, VOCABULARY = 384, 48, 60, 300_000
BLOCK, QUESTIONS, DEPTH, MIB = 50_000, 100, 100, 2**20


# --- what is searched --------------------------------------------------------------------------------------------


def vectors_near(centres: np.ndarray, number: int, seed: int) -> np.ndarray:
    """Make unit vectors that vary in 48 directions around centres, and a little in all."""
    chance = np.random.default_rng(seed)
    spread = np.random.default_rng(0).normal(size=(INNER, DIMENSION)).astype(np.float32)
    inner = centres[chance.integers(0, len(centres), number)] + chance.normal(size=(number, INNER), scale=0.6)
    made = inner.astype(np.float32) @ spread + chance.normal(size=(number, DIMENSION), scale=0.5).astype(np.float32)
    return made / np.linalg.norm(made, axis=1, keepdims=True)


def make(folder: Path, size: int) -> None:
    """Write chunks and questions into files, block by block."""
    centres = np.random.default_rng(1).normal(size=(1000, INNER))
    shares = np.cumsum(1 / np.arange(1, VOCABULARY + 1))
    vectors = np.lib.format.open_memmap(folder / "vectors.npy", "w+", np.float32, (size, DIMENSION))
    words = np.lib.format.open_memmap(folder / "words.npy", "w+", np.int32, (size, WORDS))
    for start in range(0, size, BLOCK):
        rows = slice(start, min(start + BLOCK, size))
        number = rows.stop - start
        vectors[rows] = vectors_near(centres, number, 2 + start)
        words[rows] = np.searchsorted(shares, np.random.default_rng(start).random((number, WORDS)) * shares[-1])
    np.save(folder / "queries.npy", vectors_near(centres, QUESTIONS, 3))
    asked = np.random.default_rng(size).random((QUESTIONS, 8)) * shares[-1]
    np.save(folder / "query_words.npy", np.searchsorted(shares, asked))


class Texts(Sequence[str]):
    """Generate texts on access, like the texts of chunks."""

    def __init__(self, path: Path) -> None:
        self.words = np.load(path, mmap_mode="r")
        self.spelling = [spelt(number) for number in range(VOCABULARY)]

    def __len__(self) -> int:
        return len(self.words)

    def __getitem__(self, item: Any) -> Any:
        return " ".join(self.spelling[number] for number in self.words[item].tolist())


def spelt(number: int) -> str:
    """Write a number as a word that no stemmer changes: consonants, without a vowel at either end."""
    letters = "bcdfghjklmnpqrtvwxz"
    word = "".join(letters[number // len(letters) ** place % len(letters)] for place in range(5))
    return f"{word[:2]}o{word[2:]}"


# --- one process, one measurement --------------------------------------------------------------------------------


def part_named(name: str) -> Any:
    from ragsweep.parts.indexes import Flat, Hnsw, Ivf
    from ragsweep.parts.retrievers import Bm25

    return {"flat": Flat, "ivf": Ivf, "hnsw": Hnsw, "bm25": Bm25}[name]()


def warmed(name: str) -> Any:
    """Import all modules that the part uses, to exclude imports from measurements."""
    part = part_named(name)
    if name == "bm25":
        part.retrieve(part.build(["one text"]), ["text"], 1)
    else:
        few = np.eye(50, 8, dtype=np.float32)
        part.search(part.build(few), few, few, 1)
    return part


def build(name: str, folder: Path) -> dict[str, float]:
    part = warmed(name)
    given = Texts(folder / "words.npy") if name == "bm25" else np.load(folder / "vectors.npy", mmap_mode="r")
    start, began = anonymous("self"), time.perf_counter()
    index = part.build(given)
    seconds = time.perf_counter() - began
    (folder / name).mkdir(exist_ok=True)
    for key, array in index.items():
        np.save(folder / name / key, array)
    return {"build_s": seconds, "start": start, "index": sum(array.nbytes for array in index.values()) / MIB}


def search(name: str, folder: Path) -> dict[str, float]:
    part = warmed(name)
    start = anonymous("self")
    index = {path.stem: np.load(path, mmap_mode="r") for path in (folder / name).iterdir()}
    if name == "bm25":
        texts = [" ".join(map(spelt, row)) for row in np.load(folder / "query_words.npy").tolist()]
        ask: Callable[[int, int], Any] = lambda first, last: part.retrieve(index, texts[first:last], DEPTH)  # noqa: E731
    else:
        vectors, queries = np.load(folder / "vectors.npy", mmap_mode="r"), np.load(folder / "queries.npy")
        ask = lambda first, last: part.search(index, vectors, queries[first:last], DEPTH)  # noqa: E731
    found = ask(0, QUESTIONS)
    one = [seconds(lambda row=row: ask(row, row + 1)) for row in range(30)]
    many = [seconds(lambda: ask(0, QUESTIONS)) for _ in range(3)]
    np.save(folder / f"{name}.found.npy", found.positions)
    return {"one_ms": 1000 * float(np.median(one)), "many_ms": 1000 * float(np.median(many)), "start": start}


def seconds(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def anonymous(process: str) -> float:
    """Return a process's anonymous memory in MiB; 0 once it has ended."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) / 1024 for line in lines if line.startswith("RssAnon"))


# --- all of them -------------------------------------------------------------------------------------------------


def measured(step: str, name: str, folder: Path) -> dict[str, float]:
    """Run one step in a separate process; ``peak`` is its largest anonymous memory in MiB."""
    command = [sys.executable, __file__, "--step", step, name, str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    peak = 0.0
    while process.poll() is None:
        peak = max(peak, anonymous(str(process.pid)))
        time.sleep(0.005)
    assert process.returncode == 0, f"{step} {name} ended with {process.returncode}"
    assert process.stdout is not None
    return {**json.loads(process.stdout.read()), "peak": peak}


def recall(folder: Path, name: str) -> float:
    exact, found = np.load(folder / "flat.found.npy")[:, :10], np.load(folder / f"{name}.found.npy")[:, :10]
    return float(np.mean([len(set(one) & set(other)) / 10 for one, other in zip(exact, found, strict=True)]))


def rows(sizes: list[int], parts: list[str]) -> Iterator[dict[str, Any]]:
    for size in sizes:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            make(folder, size)
            for part in parts:
                built, asked = measured("build", part, folder), measured("search", part, folder)
                vectors = 0.0 if part == "bm25" else size * DIMENSION * 4 / MIB
                row = {"part": part, "size": size, **built, "vectors": vectors}
                row |= {"one_ms": asked["one_ms"], "many_ms": asked["many_ms"]}
                row |= {"search_peak": asked["peak"], "search_start": asked["start"]}
                exact = part in {"flat", "bm25"} or "flat" not in parts
                row["recall"] = float("nan") if exact else recall(folder, part)
                yield row


def ratio(row: dict[str, Any]) -> float:
    return float(row["peak"] / (row["vectors"] + row["index"]))


def line(row: dict[str, Any]) -> str:
    unknown = "not compared" if row["part"] in ("ivf", "hnsw") else "exact"
    found = unknown if np.isnan(row["recall"]) else f"{row['recall']:.3f}"
    cells = [row["part"], f"{row['size']:,}", f"{row['build_s']:.1f}", f"{row['one_ms']:.2f}", f"{row['many_ms']:.0f}"]
    cells += [found, f"{row['vectors']:.0f}", f"{row['index']:.1f}", f"{row['peak']:.0f} ({row['start']:.0f})"]
    cells += [f"{row['search_peak']:.0f} ({row['search_start']:.0f})", f"{ratio(row):.2f}"]
    return f"| {' | '.join(cells)} |"


def exponent(found: list[dict[str, Any]], key: str) -> str:
    """Fit ``value ~ size ** exponent`` by least squares of the logarithms."""
    values = [max(float(row[key]), 1e-3) for row in found]
    return f"{np.polyfit(np.log([row['size'] for row in found]), np.log(values), 1)[0]:.2f}"


def table(found: list[dict[str, Any]], command: str) -> str:
    flags = Path("/proc/cpuinfo").read_text()
    machine = f"{os.cpu_count()} x86 cores with{'' if 'amx' in flags else 'out'} AMX"
    names = ("faiss-cpu", "bm25s", "numpy")
    libraries = ", ".join(f"{name} {version(name)}" for name in names)
    lines = [
        f"`{command}`: {machine}, {libraries}. The machine did other work too: read ratios, not times.",
        "",
        "| part | chunks | build s | one question ms | 100 questions ms | recall@10 | vectors MiB | index MiB "
        "| peak building MiB (at its start) | peak searching MiB (at its start) | peak / (vectors + index) |",
        f"|{' --- |' * 11}",
        *(line(row) for row in found),
    ]
    sizes = sorted({row["size"] for row in found})
    if len(sizes) > 1:
        keys = {"build_s": "build", "one_ms": "one question", "many_ms": "100 questions", "index": "index"}
        lines += ["", "How each grows: the exponent of the number of chunks.", ""]
        lines += [f"| part | {' | '.join(keys.values())} |", f"|{' --- |' * (len(keys) + 1)}"]
        for part in dict.fromkeys(row["part"] for row in found):
            own = [row for row in found if row["part"] == part]
            lines.append(f"| {part} | {' | '.join(exponent(own, key) for key in keys)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--print", action="store_true", help="write no file")
    parser.add_argument("--step", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.step:
        step, name, folder = given.step
        print(json.dumps((build if step == "build" else search)(name, Path(folder))))
        return
    found: list[dict[str, Any]] = []
    for row in rows(given.sizes, given.parts):
        found = sorted([*found, row], key=lambda row: (PARTS.index(row["part"]), row["size"]))
        text = table(found, f"python benchmarks/scale.py --sizes {' '.join(map(str, sorted(given.sizes)))}")
        print(text, flush=True)
        if not given.print:  # after every row: the last one may take an hour
            keep_results("scale", text.splitlines())


if __name__ == "__main__":
    main()
