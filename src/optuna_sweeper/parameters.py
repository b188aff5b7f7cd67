"""Parameters of a search: categorical or numeric domains, written in Hydra's sweep syntax."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeGuard

from hydra.core.config_loader import ConfigLoader
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ChoiceSweep, IntervalSweep, Override, Quote, QuotedString, RangeSweep
from hydra.errors import HydraException

PARAMS = "hydra.sweeper.params"
MOST = 100_000
"""Maximum number of values in a range; a higher number indicates a mistyped range."""
_BOOLEANS = {"True": "true", "False": "false"}
"""Hydra's spelling of a Boolean -> its spelling in overrides and domains."""


def is_number(value: object) -> TypeGuard[float]:
    """Return whether a value is a number; true and false are not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_whole(value: object) -> TypeGuard[int]:
    """Return whether a value is a whole number; true and false are not."""
    return isinstance(value, int) and not isinstance(value, bool)


@dataclass(frozen=True)
class Categorical:
    """A finite set of values, each as typed in an override."""

    values: tuple[str, ...]

    @property
    def count(self) -> int:
        """The number of values."""
        return len(self.values)

    def listed(self) -> Iterator[str]:
        """Yield all values."""
        return iter(self.values)

    def extremes(self) -> tuple[str, ...]:
        """Return the values with which a config must be composable: all choices."""
        return self.values

    def suggest(self, trial: Any, name: str) -> str:
        """Return the value that ``trial`` suggests for the parameter ``name``, as typed in an override."""
        return str(trial.suggest_categorical(name, list(self.values)))

    def locate(self, value: Any) -> str | None:
        """Return Optuna's value for a config's value; None for a value outside the domain."""
        return next((text for text in self.values if text == value or _equal(parse_value(text), value)), None)

    def nearest(self, value: Any) -> str:
        """Return the choice that equals a config's value, or else the first choice."""
        located = self.locate(value)
        return self.values[0] if located is None else located


@dataclass(frozen=True)
class Numeric:
    """A closed range of numbers, optionally in steps or on a logarithmic scale."""

    low: float
    high: float
    step: float | None = None
    log: bool = False
    whole: bool = False

    @property
    def count(self) -> float:
        """The number of values; infinite for a continuous or logarithmic range."""
        return math.inf if self.step is None else round((self.high - self.low) / self.step) + 1

    def listed(self) -> Iterator[str]:
        """Yield all values, possibly billions; yield nothing for a continuous or logarithmic range."""
        return map(self._step_text, range(0 if self.step is None else int(self.count)))

    def extremes(self) -> tuple[str, ...]:
        """Return the values with which a config must be composable: both ends, or one value if they are equal."""
        ends = [str(int(end)) if self.whole else repr(float(end)) for end in (self.low, self.high)]
        return tuple(dict.fromkeys(ends))

    def suggest(self, trial: Any, name: str) -> str:
        """Return the value that ``trial`` suggests for the parameter ``name``, as typed in an override."""
        if self.whole:
            low, high, step = int(self.low), int(self.high), int(self.step or 1)
            return str(trial.suggest_int(name, low, high, step=step, log=self.log))
        value = float(trial.suggest_float(name, self.low, self.high, step=self.step, log=self.log))
        return repr(value) if self.step is None else self._step_text(round((value - self.low) / self.step))

    def locate(self, value: Any) -> float | int | None:
        """Return Optuna's value for a config's value; None for a value outside the domain."""
        if not is_number(value) or not self.low <= value <= self.high:
            return None
        if self.whole and value != int(value):
            return None
        steps = (value - self.low) / self.step if self.step else 0.0
        if abs(steps - round(steps)) > 1e-9:
            return None
        return int(value) if self.whole else float(value)

    def nearest(self, value: Any) -> str:
        """Return the nearest number to ``value`` in the range, as text; the low end if ``value`` is not a number."""
        inside = min(max(value, self.low), self.high) if is_number(value) and not math.isnan(value) else self.low
        if self.step is not None:
            return self._step_text(round((inside - self.low) / self.step))
        return str(round(inside)) if self.whole else repr(float(inside))

    def _step_text(self, number: int) -> str:
        """Format the value that is ``number`` steps above ``low``, exactly: 0.15 instead of 0.15000000000000002."""
        value = Decimal(str(self.low)) + number * Decimal(str(self.step))
        return str(int(value)) if self.whole else repr(float(value))


@dataclass(frozen=True)
class ParentCondition:
    """The condition that a parameter exists only if its parent has one of ``values``, as typed in overrides."""

    parent: str
    values: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.parent}={','.join(self.values)}"


@dataclass(frozen=True)
class Parameter:
    """A searched key, its domain, and the conditions under which it exists."""

    name: str  # the text before the = of an override
    domain: Categorical | Numeric
    when: tuple[ParentCondition, ...] = ()

    def exists(self, values: dict[str, str]) -> bool:
        """Return whether the parameter exists, given the ``values`` of other parameters as typed in overrides."""
        return all(values.get(condition.parent) in condition.values for condition in self.when)


