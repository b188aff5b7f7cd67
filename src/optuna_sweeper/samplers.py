"""Create Optuna's samplers by name, a new one for each trial.

The sampler's seed is derived from the study's seed and the draw's index; for qmc, from the study's seed alone.
"""

import hashlib
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hydra.errors import HydraException

from optuna_sweeper.parameters import is_whole

GRID, BRUTE_FORCE = "grid", "brute_force"
CLASSES: Mapping[str, str] = {
    "tpe": "TPESampler",
    "gp": "GPSampler",
    "cmaes": "CmaEsSampler",
    "nsgaii": "NSGAIISampler",
    "nsgaiii": "NSGAIIISampler",
    "qmc": "QMCSampler",
    "random": "RandomSampler",
    BRUTE_FORCE: "BruteForceSampler",
}
_WITHOUT_CONDITIONS = ("gp", "cmaes", "qmc")
"""Samplers that draw some parameters, such as conditional ones, independently; Optuna's warning is suppressed."""


def check_sampler(settings: Mapping[str, Any], objectives: int, constraints: int) -> None:
    """Raise HydraException for sampler settings that are invalid for these numbers of objectives and constraints."""
    name, seed, where = settings.get("name"), settings.get("seed"), "hydra/sweeper/sampler"
    if name != GRID and name not in CLASSES:
        raise HydraException(f"{where}: unknown sampler {name!r}; known: {', '.join([*CLASSES, GRID])}")
    if seed is not None and not is_whole(seed):
        raise HydraException(f"hydra.sweeper.sampler.seed: must be a whole number, got {seed!r}")
    if name == "cmaes" and objectives > 1:
        raise HydraException(f"{where}={name}: supports only one objective, got {objectives}; use tpe, gp or nsgaii")
    if name == "cmaes" and constraints:
        raise HydraException(f"{where}={name}: supports no constraints; use tpe, gp or nsgaii")
    if name != GRID and not {*settings} <= {"name", "seed"}:
        create_sampler(settings, 0)


def seed_of(study: int, draw: int) -> int:
    """Derive the seed of a draw from the study's seed and the draw's index."""
    digest = hashlib.sha256(f"ragsweep-optuna/1 {study} {draw}".encode()).digest()
    return int.from_bytes(digest[:4], "big")


def seeded_sampler(
    settings: Mapping[str, Any], draw: Callable[[Any, Any], tuple[int, bool]], is_point: Callable[[Any], bool]
) -> Any:
    """Return a sampler for a study; for each trial, it creates a seeded sampler of the configured kind.

    A single sampler for the whole study would lose its state at the end of its process, whereas a new sampler reads all
    earlier trials from the storage. ``settings`` contains the sampler's name, the study's seed, and arguments of
    Optuna's class. ``draw`` maps a study and a trial to the index of the draw and to whether to draw at random. The
    sampler ``grid`` always draws at random: the values of its points are enqueued, not drawn. ``is_point`` returns
    whether a trial has all the values of a point of the space.
    """
    from optuna.samplers import BaseSampler, RandomSampler

    name, study_seed = settings.get("name"), int(settings.get("seed") or 0)

    class Seeded(BaseSampler):
        def __init__(self) -> None:
            self._samplers: dict[int, Any] = {}

        def _of(self, study: Any, trial: Any) -> Any:
            if trial.number not in self._samplers:
                number, random = draw(study, trial)
                seed = seed_of(study_seed, number)
                new = RandomSampler(seed) if random or name == GRID else create_sampler(settings, seed)
                self._samplers[trial.number] = _among_points(new, is_point) if name == BRUTE_FORCE else new
            return self._samplers[trial.number]

        def before_trial(self, study: Any, trial: Any) -> None:
            self._of(study, trial).before_trial(study, trial)

        def infer_relative_search_space(self, study: Any, trial: Any) -> dict[str, Any]:
            return dict(self._of(study, trial).infer_relative_search_space(study, trial))

        def sample_relative(self, study: Any, trial: Any, search_space: dict[str, Any]) -> dict[str, Any]:
            return dict(self._of(study, trial).sample_relative(study, trial, search_space))

        def sample_independent(self, study: Any, trial: Any, param_name: str, param_distribution: Any) -> Any:
            return self._of(study, trial).sample_independent(study, trial, param_name, param_distribution)

        def after_trial(self, study: Any, trial: Any, state: Any, values: Sequence[float] | None) -> None:
            sampler = self._samplers.pop(trial.number, None)
            # brute_force calls study.stop at the end, but this only works inside ``optimize``
            if sampler is not None and name != BRUTE_FORCE:
                sampler.after_trial(study, trial, state, values)

    return Seeded()


def _among_points(sampler: Any, is_point: Callable[[Any], bool]) -> Any:
    """Return a sampler for one trial that draws as ``sampler`` would in a study with only the points tried so far.

    ``sampler`` must sample values independently. Optuna's brute-force sampler fails on a trial that lacks a value, such
    as an enqueued config outside the space.
    """
    from optuna import create_study
    from optuna.distributions import CategoricalDistribution, IntDistribution
    from optuna.samplers import BaseSampler
    from optuna.trial import create_trial

    class AmongPoints(BaseSampler):
        def __init__(self) -> None:
            self._trial: Any = None  # of the study in memory

        def infer_relative_search_space(self, study: Any, trial: Any) -> dict[str, Any]:
            return {}

        def sample_relative(self, study: Any, trial: Any, search_space: dict[str, Any]) -> dict[str, Any]:
            return {}

        def sample_independent(self, study: Any, trial: Any, param_name: str, param_distribution: Any) -> Any:
            if self._trial is None:
                tried, points = create_study(sampler=sampler), filter(is_point, study.get_trials(deepcopy=False))
                for point in points:
                    tried.add_trial(create_trial(value=0.0, params=point.params, distributions=point.distributions))
                self._trial = tried.ask()
            one = param_distribution
            if isinstance(one, CategoricalDistribution):
                return self._trial.suggest_categorical(param_name, one.choices)
            is_whole = isinstance(one, IntDistribution)
            suggest = self._trial.suggest_int if is_whole else self._trial.suggest_float
            return suggest(param_name, one.low, one.high, step=one.step, log=one.log)

    return AmongPoints()


def create_sampler(settings: Mapping[str, Any], seed: int) -> Any:
    """Create the configured Optuna sampler. Raises HydraException for unknown or invalid arguments."""
    from optuna import samplers
    from optuna.exceptions import ExperimentalWarning

    name = str(settings["name"])
    arguments = {key: value for key, value in settings.items() if key not in ("name", "seed")}
    if name in _WITHOUT_CONDITIONS:
        arguments |= {"warn_independent_sampling": False, "independent_sampler": samplers.RandomSampler(seed)}
    if name == "qmc":  # one sequence per study; each trial takes its next point
        arguments["warn_asynchronous_seeding"] = False
        seed = seed_of(int(settings.get("seed") or 0), -1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        try:
            return getattr(samplers, CLASSES[name])(seed=seed, **arguments)
        except TypeError as fault:
            text = str(fault).rpartition("() ")[2]
            raise HydraException(
                f"hydra.sweeper.sampler: {CLASSES[name]}: {text}; remove or correct the argument"
            ) from None
        except ValueError as fault:
            text = " ".join(str(fault).split()).rstrip(".")
            raise HydraException(f"hydra.sweeper.sampler: {CLASSES[name]}: {text}; correct the argument") from None
