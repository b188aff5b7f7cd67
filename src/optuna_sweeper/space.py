"""The space of a search: its parameters, the conditions between them, and its points."""

import difflib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from itertools import islice
from types import MappingProxyType
from typing import Any

from hydra.core.config_loader import ConfigLoader
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException

from optuna_sweeper.parameters import (
    MOST,
    PARAMS,
    Categorical,
    Numeric,
    Parameter,
    ParentCondition,
    find_text,
    parse_override,
    read_domain,
    value_text,
)
from optuna_sweeper.samplers import BRUTE_FORCE, GRID


@dataclass(frozen=True)
class Space:
    """Parameters, each after the parents on which it depends, and the overrides that all trials share."""

    parameters: tuple[Parameter, ...]
    fixed: tuple[str, ...] = ()
    order: tuple[str, ...] = ()  # all keys, in the order of their first occurrence; overrides are sorted in this order

    def suggest(self, trial: Any) -> dict[str, str]:
        """Map the key of each parameter that exists to the value that ``trial`` suggests, as typed in an override."""
        values: dict[str, str] = {}
        for parameter in self.parameters:
            if parameter.exists(values):
                values[parameter.name] = parameter.domain.suggest(trial, parameter.name)
        return values

    def overrides(self, values: Mapping[str, str]) -> tuple[str, ...]:
        """Return the overrides for a trial's ``values``, together with the fixed overrides, sorted by ``order``."""
        lines = [*self.fixed, *(f"{key}={value}" for key, value in values.items())]
        positions = {name: number for number, name in enumerate(self.order)}
        return tuple(sorted(lines, key=lambda line: positions.get(line.partition("=")[0], len(positions))))

    def split_config(self, config: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, Any]]:
        """Split a config's values into values in the space, as typed in an override, and values outside the space.

        A parameter that does not exist, or depends on a value outside the space, is in neither mapping. A missing value
        counts as null.
        """
        point: dict[str, str] = {}
        outside: dict[str, Any] = {}
        for parameter in self.parameters:
            if parameter.exists(point):
                value = config.get(parameter.name)
                if parameter.domain.locate(value) is None:
                    outside[parameter.name] = value
                else:
                    point[parameter.name] = parameter.domain.nearest(value)
        return point, outside

    def optuna_values(self, point: Mapping[str, str]) -> dict[str, Any]:
        """Convert a point's values from text to Optuna's values."""
        domains = {parameter.name: parameter.domain for parameter in self.parameters}
        return {
            name: text if isinstance(domains[name], Categorical) else domains[name].locate(float(text))
            for name, text in point.items()
        }

    def points(self) -> Iterator[dict[str, str]]:
        """Return an iterator over all points, in which the last parameter changes fastest.

        Raises HydraException for a continuous or logarithmic parameter.
        """
        self.check_sampler(GRID)
        return self._points(self.parameters, {})

    def check_sampler(self, name: str | None) -> None:
        """Raise HydraException if the sampler ``name`` lists all values, and a parameter has too many to list."""
        ranges = {each.name: each.domain for each in self.parameters if isinstance(each.domain, Numeric)}
        lists_whole = name == BRUTE_FORCE  # lists whole numbers, even on a logarithmic scale, but in memory
        endless = [key for key, each in ranges.items() if each.step is None and not (each.whole and lists_whole)]
        long = [key for key, each in ranges.items() if each.whole and each.high - each.low >= MOST * (each.step or 1)]
        endless += long if lists_whole else []
        kind = f"continuous or very long (over {MOST:,} values)" if lists_whole else "continuous or logarithmic"
        if endless and name in (GRID, BRUTE_FORCE):
            raise HydraException(
                f"hydra/sweeper/sampler={name}: cannot list the values of {kind} intervals"
                f" ({', '.join(endless)}); write range(START,STOP,STEP) instead"
            )

    def _points(self, parameters: Sequence[Parameter], values: dict[str, str]) -> Iterator[dict[str, str]]:
        if not parameters:
            yield values
        elif not parameters[0].exists(values):
            yield from self._points(parameters[1:], values)
        else:
            for text in parameters[0].domain.listed():
                yield from self._points(parameters[1:], {**values, parameters[0].name: text})

    def probes(self) -> list[tuple[str, ...]]:
        """List the probes: configs, as overrides, that must be composable.

        Together, the probes contain each choice and both ends of each range. A probe sets one parameter and its
        ancestors; all other parameters have their first value. A conditional parameter is combined with all values of
        its ancestors for which it exists (see `probes_by_parameter`). If there are no parameters, the only probe
        consists of the fixed overrides.
        """
        probes = [probe for _, probes in self.probes_by_parameter() for probe in probes]
        return list(dict.fromkeys(probes or [self.fixed]))

    @property
    def is_finite(self) -> bool:
        """Whether no parameter is continuous or logarithmic."""
        return all(parameter.domain.count < math.inf for parameter in self.parameters)

    def count_points(self, most: int) -> int:
        """Count the points, up to ``most``; return ``most`` if the space is not finite."""
        return sum(1 for _ in islice(self.points(), most)) if self.is_finite else most

    def probes_by_parameter(
        self, others: Mapping[str, str] = MappingProxyType({})
    ) -> Iterator[tuple[Parameter, list[tuple[str, ...]]]]:
        """Yield (parameter, probes) for each parameter and each combination of ancestors' values for which it exists.

        The ancestors of a parameter are the parameters on whose values its existence depends. There is a probe for each
        choice, or for each end of a range. ``others`` maps the remaining parameters to values; a parameter that is not
        in ``others`` has its first value.
        """
        for parameter in self.parameters:
            for parents in self._parent_values(parameter):
                points = ({**others, **parents, parameter.name: text} for text in parameter.domain.extremes())
                yield parameter, [self.overrides(self._with_first_values(point)) for point in points]

    def _with_first_values(self, values: Mapping[str, str]) -> dict[str, str]:
        """Complete a point with the first value of every other parameter that exists."""
        point: dict[str, str] = {}
        for parameter in self.parameters:
            if parameter.exists(point):
                point[parameter.name] = values.get(parameter.name, parameter.domain.extremes()[0])
        return point

    def _parent_values(self, parameter: Parameter) -> list[dict[str, str]]:
        """List the combinations of ancestors' values for which a parameter exists."""
        lists: list[dict[str, str]] = [{}]
        for condition in parameter.when:
            parent = next(each for each in self.parameters if each.name == condition.parent)
            above = self._parent_values(parent)
            lists = [{**a, **b, condition.parent: text} for a in lists for b in above for text in condition.values]
        return lists

    def description(self) -> list[Any]:
        """Return the space as plain values, to compare it with a stored study's space."""
        return [[each.name, repr(each.domain), *map(str, each.when)] for each in self.parameters]


