"""Evaluate a config in this process: what `run.py` does, without Hydra's folders and without tracking."""

from __future__ import annotations

from pathlib import Path

from ragsweep.core.results import Result
from ragsweep.evaluation.evaluator import Experiment
from ragsweep.sweep.command import compose_jobs, read_command
from ragsweep.sweep.session import Job, Session


def prepare(session: Session, *overrides: str) -> Experiment:
    """Compose and check one config."""
    command = read_command(overrides, multirun=False)
    return session.prepare(Job(compose_jobs(command)[0], command.names()[0], tuple(overrides)))


def evaluate(session: Session, *overrides: str) -> Result:
    """Evaluate one config."""
    return session.evaluator.evaluate(prepare(session, *overrides))


def beir(folder: Path, split: str = "test") -> list[str]:
    """Choose a BEIR folder."""
    return ["dataset=beir", f"dataset.path={folder}", f"dataset.split={split}"]
