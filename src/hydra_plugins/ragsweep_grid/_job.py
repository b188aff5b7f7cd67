"""Run a job as Hydra does, at a small part of its price."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from hydra.core.hydra_config import HydraConfig
from hydra.core.utils import JobReturn, JobRuntime, JobStatus, _flush_loggers, env_override
from hydra.types import HydraContext, TaskFunction
from hydra.version import base_at_least
from omegaconf import DictConfig, OmegaConf

from hydra_plugins.ragsweep_grid._composing import raw
from hydra_plugins.ragsweep_grid._following import selected
from hydra_plugins.ragsweep_grid._late import copied, only, set_flag
from hydra_plugins.ragsweep_grid._logs import Logs
from hydra_plugins.ragsweep_grid._writing import saved

_CLOCK = re.compile(r"(?:[^$]|\$\{now:[^${}]*\})*")
"""A folder's name that no job changes."""


class Runner:
    """Run jobs one after the other: those of a sweep, or the only one."""

    def __init__(self, context: HydraContext, task: TaskFunction, whole: DictConfig, *, sweep: bool = True) -> None:
        self._context, self._task = context, task
        self.logs = Logs(whole)
        self._whole, self._folder_key = whole, "hydra.sweep.dir" if sweep else "hydra.run.dir"
        self._subfolder_key = "hydra.sweep.subdir" if sweep else None

    def run(self, config: DictConfig) -> JobReturn:
        """Run a job: what ``hydra.core.utils.run_job`` does, in its order.

        The result holds what the task returned or raised; what a callback raises is raised.
        """
        singleton: Any = HydraConfig.instance()
        before = singleton.cfg
        try:
            folder = self._enter(config, singleton)
            result = JobReturn(cfg=copied(config, "hydra"), hydra_cfg=singleton.cfg)
            result.overrides = raw(config.hydra.overrides.task)
            Path(folder).mkdir(parents=True, exist_ok=True)
            with _working_in(folder if _changes_folder(config) else None):
                result.working_dir = folder if _changes_folder(config) else str(Path.cwd())
                self.logs.configure(config)
                save(cast(DictConfig, result.cfg), singleton.cfg)
                self._call(config, result)
            return result
        finally:
            singleton.cfg = before

    def _enter(self, config: DictConfig, singleton: Any) -> str:
        """Decide the job's folder, and let ``HydraConfig`` speak of this job."""
        singleton.cfg = config  # the folder's name may ask for ${hydra:job.num}
        folder = self._folder(config)
        if self._subfolder_key:
            folder = os.path.join(folder, str(selected(config, self._subfolder_key)))  # noqa: PTH118
        config.hydra.runtime.output_dir = os.path.abspath(folder)  # noqa: PTH100 - as Hydra spells it
        set_flag(config.hydra, "readonly", True)
        # The node is shown alone, but its interpolations reach into the whole config.
        singleton.cfg = only(config, "hydra")
        singleton.cfg._get_node("hydra")._set_parent(config)
        return folder

    def _folder(self, config: DictConfig) -> str:
        """Resolve where a job's folder lies; parsing ``${now:...}`` takes long, and all jobs have one clock."""
        raw = _written(config, self._folder_key)
        if raw == _written(self._whole, self._folder_key) and _CLOCK.fullmatch(str(raw)):
            return self._shared
        return str(OmegaConf.select(config, self._folder_key))

    @cached_property
    def _shared(self) -> str:
        """The folder of all jobs, where none changes it: another's name can be told within its job only."""
        return str(OmegaConf.select(self._whole, self._folder_key))

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


def _written(config: DictConfig, key: str) -> Any:
    above, _, last = key.rpartition(".")
    return OmegaConf.select(config, above)._get_node(last)._value()


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


def save(config: DictConfig, hydra: DictConfig) -> None:
    """Write a job's files: its config, its node ``hydra`` (below a root of its own), and what was typed."""
    node = hydra.hydra
    if node.output_subdir is None:
        return
    folder = Path(node.runtime.output_dir) / node.output_subdir
    folder.mkdir(parents=True, exist_ok=True)
    for name, part in {"config": config, "hydra": hydra, "overrides": node.overrides.task}.items():
        (folder / f"{name}.yaml").write_text(saved(part), encoding="utf-8")