def merge_overrides(fixed: Sequence[str], more: Sequence[str]) -> tuple[str, ...]:
    """Merge overrides; if a key occurs several times, its last override is kept."""
    return tuple({parse_override(line, "").get_key_element(): line for line in [*fixed, *more]}.values())


def read_space(typed: Sequence[str], params: Mapping[str, Any] | None, loader: ConfigLoader | None = None) -> Space:
    """Read the space from ``params`` and from the overrides ``typed`` on the command line; ``typed`` takes precedence.

    Raises HydraException for malformed ``params`` or sweeps, for a cycle of conditions, and for a condition whose
    parent is unknown, continuous or logarithmic, or lacks the required value.
    """
    if not isinstance(params or {}, Mapping):
        raise HydraException(f"{PARAMS}: must be a mapping from keys to sweeps, got {params!r}")
    written: dict[str, tuple[Override, str]] = {}  # key -> the override, and where it is written
    conditions: dict[str, list[ParentCondition]] = {}
    for key, value in (params or {}).items():
        where = f"{PARAMS}.{key}"
        sweep, when = _split_parameter(value, where)
        override = parse_override(f"{key}={sweep}", where, loader)
        written[override.get_key_element()] = override, where
        conditions[override.get_key_element()] = [read_condition(line, where, loader) for line in when]
    command_line = [parse_override(line, "", loader) for line in typed]
    written |= {one.get_key_element(): (one, f'"{line}"') for line, one in zip(typed, command_line, strict=True)}
    domains: dict[str, Categorical | Numeric] = {}
    fixed: dict[str, str] = {}
    for name, (override, where) in written.items():
        if override.is_sweep_override():
            domains[name] = read_domain(override, where)
        else:
            fixed[name] = override.get_value_element_as_str()
            domains[name] = Categorical((value_text(override),))
    narrowed = {override.get_key_element() for override in command_line} | fixed.keys()
    for name, listed in conditions.items():
        for condition in listed:
            _check_condition(name, condition, domains, condition.parent in narrowed)
    return _apply_conditions(domains, fixed, conditions)


