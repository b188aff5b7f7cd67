"""Run jobs sequentially in this process, with Hydra's folders, files and logs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, chdir, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml  # type: ignore[import-untyped]
from hydra.core.utils import JobReturn, JobStatus, configure_log, env_override
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from ragsweep.core.errors import ConfigError
from ragsweep.core.secrets import Secrets
from ragsweep.sweep.composing.compose import as_hydra_config
from ragsweep.sweep.composing.job import Job, JobConfig
from ragsweep.sweep.composing.trees import parse, with_values
from ragsweep.sweep.running.jobs import log_once

if TYPE_CHECKING:
    from ragsweep.sweep.composing.command import Command

_FLOAT = re.compile(
    r"^(?:[-+]?(?:[0-9][0-9_]*)\.[0-9_]*(?:[eE][-+]?[0-9]+)?|[-+]?(?:[0-9][0-9_]*)(?:[eE][-+]?[0-9]+)"
    r"|\.[0-9_]+(?:[eE][-+][0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"
)
"""Pattern of unquoted scalars that OmegaConf reads as floats; PyYAML reads some of them, such as 1e3, as strings."""


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    """A dumper of YAML that OmegaConf reads back unchanged."""


_Dumper.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, list("-+0123456789."))


def create_folder(folder: Path, key: str) -> None:
    """Create the folder that the config key ``key`` names, unless it exists; raises ConfigError if this fails."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as fault:
        raise ConfigError(f"{key}: cannot create the folder {folder}: {fault.strerror}; set another folder") from None


class JobLoop:
    """The folders, files and logs of one command's jobs, which run sequentially in this process.

    The config of the ``first`` job determines the time in all folder names; ``secrets`` are masked in the jobs' files.
    Raises ConfigError if the name of the command's folder cannot be resolved.
    """

    def __init__(self, command: Command, first: Job, secrets: Secrets) -> None:
        assert isinstance(first.config, JobConfig)
        self._multirun, self._secrets = command.multirun, secrets
        self._folder_key = "hydra.sweep.dir" if command.multirun else "hydra.run.dir"
        self._first = first.config.template
        self.logs: list[str] = []
        """The files with the traceback of the last failed job."""
        self._branches: dict[str, tuple[Any, str]] = {}
        config = self._first.changed(first.config.changes)
        try:
            with as_hydra_config(config):
                self.folder = Path(str(OmegaConf.select(config, self._folder_key)))
        except OmegaConfBaseException as fault:
            raise ConfigError(f"{self._folder_key}: {str(fault).splitlines()[0]}; correct the interpolation") from None

    def write_multirun(self) -> None:
        """Write the config of the multirun to the sweep's folder."""
        create_folder(self.folder, self._folder_key)
        (self.folder / "multirun.yaml").write_text(self._masked_yaml(self._first.tree), encoding="utf-8")

    def run(self, task: Callable[[], object], job: Job) -> JobReturn:
        """Run a job with its own folder, logging and environment; return its value or exception in a JobReturn."""
        job_return = JobReturn()
        job_return.overrides = job.lines
        try:
            with self._job_environment(job):
                try:
                    job_return.return_value, job_return.status = task(), JobStatus.COMPLETED
                except Exception as fault:
                    self.logs = log_once(fault)
                    job_return.return_value, job_return.status = fault, JobStatus.FAILED
        except ConfigError as fault:  # the folder of the job cannot be created
            job_return.return_value, job_return.status = fault, JobStatus.FAILED
        return job_return

    @contextmanager
    def logging(self) -> Iterator[None]:
        """Restore ``hydra.hydra_logging`` after the block, in which each job applies ``hydra.job_logging``."""
        try:
            yield
        finally:
            hydra = self._first.config.hydra
            configure_log(hydra.hydra_logging, hydra.verbose)

    @contextmanager
    def _job_environment(self, job: Job) -> Iterator[None]:
        """Set up a job's number, folder, config files, logging and environment for the block, as Hydra does."""
        config, overrides = job.config, job.lines
        assert isinstance(config, JobConfig)
        template = config.template
        rule = template.hydra["job"]["config"]["override_dirname"]
        named = sorted(line for line in overrides if parse(line).key_or_group not in rule["exclude_keys"])
        dirname = rule["item_sep"].join(named).replace("=", rule["kv_sep"])
        own: dict[str, Any] = {"hydra.overrides.task": overrides, "hydra.job.override_dirname": dirname}
        if self._multirun:
            own |= {"hydra.job.num": job.number, "hydra.job.id": str(job.number)}
        if template is not self._first:
            OmegaConf.copy_cache(from_config=self._first.config, to_config=template.config)  # same time in all names
        with ExitStack() as stack:
            whole = template.changed({**config.changes, **own})
            stack.enter_context(as_hydra_config(whole))
            folder = Path(str(OmegaConf.select(whole, self._folder_key)))
            if self._multirun:
                folder /= str(OmegaConf.select(whole, "hydra.sweep.subdir"))
            own["hydra.runtime.output_dir"] = str(folder.absolute())
            template.changed({**config.changes, **own})
            create_folder(folder, "hydra.sweep.subdir" if self._multirun else self._folder_key)
            if whole.hydra.job.chdir:
                stack.enter_context(chdir(folder))
            configure_log(whole.hydra.job_logging, whole.hydra.verbose)
            self._write(config.written, with_values({"hydra": template.hydra}, own)["hydra"], overrides)
            stack.enter_context(env_override(template.hydra["job"]["env_set"]))
            yield

    def _write(self, written: Mapping[str, Any], hydra: Mapping[str, Any], overrides: Sequence[str]) -> None:
        """Write a job's config, its node ``hydra`` and its overrides to files, with secrets masked.

        Write nothing if ``output_subdir`` is null. If the command has no secrets, reuse the YAML of those branches of
        the config that are the same as in the previous job.
        """
        if hydra["output_subdir"] is None:
            return
        folder = Path(hydra["runtime"]["output_dir"], hydra["output_subdir"])
        folder.mkdir(parents=True, exist_ok=True)
        for key, branch in written.items():
            if self._secrets or key not in self._branches or self._branches[key][0] is not branch:
                self._branches[key] = branch, self._masked_yaml({key: branch})
        files = {
            "config": "".join(self._branches[key][1] for key in written),
            "hydra": self._masked_yaml({"hydra": hydra}),
            "overrides": self._masked_yaml(list(overrides)),
        }
        for name, text in files.items():
            (folder / f"{name}.yaml").write_text(text, encoding="utf-8")

    def _masked_yaml(self, tree: Any) -> str:
        return to_yaml(self._secrets.mask_tree(tree))


def to_yaml(tree: Any) -> str:
    """Format plain values as YAML."""
    text: str = yaml.dump(tree, Dumper=_Dumper, default_flow_style=False, allow_unicode=True, sort_keys=False)
    return text
