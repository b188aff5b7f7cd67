"""The sweeper's settings, read and checked before anything else happens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hydra.errors import HydraException
from omegaconf import OmegaConf

from hydra_plugins.ragsweep_optuna._outcomes import Bound, read_bounds, read_directions
from hydra_plugins.ragsweep_optuna._samplers import check
from hydra_plugins.ragsweep_optuna._stopping import Stop, read_stop
from hydra_plugins.ragsweep_optuna._storage import check_url
from ragsweep.sweep import race_loop as _racing
from ragsweep.sweep.race_loop import Race

_WHERE = "hydra.sweeper"


@dataclass(frozen=True)
class Settings:
    """What ``OptunaSweeperConf`` says, as plain values."""

    sampler: Mapping[str, Any]
    directions: tuple[str, ...]
    bounds: tuple[Bound, ...]
    params: Mapping[str, Any]
    enqueue: tuple[tuple[str, ...], ...]
    study_name: str | None
    storage: str | None
    n_trials: int
    n_jobs: int
    max_failure_rate: float
    custom_search_space: str | None
    default: bool
    subject: str | None
    lapse: float
    race: Race | None
    stop: Stop
    stop_given: Any
    folder: str | None
    objectives: tuple[str, ...]
    plots: bool

    @staticmethod
    def read(given: Mapping[str, Any]) -> Settings:
        """Read the settings. Raises HydraException, with the key, for what means nothing."""
        plain = {key: _plain(value) for key, value in given.items()}
        race = _racing.check(given.get("race"))
        _whole(plain, "n_trials")
        _whole(plain, "n_jobs")
        rate = plain["max_failure_rate"]
        if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 <= rate <= 1:
            raise HydraException(f"{_WHERE}.max_failure_rate: must be a share from 0 to 1, given {rate!r}")
        sampler, params = plain["sampler"], plain["params"] or {}
        if not isinstance(sampler, Mapping):
            raise HydraException(f"{_WHERE}.sampler: choose one with hydra/sweeper/sampler=NAME, given {sampler!r}")
        if not isinstance(params, Mapping):
            raise HydraException(f"{_WHERE}.params: must be a mapping from keys to sweeps, given {params!r}")
        directions, bounds = read_directions(plain["direction"]), read_bounds(plain["constraints"])
        check(sampler, len(directions), len(bounds))
        check_url(plain["storage"])
        _check_race(race, directions)
        return Settings(
            sampler, directions, bounds, params, _enqueued(plain["enqueue"]), plain["study_name"], plain["storage"],
            plain["n_trials"], plain["n_jobs"], float(rate), plain["custom_search_space"], bool(plain["default"]),
            plain["subject"], float(plain["lapse"]), race, read_stop(plain["stop"], len(directions)), plain["stop"],
            plain["folder"], tuple(map(str, plain["objectives"] or ())), bool(plain["plots"]),
        )  # fmt: skip


def read_settings(given: Mapping[str, Any]) -> Settings:
    """Read the sweeper's settings. Raises HydraException, with the key, for what means nothing."""
    return Settings.read(given)


def _plain(value: Any) -> Any:
    return OmegaConf.to_container(value, resolve=True) if OmegaConf.is_config(value) else value


def _check_race(race: Race | None, directions: tuple[str, ...]) -> None:
    if race is None:
        return
    if len(directions) > 1:
        raise HydraException(f"{_WHERE}.race: a race is about one number, and direction names {len(directions)}")
    if getattr(race, "direction", None) not in (None, *directions):
        raise HydraException(f"{_WHERE}.race.direction: must be {directions[0]}, as {_WHERE}.direction")


def _whole(plain: Mapping[str, Any], key: str) -> None:
    value = plain[key]
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise HydraException(f"{_WHERE}.{key}: must be a whole number of at least 1, given {value!r}")


def _enqueued(given: Any) -> tuple[tuple[str, ...], ...]:
    lists = given or []
    if not isinstance(lists, list) or not all(
        isinstance(one, list) and all(isinstance(line, str) for line in one) for one in lists
    ):
        raise HydraException(
            f'{_WHERE}.enqueue: must be lists of overrides such as [[a=1], ["b=2", "c=3"]], given {given!r}'
        )
    return tuple(map(tuple, lists))
