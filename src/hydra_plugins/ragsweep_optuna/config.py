"""The settings of ``hydra/sweeper=optuna`` and of its samplers, as Hydra's config store holds them."""

from dataclasses import dataclass, field
from typing import Any

from hydra.core.config_store import ConfigStore
from omegaconf import MISSING

SAMPLERS: dict[str, dict[str, Any]] = {
    # tree of Parzen estimators, for any space; parameters that exist together are drawn together
    "tpe": {"n_startup_trials": 10, "n_ei_candidates": 24, "multivariate": True, "group": True},
    # Gaussian process, for few, expensive trials over some ten numbers
    "gp": {"n_startup_trials": 10, "deterministic_objective": False},
    # CMA-ES, for hundreds of trials over numbers; choices and conditional parameters are drawn at random
    "cmaes": {"n_startup_trials": 1, "sigma0": None},
    "nsgaii": {"population_size": 50},  # two or three objectives
    "nsgaiii": {"population_size": 50},  # more objectives
    "qmc": {"qmc_type": "sobol", "scramble": True},  # quasi-random numbers, an even cover of the space
    "random": {},
    "brute_force": {},  # every config once, in random order
    "grid": {},  # every config once, the last parameter changing first
}
"""The samplers with arguments of Optuna's classes. Each has a seed: of the study, from which each trial's follows."""


@dataclass
class OptunaSweeperConf:
    """The sweeper's settings."""

    _target_: str = "hydra_plugins.ragsweep_optuna.sweeper.OptunaSweeper"
    defaults: list[Any] = field(default_factory=lambda: ["_self_", {"sampler": "tpe"}, {"race": None}])
    sampler: Any = MISSING  # hydra/sweeper/sampler=tpe, gp, cmaes, nsgaii, nsgaiii, qmc, random, brute_force or grid
    direction: Any = None  # minimize (the meaning of null) or maximize; a list with one for each objective
    study_name: str | None = None  # null: named after the job, the space and what is overridden
    storage: str | None = "sqlite:///study.db"  # or postgresql://...; null: kept in memory, and lost
    n_trials: int = 20  # different configs that the study evaluates in all, earlier ones included
    n_jobs: int = 1  # trials that the launcher gets at once
    max_failure_rate: float = 0.0  # share of n_trials that may fail before the search is stopped
    params: Any = None  # key -> sweep, or {over: SWEEP, when: PARENT=VALUE}
    custom_search_space: str | None = None  # function(config, trial) that suggests more parameters
    constraints: Any = None  # such as ["latency <= 800"], about what jobs return under "measured"
    stop: Any = None  # {seconds, patience, by, budget}: limits that end the search early
    default: bool = True  # the config without anything swept is the first trial
    enqueue: Any = None  # lists of overrides that are tried next
    subject: str | None = None  # what is measured; a study is continued only with the same. null: the fixed overrides
    race: Any = None  # hydra/sweeper/race=NAME: trials are asked a little at a time, and dropped when they are worse
    plots: bool = True  # Optuna's plots at the end: some seconds with a dozen parameters
    objectives: Any = None  # names of the objectives in plots
    folder: str | None = None  # of study.json and the plots; null: the folder of the sweep
    lapse: float = 90.0  # seconds without a heartbeat after which a process counts as dead


_PROVIDER = "ragsweep_optuna"


def register() -> None:
    """Register the options with Hydra."""
    store = ConfigStore.instance()
    store.store(group="hydra/sweeper", name="optuna", node=OptunaSweeperConf, provider=_PROVIDER)
    for name, arguments in SAMPLERS.items():
        node = {"name": name, "seed": 0, **arguments}
        store.store(group="hydra/sweeper/sampler", name=name, node=node, provider=_PROVIDER)
