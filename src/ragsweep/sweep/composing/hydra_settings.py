"""Check Hydra's own node against an allow-list of launchers, sweepers and log handlers, and of their settings.

Hydra imports and calls the targets in its own node: launchers, sweepers, callbacks, log handlers. Some launchers accept
commands as settings. Anything not listed here is rejected, unless the environment trusts its package.
"""

import inspect
import logging.handlers
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ragsweep.core.errors import ConfigError, nearest
from ragsweep.core.trust import TRUSTED, check_targets, is_trusted, trusting
from ragsweep.sweep.composing.trees import leaves

FOLDER = "/the-folder-of-the-run"
"""Placeholder for the run's folder in settings that are checked before the folder exists."""

LAUNCHERS: Mapping[str, frozenset[str]] = {
    "hydra.BasicLauncher": frozenset(),
    "hydra_plugins.hydra_joblib_launcher.joblib_launcher.JoblibLauncher": frozenset(
        {"n_jobs", "backend", "prefer", "require", "verbose", "timeout", "pre_dispatch", "batch_size", "max_nbytes",
         "mmap_mode"}
    ),
    "hydra_plugins.hydra_submitit_launcher.submitit_launcher.LocalLauncher": frozenset(
        {"submitit_folder", "timeout_min", "cpus_per_task", "gpus_per_node", "tasks_per_node", "mem_gb", "nodes",
         "name", "stderr_to_stdout"}
    ),
    "hydra_plugins.hydra_submitit_launcher.submitit_launcher.SlurmLauncher": frozenset(
        {"submitit_folder", "timeout_min", "cpus_per_task", "gpus_per_node", "tasks_per_node", "mem_gb", "nodes",
         "name", "stderr_to_stdout", "partition", "qos", "constraint", "mem_per_cpu", "mem_per_gpu", "gpus_per_task",
         "cpus_per_gpu", "gres", "account", "comment", "exclude", "array_parallelism", "max_num_timeout",
         "signal_delay_s"}
    ),  # without setup, srun_args and additional_parameters, which are commands
    "hydra_plugins.hydra_ray_launcher.ray_launcher.RayLauncher": frozenset(
        {"ray.init.address", "ray.init.num_cpus", "ray.init.num_gpus", "ray.init.object_store_memory",
         "ray.init.include_dashboard", "ray.init.ignore_reinit_error", "ray.init.log_to_driver",
         "ray.init.configure_logging", "ray.init.logging_level", "ray.remote.num_cpus", "ray.remote.num_gpus",
         "ray.remote.memory", "ray.remote.max_calls", "ray.remote.max_retries", "ray.remote.resources"}
    ),
}  # fmt: skip
"""Launcher -> the settings allowed in a config: no commands and no hooks, and no hosts except those in `_ADDRESSES`."""

OPTUNA_SWEEPERS = tuple(f"hydra_plugins.{name}.sweeper.OptunaSweeper" for name in ("optuna_sweeper", "ragsweep_optuna"))
"""The current and the former class path of our search sweeper."""

GRID_SWEEPER = "hydra_plugins.ragsweep_grid.sweeper.GridSweeper"

SWEEPERS: Mapping[str, frozenset[str]] = {
    "hydra.BasicSweeper": frozenset({"max_batch_size", "params"}),
    GRID_SWEEPER: frozenset({"max_batch_size", "params", "cases", "race"}),
    **dict.fromkeys(OPTUNA_SWEEPERS, frozenset(
        {"sampler", "direction", "study_name", "storage", "n_trials", "n_jobs", "max_failure_rate", "params",
         "constraints", "default", "enqueue", "subject", "lapse", "race", "stop", "plots"}
    )),  # without custom_search_space, which names a function
}  # fmt: skip
"""Sweeper -> the settings allowed in a config."""

LOG_CLASSES = frozenset(
    {
        "logging.Formatter",
        "logging.Filter",
        "logging.NullHandler",
        "logging.StreamHandler",
        "logging.FileHandler",
        "logging.handlers.RotatingFileHandler",
        "logging.handlers.TimedRotatingFileHandler",
        "logging.handlers.WatchedFileHandler",
    }
)
"""The permitted logging classes. These handlers write to the terminal or a file; others may use a network."""

LOG_FORMAT = "[%(asctime)s][%(name)s][%(levelname)s] %(message)s"
LOG_FORMATS = frozenset(
    {
        LOG_FORMAT,
        "[%(asctime)s][%(name)s][%(levelname)s] - %(message)s",
        "[%(asctime)s][HYDRA] %(message)s",
        "%(message)s",
    }
)
"""The permitted log formats, ours and Hydra's; any other format could write arbitrary text to a file, even commands."""

