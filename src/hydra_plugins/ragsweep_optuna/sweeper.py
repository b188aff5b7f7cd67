"""The sweeper ``hydra/sweeper=optuna``: what it is told, checked before anything is launched."""

import logging
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from hydra.core.plugins import Plugins
from hydra.core.utils import JobReturn
from hydra.plugins.launcher import Launcher
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from hydra.utils import get_method
from omegaconf import DictConfig, OmegaConf

from hydra_plugins.ragsweep_optuna._config import register
from hydra_plugins.ragsweep_optuna._samplers import GRID
from hydra_plugins.ragsweep_optuna._search import Launch
from hydra_plugins.ragsweep_optuna._settings import Settings
from hydra_plugins.ragsweep_optuna._signing import Composed, Signing
from hydra_plugins.ragsweep_optuna._space import Space, merged, read_space

_log = logging.getLogger(__name__)
register()


class OptunaSweeper(Sweeper):
    """Search with Optuna. The settings are those of ``OptunaSweeperConf``."""

    def __init__(self, **settings: Any) -> None:
        self.settings = Settings.read(settings)
        self.config: DictConfig | None = None
        self.task: Any = None
        self.launcher: Launcher | None = None
        self.hydra_context: HydraContext | None = None

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Take what Hydra gives, and make the launcher."""
        self.hydra_context, self.config, self.task = hydra_context, config, task_function
        self.launcher = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context, task_function=task_function, config=config
        )

    def sweep(self, arguments: list[str]) -> list[Sequence[JobReturn]]:
        """Search, and return the results of the jobs that this process launched, a list a batch."""
        assert self.config is not None
        assert self.hydra_context is not None
        assert self.launcher is not None
        if hasattr(self.task, "drive"):
            self.task.drive(self.launcher.launch, self.config)
            return []
        folder = Path(str(self.config.hydra.sweep.dir))
        folder.mkdir(parents=True, exist_ok=True)
        OmegaConf.save(self.config, folder / "multirun.yaml")
        composed = Composed.by_hydra(self.hydra_context.config_loader, self.config)
        return self.search(arguments, self.launcher.launch, composed, folder)

    def search(
        self, arguments: list[str], launch: Launch, composed: Composed, folder: Path
    ) -> list[Sequence[JobReturn]]:
        """Search with jobs that are started by ``launch``.

        No job starts before each value of each parameter was composed once. What came of the study is written to
        ``optimization_results.yaml`` in the folder.
        """
        from hydra_plugins.ragsweep_optuna._search import Search
        from hydra_plugins.ragsweep_optuna._storage import open_storage
        from hydra_plugins.ragsweep_optuna._study import open_study

        settings = self.settings
        space, signing = read_space(arguments, settings.params, composed.loader), Signing(composed)
        if settings.sampler["name"] == GRID:
            space.points()
        for probe in space.probes(settings.default):
            signing.check(probe)
        asked = self._asked(space, signing, composed.name)
        storage = open_storage(settings.storage)
        try:
            study = open_study(asked, space, storage)
            search = Search(
                study, launch, signing.sign, settings.n_jobs, settings.max_failure_rate, settings.bounds,
                settings.stop, settings.race,
            )  # fmt: skip
            try:
                results = search.run()
            except BaseException:
                with suppress(Exception):  # what ended the search is what the user should read
                    self._leave(study, folder)
                raise
            self._leave(study, folder)
            return results
        finally:
            storage.close()

    def _leave(self, study: Any, folder: Path) -> None:
        """Write what came of the study, with pictures."""
        from hydra_plugins.ragsweep_optuna import _left, _plots

        settings = self.settings
        OmegaConf.save(OmegaConf.create(_left.summary(study.optuna)), folder / "optimization_results.yaml")
        given = Path(settings.folder) if settings.folder else folder
        described = _left.describe(study, settings)
        _left.write(described, given)
        if settings.plots:
            _plots.draw(study.optuna, _plots.called(settings.objectives, len(settings.directions)), given / "plots")
        _log.info("study %s: %s %s", study.asked.name, described["states"], described["stopped"])

    def _asked(self, space: Space, signing: Signing, program: str) -> Any:
        """Put together what the study is to find out."""
        from hydra_plugins.ragsweep_optuna._study import Asked, digest

        settings = self.settings
        subject = settings.subject or " ".join(sorted(space.fixed))
        named = digest([space.described(), settings.directions, subject])[:8]
        first = [()] if settings.default else []
        lists = [merged(space.fixed, lines) for lines in [*first, *settings.enqueue]]
        extend = settings.custom_search_space
        return Asked(
            settings.study_name or f"{program}-{named}",
            settings.directions,
            subject,
            settings.sampler,
            settings.n_trials,
            tuple((lines, space.place(signing.values(lines, space.parameters))) for lines in lists),
            settings.lapse,
            partial(get_method(extend), self.config) if extend else None,
        )
