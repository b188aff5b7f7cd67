"""Read what a job returned: numbers, or why there are none. A job without a number is a failure, never a value."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from hydra.core.utils import JobReturn, JobStatus
from hydra.errors import HydraException

from ragsweep.sweep.race_loop import raised

DIRECTIONS = ("maximize", "minimize")
_BOUND = re.compile(r"\s*([\w./@-]+)\s*(<=|>=)\s*([-+.\deE]+)\s*")


@dataclass(frozen=True)
class Bound:
    """A constraint: what a job measured under a name must not be above, or below, a number."""

    name: str
    upper: bool
    limit: float

    def __str__(self) -> str:
        return f"{self.name} {'<=' if self.upper else '>='} {self.limit:g}"

    def violation(self, value: float) -> float:
        """Say by how much a value breaks the bound; at most 0 where it keeps it."""
        return value - self.limit if self.upper else self.limit - value


@dataclass(frozen=True)
class Outcome:
    """What became of a trial: its values, one an objective, or the reason why there are none."""

    values: tuple[float, ...] = ()
    reason: str = ""
    violations: tuple[tuple[str, float], ...] = ()  # by how much each constraint is broken; at most 0: it is kept
    charged: bool = True  # whether it counts as one of the study's trials
    cost: tuple[tuple[str, float], ...] = ()  # what it used, by name; one number has an empty name
    differences: tuple[float, ...] = ()  # the smallest that its data could show, an objective; NaN: not known
    pruned: bool = False  # a race dropped it before it was evaluated whole

    @property
    def feasible(self) -> bool:
        """Whether all constraints are kept."""
        return all(violation <= 0 for _, violation in self.violations)

    def text(self) -> str:
        """Write the outcome down."""
        differences = [one if math.isfinite(one) else None for one in self.differences]
        return json.dumps({**asdict(self), "differences": differences})


def outcome_of(text: str) -> Outcome:
    """Read an outcome back."""
    plain = json.loads(text)
    violations, cost = (tuple((name, value) for name, value in plain.get(key, ())) for key in ("violations", "cost"))
    differences = tuple(math.nan if one is None else one for one in plain.get("differences", ()))
    values, pruned = tuple(plain["values"]), bool(plain.get("pruned"))
    return Outcome(values, plain["reason"], violations, plain["charged"], cost, differences, pruned)


def read_directions(given: Any) -> tuple[str, ...]:
    """Read the key ``direction``: one, or a list with one for each objective. Raises HydraException."""
    given = "minimize" if given is None else given
    listed = tuple(str(getattr(one, "name", one)) for one in (given if isinstance(given, list) else [given]))
    if not listed or any(one not in DIRECTIONS for one in listed):
        raise HydraException(f"hydra.sweeper.direction: must be minimize, maximize or a list of these, given {given!r}")
    return listed


def read_bounds(given: Any) -> tuple[Bound, ...]:
    """Read the key ``constraints``: a list such as ["latency <= 800"]. Raises HydraException."""
    if given is not None and not isinstance(given, list):
        raise HydraException(f'hydra.sweeper.constraints: must be a list such as ["latency <= 800"], given {given!r}')
    bounds = []
    for line in given or []:
        found = _BOUND.fullmatch(str(line))
        try:
            assert found is not None
            bounds.append(Bound(found[1], found[2] == "<=", float(found[3])))
        except (AssertionError, ValueError):
            raise HydraException(
                f'hydra.sweeper.constraints: must be NAME <= NUMBER or NAME >= NUMBER, given "{line}"'
            ) from None
    return tuple(bounds)


def judge(job: JobReturn, objectives: int, bounds: Sequence[Bound]) -> Outcome:
    """Read a job's result.

    A job returns a number, or a sequence with one for each objective; or a mapping with ``values`` (one of these),
    ``reason`` (why one of them is no number), ``measured`` (name -> number, what constraints are about), ``charged``
    (false: it does not count as one of the trials), ``cost`` (a number, or name -> number) and ``differences`` (the
    smallest that its data could show, as many as there are values).
    """
    if job.status != JobStatus.COMPLETED:
        return Outcome(reason=_reason(job))
    returned = job.return_value
    plain = returned if isinstance(returned, Mapping) else {"values": returned}
    spent = Outcome(
        charged=plain.get("charged", True) is not False,
        cost=_cost(plain.get("cost")),
        differences=tuple(math.nan if one is None else one for one in map(_number, _listed(plain.get("differences")))),
    )
    values = _listed(plain["values"]) if plain.get("values") is not None else [None]
    if len(values) != objectives:
        return replace(spent, reason=f"returned {len(values)} values for {objectives} objectives")
    numbers = [_number(value) for value in values]
    for place, (value, number) in enumerate(zip(values, numbers, strict=True)):
        if number is None:
            which = f" for objective {place + 1}" if objectives > 1 else ""
            told = str(plain.get("reason") or "")
            return replace(spent, reason=told or f"returned {value!r}{which}, which is no number")
    violations = []
    for bound in bounds:
        measured = _number((plain.get("measured") or {}).get(bound.name))
        if measured is None:
            return replace(spent, reason=f'did not measure "{bound.name}", which is constrained')
        violations.append((str(bound), bound.violation(measured)))
    found = tuple(number for number in numbers if number is not None)
    return replace(spent, values=found, violations=tuple(violations))


def _listed(given: Any) -> list[Any]:
    if given is None:
        return []
    return list(given) if isinstance(given, Sequence) and not isinstance(given, str) else [given]


def _cost(given: Any) -> tuple[tuple[str, float], ...]:
    named = given if isinstance(given, Mapping) else {"": given}
    numbers = {str(name): _number(value) for name, value in named.items()}
    return tuple((name, number) for name, number in numbers.items() if number)


def _number(value: Any) -> float | None:
    """Turn a value into a number; None where it is not finite, or none at all."""
    try:
        number = float(value) if not isinstance(value, bool | str) and value is not None else math.nan
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def _reason(job: JobReturn) -> str:
    fault = raised(job)
    if not isinstance(fault, BaseException):
        return "its job did not complete"
    said = str(fault).splitlines()
    return f"{type(fault).__name__}: {said[0]}" if said else type(fault).__name__
