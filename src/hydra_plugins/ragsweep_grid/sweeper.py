"""The sweeper ``hydra/sweeper=grid``: Hydra's basic sweeper, extended with cases (lists of overrides)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hydra.core.config_loader import ConfigLoader
from hydra.core.config_store import ConfigStore
from hydra.core.plugins import Plugins
from hydra.core.utils import JobReturn
from hydra.errors import HydraException
from hydra.plugins.launcher import Launcher
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf

from optuna_sweeper.signatures import resolved


@dataclass
class GridSweeperConf:
    """The settings of the sweeper ``grid``."""

    _target_: str = "hydra_plugins.ragsweep_grid.sweeper.GridSweeper"
    defaults: list[Any] = field(default_factory=lambda: ["_self_", {"race": None}])
    max_batch_size: int | None = None  # jobs per launch; null: all
    params: Any = None  # key -> swept values; every combination is run
    cases: Any = None  # lists of overrides, each combined with params; the command line overrides both
    race: Any = None  # hydra/sweeper/race=NAME: runs jobs rung by rung and drops inferior jobs early


ConfigStore.instance().store(group="hydra/sweeper", name="grid", node=GridSweeperConf, provider="ragsweep_grid")


class GridSweeper(Sweeper):
    """The Hydra sweeper that launches, in batches, one job for each combination of a case and swept values.

    Its arguments are the settings of ``GridSweeperConf``. The sweeper ignores ``race``, which only ragsweep's own
    command reads. For that command, the sweeper only provides Hydra's launcher.
    """

    task: Any
    loader: ConfigLoader
    config: DictConfig
    launcher: Launcher

    def __init__(
        self, max_batch_size: int | None = None, params: Any = None, cases: Any = None, race: Any = None
    ) -> None:
        if max_batch_size is not None and max_batch_size < 1:
            raise HydraException(f"hydra.sweeper.max_batch_size: must be at least 1 or null, got {max_batch_size}")
        self.max_batch_size = max_batch_size
        self.params, self.cases = resolved(params), resolved(cases)

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Store the arguments that Hydra passes, and create the launcher."""
        self.task, self.config, self.loader = task_function, config, hydra_context.config_loader
        self.launcher = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context, task_function=task_function, config=config
        )

    def sweep(self, arguments: list[str]) -> list[Sequence[JobReturn]]:
        """Launch all jobs and return their results, one list per batch.

        If a job fails, raise the exception of the first failed job, after all jobs have run. If the task has a method
        ``drive``, call ``drive`` with the launcher's ``launch`` and the config instead, and return [].
        """
        from ragsweep.sweep.composing.expansion import expand

        if hasattr(self.task, "drive"):
            self.task.drive(self.launcher.launch, self.config)
            return []
        folder = Path(str(self.config.hydra.sweep.dir))
        folder.mkdir(parents=True, exist_ok=True)
        OmegaConf.save(self.config, folder / "multirun.yaml")
        cases = expand(arguments, self.params, self.cases, options=self.loader.get_group_options)
        jobs = [list(case.overrides) for case in cases]
        size = self.max_batch_size or max(len(jobs), 1)
        batches = [self.launcher.launch(jobs[n : n + size], n) for n in range(0, len(jobs), size)]
        for result in (result for batch in batches for result in batch):
            _ = result.return_value  # raises the job's exception
        return batches
