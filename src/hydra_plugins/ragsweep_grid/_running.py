"""Run a program's jobs as ``hydra.main`` does, where it is known already whether there is one job or many."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hydra._internal.callbacks import Callbacks
from hydra._internal.hydra import Hydra
from hydra._internal.utils import detect_task_name
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.global_hydra import GlobalHydra
from hydra.types import HydraContext, RunMode
from hydra.version import setbase
from omegaconf import DictConfig

from hydra_plugins.ragsweep_grid._composing import Recalling
from hydra_plugins.ragsweep_grid._job import Runner


def run_jobs(
    task: Callable[[DictConfig], object],
    name: str,
    overrides: Sequence[str],
    multirun: bool,
    path: ConfigSearchPath,
    *,
    version_base: str,
) -> None:
    """Run a task with the config of this name in a folder; whatever is raised reaches the caller.

    ``hydra.main`` composes once more beforehand, to learn from the config whether there are many jobs. ``path``:
    where configs are searched for.
    """
    setbase(version_base)
    hydra = Hydra(detect_task_name(None, task.__module__), Recalling(path))
    GlobalHydra.instance().initialize(hydra)
    lines = list(overrides)
    if not any(line.startswith("hydra.mode=") for line in lines):
        lines.append(f"hydra.mode={'MULTIRUN' if multirun else 'RUN'}")
    try:
        if multirun:
            hydra.multirun(name, task, lines)
        else:
            _run(hydra, name, task, lines)
    finally:
        GlobalHydra.instance().clear()


def _run(hydra: Hydra, name: str, task: Callable[[DictConfig], object], overrides: list[str]) -> None:
    """Run one job as ``Hydra.run`` does."""
    config = hydra.compose_config(name, overrides, RunMode.RUN, with_log_configuration=True)
    callbacks = Callbacks(config)
    callbacks.on_run_start(config=config, config_name=name)
    context = HydraContext(config_loader=hydra.config_loader, callbacks=callbacks)
    result = Runner(context, task, config, sweep=False).run(config)
    callbacks.on_run_end(config=config, config_name=name, job_return=result)
    _ = result.return_value  # raises what the job raised