LOG_FILE = ".log"
"""Required suffix of log files, so that a log cannot overwrite the user's other files in the run's folder."""

HANDLED = frozenset({"class", "level", "formatter", "filters"})
"""The settings of a handler that are read by ``logging`` and are not arguments of the handler's class."""

STREAMS = frozenset({"ext://sys.stdout", "ext://sys.stderr"})

_BUILT_IN = re.compile(r"hydra\.[\w.]+\.(Basic(?:Launcher|Sweeper))")
"""Pattern of the full names of Hydra's launcher and sweeper, whose modules are private."""

NO_CALLBACKS = (
    "hydra.callbacks: are never called, because ragsweep runs jobs in its own loop; remove them, and read results from"
    " MLflow, or from results.json in the sweep's MLflow run"
)
"""The message for a command or a config with Hydra's callbacks."""

_ENVIRONMENT = re.compile(r"\w+_NUM_THREADS|CUDA_VISIBLE_DEVICES|CUDA_DEVICE_ORDER|TOKENIZERS_PARALLELISM")
"""Pattern of a variable that a config may set for its jobs; any other could select a program, a library or a host."""

_PRE_DISPATCH = re.compile(r"all|\d{1,6}|(\d{1,6} ?\* ?)?n_jobs")
"""Pattern of a valid ``pre_dispatch``, which joblib evaluates as an expression."""

_ADDRESSES = ("auto", "local")
"""Addresses of a Ray cluster that a config may set; hosts at other addresses would receive the jobs and run code."""

_SLURM_WORD = re.compile(r"[\w.,:=*@%+-]+")
"""Pattern of a valid setting for SLURM; the setting becomes a line of the script that SLURM runs."""


def check_search_path(path: str) -> None:
    """Raise ConfigError unless an entry of the search path is an existing folder or a trusted package.

    Hydra imports such packages. An entry with interpolations is also rejected.
    """
    if "${" in path:
        raise ConfigError(f'hydra.searchpath: "{path}" must not contain interpolations; write the path out')
    scheme, _, name = path.rpartition("://")
    if scheme in ("", "file"):
        if not Path(name).is_dir():
            raise ConfigError(f'hydra.searchpath: no folder "{name}"; create it, or correct the path')
        return
    package = name.partition("/")[0]
    if scheme == "pkg" and (package.partition(".")[0] in ("hydra", "ragsweep") or is_trusted(package)):
        return
    trusted = f", or trust the package: {trusting(package)}" if scheme == "pkg" else ""
    raise ConfigError(f'hydra.searchpath: "{path}" is not a folder; use file://FOLDER{trusted}')


def check_hydra(settings: Mapping[str, Any]) -> None:
    """Check the node ``hydra`` of a config, which was resolved with `FOLDER` in place of the run's folder.

    Raises ConfigError, with a message that names the key, for any class, setting or file location that is neither
    listed nor trusted.
    """
    _check_plugin(settings["launcher"], "hydra.launcher", LAUNCHERS)
    folder = settings["launcher"].get("submitit_folder", FOLDER)
    if folder != FOLDER and not _is_inside(Path(str(folder)), str(settings["sweep"]["dir"])):
        raise ConfigError(
            f"hydra.launcher.submitit_folder: must be in the sweep's folder, got {folder!r}; write"
            " ${hydra.sweep.dir}/NAME"
        )
    _check_plugin(settings["sweeper"], "hydra.sweeper", SWEEPERS)
    if settings["callbacks"]:
        raise ConfigError(NO_CALLBACKS)
    for key in ("hydra_logging", "job_logging"):
        _check_logging(settings[key], f"hydra.{key}")
    for name in (settings["job"] or {}).get("env_set") or {}:
        if not _ENVIRONMENT.fullmatch(str(name)):
            raise ConfigError(
                f"hydra.job.env_set.{name}: a config may set only variables for threads and devices, such as"
                f" OMP_NUM_THREADS; set {name} in the environment of the command"
            )
    if not _is_inside(Path(FOLDER, str(settings["output_subdir"])), FOLDER):
        raise ConfigError(
            f"hydra.output_subdir: must be in the run's folder, got {settings['output_subdir']!r}; name a subfolder"
        )
    known = ("launcher", "sweeper", "callbacks")
    check_targets({key: value for key, value in settings.items() if key not in known}, "hydra")


