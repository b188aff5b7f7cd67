"""The space of a search: parameters, conditions between them, and its points."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter
from typing import Any

from hydra.core.config_loader import ConfigLoader
from hydra.errors import HydraException

from ragsweep.sweep.search.parameters import (
    PARAMS,
    Categorical,
    Condition,
    Numeric,
    Parameter,
    parse_override,
    read_domain,
)

FORM = '{over: "interval(0,1)", when: parent=value}'
"""How a conditional parameter is written."""


@dataclass(frozen=True)
class Space:
    """Parameters in order of dependency, and the overrides that all trials share."""

    parameters: tuple[Parameter, ...]
    fixed: tuple[str, ...] = ()
    order: tuple[str, ...] = ()  # of the keys, as they were written

    def suggest(self, trial: Any) -> dict[str, str]:
        """Suggest a value for each parameter that exists: key -> value as typed."""
        values: dict[str, str] = {}
        for one in self.parameters:
            if one.exists(values):
                values[one.name] = one.domain.suggest(trial, one.name)
        return values

    def overrides(self, values: Mapping[str, str]) -> tuple[str, ...]:
        """Write out the overrides of a trial."""
        lines = [*self.fixed, *(f"{key}={value}" for key, value in values.items())]
        places = {name: number for number, name in enumerate(self.order)}
        return tuple(sorted(lines, key=lambda line: places.get(line.partition("=")[0], len(places))))

    def locate_config(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """Return Optuna's values for a config, as far as they lie in the space.

        A parameter whose value lies outside is left out, and with it those that depend on it.
        """
        found: dict[str, Any] = {}
        values: dict[str, str] = {}
        for one in self.parameters:
            if one.exists(values) and one.name in config:
                taken = one.domain.locate(config[one.name])
                if taken is not None:
                    found[one.name] = taken
                    values[one.name] = str(taken)
        return found

    def optuna_values(self, values: Mapping[str, str]) -> dict[str, Any]:
        """Return Optuna's values for a point as typed."""
        plain: dict[str, Any] = {}
        for one in self.parameters:
            if one.name in values:
                text = values[one.name]
                plain[one.name] = text if isinstance(one.domain, Categorical) else one.domain.locate(float(text))
        return plain

    def points(self) -> Iterator[dict[str, str]]:
        """Yield all points, the last parameter changing first. Raises HydraException for a continuous parameter."""
        endless = [one.name for one in self.parameters if one.domain.listed() is None]
        if endless:
            raise HydraException(
                f"hydra/sweeper/sampler=grid: {', '.join(endless)} has no end of values; use range(start,stop,step)"
            )
        return self._points(self.parameters, {})

    def probes(self, default: bool = True) -> list[tuple[str, ...]]:
        """List overrides that contain each choice and each end of each range once: all must compose.

        A conditional parameter is tried with each value of its parent; all others have their first value. With
        ``default`` the config without any searched key comes first.
        """
        found = [self.fixed] if default else []
        for one in self.parameters:
            for values in self._parent_values(one):
                tried = [self._with_first_values({**values, one.name: value}) for value in one.domain.extremes()]
                found += [self.overrides(each) for each in tried]
        return list(dict.fromkeys(found or [self.fixed]))

    def description(self) -> list[Any]:
        """Describe the space in plain values, for comparison."""
        return [[one.name, repr(one.domain), *map(str, one.when)] for one in self.parameters]

    def _with_first_values(self, values: Mapping[str, str]) -> dict[str, str]:
        """Complete a point by the first value of every other parameter that exists."""
        found: dict[str, str] = {}
        for one in self.parameters:
            if one.exists(found):
                found[one.name] = values.get(one.name, one.domain.extremes()[0])
        return found

    def _points(self, left: Sequence[Parameter], values: dict[str, str]) -> Iterator[dict[str, str]]:
        if not left:
            yield values
        elif not left[0].exists(values):
            yield from self._points(left[1:], values)
        else:
            for value in left[0].domain.listed() or ():
                yield from self._points(left[1:], {**values, left[0].name: value})

    def _parent_values(self, parameter: Parameter) -> list[dict[str, str]]:
        """List the values of all ancestors with which a parameter exists."""
        found: list[dict[str, str]] = [{}]
        for condition in parameter.when:
            parent = next(one for one in self.parameters if one.name == condition.parent)
            above = self._parent_values(parent)
            found = [{**a, **b, condition.parent: v} for a in found for b in above for v in condition.values]
        return found


