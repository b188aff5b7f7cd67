"""Measure the overhead of a sweep, and write it with a plot into docs/measurements.md.

    RAGSWEEP_COLLECTIONS=... python benchmarks/sweep.py --folder FOLDER [--parts hand cold floor warm ...]

96 convex configs (32 alphas x top_k 3, 5, 10) over SciFact, chunker=none, in one process tree, each part in a separate
process; compared parts run in the same call. Parts:

- hand: the distinct stages by hand: embed with sentence-transformers, index with bm25s, search
- floor: a hand-written script over those stages: shared, vectorised fusion and metrics, one SQLite transaction per
  config, and the cheapest calls that write the same content to MLflow as ragsweep
- cold, warm, none, off: ragsweep on an empty store; on that store, with an empty ledger; warm, untracked; with
  store.stages=false
- naive: a plain Hydra job: rank_bm25 and faiss built per job over embeddings that are loaded, pytrec_eval, MLflow's
  fluent calls
- peers: ranx and PyTerrier, if installed, which fuse and evaluate, and write nothing
- many: warm and untracked, 100 and 1,000 configs; first: a stored single config, until its first number is printed
"""

import argparse
import json
import math
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tables import keep_results

ROOT = Path(__file__).resolve().parent.parent
ALPHAS = [round(n / 31, 4) for n in range(32)]
TOP_KS = (3, 5, 10)
CONFIGS = len(ALPHAS) * len(TOP_KS)
PARTS = ("hand", "cold", "floor", "warm", "none", "off", "naive", "peers", "many", "first")
REPEATS = {"floor": 3, "floor_none": 3, "warm": 3, "none": 3, "first": 9}
PEERS = {"ranx": "ranx", "pyterrier": "PyTerrier"}


def dataset() -> list[str]:
    folder = Path(os.environ["RAGSWEEP_COLLECTIONS"]).resolve() / "scifact"
    return ["dataset=beir", f"dataset.path={folder}", "dataset.split=test", "chunker=none"]


def sweep(alphas: list[float], *overrides: str) -> list[str]:
    values = ",".join(map(str, alphas))
    tops = ",".join(map(str, TOP_KS))
    return [*dataset(), "retriever=hybrid_convex", f"retriever.alpha={values}", f"top_k={tops}", *overrides]


