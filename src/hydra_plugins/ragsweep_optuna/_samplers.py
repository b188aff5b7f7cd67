"""Samplers by their names, drawn anew for every trial, so that a trial's draws follow from its number alone."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hydra.errors import HydraException

GRID = "grid"
CLASSES: Mapping[str, str] = {
    "tpe": "TPESampler",
    "gp": "GPSampler",
    "cmaes": "CmaEsSampler",
    "nsgaii": "NSGAIISampler",
    "nsgaiii": "NSGAIIISampler",
    "qmc": "QMCSampler",
    "random": "RandomSampler",
    "brute_force": "BruteForceSampler",
}
_SINGLE = ("cmaes",)
_QUIET = ("gp", "cmaes", "qmc")
"""They cannot model conditional parameters and choices, draw those by themselves, and warn at each."""


def check(settings: Mapping[str, Any], objectives: int, constraints: int) -> None:
    """Refuse a sampler that does not exist, or cannot do what is asked. Raises HydraException."""
    name = settings.get("name")
    where = "hydra/sweeper/sampler"
    if name != GRID and name not in CLASSES:
        raise HydraException(f"{where}: no sampler {name!r}; known: {', '.join([*CLASSES, GRID])}")
    seed = settings.get("seed")
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int)):
        raise HydraException(f"hydra.sweeper.sampler.seed: must be a whole number, given {seed!r}")
    if name in _SINGLE and objectives > 1:
        raise HydraException(f"{where}={name}: knows one objective, given {objectives}; use tpe, gp or nsgaii")
    if constraints and name in _SINGLE:
        raise HydraException(f"{where}={name}: knows no constraints; use tpe, gp or nsgaii")


def seed_of(study: int, trial: int) -> int:
    """Derive the seed of a trial from the study's seed and the trial's number."""
    digest = hashlib.sha256(f"ragsweep-optuna/1 {study} {trial}".encode()).digest()
    return int.from_bytes(digest[:4], "big")


def seeded(settings: Mapping[str, Any]) -> Any:
    """Make the sampler of a study: for each trial a fresh one of the kind that is named, with the trial's own seed.

    A sampler's state would be lost with its process; what it needs of earlier trials is in the storage.
    """
    from optuna.samplers import BaseSampler, RandomSampler

    study_seed = int(settings.get("seed") or 0)

    class Seeded(BaseSampler):
        def __init__(self) -> None:
            self.blind: Callable[[], bool] = lambda: False  # whether to draw at random: the sampler repeats itself
            self._inner: dict[int, Any] = {}

        def _of(self, trial: Any) -> Any:
            if trial.number not in self._inner:
                seed = seed_of(study_seed, trial.number)
                blind = self.blind() or settings.get("name") == GRID
                self._inner[trial.number] = RandomSampler(seed) if blind else _make(settings, seed)
            return self._inner[trial.number]

        def before_trial(self, study: Any, trial: Any) -> None:
            self._of(trial).before_trial(study, trial)

        def infer_relative_search_space(self, study: Any, trial: Any) -> dict[str, Any]:
            return dict(self._of(trial).infer_relative_search_space(study, trial))

        def sample_relative(self, study: Any, trial: Any, search_space: dict[str, Any]) -> dict[str, Any]:
            return dict(self._of(trial).sample_relative(study, trial, search_space))

        def sample_independent(self, study: Any, trial: Any, param_name: str, param_distribution: Any) -> Any:
            return self._of(trial).sample_independent(study, trial, param_name, param_distribution)

        def after_trial(self, study: Any, trial: Any, state: Any, values: Sequence[float] | None) -> None:
            inner = self._of(trial)
            if type(inner).__name__ != "BruteForceSampler":  # it would stop a loop that is not there
                inner.after_trial(study, trial, state, values)
            self._inner.pop(trial.number, None)

    return Seeded()


def _make(settings: Mapping[str, Any], seed: int) -> Any:
    from optuna import samplers
    from optuna.exceptions import ExperimentalWarning

    name = str(settings["name"])
    given = {key: value for key, value in settings.items() if key not in ("name", "seed")}
    if name in _QUIET:
        given |= {"warn_independent_sampling": False, "independent_sampler": samplers.RandomSampler(seed)}
    if name == "qmc":  # one sequence for the study: its trials take turns in it
        given["warn_asynchronous_seeding"] = False
        seed = seed_of(int(settings.get("seed") or 0), -1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        try:
            return getattr(samplers, CLASSES[name])(seed=seed, **given)
        except TypeError as fault:
            raise HydraException(f"hydra.sweeper.sampler: {str(fault).rpartition('() ')[2]}") from None
