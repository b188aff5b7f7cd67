"""The directions of a search's objectives, and the check of its settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from optuna_sweeper.settings import SearchSettings
from ragsweep.core.errors import ConfigError, nearest
from ragsweep.core.results import objectives
from ragsweep.services.usage import LIMITS
from ragsweep.sweep.composing.composition_errors import one_sentence
from ragsweep.sweep.composing.search_settings import is_own

if TYPE_CHECKING:
    from ragsweep.evaluation.experiment import Experiment
    from ragsweep.sweep.composing.command import Command


def with_directions(command: Command, config: Mapping[str, Any], first: Experiment) -> Command:
    """Return the command of a search with a direction for each objective, and without the override of ``finalists``.

    For a sweeper other than ours, no direction is set or checked.

    Raises:
        ConfigError: The number of directions differs from the number of objectives, a direction is unknown or
            contradicts its metric, a constraint names a metric that is not measured, the budget names an unknown limit,
            or another setting is invalid.
    """
    settings = dict(command.search or {})
    # Overrides identify a search. The number of finalists matters only at its end, so it may differ when resumed.
    command = replace(command, overrides=tuple(o for o in command.overrides if not o.startswith("finalists=")))
    if not is_own(settings):
        return command
    names, typed = objectives(config), settings.get("direction")
    higher = {metric.name: metric.higher_is_better for metric in first.metrics}
    listed = [None] * len(names) if typed is None else typed if isinstance(typed, list) else [typed]
    if len(listed) != len(names):
        raise ConfigError(
            f"hydra.sweeper.direction: must have one direction per objective ({len(names)}), got {len(listed)}; list"
            " one for each, or omit the key"
        )
    directions = [_direction(name, higher[name], direction) for name, direction in zip(names, listed, strict=True)]
    settings["direction"] = directions if len(directions) > 1 else directions[0]
    with one_sentence():  # without the race, which `preparing` checks
        read = SearchSettings.read({key: value for key, value in settings.items() if key not in ("_target_", "race")})
    for constraint in read.constraints:
        if constraint.name not in higher:
            near = nearest(constraint.name, higher)
            raise ConfigError(
                f'hydra.sweeper.constraints: no metric "{constraint.name}" is measured, got "{constraint}"{near}'
            )
    for name in read.stop.budget:
        if name not in LIMITS:
            where = f"hydra.sweeper.stop.budget{name and '.'}{name}"
            raise ConfigError(f"{where}: must name a limit ({', '.join(LIMITS)}), as in {{budget: {{calls: 100}}}}")
    return replace(command, search=settings)


def _direction(name: str, higher: bool | None, typed: str | None) -> str:
    direction = {True: "maximize", False: "minimize", None: typed}[higher]
    if direction is None:
        raise ConfigError(
            f"objective={name}: has no direction; set hydra.sweeper.direction to minimize or maximize, or to a list"
            " with one direction for each objective"
        )
    if typed not in (direction, None):
        better = "higher" if higher else "lower"
        raise ConfigError(
            f"objective={name} is better when {better}; set its hydra.sweeper.direction to {direction}, or omit the key"
        )
    return direction