def parse_override(line: str, where: str, loader: ConfigLoader | None = None) -> Override:
    """Parse one override. Raises HydraException, whose message begins with ``where``, for invalid syntax."""
    try:
        override = OverridesParser.create(loader).parse_overrides([line])[0]  # Hydra's parse_override sets no loader
    except HydraException as fault:
        start = f"{where}: " if where else ""
        way = "write KEY=VALUE, and quote a value that must not be parsed"
        why = str(fault).removeprefix(f"Error parsing override '{line}'").strip().splitlines()[0]
        raise HydraException(f'{start}cannot read "{line}": {why}; {way}') from fault
    if "${" not in line or _is_readable(override, loader):
        return override
    value: Any = override.value()
    if isinstance(value, ChoiceSweep):
        value.list = [_spelled(one) for one in value.list]
        return override
    key, _, text = line.partition("=")
    alone = parse_override(f"{key}=choice({text})", where, loader)
    return OverridesParser.create(loader).parse_overrides([f"{key}={next(alone.sweep_string_iterator())}"])[0]


def _is_readable(override: Override, loader: ConfigLoader | None) -> bool:
    """Return whether Hydra can parse an override's values in the spelling that Hydra gives them."""
    sweep = override.sweep_string_iterator() if override.is_sweep_override() else [override.get_value_element_as_str()]
    try:
        OverridesParser.create(loader).parse_overrides([f"{override.get_key_element()}={text}" for text in sweep])
    except HydraException:
        return False
    return True


def _spelled(value: Any) -> Any:
    """Quote each string in ``value`` that contains quotes, such as ``${oc.env:A,"b c"}``; Hydra would not do so."""
    if isinstance(value, list):
        return [_spelled(one) for one in value]
    if isinstance(value, dict):
        return {key: _spelled(one) for key, one in value.items()}
    has_quotes = isinstance(value, str) and ("'" in value or '"' in value)
    return QuotedString(value, Quote.single) if has_quotes else value


def value_text(override: Override) -> str:
    """Return the value of a single-valued override, spelled like the values of a sweep's domain."""
    text = override.get_value_element_as_str()
    return _BOOLEANS.get(text, text)


def read_domain(override: Override, where: str) -> Categorical | Numeric:
    """Convert a sweep in Hydra's syntax to a domain.

    A range is half-open, as in Hydra; an interval includes both ends. Raises HydraException, whose message begins with
    ``where``, for an invalid sweep.
    """
    sweep: Any = override.value()
    log = "log" in getattr(sweep, "tags", ())
    if isinstance(sweep, IntervalSweep):
        low: Any = sweep.start
        high: Any = sweep.end
        whole = isinstance(low, int) and isinstance(high, int)
        _check_limits(low, high, log, where)
        return Numeric(low, high, 1 if whole and not log else None, log, whole)
    if isinstance(sweep, RangeSweep):
        return _read_range(sweep, log, where)
    if log:
        raise HydraException(
            f"{where}: tag(log, ...) is for intervals and ranges, got {override.input_line!r}; omit the tag"
        )
    texts = dict.fromkeys(_BOOLEANS.get(text, text) for text in override.sweep_string_iterator())
    if not texts:
        raise HydraException(f"{where}: matches no option, got {override.input_line!r}; correct the glob")
    return Categorical(tuple(texts))


def _read_range(sweep: RangeSweep, log: bool, where: str) -> Numeric:
    start, step = sweep.start or 0, sweep.step
    stop: Any = sweep.stop
    whole = all(isinstance(number, int) for number in (start, stop, step))
    if not all(map(math.isfinite, (start, stop, step))):
        raise HydraException(f"{where}: must have finite ends and a finite step, got range({start},{stop},{step})")
    count = 0 if step == 0 else math.ceil((Decimal(str(stop)) - Decimal(str(start))) / Decimal(str(step)))
    if not 0 < count <= MOST:
        few, many = "correct its ends or its step", f"at most {MOST:,} are allowed; use a larger step or an interval"
        way = few if count < 1 else many
        raise HydraException(f"{where}: has {max(count, 0):,} values, got range({start},{stop},{step}); {way}")
    last = Decimal(str(start)) + (count - 1) * Decimal(str(step))
    low, high = sorted([float(start), float(last)])
    _check_limits(low, high, log, where)
    if log and not (whole and abs(step) == 1):
        raise HydraException(
            f"{where}: tag(log, range(...)) must have step 1 and whole numbers as ends, got"
            f" range({start},{stop},{step}); omit tag(log, ...), or use an interval"
        )
    return Numeric(low, high, None if log else abs(step), log, whole)


def _check_limits(low: float, high: float, log: bool, where: str) -> None:
    if not (math.isfinite(low) and math.isfinite(high) and low <= high):
        raise HydraException(f"{where}: must go from a lower to a higher number, both finite, got {low} to {high}")
    if log and low <= 0:
        raise HydraException(f"{where}: a logarithmic scale must begin above 0, got {low}")


def _equal(one: Any, other: Any) -> bool:
    """Return whether two values of a config are equal; true and 1 do not count as equal."""
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def find_text(text: str, domain: Categorical | Numeric) -> str | None:
    """Return the spelling of the value ``text`` in a domain (``1`` for ``1.0``); None if the domain lacks this value.

    The domain must not be continuous.
    """
    if isinstance(domain, Categorical) and text in domain.values:
        return text
    value = parse_value(text)
    return None if domain.locate(value) is None else domain.nearest(value)


def parse_value(text: str) -> Any:
    """Return the value that an override with this text sets, or the text itself if Hydra cannot parse it."""
    try:
        return OverridesParser.create().parse_override(f"key={text}").value()
    except HydraException:
        return text
