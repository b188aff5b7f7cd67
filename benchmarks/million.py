"""Measure every index at a million chunks, and write benchmarks/results/million.json and docs/million.json.

    python benchmarks/million.py [--sizes 100000 1000000] [--indexes flat hnsw] [--steps build search] [--limit 3600]

Vectors are those of scale.py: 384 random numbers around seeded centres. Every step runs in a separate process. Built
indexes are stored in a folder (``--folder``), so that builds and searches can run at different times; measurements
are stored in docs/million.json, from which docs/sizing.py extrapolates. Needs 12 GB of disk for a million chunks.
pgvector runs on the PostgreSQL in the package pgserver.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from scale import BLOCK, DIMENSION, INNER, vectors_near
from tables import keep_results

ROOT = Path(__file__).resolve().parent.parent
KEPT = ROOT / "docs" / "million.json"
INDEXES = ("flat", "hnsw", "ivf", "pq", "sq", "lancedb", "lancedb_hnsw", "pgvector")
QUESTIONS, WARM, DEPTH, MB, EMBEDDED = 220, 20, 100, 1e6, 256
SERVER = ("shared_buffers=2GB", "maintenance_work_mem=4GB", "max_parallel_maintenance_workers=1", "fsync=off",
          "wal_level=minimal", "max_wal_senders=0", "listen_addresses=''")  # fmt: skip


# --- what is searched --------------------------------------------------------------------------------------------


def make(folder: Path, size: int) -> None:
    """Write vectors and questions into files, block by block, unless they are there."""
    if (folder / "queries.npy").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    centres = np.random.default_rng(1).normal(size=(1000, INNER))
    vectors = np.lib.format.open_memmap(folder / "vectors.npy", "w+", np.float32, (size, DIMENSION))
    for start in range(0, size, BLOCK):
        rows = slice(start, min(start + BLOCK, size))
        vectors[rows] = vectors_near(centres, rows.stop - start, 2 + start)
    vectors.flush()
    np.save(folder / "queries.npy", vectors_near(centres, QUESTIONS, 3))


def part_named(name: str, folder: Path) -> Any:
    from ragsweep.parts.indexes import Flat, Hnsw, Ivf, LanceHnsw, LanceIvfPq, PgVector, Pq, Sq

    if name == "pgvector":
        return PgVector(f"postgresql://postgres@/postgres?host={folder / 'pg'}", timeout=600)
    if name.startswith("lancedb"):
        return (LanceHnsw if name == "lancedb_hnsw" else LanceIvfPq)(str(folder / "lancedb"))
    return {"flat": Flat, "hnsw": Hnsw, "ivf": Ivf, "pq": Pq, "sq": Sq}[name]()


def warmed(name: str, folder: Path) -> Any:
    """Import all modules that the part uses, to exclude imports from measurements."""
    part = part_named(name, folder)
    few = np.eye(50, 48, dtype=np.float32)
    small = replace(part, table="warm") if hasattr(part, "table") else part
    small.search(small.build(few), few, few, 1)
    return part


# --- one process, one step ---------------------------------------------------------------------------------------


def build(name: str, folder: Path) -> dict[str, float]:
    part, vectors = warmed(name, folder), np.load(folder / "vectors.npy", mmap_mode="r")
    began, spent = time.perf_counter(), time.process_time()
    index = part.build(vectors)
    seconds, spent = time.perf_counter() - began, time.process_time() - spent
    (folder / "built" / name).mkdir(exist_ok=True, parents=True)
    for key, array in index.items():
        np.save(folder / "built" / name / key, array)
    return {"build_s": seconds, "build_cpu_s": spent, "disk_mb": disk(part, folder, index) / MB}


def disk(part: Any, folder: Path, index: Any) -> float:
    """Return the bytes of an index, and of its copy of the vectors, if it has one."""
    if "table" not in index:
        return float(sum(array.nbytes for array in index.values()))
    name = index["table"].tobytes().decode()
    if hasattr(part, "uri"):
        return float(sum(path.stat().st_size for path in (folder / "lancedb" / f"{name}.lance").rglob("*")))
    import psycopg

    with psycopg.connect(part.url) as connection:
        row = connection.execute(f"SELECT pg_total_relation_size('{name}')").fetchone()
    return float(row[0]) if row else 0.0


def search(name: str, folder: Path) -> dict[str, float]:
    part = warmed(name, folder)
    index = {path.stem: np.load(path, mmap_mode="r") for path in (folder / "built" / name).iterdir()}
    vectors, queries = np.load(folder / "vectors.npy", mmap_mode="r"), np.load(folder / "queries.npy")
    began = time.perf_counter()
    part.search(index, vectors, queries[:1], DEPTH)
    first = time.perf_counter() - began
    found, times, spent = [], [], time.process_time()
    for row in range(QUESTIONS):
        began = time.perf_counter()
        found.append(part.search(index, vectors, queries[row : row + 1], DEPTH).positions[0, :10])
        times.append(1000 * (time.perf_counter() - began))
    np.save(folder / f"{name}.found.npy", np.stack(found))
    low, high = np.percentile(times[WARM:], [50, 95])
    return {
        "first_ms": 1000 * first,
        "p50_ms": float(low),
        "p95_ms": float(high),
        "search_cpu_ms": time.process_time() - spent,
    }


def embed() -> dict[str, Any]:
    """Embed chunks of the bundled pages on one core; processor time excludes other work on the machine."""
    import torch

    from ragsweep.core.types import Chunks
    from ragsweep.parts.chunkers import Recursive
    from ragsweep.parts.datasets import PythonReference
    from ragsweep.parts.embedders import SentenceTransformerEmbedder

    corpus = PythonReference(None, 0).load().corpus
    texts = list(Chunks(corpus, Recursive().split(corpus), ""))
    texts = [texts[row] for row in np.random.default_rng(0).permutation(len(texts))[:EMBEDDED]]
    torch.set_num_threads(1)
    part = SentenceTransformerEmbedder("bundled", device="cpu")
    part.embed_documents(texts[:32])
    spent = time.process_time()
    made = part.embed_documents(texts)
    spent = time.process_time() - spent
    facts = {"model": "all-MiniLM-L6-v2", "dtype": part.fingerprint()["dtype"], "chunks": len(texts)}
    return {"embedding": {**facts, "chunks_per_core_second": len(texts) / spent, "load": os.getloadavg()[0],
                          "tokens_per_chunk": float(made.tokens.mean()),
                          "characters_per_chunk": float(np.mean([len(text) for text in texts]))}}  # fmt: skip


# --- processes ---------------------------------------------------------------------------------------------------


@contextmanager
def postgresql(folder: Path) -> Iterator[int]:
    """Run the PostgreSQL server in the folder, created if missing; yield the id of its process."""
    found = find_spec("pgserver")
    assert found is not None, "pip install pgserver"
    programs, data = (
        Path(next(iter(found.submodule_search_locations or ()))) / "pginstall" / "bin",
        folder / "pg" / "data",
    )
    user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    if not data.exists():
        data.parent.mkdir(parents=True)
        if user:
            shutil.chown(data.parent, "postgres")
        command = [str(programs / "initdb"), "-D", str(data), "-U", "postgres", "-A", "trust", "-E", "UTF8"]
        subprocess.run([*user, *command], check=True, stdout=subprocess.DEVNULL, cwd="/")
    options = " ".join(f"-c {setting}" for setting in (*SERVER, f"unix_socket_directories={data.parent}"))
    control = [*user, str(programs / "pg_ctl"), "-D", str(data), "-w", "-t", "600"]
    subprocess.run([*control, "-l", str(data.parent / "log"), "-o", options, "start"], check=True, cwd="/",
                   stdout=subprocess.DEVNULL)  # fmt: skip
    try:
        yield int((data / "postmaster.pid").read_text().split()[0])
    finally:
        subprocess.run([*control, "-m", "fast", "stop"], check=True, stdout=subprocess.DEVNULL, cwd="/")


def status(process: str) -> dict[str, float]:
    """Return the memory of a process in MB by kind; empty once it has ended."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return {}
    kinds = [line.split() for line in lines if line.startswith("Rss")]
    return {kind.rstrip(":"): int(kilobytes) * 1024 / MB for kind, kilobytes, _ in kinds}


