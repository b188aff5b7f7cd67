"""The cases of an ablation: a config, and one change at a time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ragsweep.core.errors import ConfigError, RagsweepError, nearest
from ragsweep.core.results import Result
from ragsweep.core.secrets import MASK, refuse_secrets
from ragsweep.evaluation.evaluator import Experiment
from ragsweep.report.terminal import Terminal
from ragsweep.stats.comparable import OF_NO_MATTER
from ragsweep.sweep.command import choices, compose_jobs, read_command
from ragsweep.sweep.session import Job, Session, open_session


@dataclass(frozen=True)
class Case:
    """One config: the factor in which it differs from the ablated one, and all of its overrides."""

    factor: str
    overrides: Overrides


def around(
    base: Sequence[str],
    parameters: Mapping[str, str],
    given: Mapping[str, Sequence[str]],
    wanted: Sequence[str] | None = None,
) -> list[Case]:
    """Change one thing at a time: options first, then parameters, each to its neighbours.

    Args:
        base: The overrides of the config.
        parameters: The config, flattened.
        given: Factor -> the values to try in the place of its neighbours.
        wanted: The only factors to change; a part's name stands for its parameters, too. None for all.

    Raises:
        ConfigError: A wanted factor is none, or nothing is left to change.
    """
    values = {group: other_options(group, parameters.get(group, "")) for group in OPTIONS if group in parameters}
    values |= {name: neighbours(name, value) for name, value in parameters.items() if name not in values}
    values = {name: found for name, found in values.items() if found} | {
        name: [*found] for name, found in given.items()
    }
    for name in wanted or ():
        if not any(_is_of(factor, name) for factor in values):
            raise ConfigError(f'--factor: nothing to change in "{name}"{nearest(name, values)}')
    return [
        Case(factor, _changed(base, parameters, factor, value))
        for factor, found in values.items()
        if wanted is None or any(_is_of(factor, name) for name in wanted)
        for value in found
    ]


def _is_of(factor: str, name: str) -> bool:
    return factor == name or factor.startswith(f"{name}.")


def _changed(base: Sequence[str], parameters: Mapping[str, str], factor: str, value: str) -> Overrides:
    if factor in OPTIONS:
        return with_option(base, factor, parameters.get(factor, ""), value)
    return with_value(base, f"{factor}={value}")


RUNGS: Mapping[str, Sequence[float]] = {
    "top_k": (1, 3, 5, 8, 12, 20, 30, 50),
    "depth": (20, 50, 100, 200, 500),
    "size": (50, 100, 200, 300, 400, 600, 800, 1000, 1200, 1600, 2000, 3000),
    "overlap": (0, 20, 50, 100, 200, 400),
    "k": (10, 20, 40, 60, 80, 120),
    "k1": (0.5, 0.8, 1.2, 1.5, 1.8, 2.5),
    "b": (0, 0.3, 0.6, 0.75, 0.9, 1),
    "alpha": tuple(n / 10 for n in range(11)),
    "mix": (0, 0.1, 0.2, 0.4, 0.6, 0.8, 1),
    "candidates": (10, 20, 30, 50, 75, 100, 200),
    "ef_search": (20, 40, 64, 128, 200, 400),
    "temperature": (0, 0.3, 0.7, 1),
}
"""The last word of a parameter's name -> the values that practice tries of it; the next ones are the neighbours."""

OPTIONS: Mapping[str, Sequence[str]] = {
    "retriever": ("hybrid_rrf", "hybrid_convex", "vector", "bm25"),
    "reranker": ("none", "late_interaction"),
    "chunker": ("recursive", "fixed_size", "sentence_window"),
    "prompt": ("default", "concise", "cite"),
}
"""Group -> the options that an ablation exchanges for each other: those that need no further model and no service."""

KEPT: Mapping[str, Sequence[str]] = {"chunker": ("none",), "retriever": ("none",)}
"""Group -> options that are a decision about the texts, or about having retrieval at all, and not exchanged."""

