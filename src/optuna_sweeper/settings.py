"""Read and check the settings of a search, including the rule that ends the search early."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from hydra.errors import HydraException

from optuna_sweeper.parameters import is_number, is_whole, parse_override
from optuna_sweeper.race_loop import Race, check_race
from optuna_sweeper.samplers import CLASSES, GRID, check_sampler
from optuna_sweeper.signatures import resolved
from optuna_sweeper.storage import check_url
from optuna_sweeper.trials import Constraint, TrialOutcome, read_constraints, read_directions

_WHERE = "hydra.sweeper"


@dataclass(frozen=True)
class SearchSettings:
    """The checked settings of a search: the settings of ``OptunaSweeperConf``, and the declared baseline."""

    sampler: Mapping[str, Any]
    directions: tuple[str, ...]
    constraints: tuple[Constraint, ...]
    params: Mapping[str, Any]
    enqueue: tuple[tuple[str, ...], ...]
    study_name: str | None
    storage: str | None
    n_trials: int
    n_jobs: int
    max_failure_rate: float
    custom_search_space: str | None
    default: bool
    declared: tuple[str, ...] | None  # the overrides of the declared baseline
    subject: str | None
    lapse: float
    race: Race | None
    stop: StopRule
    stop_given: Any  # the key ``stop`` as typed
    folder: str | None
    objectives: tuple[str, ...]
    plots: bool

    @staticmethod
    def read(values: Mapping[str, Any]) -> SearchSettings:
        """Read the settings. Raises HydraException, whose message names the key, for invalid values."""
        plain: dict[str, Any] = {key: resolved(value) for key, value in values.items()}
        race = check_race(values.get("race"))
        for key in ("n_trials", "n_jobs"):
            if not is_whole(plain[key]) or plain[key] < 1:
                raise HydraException(f"{_WHERE}.{key}: must be a whole number of at least 1, got {plain[key]!r}")
        rate = plain["max_failure_rate"]
        if not is_number(rate) or not 0 <= rate <= 1:
            raise HydraException(f"{_WHERE}.max_failure_rate: must be a share from 0 to 1, got {rate!r}")
        if not plain["lapse"] > 0:
            raise HydraException(f"{_WHERE}.lapse: must be a number of seconds above 0, got {plain['lapse']!r}")
        sampler, params = plain["sampler"], plain["params"] or {}
        if not isinstance(sampler, Mapping):
            raise HydraException(
                f"{_WHERE}.sampler: must be chosen with hydra/sweeper/sampler=NAME, got {sampler!r}; known:"
                f" {', '.join([*CLASSES, GRID])}"
            )
        directions, constraints = read_directions(plain["direction"]), read_constraints(plain["constraints"])
        check_sampler(sampler, len(directions), len(constraints))
        check_url(plain["storage"])
        if race and len(directions) > 1:
            raise HydraException(
                f"{_WHERE}.race: a race has a single objective, but {_WHERE}.direction lists {len(directions)}"
                " directions; set one, or omit the race"
            )
        names = plain["objectives"] or ()
        objectives = (names,) if isinstance(names, str) else tuple(map(str, names))
        if objectives and len(objectives) != len(directions):
            raise HydraException(
                f"{_WHERE}.objectives: must have one name per direction ({len(directions)}), got {len(objectives)}"
            )
        unchanged = ("study_name", "storage", "n_trials", "n_jobs", "custom_search_space", "subject", "folder")
        return SearchSettings(
            **{key: plain[key] for key in unchanged},
            sampler=sampler,
            directions=directions,
            constraints=constraints,
            params=params,
            enqueue=read_enqueue(plain["enqueue"]),
            max_failure_rate=float(rate),
            default=bool(plain["default"]),
            declared=None if plain.get("declared") is None else tuple(plain["declared"]),
            lapse=float(plain["lapse"]),
            race=race,
            stop=read_stop(plain["stop"], len(directions)),
            stop_given=plain["stop"],
            objectives=objectives,
            plots=bool(plain["plots"]),
        )


def read_enqueue(setting: Any) -> tuple[tuple[str, ...], ...]:
    """Read the key ``enqueue``: a list of lists of overrides, or None. Raises HydraException for anything else."""
    lists = setting or []
    if not isinstance(lists, list) or not all(
        isinstance(lines, list) and all(isinstance(line, str) for line in lines) for lines in lists
    ):
        raise HydraException(
            f'{_WHERE}.enqueue: must be a list of lists of overrides such as [["a=1"], ["b=2", "c=3"]], got {setting!r}'
        )
    for number, line in ((number, line) for number, lines in enumerate(lists) for line in lines):
        if parse_override(line, where := f"{_WHERE}.enqueue[{number}]").is_sweep_override():
            raise HydraException(f'{where}: "{line}" names several values; write one list of overrides for each value')
    return tuple(map(tuple, lists))


_STOP = "hydra.sweeper.stop"
_KEYS = ("seconds", "patience", "by", "budget")


@dataclass(frozen=True)
class StopRule:
    """The limits that end a search early; without ``seconds``, ``patience`` and ``budget``, there is no limit."""

    seconds: float | None = None  # since this process began to search; the running batch is completed
    patience: int | None = None  # evaluations in a row without an improvement
    by: tuple[float, ...] | None = None  # smallest improvement per objective; None: median of the jobs' ``differences``
    budget: Mapping[str, float] = field(default_factory=dict)  # limits on the costs that jobs return

    def plain(self) -> dict[str, Any]:
        """Return the rule as a dict of JSON-compatible values."""
        return {**asdict(self), "by": list(self.by) if self.by else None}

    def why(self, outcomes: Sequence[TrialOutcome], directions: Sequence[str], elapsed: float) -> str:
        """Return the reason to stop the search after ``outcomes``; "" to continue.

        ``outcomes`` must be sorted by job number. ``elapsed`` is the number of seconds since this process began to
        search.
        """
        if self.seconds is not None and elapsed >= self.seconds:
            return f"the time limit is reached: {_STOP}.seconds={self.seconds:g}"
        spent = Counter[str]()
        for outcome in outcomes:
            spent.update(outcome.cost)
        for name, limit in self.budget.items():
            if spent[name] >= limit:
                key = f"budget.{name}" if name else "budget"
                return f"the budget is spent: {_STOP}.{key}={limit:.10g}, used {spent[name]:.10g}"
        return self._without_improvement(outcomes, directions)

    def _without_improvement(self, outcomes: Sequence[TrialOutcome], directions: Sequence[str]) -> str:
        if self.patience is None or len(outcomes) <= self.patience:
            return ""
        by = self.by or _detectable(outcomes, len(directions))
        before = _points(outcomes[: -self.patience], directions)
        last = _points(outcomes[-self.patience :], directions)
        if not before or any(not _is_matched(point, before, by) for point in last):
            return ""
        verb, negated, what = ("is", "is not", "better than the best earlier one")
        if len(directions) > 1:
            verb, negated, what = ("joins", "does not join", "the earlier Pareto front")
        several = f"none of the last {self.patience} evaluations {verb}"
        found = several if self.patience > 1 else f"the last evaluation {negated}"
        margin = f" by more than {', '.join(f'{least:.3g}' for least in by)}" if any(by) else ""
        return f"{found} {what}{margin}: {_STOP}.patience={self.patience}"


def read_stop(setting: Any, objectives: int) -> StopRule:
    """Read the key ``stop`` (None: no limits) for a number of objectives. Raises HydraException for invalid input."""
    if setting is None:
        return StopRule()
    if not isinstance(setting, Mapping):
        raise HydraException(f"{_STOP}: must be a mapping with any of {', '.join(_KEYS)}, got {setting!r}")
    for key in setting:
        if key not in _KEYS:
            raise HydraException(f"{_STOP}.{key}: unknown key; known: {', '.join(_KEYS)}")
    seconds, patience, by, budget = (setting.get(key) for key in _KEYS)
    if patience is not None and not (is_whole(patience) and patience >= 1):
        raise HydraException(f"{_STOP}.patience: must be a whole number of at least 1, got {patience!r}")
    if by is not None and patience is None:
        raise HydraException(f"{_STOP}.by: has no effect without {_STOP}.patience; set both, or omit both")
    margins = None if by is None else tuple(_limit(each, "by", 0) for each in (by if isinstance(by, list) else [by]))
    if margins is not None and len(margins) != objectives:
        raise HydraException(f"{_STOP}.by: must have one number per objective ({objectives}), got {len(margins)}")
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
    if not (is_number(value) and math.isfinite(value) and value >= least):
        bound = "above" if least else "of at least"
        raise HydraException(f"{_STOP}.{key}: must be a finite number {bound} 0, got {value!r}")
    return float(value)


def _detectable(outcomes: Sequence[TrialOutcome], objectives: int) -> tuple[float, ...]:
    """Return, per objective, the median of the jobs' smallest detectable differences; 0 if no job returned one."""
    rows = [outcome.differences for outcome in outcomes if len(outcome.differences) == objectives]
    columns = [[least for least in column if math.isfinite(least)] for column in zip(*rows, strict=True)]
    return tuple(statistics.median(column) if column else 0.0 for column in columns) or (0.0,) * objectives


def _points(outcomes: Sequence[TrialOutcome], directions: Sequence[str]) -> list[tuple[float, ...]]:
    """List the values of the feasible outcomes, negated for objectives to minimize, so that higher is better."""
    signs = [1 if direction == "maximize" else -1 for direction in directions]
    return [
        tuple(sign * value for sign, value in zip(signs, outcome.values, strict=True))
        for outcome in outcomes
        if outcome.values and outcome.feasible
    ]


def _is_matched(point: tuple[float, ...], before: Sequence[tuple[float, ...]], by: Sequence[float]) -> bool:
    """Return whether at least one point in ``before`` is at most ``by`` worse than ``point`` in every objective."""
    return any(all(old >= new - least for old, new, least in zip(each, point, by, strict=True)) for each in before)
