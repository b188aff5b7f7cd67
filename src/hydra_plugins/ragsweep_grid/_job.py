"""Run a job as Hydra does, at a small part of its price."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.core.utils import JobReturn, JobRuntime, JobStatus, _flush_loggers, env_override
from hydra.types import HydraContext, TaskFunction
from hydra.version import base_at_least
from omegaconf import DictConfig, OmegaConf, open_dict, read_write

from hydra_plugins.ragsweep_grid._cloning import only, part
from hydra_plugins.ragsweep_grid._composing import raw
from hydra_plugins.ragsweep_grid._logs import Logs
from hydra_plugins.ragsweep_grid._writing import text

_CLOCK = re.compile(r"(?:[^$]|\$\{now:[^${}]*\})*")
"""A folder's name that no job changes."""


class Runner:
    """Run the jobs of one sweep, one after the other."""

    def __init__(self, context: HydraContext, task: TaskFunction, sweep: DictConfig) -> None:
        self._context, self._task = context, task
        self.logs = Logs(sweep)
        self._sweep, self._shared = sweep, str(sweep.hydra.sweep.dir)

    def run(self, config: DictConfig) -> JobReturn:
        """Run a job: what ``hydra.core.utils.run_job`` does, in its order.

        The result holds what the task returned or raised; what a callback raises is raised.
        """
        singleton: Any = HydraConfig.instance()
        before = singleton.cfg
        try:
            folder = self._enter(config, singleton)
            # Nobody else has this config: what Hydra copies is taken. Its own node is read-only from here on.
            result = JobReturn(cfg=part(config, "hydra"), hydra_cfg=singleton.cfg)
            result.overrides = raw(config.hydra.overrides.task)
            Path(folder).mkdir(parents=True, exist_ok=True)
            with _working_in(folder if _changes_folder(config) else None):
                result.working_dir = folder if _changes_folder(config) else str(Path.cwd())
                self.logs.configure(config)
                _save(config, result)
                self._call(config, result)
            return result
        finally:
            singleton.cfg = before

    def _enter(self, config: DictConfig, singleton: Any) -> str:
        """Decide the job's folder, and let ``HydraConfig`` speak of this job."""
        OmegaConf.set_readonly(config.hydra, True)
        singleton.cfg = config  # the folder's name may ask for ${hydra:job.num}
        folder = os.path.join(self._folder(config), str(OmegaConf.select(config, "hydra.sweep.subdir")))  # noqa: PTH118
        runtime = config.hydra.runtime
        with read_write(runtime), open_dict(runtime):
            runtime.output_dir = os.path.abspath(folder)  # noqa: PTH100 - as Hydra spells it
        # The node is shown alone, but its interpolations reach into the whole config.
        singleton.cfg = only(config, "hydra")
        singleton.cfg._get_node("hydra")._set_parent(config)
        return folder

    def _folder(self, config: DictConfig) -> str:
        """Resolve ``hydra.sweep.dir``; parsing ``${now:...}`` takes long, and all jobs have the sweep's clock."""
        raw = config.hydra.sweep._get_node("dir")._value()
        if raw == self._sweep.hydra.sweep._get_node("dir")._value() and _CLOCK.fullmatch(str(raw)):
            return self._shared
        return str(OmegaConf.select(config, "hydra.sweep.dir"))

    def _call(self, config: DictConfig, result: JobReturn) -> None:
        assert result.hydra_cfg is not None
        callbacks = self._context.callbacks
        with env_override(result.hydra_cfg.hydra.job.env_set):
            callbacks.on_job_start(config=config, task_function=self._task)
            try:
                result.return_value = self._task(result.cfg)
                result.status = JobStatus.COMPLETED
            except Exception as fault:
                result.return_value = fault
                result.status = JobStatus.FAILED
        result.task_name = JobRuntime.instance().get("name")
        _flush_loggers()
        callbacks.on_job_end(config=config, job_return=result)


def _changes_folder(config: DictConfig) -> bool:
    wanted = config.hydra.job.chdir
    return not base_at_least("1.2") if wanted is None else bool(wanted)


@contextmanager
def _working_in(folder: str | None) -> Iterator[None]:
    if folder is None:
        yield
        return
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def _save(config: DictConfig, result: JobReturn) -> None:
    if config.hydra.output_subdir is None:
        return
    folder = Path(config.hydra.runtime.output_dir) / config.hydra.output_subdir
    folder.mkdir(parents=True, exist_ok=True)
    saved = {"config": result.cfg, "hydra": result.hydra_cfg, "overrides": config.hydra.overrides.task}
    for name, node in saved.items():
        (folder / f"{name}.yaml").write_text(text(node), encoding="utf-8")