def ragsweep(folder: Path, *arguments: str) -> float:
    """Run the command in a folder; return its seconds."""
    begun = time.perf_counter()
    done = subprocess.run(
        [sys.executable, str(ROOT / "run.py"), *arguments], cwd=folder, capture_output=True, text=True
    )
    seconds = time.perf_counter() - begun
    if done.returncode:
        raise SystemExit(f"{' '.join(arguments)}: {done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    return seconds


def warm(work: Path, *arguments: str) -> float:
    """Run the command on the stored stages with an empty ledger: with rerun=true it would measure latency again."""
    for path in (work / "ragsweep" / ".ragsweep").glob("ledger.db*"):
        path.unlink()
    return ragsweep(work / "ragsweep", *arguments)


def by_hand(work: Path) -> dict[str, float]:
    """Execute the distinct stages by hand, in this process, and keep the vectors for the floor."""
    from sweep_floor import read

    begun = time.perf_counter()
    _, texts, _, queries, _ = read(Path(os.environ["RAGSWEEP_COLLECTIONS"]) / "scifact")
    import torch
    from sentence_transformers import SentenceTransformer

    from ragsweep.parts.model_files import locate, resolve_dtype

    model = SentenceTransformer(
        str(locate("bundled", "model", False)), local_files_only=True,
        model_kwargs={"dtype": getattr(torch, resolve_dtype("auto", "auto", "dtype"))},
    )  # fmt: skip
    keep = {"batch_size": 32, "normalize_embeddings": True, "convert_to_tensor": True}
    documents = model.encode(texts, **keep).float().numpy()
    asked = model.encode(queries, **keep).float().numpy()
    np.savez(work / "vectors.npz", documents=documents, queries=asked)
    return {"seconds": time.perf_counter() - begun}


def content(work: Path, tracked: bool) -> None:
    """Store ragsweep's record of one config, so that the floor writes the same amount."""
    from ragsweep.core.question_texts import to_texts
    from ragsweep.core.results import Result
    from ragsweep.parts.tracking import files as sent
    from ragsweep.records.ledger import Ledger

    ledger = Ledger(work / "ragsweep" / ".ragsweep")
    result = ledger.records(ledger.sweeps()[0].id)[0].outcome
    assert isinstance(result, Result)
    table = to_texts(result.questions)
    numbers = {name: column for name, column in table.items() if _is_number(column)}
    words = {name: column for name, column in table.items() if name not in numbers}
    facts = {
        "collection": str(Path(os.environ["RAGSWEEP_COLLECTIONS"]).resolve() / "scifact"),
        "alphas": ALPHAS,
        "top_ks": TOP_KS,
        "tracked": tracked,
        "params": dict(result.run.parameters),
        "metrics": {name: value for name, value in sent.metrics(result).items() if value == value},
        "tags": {"ragsweep.kind": "config", "ragsweep.signature": result.run.signature},
        "digest": result.run.dataset.golden_digest[:36],
        "yaml": sent.yaml(result.run.config).decode(),
        "numbers": numbers,
        "words": words,
    }
    (work / "content.json").write_text(json.dumps(facts))


def _is_number(column: Any) -> bool:
    return all(value is None or isinstance(value, int | float) for value in list(column))


def child(script: str, *arguments: str) -> float:
    """Run a script of this folder in a separate process; return its seconds."""
    begun = time.perf_counter()
    subprocess.run([sys.executable, str(Path(__file__).parent / script), *arguments], check=True, capture_output=True)
    return time.perf_counter() - begun


def floor(work: Path, tracked: bool) -> float:
    content(work, tracked)
    for path in work.glob("floor*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    for path in work.glob("own.db*"):
        path.unlink()
    return child("sweep_floor.py", str(work))


def naive(work: Path, jobs: int) -> float:
    """Return the seconds per job, from the difference between several jobs and one."""
    content(work, True)
    alphas = ",".join(map(str, ALPHAS[1 : jobs + 2]))
    output = f"hydra.sweep.dir={work / 'naive'}"
    one = child("sweep_naive.py", str(work), "-m", f"alpha={ALPHAS[1]}", output)
    many = child("sweep_naive.py", str(work), "-m", f"alpha={alphas}", output)
    return (many - one) / jobs


def peer(work: Path, name: str, python: str) -> float:
    """Return the seconds that another library takes for all configs; NaN if it is not installed."""
    content(work, False)
    script = Path(__file__).parent / "sweep_peers.py"
    done = subprocess.run([python, str(script), str(work), name], capture_output=True, text=True)
    if done.returncode:
        print(f"{name}: not measured: {(done.stderr.strip() or 'no reason').splitlines()[-1]}", flush=True)
        return math.nan
    return float(json.loads(done.stdout.splitlines()[-1])["seconds"])


def first(work: Path) -> float:
    """Return the seconds from the start of the command for a stored config to its first number."""
    arguments = [*dataset(), "retriever=hybrid_convex", f"retriever.alpha={ALPHAS[1]}", "top_k=5"]
    ragsweep(work / "ragsweep", *arguments)
    begun = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-u", str(ROOT / "run.py"), *arguments],
        cwd=work / "ragsweep",
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if re.search(r"\[\.\d+, \.\d+\]", line):
            break
    seconds = time.perf_counter() - begun
    process.communicate()
    return seconds


def measure(parts: list[str], work: Path, jobs: int, peers: str) -> dict[str, float]:
    """Run the parts in order; each needs the files of earlier parts."""
    (work / "ragsweep").mkdir(exist_ok=True)
    untracked = [f"store.path={work / 'ragsweep' / '.ragsweep'}", "tracking=none"]
    grid = np.round(np.linspace(0, 1, 334), 5).tolist()
    steps = {
        "hand": lambda: by_hand(work)["seconds"],
        "cold": lambda: ragsweep(work / "ragsweep", "-m", *sweep(ALPHAS)),
        "floor": lambda: floor(work, True),
        "floor_none": lambda: floor(work, False),
        "warm": lambda: warm(work, "-m", *sweep(ALPHAS)),
        "none": lambda: warm(work, "-m", *sweep(ALPHAS, *untracked)),
        "off": lambda: ragsweep(work / "ragsweep", "-m", *sweep(ALPHAS, "store.stages=false", "rerun=true")),
        "naive": lambda: naive(work, jobs),
        **{f"peers_{name}": partial(peer, work, name, peers) for name in PEERS},
        "many_cold": lambda: warm(work, "-m", *sweep(grid, *untracked)),
        "many_100": lambda: warm(work, "-m", *sweep(grid[:33], *untracked)),
        "many_1000": lambda: warm(work, "-m", *sweep(grid, *untracked)),
        "first": lambda: first(work),
    }
    found: dict[str, float] = {}
    for name, step in steps.items():
        if name.split("_")[0] in parts:
            found[name] = float(np.median([step() for _ in range(REPEATS.get(name, 1))]))
            print(f"{name}: {found[name]:.2f} s", flush=True)
    return found


def table(found: dict[str, float]) -> list[str]:
    """Return the table of the measurements, with the bars."""
    each = {name: 1000 * found[name] / CONFIGS for name in ("cold", "warm", "none", "off", "floor", "floor_none")
            if name in found}  # fmt: skip
    lines = ["| what | seconds | ms per config | bar |", "| --- | --- | --- | --- |"]

    def row(name: str, said: str, milliseconds: float | None, bar: str = "") -> None:
        if name in found:
            shown = "" if milliseconds is None else f"{milliseconds:,.1f}"
            lines.append(f"| {said} | {found[name]:.2f} | {shown} | {bar} |")

    row("floor", "(a) floor, by hand, with MLflow", each.get("floor"))
    row("floor_none", "(a) floor, by hand, without MLflow", each.get("floor_none"))
    if "warm" in each and "floor" in each:
        row("warm", "(b) ragsweep, warm", each["warm"], f"at most 1.5 x (a): {each['warm'] / each['floor']:.2f} x")
    if "none" in each and "floor_none" in each:
        ratio = each["none"] / each["floor_none"]
        row("none", "(b) ragsweep, warm, tracking=none", each["none"], f"at most 2.5 x (a): {ratio:.2f} x")
    if {"cold", "hand", "floor"} <= found.keys():
        ratio = found["cold"] / (found["hand"] + 1.5 * found["floor"])
        row("cold", "(c) ragsweep, cold", each["cold"], f"at most 1.15 x (stages by hand + 1.5 x (a)): {ratio:.2f} x")
        row("hand", "the distinct stages, by hand", None)
    row("off", "(d) ragsweep, store.stages=false", each.get("off"))
    if "naive" in found and "warm" in each:
        ratio = 1000 * found["naive"] / each["warm"]
        row("naive", "(e) naive Hydra job, per config", 1000 * found["naive"], f"at least 50 x (b): {ratio:.0f} x")
    for name, said in PEERS.items():
        if not math.isnan(seconds := found.get(f"peers_{name}", math.nan)):
            row(f"peers_{name}", f"{said}: fuse and evaluate, nothing written down", 1000 * seconds / CONFIGS)
    if {"many_100", "many_1000"} <= found.keys():
        row("many_100", "99 configs, warm, untracked", 1000 * found["many_100"] / 99)
        row("many_1000", "1,002 configs, warm, untracked", 1000 * found["many_1000"] / 1002, "no slower a config")
        further = 1000 * (found["many_1000"] - found["many_100"]) / (1002 - 99)
        lines.append(f"| a further config, warm, untracked: the difference of these two | | {further:.1f} | |")
    row("first", "one stored config, until its first number is printed", None, "at most 2.5 s")
    return lines


def plot(found: dict[str, float], path: Path) -> None:
    """Plot the milliseconds per config on a logarithmic scale."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    names = {"floor_none": "by hand, untracked", "none": "ragsweep warm, untracked", "floor": "by hand, MLflow",
             "warm": "ragsweep warm, MLflow", "cold": "ragsweep cold", "off": "ragsweep, store off"}  # fmt: skip
    values = {said: 1000 * found[name] / CONFIGS for name, said in names.items() if name in found}
    if "naive" in found:
        values["naive Hydra job"] = 1000 * found["naive"]
    figure, axes = plt.subplots(figsize=(7, 3), layout="constrained")
    bars = axes.barh(list(values), list(values.values()), color="#4477aa")
    axes.bar_label(bars, fmt="{:,.0f}", padding=3)
    axes.set(xscale="log", xlabel="milliseconds a config, 96 configs over SciFact")
    axes.invert_yaxis()
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--naive-jobs", type=int, default=3)
    parser.add_argument("--peers-python", default=sys.executable, help="the Python that has ranx and PyTerrier")
    parser.add_argument("--folder", type=Path, required=True, help="for stores and databases; parts can be added to it")
    flags = parser.parse_args()
    work = flags.folder.resolve()
    work.mkdir(parents=True, exist_ok=True)
    known = work / "measured.json"
    found = json.loads(known.read_text()) if known.exists() else {}
    found |= measure(flags.parts, work, flags.naive_jobs, flags.peers_python)
    known.write_text(json.dumps(found))
    lines = table(found)
    print("\n".join(lines))
    said = (f"`python benchmarks/sweep.py`, {CONFIGS} configs, Python {platform.python_version()}, {os.cpu_count()}"
            " cores; whole processes, imports included")  # fmt: skip
    if set(flags.parts) != set(PARTS):
        said += f"; parts measured in this call: {', '.join(flags.parts)}; other rows may be from earlier calls"
    keep_results("sweep", [said, "", *lines])
    plot(found, ROOT / "docs" / "sweep.png")


if __name__ == "__main__":
    main()
