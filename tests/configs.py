"""Evaluate a config in this process as `run.py` does, without Hydra's folders and without tracking."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from ragsweep.core.results import Result
from ragsweep.core.secrets import Secrets
from ragsweep.evaluation.experiment import Experiment
from ragsweep.sweep.composing.compose import Composer
from ragsweep.sweep.composing.composition_errors import compose
from ragsweep.sweep.composing.config_policy import ConfigPolicy
from ragsweep.sweep.composing.job import Job
from ragsweep.sweep.composing.sweep_names import defining
from ragsweep.sweep.composing.template import JobConfig
from ragsweep.sweep.running.session import Session


def prepare(session: Session, *overrides: str) -> Experiment:
    """Compose and check one config."""
    name = " ".join(defining(overrides)) or "defaults"
    return session.prepare(Job(composed(*overrides), name, tuple(overrides)))


def composed(*overrides: str) -> JobConfig:
    """Compose one config; equal choices of options are composed once, which takes longer than most tests."""
    return compose(_composer(Path.cwd()), overrides)


@cache
def _composer(folder: Path) -> Composer:
    return Composer(policy=ConfigPolicy(Secrets()))


def evaluate(session: Session, *overrides: str) -> Result:
    """Evaluate one config."""
    return session.evaluator.evaluate(prepare(session, *overrides))


def beir(folder: Path, split: str = "test") -> list[str]:
    """Choose a BEIR folder."""
    return ["dataset=beir", f"dataset.path={folder}", f"dataset.split={split}"]
