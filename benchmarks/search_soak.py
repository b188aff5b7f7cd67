"""Run a thousand empty trials in one process: does a search become slower or larger, or leak files or threads?

    python benchmarks/search_soak.py [--trials 1000] [--samplers random tpe] [--folder FOLDER]

Prints a row per sampler, and a row for Optuna alone with the same parameters on the same kind of storage: seconds per
trial in the first and the last hundred, kB of memory that each trial adds, open files and threads at the hundredth and
the last trial. Bars: last hundred at most 1.5 x the first, less than 1 kB per trial, no further files or threads. Times
are processor time, which other programs affect little.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np

PROGRAM = """
import json, os, threading, time
import hydra

log = open("log", "w")

@hydra.main(version_base="1.3", config_path="conf", config_name="config")
def main(config):
    pages = int(open("/proc/self/statm").read().split()[1])
    files = len(os.listdir("/proc/self/fd"))
    log.write(json.dumps([time.process_time(), pages * 4, files, threading.active_count()]) + chr(10))
    return (config.x - 3) ** 2 + config.kind.get("alpha", 1)

main()
"""
ALONE = """
import json, os, sys, threading, time
import optuna

optuna.logging.set_verbosity(optuna.logging.WARNING)
samplers = {"random": optuna.samplers.RandomSampler, "tpe": optuna.samplers.TPESampler}
log, trials, sampler = open("log", "w"), int(sys.argv[1]), samplers[sys.argv[2]](seed=0)
study = optuna.create_study(storage="sqlite:///study.db", sampler=sampler)
for _ in range(trials):
    trial = study.ask()
    kind, x = trial.suggest_categorical("kind", ["plain", "convex"]), trial.suggest_float("x", 0, 90)
    alpha = trial.suggest_float("alpha", 0, 1) if kind == "convex" else 1
    pages = int(open("/proc/self/statm").read().split()[1])
    files = len(os.listdir("/proc/self/fd"))
    log.write(json.dumps([time.process_time(), pages * 4, files, threading.active_count()]) + chr(10))
    study.tell(trial, (x - 3) ** 2 + alpha)
"""
CONFIG = """
defaults: [_self_, {kind: plain}, {override hydra/sweeper: optuna}, {override hydra/launcher: inline},
           {override hydra/job_logging: none}, {override hydra/hydra_logging: none}]
x: 1
hydra:
  output_subdir: null
  sweeper:
    params:
      kind: plain,convex
      x: interval(0,90)
      kind.alpha: {over: "interval(0,1)", when: kind=convex}
"""


class Soaked(NamedTuple):
    """Measurements of a search of many trials."""

    trials: int
    first: float  # seconds of processor time per trial, in the first hundred
    last: float
    kilobytes: float  # of memory that a trial adds, from the two hundredth on
    files: tuple[int, int]  # open at the hundredth trial, and at the last
    threads: tuple[int, int]


def write_program(folder: Path) -> None:
    """Write a Hydra program with an empty task that records its cost."""
    (folder / "conf" / "kind").mkdir(parents=True, exist_ok=True)
    (folder / "app.py").write_text(PROGRAM)
    (folder / "alone.py").write_text(ALONE)
    (folder / "conf" / "config.yaml").write_text(CONFIG)
    (folder / "conf" / "kind" / "plain.yaml").write_text("name: plain\n")
    (folder / "conf" / "kind" / "convex.yaml").write_text("name: convex\nalpha: 0.5\n")


def soak(folder: Path, trials: int, sampler: str, alone: bool = False) -> Soaked:
    """Search in a separate process, by Hydra or by Optuna alone, and read its records."""
    write_program(folder)
    ours = ["app.py", "-m", f"hydra.sweeper.n_trials={trials}", f"hydra/sweeper/sampler={sampler}"]
    command = [sys.executable, *(["alone.py", str(trials), sampler] if alone else ours)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    noted = np.array([json.loads(line) for line in (folder / "log").read_text().splitlines()])
    assert len(noted) == trials
    seconds, part, settled = np.diff(noted[:, 0]), min(100, trials // 4), min(200, trials // 4)
    slope = np.polyfit(np.arange(settled, trials), noted[settled:, 1], 1)[0]
    files, threads = ((int(noted[part, n]), int(noted[-1, n])) for n in (2, 3))
    return Soaked(trials, float(seconds[:part].mean()), float(seconds[-part:].mean()), float(slope), files, threads)


def main() -> None:
    """Run the benchmark and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--samplers", nargs="+", default=["random", "tpe"])
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    print("| sampler | trials | ms a trial, first 100 | last 100 | kB a trial | open files | threads |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for sampler, alone in product(given.samplers, (False, True)):
        with tempfile.TemporaryDirectory(dir=given.folder) as folder:
            one = soak(Path(folder), given.trials, sampler, alone)
        name = f"{sampler}, Optuna alone" if alone else sampler
        print(
            f"| {name} | {one.trials} | {1e3 * one.first:.1f} | {1e3 * one.last:.1f} | {one.kilobytes:.2f} |"
            f" {one.files[0]} to {one.files[1]} | {one.threads[0]} to {one.threads[1]} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