def memory(process: int, server: int | None) -> dict[str, float]:
    """Return the anonymous and the mapped memory of the process, and of a server and its processes.

    Memory that the processes of a server share counts once, with the largest share of any process.
    """
    own, children = status(str(process)), []
    if server is not None:
        listed = Path(f"/proc/{server}/task/{server}/children").read_text().split()
        children = [status(one) for one in (str(server), *listed)]
    shared = max((one.get("RssShmem", 0.0) for one in children), default=0.0)
    anonymous = sum(one.get("RssAnon", 0.0) for one in (own, *children))
    return {"memory_mb": anonymous + shared, "mapped_mb": own.get("RssFile", 0.0)}


def processor(server: int | None) -> float:
    """Return the processor seconds of a server, with those of its processes that have ended; 0 without a server."""
    if server is None:
        return 0.0
    fields = Path(f"/proc/{server}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def measured(step: str, name: str, folder: Path, limit: float) -> dict[str, Any]:
    """Run one step in a separate process; add its largest memory and the load of the machine."""
    with postgresql(folder) if name == "pgvector" else nullcontext() as server:
        command = [sys.executable, __file__, "--step", step, name, str(folder)]
        spent = processor(server)
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        peak, loads, began = {"memory_mb": 0.0, "mapped_mb": 0.0}, [], time.perf_counter()
        while process.poll() is None:
            now = memory(process.pid, server)
            peak = {key: max(value, now[key]) for key, value in peak.items()}
            loads.append(os.getloadavg()[0])
            time.sleep(0.05)
            if time.perf_counter() - began > limit:
                process.kill()
                process.wait()
                return {f"{step}_unfinished_s": limit}
        assert process.returncode == 0, f"{step} {name} ended with {process.returncode}"
        assert process.stdout is not None
        made = json.loads(process.stdout.read())
        time.sleep(2 if server else 0)  # until the server's processes have ended
        made["build_cpu_s" if step == "build" else "search_cpu_ms"] += processor(server) - spent
        made |= {"search_cpu_ms": 1000 * made["search_cpu_ms"] / QUESTIONS} if step == "search" else {}
        return {**made, f"{step}_unfinished_s": None, f"{step}_load": float(np.mean(loads)),
                **{f"{step}_{key}": value for key, value in peak.items()}}  # fmt: skip


def recall(folder: Path, name: str) -> float | None:
    paths = [folder / f"{one}.found.npy" for one in ("flat", name)]
    if not all(path.exists() for path in paths):
        return None
    exact, found = (np.load(path) for path in paths)
    return float(np.mean([len({*one} & {*other} - {-1}) / 10 for one, other in zip(exact, found, strict=True)]))


# --- the page ----------------------------------------------------------------------------------------------------


def shown(value: float | None, digits: int = 0, unfinished: float | None = None) -> str:
    if unfinished:
        return f"unfinished after {unfinished:,.0f}"
    return "not measured" if value is None else f"{value:,.{digits}f}"


def line(row: dict[str, Any]) -> str:
    cells = [row["index"], f"{row['size']:,}", shown(row.get("build_s"), 1, row.get("build_unfinished_s"))]
    cells += [shown(row.get("build_cpu_s"), 1), shown(row.get("build_memory_mb")), shown(row.get("disk_mb"), 1)]
    cells += ["exact" if row["index"] == "flat" else shown(row.get("recall"), 3)]
    cells += [shown(row.get(key), 2) for key in ("p50_ms", "p95_ms", "search_cpu_ms")]
    cells += [" + ".join(shown(row.get(key)) for key in ("search_memory_mb", "search_mapped_mb"))]
    cells += [" / ".join(shown(row.get(key), 1) for key in ("build_load", "search_load"))]
    return f"| {' | '.join(cells)} |"


def table(kept: dict[str, Any]) -> str:
    lines = [
        f"`{kept['command']}`: {kept['machine']}.",
        "",
        "| index | chunks | build s | processor s | memory to build MB | disk MB | recall@10 | question p50 ms "
        "| p95 ms | processor ms | memory + mapped to search MB | load building / searching |",
        f"|{' --- |' * 12}",
        *(line(row) for row in kept["rows"]),
    ]
    return "\n".join(lines)


def keep(row: dict[str, Any]) -> None:
    """Add a row of measurements to the file, and write the page from all its rows."""
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {"rows": []}
    rows = {(one["index"], one["size"]): one for one in kept["rows"]}
    if "index" in row:
        key = (row["index"], row["size"])
        rows[key] = {**rows.get(key, {}), **row}
    ordered = sorted(rows.values(), key=lambda one: (one["size"], INDEXES.index(one["index"])))
    sizes = " ".join(str(size) for size in sorted({one["size"] for one in ordered}))
    names = ("faiss-cpu", "lancedb", "pgvector", "pgserver", "numpy")
    flags = Path("/proc/cpuinfo").read_text()
    kept = {
        "command": f"python benchmarks/million.py --sizes {sizes}",
        "machine": f"{os.cpu_count()} x86 cores with{'' if 'amx' in flags else 'out'} AMX, "
        + ", ".join(f"{name} {version(name)}" for name in names),
        "dimension": DIMENSION,
        "embedding": row.get("embedding", kept.get("embedding")),
        "cluster": row.get("cluster", kept.get("cluster")),
        "rows": [{key: round(value, 4) if isinstance(value, float) else value for key, value in one.items()}
                 for one in ordered],
    }  # fmt: skip
    KEPT.write_text(json.dumps(kept, indent=1) + "\n")
    keep_results("million", table(kept).splitlines())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--indexes", nargs="+", choices=INDEXES, default=list(INDEXES))
    parser.add_argument("--steps", nargs="+", choices=["build", "search"], default=["build", "search"])
    parser.add_argument("--limit", type=float, default=3600, help="seconds after which a step is stopped")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "ragsweep_million")
    parser.add_argument("--print", action="store_true", help="print what is measured, and write no file")
    parser.add_argument("--embed", action="store_true", help="measure the embedder, and no index")
    parser.add_argument("--keep", type=Path, nargs="+", help="measure nothing: write what --print printed into files")
    parser.add_argument("--step", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.step:
        step, name, folder = given.step
        print(json.dumps({"build": build, "search": search}[step](name, Path(folder))))
        return
    for path in given.keep or ():
        for printed in path.read_text().splitlines():
            keep(json.loads(printed))
    if given.embed:
        row = embed()
        print(json.dumps(row), flush=True)
        if not given.print:
            keep(row)
    for size in () if given.keep or given.embed else given.sizes:
        folder = given.folder / str(size)
        make(folder, size)
        for name in given.indexes:
            for step in given.steps:
                row = {"index": name, "size": size, **measured(step, name, folder, given.limit)}
                if step == "search" and name != "flat":
                    row["recall"] = recall(folder, name)
                print(json.dumps(row), flush=True)
                if not given.print:
                    keep(row)
                if row.get(f"{step}_unfinished_s"):
                    break


if __name__ == "__main__":
    main()