def _check_plugin(plugin: Any, where: str, known: Mapping[str, frozenset[str]]) -> None:
    if not isinstance(plugin, Mapping):
        raise ConfigError(f"{where}: needs a _target_, got {plugin!r}; choose {where.replace('.', '/')}=NAME instead")
    target = str(plugin.get("_target_"))
    values = {key: value for key, value in plugin.items() if key != "_target_"}
    check_targets(values, where)
    if is_trusted(target):
        return
    allowed = known.get(_BUILT_IN.sub(r"hydra.\1", target))
    if allowed is None:
        package = ".".join(target.split(".")[:2]) if target.startswith("hydra_plugins.") else target.partition(".")[0]
        raise ConfigError(
            f'{where}._target_: "{target}" is not trusted; to use it, trust its package: {trusting(package)}'
        )
    for name, value in leaves(values):
        if value is None:
            continue
        if not any(name == setting or name.startswith((f"{setting}.", f"{setting}[")) for setting in allowed):
            kind = target.rpartition(".")[2]
            raise ConfigError(
                f"{where}.{name}: a config cannot change this setting of {kind}; omit it, or trust {kind}:"
                f" {trusting(target)}{nearest(name, allowed)}"
            )
        if name == "ray.init.address" and value not in _ADDRESSES:
            raise ConfigError(
                f"{where}.{name}: must be auto or local, got {value!r}; omit it, and set RAY_ADDRESS={value} in the"
                " environment of the command"
            )
        if target.endswith(".SlurmLauncher") and name != "submitit_folder" and not _SLURM_WORD.fullmatch(str(value)):
            raise ConfigError(f"{where}.{name}: must be one word of letters, digits and .,:=*@%+-_, got {value!r}")
        if name == "pre_dispatch" and not _PRE_DISPATCH.fullmatch(str(value)):
            form = "all, a whole number, or a product such as 2*n_jobs"
            raise ConfigError(f"{where}.{name}: must be {form}, got {value!r}")


def _check_logging(settings: Any, where: str) -> None:
    """Raise ConfigError for a forbidden class, reference, log file or format in a dictConfig of ``logging``."""
    for name, value in leaves(settings):
        _check_log_setting(name, value, f"{where}.{name}")
    if not isinstance(settings, Mapping):
        return
    for name, formatter in (settings.get("formatters") or {}).items():
        if not isinstance(formatter, Mapping) or any(is_trusted(str(formatter.get(key))) for key in ("()", "class")):
            continue
        for key, value in formatter.items():
            if key not in ("()", "class") and not (key in ("format", "fmt") and value in LOG_FORMATS):
                raise ConfigError(
                    f"{where}.formatters.{name}.{key}: a config cannot choose the format of logs, got {value!r};"
                    f' use "{LOG_FORMAT}", or trust a formatter of your own: {TRUSTED}=PACKAGE'
                )
    for name, handler in (settings.get("handlers") or {}).items():
        if isinstance(handler, Mapping) and (kind := str(handler.get("class"))) in LOG_CLASSES:
            module = logging.handlers if kind.startswith("logging.handlers.") else logging
            arguments = inspect.signature(getattr(module, kind.rpartition(".")[2])).parameters
            for key in handler:
                if key not in (known := {*HANDLED, *arguments}):
                    raise ConfigError(
                        f"{where}.handlers.{name}.{key}: {kind} takes no such argument{nearest(str(key), known)}"
                    )


def _check_log_setting(name: str, value: Any, where: str) -> None:
    """Raise ConfigError if a value of a dictConfig is a forbidden class, reference, log file or logger attribute."""
    key = name.rpartition(".")[2]
    if key == "()" and not is_trusted(str(value)):
        raise ConfigError(f'{where}: cannot call "{value}"; use the key "class" with a class of the logging module')
    if key == "class" and value not in LOG_CLASSES and not is_trusted(str(value)):
        raise ConfigError(f'{where}: "{value}" is not a permitted class{nearest(str(value), LOG_CLASSES)}')
    if isinstance(value, str) and value.startswith(("ext://", "cfg://")) and value not in STREAMS:
        allowed = " and ".join(sorted(STREAMS))
        raise ConfigError(f'{where}: "{value}" refers to a Python object; only {allowed} are allowed')
    is_file = key in ("filename", "baseFilename")
    if is_file and not (_is_inside(Path(str(value)), FOLDER) and str(value).endswith(LOG_FILE)):
        raise ConfigError(
            f"{where}: must be in the run's folder and end with {LOG_FILE}, got {value!r}; write"
            " ${hydra.runtime.output_dir}/NAME.log"
        )
    if ".." in f".{name}.":  # logging sets the attributes under the key "."
        raise ConfigError(
            f'{where}: a config cannot set attributes of loggers; remove the key "." (the root logger is called root)'
        )


def _is_inside(path: Path, folder: str) -> bool:
    inner, outer = (Path(os.path.normpath(Path(one).absolute())) for one in (path, folder))
    return outer in inner.parents
