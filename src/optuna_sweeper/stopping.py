"""Early stopping of a search: by a time limit, a budget, or a number of trials without improvement."""

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from hydra.errors import HydraException

from optuna_sweeper.trials import TrialOutcome

_WHERE = "hydra.sweeper.stop"
_KEYS = ("seconds", "patience", "by", "budget")


@dataclass(frozen=True)
class StopRule:
    """The limits of a search; None means no limit."""

    seconds: float | None = None  # since this process began to search; running jobs are finished
    patience: int | None = None  # evaluations in a row without an improvement
    by: tuple[float, ...] | None = None  # smallest improvement per objective; None: median of the jobs' ``differences``
    budget: Mapping[str, float] = field(default_factory=dict)  # limits of the costs that jobs return

    def plain(self) -> dict[str, Any]:
        """Return the rule as plain values."""
        return {**asdict(self), "by": list(self.by) if self.by else None}

    def why(self, outcomes: Sequence[TrialOutcome], directions: Sequence[str], elapsed: float) -> str:
        """Return the reason to stop after these outcomes (in order), or "" to continue."""
        if self.seconds is not None and elapsed >= self.seconds:
            return f"its time limit is reached: {_WHERE}.seconds={self.seconds:g}"
        spent = Counter[str]()
        for outcome in outcomes:
            spent.update(outcome.cost)
        for name, limit in self.budget.items():
            if spent[name] >= limit:
                key = f"budget.{name}" if name else "budget"
                return f"its budget is spent: {_WHERE}.{key}={limit:g}, used {spent[name]:g}"
        return self._without_improvement(outcomes, directions)

    def _without_improvement(self, outcomes: Sequence[TrialOutcome], directions: Sequence[str]) -> str:
        if self.patience is None or len(outcomes) <= self.patience:
            return ""
        by = self.by or _detectable(outcomes, len(directions))
        before = _points(outcomes[: -self.patience], directions)
        last = _points(outcomes[-self.patience :], directions)
        if not before or any(not _is_matched(point, before, by) for point in last):
            return ""
        verb, negated, what = ("is", "is not", "better than the best before")
        if len(directions) > 1:
            verb, negated, what = ("joins", "does not join", "the Pareto front of those before")
        several = f"none of the last {self.patience} evaluations {verb}"
        found = several if self.patience > 1 else f"the last evaluation {negated}"
        margin = f" by more than {', '.join(f'{least:.3g}' for least in by)}" if any(by) else ""
        return f"{found} {what}{margin}: {_WHERE}.patience={self.patience}"


def read_stop(setting: Any, objectives: int) -> StopRule:
    """Read the key ``stop``, for this number of objectives; None: no limits. Raises HydraException if it is invalid."""
    if setting is None:
        return StopRule()
    if not isinstance(setting, Mapping):
        raise HydraException(f"{_WHERE}: must be a mapping with any of {', '.join(_KEYS)}, got {setting!r}")
    for key in setting:
        if key not in _KEYS:
            raise HydraException(f"{_WHERE}.{key}: unknown key; known: {', '.join(_KEYS)}")
    seconds, patience, by, budget = (setting.get(key) for key in _KEYS)
    if patience is not None and (isinstance(patience, bool) or not isinstance(patience, int) or patience < 1):
        raise HydraException(f"{_WHERE}.patience: must be a whole number of at least 1, got {patience!r}")
    if by is not None and patience is None:
        raise HydraException(f"{_WHERE}.by: sets the smallest improvement; also set {_WHERE}.patience")
    margins = None if by is None else tuple(_limit(each, "by", 0) for each in (by if isinstance(by, list) else [by]))
    if margins is not None and len(margins) != objectives:
        raise HydraException(f"{_WHERE}.by: must have one number per objective ({objectives}), got {len(margins)}")
    limits = budget if isinstance(budget, Mapping) else {"": budget}
    return StopRule(
        None if seconds is None else _limit(seconds, "seconds", 1e-9),
        patience,
        margins,
        {
            str(name): _limit(each, f"budget.{name}" if name else "budget", 0)
            for name, each in limits.items()
            if each is not None
        },
    )


def _limit(value: Any, key: str, least: float) -> float:
    number = math.nan if isinstance(value, bool) or not isinstance(value, int | float) else float(value)
    if not (math.isfinite(number) and number >= least):
        bound = "above" if least else "of at least"
        raise HydraException(f"{_WHERE}.{key}: must be a finite number {bound} 0, got {value!r}")
    return number


def _detectable(outcomes: Sequence[TrialOutcome], objectives: int) -> tuple[float, ...]:
    """Return, per objective, the median of the jobs' smallest detectable differences; 0 if no job returns one."""
    rows = [outcome.differences for outcome in outcomes if len(outcome.differences) == objectives]
    columns = [[least for least in column if math.isfinite(least)] for column in zip(*rows, strict=True)]
    return tuple(statistics.median(column) if column else 0.0 for column in columns) or (0.0,) * objectives


def _points(outcomes: Sequence[TrialOutcome], directions: Sequence[str]) -> list[tuple[float, ...]]:
    """List the values of feasible outcomes, oriented so that higher is better."""
    signs = [1 if direction == "maximize" else -1 for direction in directions]
    return [
        tuple(sign * value for sign, value in zip(signs, outcome.values, strict=True))
        for outcome in outcomes
        if outcome.values and outcome.feasible
    ]


def _is_matched(point: tuple[float, ...], before: Sequence[tuple[float, ...]], by: Sequence[float]) -> bool:
    """Return whether an earlier point is at most ``by`` worse than this one in every objective."""
    return any(all(old >= new - least for old, new, least in zip(each, point, by, strict=True)) for each in before)
