"""The sweeper's settings, read and checked before anything else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hydra.errors import HydraException
from omegaconf import OmegaConf

from optuna_sweeper.parameters import parse_override
from optuna_sweeper.race_loop import Race, check_race
from optuna_sweeper.samplers import CLASSES, GRID, check_sampler
from optuna_sweeper.stopping import StopRule, read_stop
from optuna_sweeper.storage import check_url
from optuna_sweeper.trials import Constraint, read_constraints, read_directions

_WHERE = "hydra.sweeper"


@dataclass(frozen=True)
class SearchSettings:
    """The values of ``OptunaSweeperConf``, checked."""

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
    declared: tuple[str, ...] | None  # the overrides of the baseline
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
        plain: dict[str, Any] = {
            key: OmegaConf.to_container(value, resolve=True) if OmegaConf.is_config(value) else value
            for key, value in values.items()
        }
        race = check_race(values.get("race"))
        for key in ("n_trials", "n_jobs"):
            if isinstance(plain[key], bool) or not isinstance(plain[key], int) or plain[key] < 1:
                raise HydraException(f"{_WHERE}.{key}: must be a whole number of at least 1, got {plain[key]!r}")
        rate = plain["max_failure_rate"]
        if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 <= rate <= 1:
            raise HydraException(f"{_WHERE}.max_failure_rate: must be a share from 0 to 1, got {rate!r}")
        if not plain["lapse"] > 0:
            raise HydraException(f"{_WHERE}.lapse: must be a number of seconds above 0, got {plain['lapse']!r}")
        sampler, params = plain["sampler"], plain["params"] or {}
        if not isinstance(sampler, Mapping):
            raise HydraException(
                f"{_WHERE}.sampler: must be chosen by hydra/sweeper/sampler=NAME, got {sampler!r}; known:"
                f" {', '.join([*CLASSES, GRID])}"
            )
        directions, constraints = read_directions(plain["direction"]), read_constraints(plain["constraints"])
        check_sampler(sampler, len(directions), len(constraints))
        check_url(plain["storage"])
        if race and len(directions) > 1:
            raise HydraException(
                f"{_WHERE}.race: a race compares a single number, but {_WHERE}.direction lists {len(directions)};"
                " set one direction, or omit the race"
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
            objectives=tuple(map(str, plain["objectives"] or ())),
            plots=bool(plain["plots"]),
        )


def read_enqueue(setting: Any) -> tuple[tuple[str, ...], ...]:
    """Read the key ``enqueue``: lists of overrides. Raises HydraException for other values, and for swept values."""
    lists = setting or []
    if not isinstance(lists, list) or not all(
        isinstance(lines, list) and all(isinstance(line, str) for line in lines) for lines in lists
    ):
        raise HydraException(
            f'{_WHERE}.enqueue: must be lists of overrides such as [["a=1"], ["b=2", "c=3"]], got {setting!r}'
        )
    for number, line in ((number, line) for number, lines in enumerate(lists) for line in lines):
        if parse_override(line, where := f"{_WHERE}.enqueue[{number}]").is_sweep_override():
            raise HydraException(f'{where}: "{line}" names several values; write a list of overrides for each')
    return tuple(map(tuple, lists))
