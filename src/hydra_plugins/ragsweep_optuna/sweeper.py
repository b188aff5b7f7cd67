"""The sweeper ``hydra/sweeper=optuna``; its body is ``ragsweep.sweep.search``."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hydra.core.plugins import Plugins
from hydra.core.utils import JobReturn
from hydra.plugins.launcher import Launcher
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf

from hydra_plugins.ragsweep_optuna.config import register

register()


class OptunaSweeper(Sweeper):
    """Search with Optuna. The settings are those of ``OptunaSweeperConf``."""

    def __init__(self, **settings: Any) -> None:
        from ragsweep.sweep.search.settings import SearchSettings

        self.settings = SearchSettings.read(settings)
        self.config: DictConfig | None = None
        self.task: Any = None
        self.launcher: Launcher | None = None
        self.hydra_context: HydraContext | None = None

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Create the launcher."""
        self.hydra_context, self.config, self.task = hydra_context, config, task_function
        self.launcher = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context, task_function=task_function, config=config
        )

    def sweep(self, arguments: list[str]) -> list[Sequence[JobReturn]]:
        """Search, and return the results of the jobs that this process launched, a list a batch."""
        from ragsweep.sweep.search.loop import run_search
        from ragsweep.sweep.search.signatures import SearchComposer

        assert self.config is not None
        assert self.hydra_context is not None
        assert self.launcher is not None
        if hasattr(self.task, "drive"):  # ragsweep's own commands search by themselves, with Hydra's launcher
            self.task.drive(self.launcher.launch, self.config)
            return []
        folder = Path(str(self.config.hydra.sweep.dir))
        folder.mkdir(parents=True, exist_ok=True)
        OmegaConf.save(self.config, folder / "multirun.yaml")
        composer = SearchComposer.by_hydra(self.hydra_context.config_loader, self.config)
        return run_search(self.settings, arguments, self.launcher.launch, composer, folder)