def read_space(typed: Sequence[str], params: Mapping[str, Any] | None, loader: ConfigLoader | None = None) -> Space:
    """Read the space from ``params`` and the command line, which takes precedence.

    Raises HydraException for what cannot be read, for unknown parents or values of parents, and for circles.
    """
    overrides, conditions, places = [], {}, {}
    for key, given in (params or {}).items():
        where = f"{PARAMS}.{key}"
        over, when = _read_parameter(given, where)
        overrides.append(parse_override(f"{key}={over}", where, loader))
        conditions[overrides[-1].get_key_element()] = [_read_condition(one, where) for one in when]
        places[overrides[-1].get_key_element()] = where
    for line in typed:
        overrides.append(parse_override(line, "", loader))
        places[overrides[-1].get_key_element()] = f'"{line}"'
    last = {one.get_key_element(): one for one in overrides}
    found, fixed = {}, {}
    for name, override in last.items():
        if override.is_sweep_override():
            when_all = tuple(conditions.get(name, ()))
            found[name] = Parameter(name, read_domain(override, places[name]), when_all)
        else:
            fixed[name] = override.get_value_element_as_str()
    chosen = {one.get_key_element() for one in overrides[len(params or {}) :]}
    everything = {name: conditions.get(name, []) for name in last}
    space = _apply_conditions(found, fixed, everything, chosen)
    return replace(space, order=tuple(last))


def merge_overrides(fixed: Sequence[str], more: Sequence[str]) -> tuple[str, ...]:
    """Join overrides; the last one of each key wins."""
    return tuple({parse_override(line, "").get_key_element(): line for line in [*fixed, *more]}.values())


def _apply_conditions(
    found: dict[str, Parameter], fixed: dict[str, str], everything: dict[str, list[Condition]], chosen: set[str]
) -> Space:
    """Evaluate conditions on fixed keys, drop parameters that cannot exist, and sort the rest by dependency.

    Where the command line narrows the values of a parent, parameters that depend on the others are dropped.
    """
    known = {**{name: one.domain for name, one in found.items()}, **{n: Categorical((v,)) for n, v in fixed.items()}}
    for name, conditions in everything.items():
        for condition in conditions:
            _check_condition(name, condition, known, condition.parent in chosen | fixed.keys())
    graph = {name: {condition.parent for condition in conditions} for name, conditions in everything.items()}
    try:
        order = list(TopologicalSorter(graph).static_order())
    except CycleError as fault:
        circle = " -> ".join(fault.args[1])
        raise HydraException(f"{PARAMS}: {circle}: each exists only beside the other; remove a condition") from None
    depth = dict.fromkeys(order, 0)
    for name in order:
        depth[name] = max((depth[parent] + 1 for parent in graph.get(name, ())), default=0)
    kept: list[Parameter] = []
    gone: set[str] = set()
    for name in sorted(everything, key=lambda one: depth[one]):
        open_, possible = [], True
        for condition in everything[name]:
            if condition.parent in fixed:
                possible &= condition.parent not in gone and fixed[condition.parent] in condition.values
            else:
                values = known[condition.parent].listed() or ()
                left = tuple(value for value in condition.values if value in values)
                possible &= condition.parent not in gone and bool(left)
                open_.append(Condition(condition.parent, left))
        if not possible:
            gone.add(name)
        elif name in found:
            kept.append(Parameter(name, found[name].domain, tuple(open_)))
    lines = tuple(f"{name}={value}" for name, value in fixed.items() if name not in gone)
    return Space(tuple(kept), lines)


def _read_parameter(given: Any, where: str) -> tuple[str, list[str]]:
    """Split a parameter as written into its sweep and its conditions."""
    if not isinstance(given, Mapping):
        return str(given), []
    if "over" not in given or set(given) - {"over", "when"} or not isinstance(given["over"], str):
        raise HydraException(f"{where}: must be a sweep, or {FORM} with what has commas in quotes, given {given!r}")
    when = given.get("when")
    if when is None:
        return given["over"], []
    listed = when if isinstance(when, list) else [when]
    if not all(isinstance(one, str) for one in listed):
        raise HydraException(f'{where}: when must be "parent=value", or a list of such, given {when!r}')
    return given["over"], listed


def _read_condition(line: str, where: str) -> Condition:
    override = parse_override(line, f"{where}.when", None)
    name = override.get_key_element()
    chosen = read_domain(override, f"{where}.when") if override.is_sweep_override() else None
    if isinstance(chosen, Numeric):
        values = chosen.listed()
    else:
        values = chosen.values if chosen else (override.get_value_element_as_str(),)
    if values is None:
        raise HydraException(f'{where}.when: name values, given "{line}"')
    return Condition(name, values)


def _check_condition(
    name: str, condition: Condition, known: Mapping[str, Categorical | Numeric], lenient: bool
) -> None:
    where = f"{PARAMS}.{name}.when"
    if condition.parent not in known:
        near = difflib.get_close_matches(condition.parent, known, 1)
        hint = f'; did you mean "{near[0]}"?' if near else "; it must be searched as well, or be typed"
        raise HydraException(f'{where}: no parameter "{condition.parent}"{hint}')
    values = known[condition.parent].listed()
    if values is None:
        raise HydraException(f"{where}: {condition.parent} has no end of values; depend on one with choices")
    unknown = [value for value in condition.values if value not in values]
    if unknown and not lenient:
        raise HydraException(f"{where}: {condition.parent} never is {unknown[0]}; it is one of {', '.join(values[:9])}")
