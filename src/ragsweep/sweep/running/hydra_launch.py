"""Start the jobs of a sweep: in this process, or by external launchers and sweepers through Hydra's own multirun."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.utils import JobReturn
from omegaconf import DictConfig, OmegaConf

from ragsweep.core.errors import ConfigError
from ragsweep.core.locks import Holder, myself
from ragsweep.core.secrets import Secrets
from ragsweep.parts.tracking import NoTracking
from ragsweep.records.ledger import Sweep
from ragsweep.report.terminal import Terminal
from ragsweep.sweep.composing.compose import CONFIG, VERSION_BASE, config_folder
from ragsweep.sweep.composing.config_policy import add_secrets
from ragsweep.sweep.composing.job import RUNG, Job, PlainConfig, to_plain
from ragsweep.sweep.composing.search_settings import searches
from ragsweep.sweep.running.delivery import Collector, deliver_job
from ragsweep.sweep.running.jobs import Body, JobValue, command_folder, run_job
from ragsweep.sweep.running.loop import JobLoop, create_folder, to_yaml
from ragsweep.sweep.running.recording import RunContext
from ragsweep.sweep.running.session import Session, open_session
from ragsweep.sweep.running.slurm import through_queue, withdrawable

if TYPE_CHECKING:
    from ragsweep.sweep.composing.command import Command


@dataclass
class HydraTask:
    """The task function that Hydra calls with each job's config, in the command's process or in a worker."""

    sweep: str = ""  # id of the sweep that the jobs belong to
    context: RunContext | None = None  # in the command's process; a worker builds its own
    body: Body | None = None  # called once by our sweepers, with Hydra's launcher, in the command's process
    sent: Sweep | None = field(default=None, init=False)  # the sweep if workers send outcomes to the command, else None
    result: str | BaseException = field(default="", init=False)  # result or exception of the body
    command: Holder = field(default_factory=myself, init=False)  # the command's process

    def __post_init__(self) -> None:
        """Set ``sent`` if there is an object store: workers then send outcomes to it, and this process records them."""
        if self.body and self.context and self.context.session.remote:
            self.sent = self.context.sweep

    def __getstate__(self) -> dict[str, Any]:
        """Return the state that is pickled for a worker: without the context, the body and its result."""
        return {**vars(self), "context": None, "body": None, "result": ""}

    def drive(self, launch: Callable[..., Sequence[JobReturn]], master: DictConfig) -> None:
        """Run the body with Hydra's launcher, ``launch``; store the body's result or exception for `through_launcher`.

        The launcher takes the jobs' overrides and the number of the first job. ``master`` is the command's config.
        """
        assert self.body is not None
        assert self.context is not None
        folder = Path(str(master.hydra.sweep.dir))
        started = through_queue(master.hydra.launcher, lambda jobs: launch([job.lines for job in jobs], jobs[0].number))
        if self.sent:
            started = Collector(self.context, self.sent, started).launch
        try:
            create_folder(folder, "hydra.sweep.dir")
            _write_masked(folder / "multirun.yaml", master, self.context.secrets)
            _join_cluster(master.hydra.launcher)
            self.result = self.body(started, folder)
        except BaseException as fault:
            self.result = fault

    def __call__(self, config: DictConfig) -> JobValue | str:
        """Run the job that Hydra has started, and return its value.

        If the command's process has died, kill this worker at the end.
        """
        try:
            with withdrawable():
                return self._run(config)
        finally:
            if not self.command.lives(0):
                # No process reads the job's value, so a joblib worker would wait forever to write it.
                signal.raise_signal(signal.SIGKILL)

    def _run(self, config: DictConfig) -> JobValue | str:
        """Run the job whose number and overrides are in `HydraConfig`, and return its value."""
        whole: Any = HydraConfig.instance().cfg
        own = HydraConfig.get()
        rung, config.questions.until = config.questions.until, None  # the end of a rung is not part of a config
        if self.sent and self.context is None and config.store.worker_path:
            config.store.path = config.store.worker_path
        choices: Any = OmegaConf.to_container(own.runtime.choices)
        written: Any = OmegaConf.to_container(config, resolve=False)
        plain = PlainConfig(to_plain(config), written, choices)
        with command_folder():
            context = self.context or _worker_context(self, plain, whole)
        _mask_files(context.secrets, config, whole)
        typed: Any = OmegaConf.to_container(own.overrides.task, resolve=False)
        overrides = tuple(line for line in map(str, typed) if not line.startswith(f"{RUNG}="))
        job = Job(plain, "", overrides, int(own.job.num) if self.sweep else 0, rung=rung)
        with context.secrets.masking():
            if self.sent and self.context is None:
                return deliver_job(context, self.sent, job)
            return run_job(context, job)


def _worker_context(task: HydraTask, plain: PlainConfig, whole: Any) -> RunContext:
    store = plain.values["store"]
    session = _session(Path(store["path"]).absolute(), store["stages"], store["remote"])
    settings: Any = OmegaConf.to_container(whole.hydra.sweeper, resolve=True)
    return RunContext(
        session,
        NoTracking() if task.sent else session.tracker(plain.values),
        Terminal.current(plain=True),
        Secrets(),
        session.ledger.sweep(task.sweep) if task.sweep and not task.sent else None,
        settings if searches(str(settings["_target_"])) else None,
        is_worker=bool(task.sweep),
    )


def _join_cluster(launcher: DictConfig) -> None:
    """For a Ray launcher, connect to the Ray cluster that its settings or RAY_ADDRESS name, if any.

    Otherwise, Hydra's launcher would start a new cluster. Raises ConfigError if the named cluster is unreachable.
    """
    if not str(launcher["_target_"]).endswith(".RayLauncher"):
        return
    settings: Any = OmegaConf.to_container(launcher.ray.init, resolve=True)
    address = settings.get("address") or os.environ.get("RAY_ADDRESS")
    if address in (None, "", "local"):
        return
    import ray

    try:
        ray.init(**settings)
    except (ConnectionError, ValueError) as fault:
        raise ConfigError(
            f"hydra.launcher.ray.init: no Ray cluster at {address}: {fault}; start one, or correct the address (key"
            " hydra.launcher.ray.init.address, else RAY_ADDRESS)"
        ) from None


@cache
def _session(folder: Path, stages: bool, remote: str | None) -> Session:
    """Return the session of this worker process, cached so that all its jobs share the loaded models."""
    store = {"path": str(folder), "stages": stages, "remote": remote}
    return open_session({"store": store}, Terminal.current(plain=True))


def _mask_files(secrets: Secrets, config: DictConfig, whole: DictConfig) -> None:
    """Add the secrets of a job's config to ``secrets``, and mask them in the files that Hydra has written."""
    add_secrets(secrets, config)
    add_secrets(secrets, whole)
    if whole.hydra.output_subdir is not None:
        folder = Path(whole.hydra.runtime.output_dir, whole.hydra.output_subdir)
        for name, part in {"config": config, "hydra": whole, "overrides": whole.hydra.overrides.task}.items():
            _write_masked(folder / f"{name}.yaml", part, secrets)


