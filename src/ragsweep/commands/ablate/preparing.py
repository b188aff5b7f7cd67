"""Turn a recorded run into the overrides that make it, and leave out the cases that could not run or change nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ragsweep.commands.ablate.cases import Case, around
from ragsweep.commands.ablate.neighbours import OPTIONS
from ragsweep.commands.ablate.overrides import Overrides, key_of, with_option, with_value
from ragsweep.core.errors import RagsweepError
from ragsweep.core.results import Result
from ragsweep.core.secrets import MASK, refuse_secrets
from ragsweep.evaluation.evaluator import Experiment
from ragsweep.report.terminal import Terminal
from ragsweep.stats.comparable import OF_NO_MATTER
from ragsweep.sweep.command import choices, compose_jobs, read_command
from ragsweep.sweep.session import Job, Session, open_session

_NOT_THE_CONFIG = ("sweeps", "plan", "rerun", "timeout", "max_failures")
"""Keys that say how to run, not what."""


@dataclass(frozen=True)
class Ablation:
    """The cases to run: the config itself first, then one change at a time; and omissions with reasons."""

    cases: tuple[Case, ...]
    impossible: Mapping[str, str]  # change -> why it cannot be
    idle: tuple[str, ...]  # changes that change no result
    hydra: tuple[str, ...]  # what was typed for Hydra: a launcher, say
    same: bool  # whether the config that is made now is the one that was recorded


def prepare(result: Result, typed: Sequence[str], wanted: Sequence[str] | None, config_dir: str | None) -> Ablation:
    """Find the cases around a recorded config, as it is made now.

    Raises:
        RagsweepError: The config cannot be made any more, or nothing is left to change.
    """
    refuse_secrets(typed)
    making = Preparing(config_dir)
    base, given = _base(result, making), dict[str, list[str]]()
    hydra = tuple(line for line in typed if key_of(line).partition(".")[0].partition("/")[0] == "hydra")
    for line in typed:
        if line not in hydra:
            base = _typed(base, line, result.parameters, given)
    own = making.experiment(base)
    seen, kept, impossible, idle = {own.signature}, [Case("", base)], {}, []
    for case in around(base, {**own.parameters, **_options(base, result)}, given, wanted):
        change = case.overrides[-1] if case.factor not in OPTIONS else _option(case)
        try:
            signature = making.experiment(case.overrides).signature
        except RagsweepError as fault:
            impossible[change] = str(fault).splitlines()[0]
            continue
        if signature in seen:
            idle.append(change)
        else:
            seen.add(signature)
            kept.append(case)
    if len(kept) == 1:
        raise RagsweepError(_nothing(impossible, idle))
    return Ablation(tuple(kept), impossible, tuple(idle), hydra, own.signature == result.signature)


def _nothing(impossible: Mapping[str, str], idle: Sequence[str]) -> str:
    """Return why there is no case: what each change lacks, or that it changes no result."""
    reasons = [f"{change}: {why}" for change, why in impossible.items()]
    reasons += [f"{change}: changes no result" for change in idle]
    said = "nothing can be changed in this config that would change a result"
    return "\n".join([f"{said}:", *reasons]) if reasons else said


def _options(base: Overrides, result: Result) -> dict[str, str]:
    """List the exchangeable options of the parts."""
    chosen = {key_of(line): line.partition("=")[2] for line in base}
    found = {group: chosen.get(group, result.parameters.get(group, "")) for group in OPTIONS}
    return {group: option for group, option in found.items() if option}


def _option(case: Case) -> str:
    return next(line for line in case.overrides if key_of(line) == case.factor)


def _typed(base: Overrides, line: str, parameters: Mapping[str, str], given: dict[str, list[str]]) -> Overrides:
    """Apply the typed overrides to the config, or collect the values of a factor."""
    found = choices(line)
    key = key_of(line)
    if len(found) > 1:
        given[key] = [one.partition("=")[2] for one in found]
        return base
    if key in OPTIONS:
        return with_option(base, key, parameters.get(key, ""), found[0].partition("=")[2])
    return with_value(base, found[0])


def _base(result: Result, making: Preparing) -> Overrides:
    """Return a recorded config as overrides: those typed for it, and those that undo changed defaults."""
    base: Overrides = tuple(line for line in result.overrides if key_of(line) not in _NOT_THE_CONFIG)
    made = making.experiment(base).parameters
    for name, value in result.parameters.items():
        moved = made.get(name, value) != value and not name.startswith(OF_NO_MATTER)
        if moved and MASK not in value:
            base = with_value(base, f"{name}={value}")
    return base or (f"top_k={result.parameters['top_k']}",)  # a case must name something


class Preparing:
    """Compose and check configs one after the other, on one session."""

    def __init__(self, config_dir: str | None) -> None:
        self._config_dir = config_dir
        self._session: Session | None = None

    def experiment(self, overrides: Sequence[str]) -> Experiment:
        """Compose and check one config. Raises a RagsweepError for one that cannot be run."""
        command = read_command(overrides, multirun=False, config_dir=self._config_dir)
        config = compose_jobs(command)[0]
        if self._session is None:
            self._session = open_session(config.values, Terminal.current())
        return self._session.prepare(Job(config, "", tuple(overrides)))
