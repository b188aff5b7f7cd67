"""Measure the cost of a trial without its evaluation: ask, compose, launch, tell, log.

    python benchmarks/search_overhead.py [--trials 120] [--write]

Ours is a search as a user starts it (sweeps=hybrid_tpe, study in SQLite), whose job evaluates nothing: the time
between two jobs, and the time to write one result of usual size to MLflow. The floor, measured alternately, trial by
trial: the same sampler's ask, the same suggestions and tell on a storage of the same kind, and the cheapest calls
that write the same content to MLflow. Bar: at most 1.5 x the floor. --write puts it into docs/measurements.md.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from mirror import EXPERIMENT, RANKED, SETTINGS, a_result, by_hand
from optuna_sweeper.loop import run_search
from optuna_sweeper.samplers import create_sampler, seed_of
from optuna_sweeper.settings import SearchSettings
from optuna_sweeper.signatures import SearchComposer
from optuna_sweeper.space import read_space
from optuna_sweeper.storage import open_storage
from optuna_sweeper.trials import Evaluation
from ragsweep.commands.cli import _quieten
from ragsweep.core.secrets import Secrets
from ragsweep.parts.tracking import Mlflow, RunPlacement
from ragsweep.sweep.composing.command import read_command
from ragsweep.sweep.composing.composition_errors import compose
from ragsweep.sweep.composing.job import Job
from ragsweep.sweep.running.loop import JobLoop
from tables import keep_results

BAR = 1.5
WARM = 20
TPE = {"name": "tpe", "n_startup_trials": 10, "n_ei_candidates": 24, "multivariate": True, "group": True}


def timed(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


class Measured:
    """The empty job, which also times the floor; the time since the previous job is attributed to the search."""

    def __init__(self, folder: Path, params: dict[str, Any]) -> None:
        import optuna
        from mlflow import MlflowClient

        self.tracker, self.result = Mlflow(f"sqlite:///{folder / 'mlflow.db'}"), a_result()
        self.parent = self.tracker.open_sweep("overhead", {}, {}, None)
        EXPERIMENT[self.tracker.uri] = MlflowClient(self.tracker.uri).get_run(self.parent).info.experiment_id
        self.floor = optuna.create_study(
            storage=open_storage(f"sqlite:///{folder / 'floor.db'}").optuna,
            sampler=create_sampler(TPE, 0),
            direction="maximize",
        )
        self.space = read_space([], params)
        self.left = 0.0
        self.times: dict[str, list[float]] = {name: [] for name in ("search", "log", "ask and tell", "by hand")}

    def job(self, number: int) -> float:
        came = time.perf_counter()
        value = seed_of(0, number) / 2**32
        at = RunPlacement(self.parent, str(number))
        pair = [("log", lambda: self.tracker.log_result(self.result, at, RANKED)),
                ("by hand", lambda: by_hand(self.tracker, self.parent, self.result))]  # fmt: skip
        for name, work in pair if number % 2 else pair[::-1]:
            self.times[name].append(timed(work))
        self.times["ask and tell"].append(timed(lambda: self._ask_and_tell(number, value)))
        self.times["search"].append(came - self.left)
        self.left = time.perf_counter()
        return value

    def _ask_and_tell(self, number: int, value: float) -> None:
        self.floor.sampler = create_sampler(TPE, seed_of(0, number))
        trial = self.floor.ask()
        self.space.suggest(trial)
        self.floor.tell(trial, value)


def search(typed: list[str], folder: Path) -> Measured:
    """Run a search as ``run.py -m`` does, with a job that evaluates nothing."""
    command = read_command(typed, multirun=True)
    composer, settings = command.composer, dict(command.search or {})
    first = Job(compose(composer, [*command.fixed, *command.task]), "", tuple(command.task))
    loop = JobLoop(command, first, Secrets())
    measured = Measured(folder, settings["params"])

    def launch(trials: Sequence[Evaluation], until: int | None) -> list[Any]:
        jobs = [Job(trial.config, "", trial.overrides, trial.job, searching=True) for trial in trials]
        return [loop.run(partial(measured.job, job.number), job) for job in jobs]

    composed = SearchComposer(
        lambda lines: compose(composer, [*command.fixed, *lines]),
        composer.loader,
        "ragsweep",
        lambda: OmegaConf.create(first.config.values),
    )
    measured.left = time.perf_counter()
    run_search(SearchSettings.read(settings), command.task, launch, composed, loop.folder)
    return measured


def report(times: dict[str, list[float]]) -> tuple[list[str], float]:
    medians = {name: 1000 * statistics.median(one[WARM:]) for name, one in times.items()}
    pairs = zip(*(one[WARM:] for one in times.values()), strict=True)
    ratio = statistics.median((search + log) / (told + hand) for search, log, told, hand in pairs)
    ours, floor = medians["search"] + medians["log"], medians["ask and tell"] + medians["by hand"]
    lines = [
        "| a trial of a search | ms | by hand | ms |",
        "| --- | --- | --- | --- |",
        f"| ask, sign, launch, tell | {medians['search']:.1f} | Optuna's ask, suggestions and tell |"
        f" {medians['ask and tell']:.1f} |",
        f"| write to MLflow | {medians['log']:.1f} | the same content | {medians['by hand']:.1f} |",
        f"| both | {ours:.1f} | both | {floor:.1f} |",
        "",
        f"Medians of {len(times['log']) - WARM} trials; trial by trial ours takes {ratio:.2f} x the time by hand"
        f" (bar: {BAR:g}).",
        "",
    ]
    return lines, ratio


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--trials", type=int, default=120)
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/ and docs/measurements.md")
    given = parser.parse_args()
    _quieten()
    os.environ.update(SETTINGS)
    with tempfile.TemporaryDirectory() as temporary:
        os.chdir(temporary)
        storage = f"hydra.sweeper.storage=sqlite:///{temporary}/study.db"
        typed = [
            "hydra/sweeper=optuna",
            "sweeps=hybrid_tpe",
            f"hydra.sweeper.n_trials={given.trials}",
            storage,
            "hydra.sweeper.direction=maximize",
        ]
        measured = search(typed, Path(temporary))
        os.chdir("/")
    lines, ratio = report(measured.times)
    print("\n".join(lines))
    if given.write:
        keep_results("overhead", lines)
    sys.exit(f"the bar of {BAR:g} is missed: {ratio:.2f}" if ratio > BAR else 0)


if __name__ == "__main__":
    main()
