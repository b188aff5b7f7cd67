"""The settings of ``hydra/sweeper=optuna`` and of its samplers, as Hydra's config store holds them."""

from dataclasses import dataclass, field
from typing import Any

from hydra.core.config_store import ConfigStore
from omegaconf import MISSING


@dataclass
class SamplerConf:
    """A sampler by its name; every other key is an argument of Optuna's class."""

    name: str
    seed: int | None = 0  # of the study; each trial draws with a seed made of this one and its number


@dataclass
class TpeConf(SamplerConf):
    """Tree of Parzen estimators: for any space, conditional ones too."""

    name: str = "tpe"
    n_startup_trials: int = 10  # drawn at random before the sampler begins
    n_ei_candidates: int = 24
    multivariate: bool = True
    group: bool = True  # parameters that exist together are drawn together


@dataclass
class GpConf(SamplerConf):
    """Gaussian process: few, dear trials over some ten numbers."""

    name: str = "gp"
    n_startup_trials: int = 10
    deterministic_objective: bool = False


@dataclass
class CmaesConf(SamplerConf):
    """CMA-ES: hundreds of trials over numbers; choices and conditional parameters are drawn at random."""

    name: str = "cmaes"
    n_startup_trials: int = 1
    sigma0: float | None = None


@dataclass
class NsgaiiConf(SamplerConf):
    """NSGA-II: two or three objectives."""

    name: str = "nsgaii"
    population_size: int = 50


@dataclass
class NsgaiiiConf(SamplerConf):
    """NSGA-III: more objectives."""

    name: str = "nsgaiii"
    population_size: int = 50


@dataclass
class QmcConf(SamplerConf):
    """Quasi-random numbers: an even cover of the space."""

    name: str = "qmc"
    qmc_type: str = "sobol"
    scramble: bool = True


@dataclass
class RandomConf(SamplerConf):
    """Random numbers."""

    name: str = "random"


@dataclass
class BruteForceConf(SamplerConf):
    """Every config once, in random order."""

    name: str = "brute_force"


@dataclass
class GridConf(SamplerConf):
    """Every config once, the last parameter changing first."""

    name: str = "grid"


@dataclass
class OptunaSweeperConf:
    """The sweeper's settings."""

    _target_: str = "hydra_plugins.ragsweep_optuna.sweeper.OptunaSweeper"
    defaults: list[Any] = field(default_factory=lambda: ["_self_", {"sampler": "tpe"}, {"race": None}])
    sampler: Any = MISSING  # hydra/sweeper/sampler=tpe, gp, cmaes, nsgaii, nsgaiii, qmc, random, brute_force or grid
    direction: Any = None  # minimize (what null means) or maximize; a list with one for each number that a job returns
    study_name: str | None = None  # null: named after the job, the space and what is overridden
    storage: str | None = "sqlite:///study.db"  # or postgresql://...; null: kept in memory, and lost
    n_trials: int = 20  # different configs that the study evaluates in all, whatever was evaluated before
    n_jobs: int = 1  # trials that the launcher gets at once
    max_failure_rate: float = 0.0  # share of n_trials that may fail before the search is stopped
    params: Any = None  # key -> sweep, or {over: SWEEP, when: PARENT=VALUE}
    custom_search_space: str | None = None  # function(config, trial) that asks the trial for more parameters
    constraints: Any = None  # such as ["latency <= 800"], about what jobs return under "measured"
    stop: Any = None  # {seconds, patience, by, budget}: what ends the search before it has all of its trials
    default: bool = True  # the config without anything swept is the first trial
    enqueue: Any = None  # lists of overrides that are tried next
    subject: str | None = None  # what is measured; a study is continued only with the same. null: the fixed overrides
    race: Any = None  # hydra/sweeper/race=NAME: trials are asked a little at a time, and dropped when they are worse
    plots: bool = True  # Optuna's pictures at the end: some seconds, with a dozen parameters
    objectives: Any = None  # what pictures call the numbers that a job returns
    folder: str | None = None  # where study.json and the plots are left; null: the folder of the sweep
    lapse: float = 90.0  # seconds of silence after which a process counts as dead, and its trial is taken over


_PROVIDER = "ragsweep_optuna"


def register() -> None:
    """Register the options with Hydra."""
    store = ConfigStore.instance()
    store.store(group="hydra/sweeper", name="optuna", node=OptunaSweeperConf, provider=_PROVIDER)
    samplers = (
        TpeConf, GpConf, CmaesConf, NsgaiiConf, NsgaiiiConf, QmcConf, RandomConf, BruteForceConf, GridConf
    )  # fmt: skip
    for one in samplers:
        store.store(group="hydra/sweeper/sampler", name=one.name, node=one, provider=_PROVIDER)
