"""Hand a command over to Hydra, which runs the jobs."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from omegaconf import DictConfig

from ragsweep.core.secrets import are_noted, hidden
from ragsweep.sweep.composition import CONFIG, VERSION_BASE, Command, config_folder
from ragsweep.sweep.jobs import run_job

Task = Callable[[DictConfig], object]


def hand_over(command: Command, more: Sequence[str] = (), task: Task = run_job) -> None:
    """Let Hydra run the jobs of a command, with more overrides; whatever it raises reaches the caller."""
    from hydra_plugins.ragsweep_grid import run_jobs, search_path, veil

    veil(hidden if are_noted() else None)
    path = search_path(config_folder(), Path(command.config_dir) if command.config_dir else None)
    run_jobs(task, CONFIG, [*command.overrides, *more], command.multirun, path, version_base=VERSION_BASE)


def ask_hydra(arguments: Sequence[str], task: Task = run_job) -> int:
    """Call Hydra as its users do, with what it answers by itself: ``--cfg``, ``--help`` and the like."""
    import hydra

    with _environment("HYDRA_FULL_ERROR", "1"), _arguments(arguments):
        hydra.main(config_path=str(config_folder()), config_name=CONFIG, version_base=VERSION_BASE)(task)()
    return 0


@contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


@contextmanager
def _arguments(arguments: Sequence[str]) -> Iterator[None]:
    before = sys.argv
    sys.argv = [before[0], *arguments]
    try:
        yield
    finally:
        sys.argv = before
