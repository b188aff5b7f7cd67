"""The sweeper ``hydra/sweeper=grid``: Hydra's basic sweeper with cases, and with the choice of which jobs to run."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hydra.core.config_store import ConfigStore
from hydra.core.plugins import Plugins
from hydra.core.utils import JobReturn
from hydra.errors import HydraException
from hydra.plugins.launcher import Launcher
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf

from hydra_plugins.ragsweep_grid import _racing
from hydra_plugins.ragsweep_grid._composing import composer
from hydra_plugins.ragsweep_grid._expansion import Job, chosen, expand, stretches
from hydra_plugins.ragsweep_grid._writing import saved

_log = logging.getLogger(__name__)


@dataclass
class GridSweeperConf:
    """The sweeper's settings."""

    _target_: str = "hydra_plugins.ragsweep_grid.sweeper.GridSweeper"
    defaults: list[Any] = field(default_factory=lambda: ["_self_", {"race": None}])
    max_batch_size: int | None = None  # jobs that the launcher gets at once; null: all
    params: dict[str, str] | None = None  # key -> what to sweep over, multiplied out
    cases: Any = None  # lists of overrides, run one after the other; params multiply each of them
    only: Any = None  # numbers of the jobs that are to run; null: all
    race: Any = None  # hydra/sweeper/race=NAME: asks all jobs a little at a time, and drops who need not be asked more


ConfigStore.instance().store(group="hydra/sweeper", name="grid", node=GridSweeperConf, provider="ragsweep_grid")


class GridSweeper(Sweeper):
    """Launch the product of what is swept, for each case, in batches.

    Args:
        max_batch_size: Jobs that the launcher gets at once; None for all of them.
        params: Key -> what to sweep over, as it is typed.
        cases: Lists of overrides. A case overrides ``params``; the command line overrides both.
        only: Numbers of the jobs that are to run. A job keeps its number, its folder and its name.
        race: What decides which jobs are dropped before they have run whole; None for no race.
    """

    def __init__(
        self,
        max_batch_size: int | None = None,
        params: DictConfig | None = None,
        cases: Any = None,
        only: Any = None,
        race: Any = None,
    ) -> None:
        if max_batch_size is not None and max_batch_size < 1:
            raise HydraException(f"hydra.sweeper.max_batch_size: must be at least 1 or null, given {max_batch_size}")
        self.max_batch_size = max_batch_size
        self.params, self.cases, self.only = _plain(params), _plain(cases), _plain(only)
        self.race = _racing.check(race)
        self.config: DictConfig | None = None
        self.launcher: Launcher | None = None
        self.hydra_context: HydraContext | None = None

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Take what Hydra gives, and make the launcher."""
        self.hydra_context, self.config = hydra_context, config
        self.launcher = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context, task_function=task_function, config=config
        )

    def sweep(self, arguments: list[str]) -> list[Sequence[JobReturn]]:
        """Launch all jobs and return their results, a list a batch.

        No job starts before all can be composed. A job that fails, and a batch that cannot be launched, stops no
        other; the first of these faults is raised at the end.
        """
        assert self.config is not None
        jobs = expand(arguments, self.params, self.cases)
        numbers = chosen(self.only, len(jobs))
        self._check([jobs[number] for number in numbers])
        folder = Path(str(self.config.hydra.sweep.dir))
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "multirun.yaml").write_text(saved(self.config), encoding="utf-8")
        wanted = {number: jobs[number].overrides for number in numbers}
        if self.race:
            raced = _racing.run(self.race, wanted, self._results).results
            return [_succeeded(came if isinstance(came, Exception) else [came]) for came in raced.values()]
        return [_succeeded(came) for _, came in self._batches(wanted)]

    def _results(self, jobs: Mapping[int, Sequence[str]]) -> dict[int, JobReturn | Exception]:
        """Launch jobs, and return what came of each."""
        found: dict[int, JobReturn | Exception] = {}
        for batch, came in self._batches(jobs):
            found |= {number: came if isinstance(came, Exception) else came[n] for n, number in enumerate(batch)}
        return found

    def _batches(self, jobs: Mapping[int, Sequence[str]]) -> list[tuple[range, Sequence[JobReturn] | Exception]]:
        """Launch jobs, given by number, in batches."""
        return [
            (batch, self._launch([list(jobs[number]) for number in batch], batch.start))
            for batch in stretches(jobs, self.max_batch_size)
        ]

    def _check(self, jobs: Sequence[Job]) -> None:
        """Compose every job; a fault is said with the case where it was written."""
        assert self.hydra_context is not None
        assert self.config is not None
        composing = composer(self.hydra_context.config_loader)
        for job in jobs:
            try:
                composing.check(self.config, job.overrides)
            except HydraException as fault:
                if where := job.blamed(str(fault)):
                    raise HydraException(f"{where}{fault}") from fault
                raise

    def _launch(self, jobs: list[list[str]], first: int) -> Sequence[JobReturn] | Exception:
        assert self.launcher is not None
        try:
            return self.launcher.launch(jobs, initial_job_idx=first)
        except Exception as fault:
            _log.debug("jobs %d to %d could not be launched", first, first + len(jobs) - 1, exc_info=fault)
            return fault


def _succeeded(outcome: Sequence[JobReturn] | Exception) -> Sequence[JobReturn]:
    """Return the results of a batch; raises what kept it from being launched, or what its first failed job raised."""
    if isinstance(outcome, Exception):
        raise outcome
    for result in outcome:
        _ = result.return_value
    return outcome


def _plain(value: Any) -> Any:
    return OmegaConf.to_container(value, resolve=True) if OmegaConf.is_config(value) else value
