"""The sweeper ``hydra/sweeper=optuna`` and its settings; the package ``optuna_sweeper`` implements the search."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra.core.config_store import ConfigStore
from hydra.core.plugins import Plugins
from hydra.core.utils import JobReturn
from hydra.plugins.launcher import Launcher
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import MISSING, DictConfig, OmegaConf

if TYPE_CHECKING:
    from optuna_sweeper.trials import Evaluation


SAMPLERS: dict[str, dict[str, Any]] = {
    # tree-structured Parzen estimator, for any space; multivariate within conditional groups
    "tpe": {"n_startup_trials": 10, "n_ei_candidates": 24, "multivariate": True, "group": True},
    # Gaussian process, for few, expensive trials over about ten numeric parameters
    "gp": {"n_startup_trials": 10, "deterministic_objective": False},
    # CMA-ES, for hundreds of trials over numeric parameters; samples choices and conditional parameters at random
    "cmaes": {"n_startup_trials": 1, "sigma0": None},
    "nsgaii": {"population_size": 50},  # two or three objectives
    "nsgaiii": {"population_size": 50},  # more objectives
    "qmc": {"qmc_type": "sobol", "scramble": True},  # quasi-random numbers, which cover the space evenly
    "random": {},
    "brute_force": {},  # every config once, in random order
    "grid": {},  # every config once, the last parameter changing fastest
}
"""Name of a sampler -> default arguments of its Optuna class.

Every sampler also has the setting ``seed``, the seed of the study, from which the seeds of the trials are derived.
"""


@dataclass
class OptunaSweeperConf:
    """The settings of the sweeper ``optuna``."""

    _target_: str = "hydra_plugins.optuna_sweeper.sweeper.OptunaSweeper"
    defaults: list[Any] = field(default_factory=lambda: ["_self_", {"sampler": "tpe"}, {"race": None}])
    sampler: Any = MISSING  # hydra/sweeper/sampler=tpe, gp, cmaes, nsgaii, nsgaiii, qmc, random, brute_force or grid
    direction: Any = None  # minimize (default) or maximize, or a list with one per objective
    study_name: str | None = None  # null: the job's name, and a hash of space, directions, subject, custom_search_space
    storage: str | None = "sqlite:///study.db"  # or postgresql://...; null: in memory, lost at the end
    n_trials: int = 20  # total number of distinct configs in the study, including those of earlier commands
    n_jobs: int = 1  # trials per launch
    max_failure_rate: float = 0.0  # share of n_trials that may fail before the search is stopped
    params: Any = None  # key -> sweep, or {over: SWEEP, when: PARENT=VALUE}
    custom_search_space: str | None = None  # function(config, trial) that suggests more parameters
    constraints: Any = None  # such as ["latency <= 800"], on values that jobs return under "measured"
    stop: Any = None  # {seconds, patience, by, budget}: limits that end the search early
    default: bool = True  # whether the first trial is the default config of the space
    enqueue: Any = None  # lists of overrides; each list is run as a trial before any config is sampled
    subject: str | None = None  # identifies what is measured, which cannot change in a study; null: fixed overrides
    race: Any = None  # hydra/sweeper/race=NAME: runs trials rung by rung and drops inferior trials early
    plots: bool = True  # whether to draw Optuna's plots at the end, in a few seconds for a dozen parameters
    objectives: Any = None  # names of the objectives in plots
    folder: str | None = None  # folder for study.json and the plots; null: the folder of the sweep
    lapse: float = 90.0  # seconds without a heartbeat after which a process is considered dead


_STORE, _PROVIDER = ConfigStore.instance(), "optuna_sweeper"
_STORE.store(group="hydra/sweeper", name="optuna", node=OptunaSweeperConf, provider=_PROVIDER)
for _name, _arguments in SAMPLERS.items():
    _node = {"name": _name, "seed": 0, **_arguments}
    _STORE.store(group="hydra/sweeper/sampler", name=_name, node=_node, provider=_PROVIDER)


class OptunaSweeper(Sweeper):
    """The Hydra sweeper that searches with Optuna. Its arguments are the settings of ``OptunaSweeperConf``."""

    config: DictConfig
    task: Any
    launcher: Launcher
    hydra_context: HydraContext

    def __init__(self, **settings: Any) -> None:
        from optuna_sweeper.settings import SearchSettings

        self.settings = SearchSettings.read(settings)

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Store the arguments that Hydra passes, and create the launcher."""
        self.hydra_context, self.config, self.task = hydra_context, config, task_function
        self.launcher = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context, task_function=task_function, config=config
        )

    def sweep(self, arguments: list[str]) -> list[Sequence[JobReturn]]:
        """Run the search and return the results of the jobs that this process launched, one list per launch or race.

        If the task has a method ``drive``, call ``drive`` with the launcher's ``launch`` and the config instead, and
        return [].
        """
        from optuna_sweeper.loop import run_search
        from optuna_sweeper.signatures import SearchComposer

        if hasattr(self.task, "drive"):
            self.task.drive(self.launcher.launch, self.config)
            return []
        folder = Path(str(self.config.hydra.sweep.dir))
        folder.mkdir(parents=True, exist_ok=True)
        OmegaConf.save(self.config, folder / "multirun.yaml")
        composer = SearchComposer.by_hydra(self.hydra_context.config_loader, self.config)
        return run_search(self.settings, arguments, self._launch, composer, folder)

    def _launch(self, trials: "Sequence[Evaluation]", until: int | None) -> Sequence[JobReturn]:
        """Launch trials with their overrides and return the results; ``until``: end of a race's rung, or None."""
        race = self.settings.race
        rung = [f"{race.key}={until}"] if race and until is not None else []
        return self.launcher.launch([[*trial.overrides, *rung] for trial in trials], trials[0].job)
