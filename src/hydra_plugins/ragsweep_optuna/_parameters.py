"""What is searched: one parameter is a choice of values or a stretch of numbers, in Hydra's sweep syntax."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from hydra.core.config_loader import ConfigLoader
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import IntervalSweep, Override, RangeSweep
from hydra.errors import HydraException

PARAMS = "hydra.sweeper.params"
MOST = 100_000
"""Values that a parameter may be listed with: whoever names more mistyped a range."""


@dataclass(frozen=True)
class Choice:
    """One of some values, each as it is typed in an override."""

    values: tuple[str, ...]

    def listed(self) -> tuple[str, ...]:
        """List all values."""
        return self.values

    def borders(self) -> tuple[str, ...]:
        """List the values that must all be possible."""
        return self.values

    def suggest(self, trial: Any, name: str) -> str:
        """Ask a trial for a value, as it is typed."""
        return str(trial.suggest_categorical(name, list(self.values)))

    def take(self, value: Any) -> str | None:
        """Find a value of a config here: what Optuna calls it, or None where it is none of ours."""
        return next((text for text in self.values if text == value or _read(text) == value), None)


@dataclass(frozen=True)
class Numbers:
    """A number between two, both included; only every ``step``-th, or by its logarithm, where so typed."""

    low: float
    high: float
    step: float | None = None
    log: bool = False
    whole: bool = False

    def listed(self) -> tuple[str, ...] | None:
        """List all values, or None where there is no end of them."""
        if self.step is None:
            return None
        return tuple(map(self._stepped, range(round((self.high - self.low) / self.step) + 1)))

    def borders(self) -> tuple[str, ...]:
        """List the values that must all be possible."""
        return tuple(dict.fromkeys([self._spelled(self.low), self._spelled(self.high)]))

    def suggest(self, trial: Any, name: str) -> str:
        """Ask a trial for a value, as it is typed."""
        if self.whole:
            low, high, step = int(self.low), int(self.high), int(self.step or 1)
            return str(trial.suggest_int(name, low, high, step=step, log=self.log))
        drawn = float(trial.suggest_float(name, self.low, self.high, step=self.step, log=self.log))
        return repr(drawn) if self.step is None else self._stepped(round((drawn - self.low) / self.step))

    def take(self, value: Any) -> float | int | None:
        """Find a value of a config here: what Optuna calls it, or None where it is none of ours."""
        if isinstance(value, bool) or not isinstance(value, int | float) or not self.low <= value <= self.high:
            return None
        if self.whole and value != int(value):
            return None
        steps = (value - self.low) / self.step if self.step else 0.0
        if abs(steps - round(steps)) > 1e-9:
            return None
        return int(value) if self.whole else float(value)

    def _stepped(self, number: int) -> str:
        """Spell the value that so many steps lead to: .15, where adding up floats comes to .15000000000000002."""
        value = Decimal(str(self.low)) + number * Decimal(str(self.step))
        return str(int(value)) if self.whole else repr(float(value))

    def _spelled(self, value: float) -> str:
        return str(int(value)) if self.whole else repr(float(value))


@dataclass(frozen=True)
class Condition:
    """A parameter exists only where another has one of these values, each as it is typed."""

    parent: str
    values: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.parent}={','.join(self.values)}"


@dataclass(frozen=True)
class Parameter:
    """A key that is searched."""

    name: str  # as it stands before the = of an override
    domain: Choice | Numbers
    when: tuple[Condition, ...] = ()

    def exists(self, values: dict[str, str]) -> bool:
        """Say whether the parameter exists beside these values of others."""
        return all(values.get(condition.parent) in condition.values for condition in self.when)


def read(line: str, where: str, loader: ConfigLoader | None = None) -> Override:
    """Parse one override. Raises HydraException, with where it stands."""
    try:
        return OverridesParser.create(loader).parse_override(line)
    except HydraException as fault:
        start = f"{where}: " if where else ""
        raise HydraException(f'{start}cannot read "{line}": {str(fault).splitlines()[0]}') from fault


def domain(override: Override, where: str) -> Choice | Numbers:
    """Turn a sweep in Hydra's syntax into what Optuna is asked for.

    A range is half-open, as Hydra defines it: its end is none of its values. An interval includes both of its ends.
    """
    value: Any = override.value()
    log = "log" in getattr(value, "tags", ())
    if isinstance(value, IntervalSweep):
        assert value.start is not None
        assert value.end is not None
        return _interval(value.start, value.end, log, where)
    if isinstance(value, RangeSweep):
        return _range(value, log, where)
    listed = tuple(_some(override.sweep_string_iterator(), where))
    values = tuple(dict.fromkeys({"True": "true", "False": "false"}.get(value, value) for value in listed))
    if log:
        raise HydraException(f"{where}: tag(log, ...) is for intervals and ranges, given {override.input_line!r}")
    if not values:
        raise HydraException(f"{where}: names no value, given {override.input_line!r}")
    return Choice(values)


def spelled(value: Any) -> str:
    """Spell a plain value as it is typed in an override."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return "null" if value is None else str(value)


def _interval(start: float, end: float, log: bool, where: str) -> Numbers:
    whole = isinstance(start, int) and isinstance(end, int)
    _ordered(start, end, log, where)
    return Numbers(start, end, 1 if whole and not log else None, log, whole)


def _range(value: RangeSweep, log: bool, where: str) -> Numbers:
    start, stop, step = (value.start or 0), value.stop, value.step
    assert stop is not None
    whole = all(isinstance(number, int) for number in (start, stop, step))
    count = 0 if step == 0 else math.ceil((Decimal(str(stop)) - Decimal(str(start))) / Decimal(str(step)))
    if not 0 < count <= MOST:
        raise HydraException(f"{where}: holds {max(count, 0)} values, given range({start},{stop},{step})")
    last = Decimal(str(start)) + (count - 1) * Decimal(str(step))
    low, high = sorted([float(start), float(last)])
    _ordered(low, high, log, where)
    if log and abs(step) != 1:
        raise HydraException(f"{where}: tag(log, range(...)) goes in steps of 1, given {step}; use an interval")
    if log and not whole:
        raise HydraException(f"{where}: tag(log, range(...)) is for whole numbers; use an interval")
    return Numbers(low, high, None if log else abs(step), log, whole)


def _ordered(low: float, high: float, log: bool, where: str) -> None:
    if not (math.isfinite(low) and math.isfinite(high) and low <= high):
        raise HydraException(f"{where}: must go from a lower to a higher number, given {low} to {high}")
    if log and low <= 0:
        raise HydraException(f"{where}: has no logarithm at {low}; begin above 0")


def _some(values: Iterator[str], where: str) -> Sequence[str]:
    found = []
    for value in values:
        found.append(value)
        if len(found) > MOST:
            raise HydraException(f"{where}: names more than {MOST} values")
    return found


def _read(text: str) -> Any:
    try:
        return OverridesParser.create().parse_override(f"key={text}").value()
    except HydraException:
        return text