def _write_masked(path: Path, node: Any, secrets: Secrets) -> None:
    written = OmegaConf.to_container(node, resolve=False, enum_to_str=True)
    path.write_text(to_yaml(secrets.mask_tree(written)), encoding="utf-8")


def through_launcher(command: Command, context: RunContext, jobs: Sequence[Job], body: Body | None) -> str:
    """Call ``body`` with our loop if jobs run in this process, else with Hydra's launcher (see jobs.Launcher).

    Return the body's result. An exception that the body raises under Hydra's launcher is raised again here.
    """
    assert context.sweep
    if not body or not command.in_process:
        task = HydraTask(context.sweep.id, context, body)
        folder = ["--config-dir", command.config_dir] if command.config_dir else []
        call_hydra([*(["--multirun"] if command.multirun else []), *command.overrides, *folder], task)
        if isinstance(task.result, BaseException):
            raise task.result
        return task.result
    loop = JobLoop(command, jobs[0], context.secrets)
    loop.write_multirun()

    def launch(batch: Sequence[Job]) -> list[JobReturn]:
        with loop.logging():
            return [loop.run(partial(run_job, context, job), job) for job in batch]

    return body(launch, loop.folder)


def call_hydra(arguments: Sequence[str], task: Callable[..., object] = HydraTask()) -> int:  # noqa: B008
    """Call Hydra's command line, which also handles options such as ``--cfg`` and ``--help``; return 0."""
    before = sys.argv
    sys.argv = [before[0], *arguments]
    try:
        hydra.main(config_path=str(config_folder()), config_name=CONFIG, version_base=VERSION_BASE)(task)()
    finally:
        sys.argv = before
    return 0
