"""Hydra plugins for large sweeps: a sweeper that reads cases, and a launcher that costs little a job.

Hydra runs every module of a plugin again when it looks for plugins; those that hold something begin with an underscore.
"""

from hydra_plugins.ragsweep_grid._composing import Composer, open_composer, search_path, sharing
from hydra_plugins.ragsweep_grid._expansion import Job, expand
from hydra_plugins.ragsweep_grid._files import is_deep
from hydra_plugins.ragsweep_grid._following import followed
from hydra_plugins.ragsweep_grid._job import save
from hydra_plugins.ragsweep_grid._late import constant, waiting
from hydra_plugins.ragsweep_grid._overriding import parse
from hydra_plugins.ragsweep_grid._racing import Rung
from hydra_plugins.ragsweep_grid._running import run_jobs
from hydra_plugins.ragsweep_grid._writing import veil

__all__ = [
    "Composer",
    "Job",
    "Rung",
    "constant",
    "expand",
    "followed",
    "is_deep",
    "open_composer",
    "parse",
    "run_jobs",
    "save",
    "search_path",
    "sharing",
    "veil",
    "waiting",
]