AREAS = ("top_k", "depth", "context_budget", "chunker.", "retriever.", "reranker.", "llm.", "router.", "query.")
"""Where the parameters of a system are; the others say what it is asked, and how it is measured."""

CHANCE = frozenset({"seed", "replicate"})


def neighbours(name: str, value: str) -> list[str]:
    """Return the values below and above a numeric parameter's own, as typed; none for other values."""
    last = name.rpartition(".")[2]
    if not name.startswith(AREAS) or last in CHANCE:
        return []
    try:
        number = float(value)
    except ValueError:
        return []
    if not math.isfinite(number):
        return []
    return [f"{one:g}" for one in (_rungs(number, RUNGS[last]) if last in RUNGS else _around(number, value.isdigit()))]


def _rungs(number: float, rungs: Sequence[float]) -> list[float]:
    return [one for one in rungs if one < number][-1:] + [one for one in rungs if one > number][:1]


def _around(number: float, whole: bool) -> list[float]:
    """Take half of a number and twice as much; of a share a tenth less and a tenth more."""
    if 0 < number < 1:
        return [one for one in (round(number - 0.1, 10), round(number + 0.1, 10)) if 0 <= one <= 1]
    if number <= 1:
        return [number + 1]
    return [number // 2 if whole else number / 2, number * 2]


def other_options(group: str, option: str) -> list[str]:
    """Return the options to exchange a group's for; a reranker that is there is only taken away."""
    if option in KEPT.get(group, ()) or group not in OPTIONS:
        return []
    if group == "reranker" and option != "none":
        return ["none"]
    return [one for one in OPTIONS[group] if one != option]


Overrides = tuple[str, ...]

_LEGS = "retriever.legs"

_SINGLE = ("bm25", "vector")

_HYBRID = ("hybrid_rrf", "hybrid_convex")


def key_of(line: str) -> str:
    """Name the key, or the group, that an override sets."""
    return line.partition("=")[0].lstrip("+~")


def with_value(base: Sequence[str], line: str) -> Overrides:
    """Set a parameter, in the place of whatever set it before."""
    return (*(kept for kept in base if key_of(kept) != key_of(line)), line)


def with_option(base: Sequence[str], group: str, before: str, option: str) -> Overrides:
    """Choose another option of a group than the one before.

    What was set of that one goes with it, but a leg that both retrievers have keeps its settings.
    """
    others = [line for line in base if not _belongs(key_of(line), group)]
    carried = _carried(base, before, option) if group == "retriever" else ()
    return (*others, f"{group}={option}", *carried)


def _belongs(key: str, group: str) -> bool:
    """Return whether an override sets a group, a key of its option, or a key nested in that."""
    package = key.partition("@")[2]
    return key == group or key.startswith((f"{group}.", f"{group}/", f"{group}@")) or package.startswith(f"{group}.")


def _carried(base: Sequence[str], before: str, option: str) -> Iterator[str]:
    """Carry over the settings of a retriever that becomes a leg, or of a leg that is now alone."""
    for line in base:
        key, _, value = line.partition("=")
        if option in _HYBRID and before in _HYBRID and _LEGS in key:
            yield line
        elif option in _SINGLE and before in _HYBRID and f"{_LEGS}.{option}." in key:
            within = key.rpartition(f"{_LEGS}.{option}.")[2]
            yield f"{key.partition('@')[0]}={value}" if "@" in key else f"{_sign(key)}retriever.{within}={value}"
        elif option in _HYBRID and before in _SINGLE and key_of(line).startswith("retriever."):
            yield f"{_sign(key)}{_LEGS}.{before}.{key_of(line).removeprefix('retriever.')}={value}"
        elif option in _HYBRID and before in _SINGLE and key_of(line) == "retriever/index":
            yield f"retriever/index@{_LEGS}.{before}.index={value}"


def _sign(key: str) -> str:
    return key[: len(key) - len(key.lstrip("+~"))]


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
