"""A search as a command: its settings, its identity, and the values that its jobs return."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ragsweep.core.errors import ConfigError, RagsweepError
from ragsweep.core.identity import content_hash
from ragsweep.core.results import Result, Summary, objectives
from ragsweep.evaluation.evaluator import Experiment
from ragsweep.records.ledger import Sweep
from ragsweep.stats.comparable import is_mean
from ragsweep.stats.inference.matrix import score_matrix
from ragsweep.stats.inference.power import estimate_power
from ragsweep.sweep.command import Command, check_search, defining
from ragsweep.sweep.search.storage import check_reachable, is_postgresql
from ragsweep.sweep.search.summary import StudySummary

SWEEPER = "hydra_plugins.ragsweep_optuna.sweeper.OptunaSweeper"
"""Our own sweeper, to which a job returns more than one number."""

AT_THE_END = ("finalists=",)
"""Overrides that may change when a search is repeated: they concern its end only."""

_SEARCHED = ("params", "direction", "constraints", "default", "enqueue", "storage", "study_name")


def with_directions(command: Command, config: Mapping[str, Any], first: Experiment) -> Command:
    """Set the direction of each objective where none is configured, and refuse a wrong one.

    Raises:
        ConfigError: A direction is the wrong one, or unknown, or a constraint is about what is not measured.
    """
    settings = dict(command.search or {})
    command = replace(command, overrides=tuple(o for o in command.overrides if not o.startswith(AT_THE_END)))
    if not is_own(settings):
        return command
    named, given = objectives(config), settings.get("direction")
    higher = {metric.name: metric.higher_is_better for metric in first.metrics}
    listed = given if isinstance(given, list) else [given]
    if given is None:
        listed = [None] * len(named)
    if len(listed) != len(named):
        raise ConfigError(
            f"hydra.sweeper.direction: {len(listed)} for {len(named)} objectives; leave it out, or give one for each"
        )
    wanted = [_direction(name, higher[name], one) for name, one in zip(named, listed, strict=True)]
    _check_constraints(settings, first)
    settings["direction"] = wanted if len(wanted) > 1 else wanted[0]
    check_search(settings)
    return replace(command, search=settings)


def _direction(name: str, higher: bool | None, given: str | None) -> str:
    wanted = {True: "maximize", False: "minimize", None: given}[higher]
    if wanted is None:
        raise ConfigError(f"objective={name}: neither more nor less of it is better; give hydra.sweeper.direction")
    if given not in (wanted, None):
        better = "higher" if higher else "lower"
        raise ConfigError(f"objective={name} is better when {better}; leave hydra.sweeper.direction out")
    return wanted


def is_done(command: Command, sweep: Sweep, summary: StudySummary | None) -> bool:
    """Return whether a finished search has nothing left to do under the same trials and stop rule."""
    settings = command.search or {}
    wanted = len(trial_names(settings))
    same = len(sweep.jobs) == wanted and (summary is None or summary.n_trials >= wanted)
    return same and (summary is None or not summary.stopped or summary.stop == settings.get("stop"))


def _check_constraints(settings: Mapping[str, Any], first: Experiment) -> None:
    measured = [metric.name for metric in first.metrics]
    for line in settings.get("constraints") or []:
        bounded = str(line).partition("<")[0].partition(">")[0].strip()
        if bounded not in measured:
            raise ConfigError(f'hydra.sweeper.constraints: no metric "{bounded}" is measured, given "{line}"')


def search_key(command: Command, signature: str, place: str) -> str:
    """Return the key of a search: the same space, storage, base config and tracking place.

    The number of trials, the sampler, and the user of the database may change when a search is continued.
    """
    settings = command.search or {}
    searched = {name: settings.get(name) for name in (*_SEARCHED, *(["race"] if settings.get("race") else []))}
    if is_on_server(settings):
        searched["storage"] = str(searched["storage"]).rpartition("@")[2]
    return content_hash(["search", searched, typed_overrides(command), signature, place])


def is_own(settings: Mapping[str, Any]) -> bool:
    """Return whether the sweeper is OptunaSweeper."""
    return settings.get("_target_") == SWEEPER


def is_shared(settings: Mapping[str, Any]) -> bool:
    """Return whether several processes can work on one search."""
    return is_own(settings) and str(settings.get("storage")) not in ("None", "sqlite://", "sqlite:///:memory:")


def is_on_server(settings: Mapping[str, Any]) -> bool:
    """Return whether other machines can work on a search."""
    return is_own(settings) and is_postgresql(settings.get("storage"))


def check_storage(settings: Mapping[str, Any]) -> None:
    """Raise ConfigError where the server of a search's storage cannot be reached."""
    from hydra.errors import HydraException

    try:
        if is_on_server(settings):
            check_reachable(settings.get("storage"))
    except HydraException as fault:
        raise ConfigError(str(fault)) from None


def typed_overrides(command: Command) -> list[str]:
    """List the overrides of a search without those of Hydra."""
    return [line for line in command.overrides if not line.lstrip("+~").startswith(("hydra.", "hydra/"))]


def trial_names(settings: Mapping[str, Any], fewest: int = 1) -> tuple[str, ...]:
    """Name the trials of a search before they are drawn; other processes may have begun more than n_trials."""
    return tuple(f"trial {number}" for number in range(max(int(settings.get("n_trials") or 1), fewest)))


def trial_name(overrides: tuple[str, ...], search: str) -> str:
    """Name a trial by its overrides, without those of all trials of the search."""
    general = _unescaped(search).lower().split()  # Hydra writes true as True
    own = [line for line in map(_unescaped, defining(overrides)) if line.lower() not in general]
    return " ".join(own) or "defaults"


def _unescaped(text: str) -> str:
    r"""Remove the escapes that Hydra adds to a value: ``sqlite\:`` is ``sqlite:``."""
    return re.sub(r"\\(.)", r"\1", text)


def job_value(result: Result, first: Result | None, spent: Mapping[str, float]) -> dict[str, object]:
    """Return a job's value for our own sweeper: objectives, measured values for constraints, and cost.

    ``first`` is the search's first result, needed for the smallest detectable differences.
    """
    found = [result.summaries[name] for name in objectives(result.config)]
    unknown = [one for one in found if math.isnan(one.value)]
    return {
        "values": [None if math.isnan(one.value) else one.value for one in found],
        "reason": "; ".join(_unmeasured(one) for one in unknown),
        "measured": {name: one.value for name, one in result.summaries.items()},
        "differences": [_detectable(result, first, one) for one in found] if first else [],
        "cost": dict(spent),
    }


def _unmeasured(summary: Summary) -> str:
    why = ", ".join(f"{count:,} {reason}" for reason, count in summary.reasons.items())
    return f"{summary.name} was not measured{f' ({why})' if why else ''}"


def _detectable(result: Result, first: Result, summary: Summary) -> float:
    """Return the smallest detectable difference to the first result, or half of the value's interval."""
    try:
        power = estimate_power(score_matrix([first, result], summary.name)).typical
    except (RagsweepError, KeyError):
        power = math.nan
    mean = is_mean(result, summary.name) and not math.isnan(power)
    return power if mean else (summary.high - summary.low) / 2
