"""The settings of a command's search: its directions, its storage, and the names of its trials."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from ragsweep.core.errors import ConfigError
from ragsweep.core.results import objectives
from ragsweep.evaluation.experiment import Experiment
from ragsweep.report.naming import label
from ragsweep.sweep.command import Command, defining, one_sentence, read_settings
from ragsweep.sweep.search.settings import SearchSettings
from ragsweep.sweep.search.storage import is_postgresql

SWEEPER = "hydra_plugins.ragsweep_optuna.sweeper.OptunaSweeper"
"""Our sweeper, whose jobs return more than a number."""


def with_directions(command: Command, config: Mapping[str, Any], first: Experiment) -> Command:
    """Set the direction of each objective if none is configured.

    Raises:
        ConfigError: A direction is wrong or unknown, or a constraint names a metric that is not measured.
    """
    settings = dict(command.search or {})
    # The finalists may differ when a search is repeated: they only matter at its end.
    command = replace(command, overrides=tuple(o for o in command.overrides if not o.startswith("finalists=")))
    if not is_own(settings):
        return command
    names, typed = objectives(config), settings.get("direction")
    higher = {metric.name: metric.higher_is_better for metric in first.metrics}
    listed = [None] * len(names) if typed is None else typed if isinstance(typed, list) else [typed]
    if len(listed) != len(names):
        raise ConfigError(
            f"hydra.sweeper.direction: {len(listed)} for {len(names)} objectives; leave it out, or give one for each"
        )
    directions = [_direction(name, higher[name], direction) for name, direction in zip(names, listed, strict=True)]
    for line in settings.get("constraints") or []:
        bounded = re.split("[<>]", str(line))[0].strip()
        if bounded not in higher:
            raise ConfigError(f'hydra.sweeper.constraints: no metric "{bounded}" is measured, given "{line}"')
    settings["direction"] = directions if len(directions) > 1 else directions[0]
    with one_sentence():  # a race is prepared elsewhere
        SearchSettings.read({key: value for key, value in settings.items() if key not in ("_target_", "race")})
    return replace(command, search=settings)


def _direction(name: str, higher: bool | None, typed: str | None) -> str:
    direction = {True: "maximize", False: "minimize", None: typed}[higher]
    if direction is None:
        raise ConfigError(f"objective={name}: has no direction; give hydra.sweeper.direction")
    if typed not in (direction, None):
        better = "higher" if higher else "lower"
        raise ConfigError(f"objective={name} is better when {better}; leave hydra.sweeper.direction out")
    return direction


def is_own(settings: Mapping[str, Any]) -> bool:
    """Return whether the sweeper is OptunaSweeper."""
    return settings.get("_target_") == SWEEPER


def is_shared(settings: Mapping[str, Any]) -> bool:
    """Return whether several processes can work on one search."""
    return is_own(settings) and str(settings.get("storage")) not in ("None", "sqlite://", "sqlite:///:memory:")


def is_on_server(settings: Mapping[str, Any]) -> bool:
    """Return whether other machines can work on a search."""
    return is_own(settings) and is_postgresql(settings.get("storage"))


def trial_names(settings: Mapping[str, Any], fewest: int = 1) -> tuple[str, ...]:
    """Return the names of a search's trials before they are drawn; other processes may run more than n_trials."""
    return tuple(f"trial {number}" for number in range(max(int(settings.get("n_trials") or 1), fewest)))


def trial_name(overrides: tuple[str, ...], search: str, groups: Collection[str], searched: Collection[str] = ()) -> str:
    """Name a trial by its overrides, without those shared by all trials.

    ``groups``: the config groups; ``searched``: the parameters of the space.
    """
    general = search.lower().replace("\\", "").split()  # Hydra escapes some characters, and normalises true to True
    own = [line for line in defining(overrides) if line.lower().replace("\\", "") not in general]
    return label(read_settings(own), groups, searched) or "defaults"
