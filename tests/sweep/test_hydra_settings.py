"""A config may send jobs to a cluster, but names neither a host nor a command."""

import importlib.util

import pytest

from ragsweep.core.errors import ConfigError
from support.commands import read

SLURM = ["hydra/launcher=submitit_slurm"]
RAY = ["hydra/launcher=ray"]


def launcher(*lines: str) -> str:
    for kind, package in ((SLURM, "hydra_submitit_launcher"), (RAY, "hydra_ray_launcher")):
        if kind[0] in lines and importlib.util.find_spec(f"hydra_plugins.{package}") is None:
            pytest.skip(f"{package} is not installed")
    return read(["retriever=bm25", "top_k=1,2", *lines], multirun=True).launcher


def test_settings_of_a_cluster_are_accepted() -> None:
    words = ["partition=short", "mem_gb=8", "gres='gpu:a100:1'", "array_parallelism=4", "timeout_min=30"]
    assert launcher(*SLURM, *(f"hydra.launcher.{word}" for word in words)) == "submitit_slurm"
    assert launcher(*RAY, "hydra.launcher.ray.init.address=auto") == "ray"
    assert launcher(*SLURM, "hydra.sweep.dir=.") == "submitit_slurm"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([*SLURM, 'hydra.launcher.partition="a\\nrm -rf x"'], r"hydra\.launcher\.partition: must be one word"),
        ([*SLURM, 'hydra.launcher.comment="two words"'], r"hydra\.launcher\.comment: must be one word"),
        ([*SLURM, "hydra.launcher.setup=[ls]"], r"hydra\.launcher\.setup"),
        ([*SLURM, "+hydra.launcher.additional_parameters.wrap=ls"], r"hydra\.launcher\.additional_parameters"),
        ([*RAY, "hydra.launcher.ray.init.address='10.0.0.7:6379'"], "omit it, and set RAY_ADDRESS=10.0.0.7:6379"),
        ([*RAY, "hydra.launcher.ray.init.address='ray://elsewhere:10001'"], "must be auto or local"),
    ],
)
def test_command_or_host_in_the_settings_of_a_cluster_is_refused(lines: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        launcher(*lines)
