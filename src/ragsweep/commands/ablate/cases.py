"""The cases of an ablation: a config, and each of its neighbours that differs from it in one thing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ragsweep.commands.ablate.neighbours import OPTIONS, neighbours, other_options
from ragsweep.commands.ablate.overrides import Overrides, with_option, with_value
from ragsweep.core.errors import ConfigError, nearest


@dataclass(frozen=True)
class Case:
    """One config: the factor in which it differs from the ablated one, and all of its overrides."""

    factor: str
    overrides: Overrides


def around(
    base: Sequence[str],
    parameters: Mapping[str, str],
    given: Mapping[str, Sequence[str]],
    wanted: Sequence[str] | None = None,
) -> list[Case]:
    """Change one thing at a time: options first, then parameters, each to its neighbours.

    Args:
        base: The overrides of the config.
        parameters: The config, flattened.
        given: Factor -> the values to try in the place of its neighbours.
        wanted: The only factors to change; a part's name stands for its parameters, too. None for all.

    Raises:
        ConfigError: A wanted factor is none, or nothing is left to change.
    """
    values = {group: other_options(group, parameters.get(group, "")) for group in OPTIONS if group in parameters}
    values |= {name: neighbours(name, value) for name, value in parameters.items() if name not in values}
    values = {name: found for name, found in values.items() if found} | {
        name: [*found] for name, found in given.items()
    }
    for name in wanted or ():
        if not any(_is_of(factor, name) for factor in values):
            raise ConfigError(f'--factor: nothing to change in "{name}"{nearest(name, values)}')
    return [
        Case(factor, _changed(base, parameters, factor, value))
        for factor, found in values.items()
        if wanted is None or any(_is_of(factor, name) for name in wanted)
        for value in found
    ]


def _is_of(factor: str, name: str) -> bool:
    return factor == name or factor.startswith(f"{name}.")


def _changed(base: Sequence[str], parameters: Mapping[str, str], factor: str, value: str) -> Overrides:
    if factor in OPTIONS:
        return with_option(base, factor, parameters.get(factor, ""), value)
    return with_value(base, f"{factor}={value}")