def _apply_conditions(
    domains: Mapping[str, Categorical | Numeric],
    fixed: Mapping[str, str],
    conditions: Mapping[str, list[ParentCondition]],
) -> Space:
    """Evaluate the conditions on fixed keys and return a space without the parameters that cannot exist.

    If the command line narrows the values of a parent, parameters that exist only for removed values are dropped too. A
    fixed key whose existence depends on a searched parent becomes a parameter with one value. The space's parameters
    are sorted by dependency. Raises HydraException for a cycle of conditions.
    """
    parameters: list[Parameter] = []
    gone: set[str] = set()
    shared = dict(fixed)  # the fixed keys of every config
    for name in _sort_by_dependency(list(domains), conditions):
        possible, unresolved = True, []
        for condition in conditions.get(name, ()):
            texts = (find_text(value, domains[condition.parent]) for value in condition.values)
            left = tuple(text for text in texts if text is not None)
            possible &= bool(left) and condition.parent not in gone
            if condition.parent not in shared:
                unresolved.append(ParentCondition(condition.parent, left))
        if unresolved or not possible:
            shared.pop(name, None)
        if not possible:
            gone.add(name)
        elif name not in shared:
            parameters.append(Parameter(name, domains[name], tuple(unresolved)))
    return Space(tuple(parameters), tuple(f"{name}={text}" for name, text in shared.items()), tuple(domains))


def _sort_by_dependency(names: list[str], conditions: Mapping[str, list[ParentCondition]]) -> list[str]:
    """Sort keys topologically, each generation in the order of ``names``. Raises HydraException for a cycle."""
    sorter = TopologicalSorter({name: {each.parent for each in conditions.get(name, ())} for name in names})
    try:
        sorter.prepare()
    except CycleError as fault:
        circle = " -> ".join(fault.args[1])
        raise HydraException(f"{PARAMS}: {circle}: these parameters depend on each other; remove a condition") from None
    order: list[str] = []
    while sorter.is_active():
        generation = sorter.get_ready()
        order += sorted(generation, key=names.index)
        sorter.done(*generation)
    return order


def _split_parameter(value: Any, where: str) -> tuple[str, list[str]]:
    if not isinstance(value, Mapping):
        return "null" if value is None else str(value), []
    if "over" not in value or set(value) - {"over", "when"} or not isinstance(value["over"], str):
        form = '{over: "interval(0,1)", when: parent=value}'
        raise HydraException(f"{where}: must be a sweep, or {form}, got {value!r}; quote a sweep that contains commas")
    when = value.get("when")
    lines = when if isinstance(when, list) else [] if when is None else [when]
    if not all(isinstance(line, str) for line in lines):
        raise HydraException(f'{where}.when: must be "parent=value", or a list of these, got {when!r}')
    return value["over"], lines


def read_condition(line: str, where: str, loader: ConfigLoader | None) -> ParentCondition:
    """Read a condition such as ``parent=value``. Raises HydraException for infinitely many values."""
    where = f"{where}.when"
    override = parse_override(line, where, loader)
    domain = read_domain(override, where) if override.is_sweep_override() else Categorical((value_text(override),))
    if domain.count == math.inf:
        raise HydraException(f'{where}: must list values (PARENT=VALUE or PARENT=VALUE,VALUE), got "{line}"')
    return ParentCondition(override.get_key_element(), tuple(domain.listed()))


def _check_condition(
    name: str, condition: ParentCondition, domains: Mapping[str, Categorical | Numeric], narrowed: bool
) -> None:
    """Raise HydraException if a condition's parent is unknown or has infinitely many values, or if a value is unknown.

    Values are not checked if the parent is ``narrowed``, that is, fixed or given on the command line.
    """
    where = f"{PARAMS}.{name}.when"
    if condition.parent not in domains:
        near = difflib.get_close_matches(condition.parent, domains, 1)
        hint = f'; did you mean "{near[0]}"?' if near else f"; add it to {PARAMS}, or set it on the command line"
        raise HydraException(f'{where}: no parameter "{condition.parent}"{hint}')
    parent = domains[condition.parent]
    if parent.count == math.inf:
        what = "a continuous or logarithmic interval; choose a parent with choices"
        raise HydraException(f"{where}: {condition.parent} is {what}")
    unknown = [value for value in condition.values if find_text(value, parent) is None]
    if unknown and not narrowed:
        listed = ", ".join([*islice(parent.listed(), 9), *(["..."] if parent.count > 9 else [])])
        raise HydraException(f"{where}: {condition.parent} has no value {unknown[0]}; its values are {listed}")
