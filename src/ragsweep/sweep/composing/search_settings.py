"""Determine whether a sweeper searches, whether other machines can work on a search, and how its trials are named."""

import re
from collections.abc import Collection, Mapping
from typing import Any

from hydra.core.config_loader import ConfigLoader

from optuna_sweeper.parameters import PARAMS
from optuna_sweeper.space import read_condition
from optuna_sweeper.storage import is_postgresql
from ragsweep.core.errors import ConfigError, nearest
from ragsweep.report.naming import label
from ragsweep.sweep.composing.hydra_settings import OPTUNA_SWEEPERS
from ragsweep.sweep.composing.sweep_names import DEFAULTS, defining, read_settings


def searches(sweeper: str) -> bool:
    """Return whether the class ``sweeper`` chooses jobs by earlier results: all but BasicSweeper and GridSweeper do."""
    return sweeper.rpartition(".")[2] not in ("BasicSweeper", "GridSweeper")


def is_own(settings: Mapping[str, Any]) -> bool:
    """Return whether a sweeper's settings select our OptunaSweeper, under its current or its former name."""
    return settings.get("_target_") in OPTUNA_SWEEPERS


def is_on_server(settings: Mapping[str, Any]) -> bool:
    """Return whether a search's study is on a database server, so that other machines can join the search."""
    return is_own(settings) and is_postgresql(settings.get("storage"))


def check_conditions(params: Mapping[str, Any], loader: ConfigLoader) -> None:
    """Raise ConfigError if a parameter's condition (``when``) names an option that does not exist in its group.

    The condition would never be met. `read_space` has checked the form of ``params``. Values that are not
    plain names, such as paths, are not checked.
    """
    for key, value in params.items():
        where, when = f"{PARAMS}.{key}", value.get("when") if isinstance(value, Mapping) else None
        lines = [when] if isinstance(when, str) else when or []
        for condition in (read_condition(line, where, loader) for line in lines):
            known = loader.get_group_options(condition.parent)
            for text in condition.values if known else ():
                if re.fullmatch(r"[\w-]+", text) and text not in (*known, "null"):
                    raise ConfigError(f"{where}.when: {condition.parent} has no option {text}{nearest(text, known)}")


def money_key(settings: Mapping[str, Any] | None) -> str:
    """Return the config key of the money limit in a search's stop rule; "" if money is not limited."""
    stop = (settings or {}).get("stop")
    budget = stop.get("budget") if isinstance(stop, Mapping) else None
    return "hydra.sweeper.stop.budget.money" if isinstance(budget, Mapping) and budget.get("money") is not None else ""


def trial_names(settings: Mapping[str, Any], fewest: int = 1) -> tuple[str, ...]:
    """Return placeholder names for the trials of a search: ``n_trials`` names, but at least ``fewest``."""
    return tuple(f"trial {number}" for number in range(max(int(settings.get("n_trials") or 1), fewest)))


def trial_name(overrides: tuple[str, ...], search: str, groups: Collection[str], searched: Collection[str] = ()) -> str:
    """Name a trial by its overrides, except overrides in the name of the search, which all trials share.

    ``groups`` are the config groups, and ``searched`` are the parameters of the space. A trial without overrides of its
    own is named "defaults".
    """
    general = search.lower().replace("\\", "").split()  # Hydra escapes some characters, and normalises true to True
    general += [f"{line}=null" for line in general if line.startswith("~")]  # Hydra's spelling of a deletion
    own = [line for line in defining(overrides) if line.lower().replace("\\", "") not in general]
    return label(read_settings(own), groups, searched) or DEFAULTS
