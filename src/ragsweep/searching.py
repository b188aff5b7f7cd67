"""What sets a search apart from a sweep: its jobs are not known beforehand, and its results decide what is tried."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from omegaconf import DictConfig

from ragsweep.composition import Command
from ragsweep.errors import ConfigError
from ragsweep.evaluation import Experiment
from ragsweep.identity import content_hash
from ragsweep.results import Result

SWEEPER = ".OptunaSweeper"
"""How the class of our own sweeper ends: a job returns more than one number to it."""

_SEARCHED = ("params", "direction", "constraints", "default", "enqueue", "storage", "study_name")


def check(command: Command, config: DictConfig, first: Experiment) -> None:
    """Refuse a search for the worst: a direction that is not the objective's.

    Raises:
        ConfigError: The direction is the wrong one, or a constraint is about what is not measured.
    """
    settings = command.search or {}
    if not ours(settings):
        return
    name, given = str(config.objective), settings.get("direction")
    higher = next(metric.higher_is_better for metric in first.metrics if metric.name == name)
    wanted = {True: "maximize", False: "minimize", None: given}[higher]
    if given not in (wanted, [wanted]):
        better = "higher" if higher else "lower"
        raise ConfigError(f"objective={name} is better when {better}; give hydra.sweeper.direction={wanted}")
    measured = [metric.name for metric in first.metrics]
    for line in settings.get("constraints") or []:
        bounded = str(line).partition("<")[0].partition(">")[0].strip()
        if bounded not in measured:
            raise ConfigError(f'hydra.sweeper.constraints: no metric "{bounded}" is measured, given "{line}"')


def key(command: Command, signature: str, place: str) -> str:
    """Tell equal searches: of the same space, in the same storage, around the same config, tracked at one place.

    How many trials a search has, and who draws them, may change when it is continued; and who asks the database.
    """
    settings = command.search or {}
    searched = {name: settings.get(name) for name in (*_SEARCHED, *(["race"] if settings.get("race") else []))}
    if elsewhere(settings):
        searched["storage"] = str(searched["storage"]).rpartition("@")[2]
    return content_hash(["search", searched, typed(command), signature, place])


def ours(settings: Mapping[str, Any]) -> bool:
    """Say whether a search is our own sweeper's, which keeps who has which trial."""
    return str(settings.get("_target_")).endswith(SWEEPER)


def shared(settings: Mapping[str, Any]) -> bool:
    """Say whether several processes can work on one search: its study is kept where all of them see it."""
    return ours(settings) and str(settings.get("storage")) not in ("None", "sqlite://", "sqlite:///:memory:")


def elsewhere(settings: Mapping[str, Any]) -> bool:
    """Say whether other machines may be at a search: its study is in a database that they reach."""
    from hydra_plugins.ragsweep_optuna import is_postgresql

    return ours(settings) and is_postgresql(settings.get("storage"))


def reach(settings: Mapping[str, Any]) -> None:
    """Raise ConfigError where a search is to be kept on a server that cannot be reached."""
    from hydra.errors import HydraException

    from hydra_plugins.ragsweep_optuna import reach

    try:
        if elsewhere(settings):
            reach(settings.get("storage"))
    except HydraException as fault:
        raise ConfigError(str(fault)) from None


def typed(command: Command) -> list[str]:
    """List what was typed of a search, without what Hydra was told of how to do it."""
    return [line for line in command.overrides if not line.lstrip("+~").startswith(("hydra.", "hydra/"))]


def names(settings: Mapping[str, Any], fewest: int = 1) -> tuple[str, ...]:
    """Name the trials of a search before anything is known of them; others may have begun more than are asked for."""
    return tuple(f"trial {number}" for number in range(max(int(settings.get("n_trials") or 1), fewest)))


def named(overrides: tuple[str, ...], search: str) -> str:
    """Name a trial by what it changes, beside what was typed for all trials of the search."""
    general = search.split()
    return " ".join(line for line in overrides if line not in general) or "defaults"


def returned(result: Result, value: float | None) -> dict[str, object]:
    """Make what our sweeper is given of a result: the objective, and all that constraints may be about."""
    return {"values": value, "measured": {name: one.value for name, one in result.summaries.items()}}
