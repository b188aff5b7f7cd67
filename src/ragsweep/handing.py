"""Hand arguments over to Hydra, which runs the jobs."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from omegaconf import DictConfig

from ragsweep.composition import CONFIG, VERSION_BASE, config_folder
from ragsweep.jobs import run_job


def hand_over(arguments: Sequence[str], task: Callable[[DictConfig], object] = run_job) -> int:
    """Call Hydra with these arguments; whatever it raises reaches the caller."""
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
