"""What sets a search apart from a sweep: its jobs are not known beforehand, and its results decide what is tried."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ragsweep.core.errors import ConfigError, RagsweepError
from ragsweep.core.identity import content_hash
from ragsweep.core.objectives import objectives
from ragsweep.core.results import Result, Summary
from ragsweep.evaluation.evaluator import Experiment
from ragsweep.records.ledger import Sweep
from ragsweep.stats.inference.matrix import paired
from ragsweep.stats.inference.power import detectable
from ragsweep.stats.verdict import is_mean
from ragsweep.sweep.command import Command, check_search, defining
from ragsweep.sweep.search.storage import check_reachable, is_postgresql
from ragsweep.sweep.search.summary import StudySummary

SWEEPER = ".OptunaSweeper"
"""How the class of our own sweeper ends: a job returns more than one number to it."""

AT_THE_END = ("finalists=",)
"""What is no part of a search, and may be typed otherwise when it is repeated: it says what is done at the end."""

_SEARCHED = ("params", "direction", "constraints", "default", "enqueue", "storage", "study_name")


def settled(command: Command, config: Mapping[str, Any], first: Experiment) -> Command:
    """Say which way each objective is better, where that was left open; refuse a search for the worst.

    Raises:
        ConfigError: A direction is the wrong one, or unknown, or a constraint is about what is not measured.
    """
    settings = dict(command.search or {})
    command = replace(command, overrides=tuple(o for o in command.overrides if not o.startswith(AT_THE_END)))
    if not ours(settings):
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
    """Say whether a finished search has nothing more to do: as many trials as then, and nothing else to stop it."""
    settings = command.search or {}
    wanted = len(names(settings))
    same = len(sweep.jobs) == wanted and (summary is None or summary.n_trials >= wanted)
    return same and (summary is None or not summary.stopped or summary.stop == settings.get("stop"))


def _check_constraints(settings: Mapping[str, Any], first: Experiment) -> None:
    measured = [metric.name for metric in first.metrics]
    for line in settings.get("constraints") or []:
        bounded = str(line).partition("<")[0].partition(">")[0].strip()
        if bounded not in measured:
            raise ConfigError(f'hydra.sweeper.constraints: no metric "{bounded}" is measured, given "{line}"')


def key(command: Command, signature: str, place: str) -> str:
    """Tell equal searches: of the same space, in the same storage, around the same config, tracked at one place.

    How many trials a search has, and who draws them, may change when it is continued; and who asks the database.
    """
    settings = command.search or {}
    searched = {name: settings.get(name) for name in (*_SEARCHED, *(["race"] if settings.get("race") else []))}
    if elsewhere(settings):
        searched["storage"] = str(searched["storage"]).rpartition("@")[2]
    return content_hash(["search", searched, typed(command), signature, place])


def ours(settings: Mapping[str, Any]) -> bool:
    """Say whether a search is our own sweeper's, which keeps who has which trial."""
    return str(settings.get("_target_")).endswith(SWEEPER)


def shared(settings: Mapping[str, Any]) -> bool:
    """Say whether several processes can work on one search: its study is kept where all of them see it."""
    return ours(settings) and str(settings.get("storage")) not in ("None", "sqlite://", "sqlite:///:memory:")


def elsewhere(settings: Mapping[str, Any]) -> bool:
    """Say whether other machines may be at a search: its study is in a database that they reach."""
    return ours(settings) and is_postgresql(settings.get("storage"))


def reach(settings: Mapping[str, Any]) -> None:
    """Raise ConfigError where a search is to be kept on a server that cannot be reached."""
    from hydra.errors import HydraException

    try:
        if elsewhere(settings):
            check_reachable(settings.get("storage"))
    except HydraException as fault:
        raise ConfigError(str(fault)) from None


def typed(command: Command) -> list[str]:
    """List what was typed of a search, without what Hydra was told of how to do it."""
    return [line for line in command.overrides if not line.lstrip("+~").startswith(("hydra.", "hydra/"))]


def names(settings: Mapping[str, Any], fewest: int = 1) -> tuple[str, ...]:
    """Name the trials of a search before anything is known of them; others may have begun more than are asked for."""
    return tuple(f"trial {number}" for number in range(max(int(settings.get("n_trials") or 1), fewest)))


def named(overrides: tuple[str, ...], search: str) -> str:
    """Name a trial by what it changes, beside what was typed for all trials of the search."""
    general = _unescaped(search).lower().split()  # Hydra writes true as True
    own = [line for line in map(_unescaped, defining(overrides)) if line.lower() not in general]
    return " ".join(own) or "defaults"


def _unescaped(text: str) -> str:
    r"""Undo what Hydra does to special characters in a value that it hands on: ``sqlite\:`` is ``sqlite:``."""
    return re.sub(r"\\(.)", r"\1", text)


def returned(result: Result, first: Result | None, spent: Mapping[str, float]) -> dict[str, object]:
    """Make what our sweeper is given of a result: its objectives, all that constraints may be about, what it cost.

    ``first`` is the search's first result: with it goes the smallest difference that these questions could show.
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
    """Return the smallest difference to the first result that could be shown, or half of the value's interval."""
    try:
        power = detectable(paired([first, result], summary.name)).typical
    except (RagsweepError, KeyError):
        power = math.nan
    mean = is_mean(result, summary.name) and not math.isnan(power)
    return power if mean else (summary.high - summary.low) / 2
