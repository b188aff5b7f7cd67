"""The launcher ``hydra/launcher=inline``: Hydra's basic launcher, at a small part of its price a job."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hydra.core.config_store import ConfigStore
from hydra.core.utils import JobReturn, filter_overrides, setup_globals
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig

from hydra_plugins.ragsweep_grid._composing import composer
from hydra_plugins.ragsweep_grid._job import Runner

_log = logging.getLogger(__name__)


@dataclass
class InlineLauncherConf:
    """The launcher has no settings."""

    _target_: str = "hydra_plugins.ragsweep_grid.launcher.InlineLauncher"


ConfigStore.instance().store(group="hydra/launcher", name="inline", node=InlineLauncherConf, provider="ragsweep_grid")


class InlineLauncher(Launcher):
    """Run jobs one after the other in this process."""

    def __init__(self) -> None:
        self.config: DictConfig | None = None
        self.task_function: TaskFunction | None = None
        self.hydra_context: HydraContext | None = None

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Take what Hydra gives."""
        self.hydra_context, self.task_function, self.config = hydra_context, task_function, config

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> list[JobReturn]:
        """Run the jobs; one that fails is a result that holds its exception."""
        setup_globals()
        assert self.config is not None
        assert self.hydra_context is not None
        assert self.task_function is not None
        runner = Runner(self.hydra_context, self.task_function, self.config)
        runner.logs.between()
        Path(str(self.config.hydra.sweep.dir)).mkdir(parents=True, exist_ok=True)
        _log.info("Launching %d jobs in this process", len(job_overrides))
        results = []
        for number, overrides in enumerate(job_overrides, start=initial_job_idx):
            _log.info("\t#%d : %s", number, " ".join(filter_overrides(overrides)))
            config = composer(self.hydra_context.config_loader).sweep_config(self.config, overrides)
            job = config.hydra.job
            job.id, job.num = number, number
            results.append(runner.run(config))
            runner.logs.between()
        return results
