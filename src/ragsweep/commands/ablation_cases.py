"""The cases of an ablation: a config, and its variants that differ in one option or one parameter."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ragsweep.core.errors import ConfigError, nearest

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
"""Last part of a parameter's key -> common values; a value's neighbours are the next lower and the next higher one."""

OPTIONS: Mapping[str, Sequence[str]] = {
    "retriever": ("hybrid_rrf", "hybrid_convex", "vector", "bm25"),
    "reranker": ("none", "late_interaction"),
    "chunker": ("recursive", "fixed_size", "sentence_window"),
    "prompt": ("default", "concise", "cite"),
}
"""Config group -> interchangeable options, which need neither another model nor a service."""

KEPT = {("chunker", "none"), ("retriever", "none")}
"""Options that are never replaced, because they suit only short texts (no chunker) or disable retrieval."""

AREAS = ("top_k", "depth", "context_budget", "chunker.", "retriever.", "reranker.", "llm.", "router.", "query.")
"""Prefixes of the evaluated system's parameters; other parameters, such as the seed, have no neighbouring values."""

CHANCE = frozenset({"seed", "replicate"})

Overrides = tuple[str, ...]

_LEGS = "retriever.legs"
_SINGLE = ("bm25", "vector")
_HYBRID = ("hybrid_rrf", "hybrid_convex")


@dataclass(frozen=True)
class AblationCase:
    """A config to run, and the factor in which it differs from the ablated config ("" for that config itself)."""

    factor: str
    overrides: Overrides


@dataclass(frozen=True)
class Ablation:
    """The cases to run (the config itself, then each change alone), and the omitted changes."""

    cases: tuple[AblationCase, ...]
    impossible: Mapping[str, str]  # change -> why it is invalid
    idle: tuple[str, ...]  # changes that change no result
    hydra: tuple[str, ...]  # overrides for Hydra, such as a launcher
    same: bool  # whether the config has the recorded signature with the current code and data


def around(
    base: Sequence[str],
    parameters: Mapping[str, str],
    given: Mapping[str, Sequence[str]],
    wanted: Sequence[str] | None = None,
) -> list[AblationCase]:
    """List the cases that differ from a config in one factor: the option of a group, or the value of a parameter.

    Cases with other options come first. A parameter takes its neighbouring values or, if ``given`` has the parameter,
    the given values. ``base`` are the config's overrides, and ``parameters`` is the flattened config. ``wanted``
    restricts the factors; a prefix such as ``retriever`` includes all keys below it. Raises ConfigError for a wanted
    factor that cannot change, and for given values of a factor that is not wanted.
    """

    def is_wanted(factor: str) -> bool:
        return wanted is None or any(f"{factor}.".startswith(f"{name}.") for name in wanted)

    values = {group: other_options(group, parameters[group]) for group in OPTIONS if group in parameters}
    values |= {name: neighbours(name, value) for name, value in parameters.items() if name not in OPTIONS}
    values = {name: found for name, found in values.items() if found} | {one: list(two) for one, two in given.items()}
    for name in wanted or ():
        if not any(f"{factor}.".startswith(f"{name}.") for factor in values):
            raise ConfigError(f'--factor: nothing to change in "{name}"{nearest(name, values)}')
    for factor, found in given.items():
        if not is_wanted(factor):
            raise ConfigError(
                f"{factor}={','.join(found)}: --factor excludes these values; add --factor {factor}, or give a single"
                " value for all cases"
            )
    return [
        AblationCase(factor, with_change(base, parameters, factor, value))
        for factor, found in values.items()
        if is_wanted(factor)
        for value in found
    ]


def neighbours(name: str, value: str) -> list[str]:
    """Return the neighbouring values to try; [] if ``value`` is not a finite number, or if ``name`` is never varied."""
    last = name.rpartition(".")[2]
    if not name.startswith(AREAS) or last in CHANCE:
        return []
    try:
        number = float(value)
    except ValueError:
        return []
    if not math.isfinite(number):
        return []
    if rungs := RUNGS.get(last):
        found = [rung for rung in rungs if rung < number][-1:] + [rung for rung in rungs if rung > number][:1]
    elif 0 < number < 1:  # a share: 0.1 less and 0.1 more
        found = [share for share in (round(number - 0.1, 10), round(number + 0.1, 10)) if 0 <= share <= 1]
    elif number <= 1:
        found = [number + 1]
    else:
        found = [number // 2 if value.isdigit() else number / 2, number * 2]
    return [f"{one:.15g}" for one in found]  # exact for large integers, without rounding errors


def other_options(group: str, option: str) -> list[str]:
    """Return the options to try instead of ``option``; [] if it is in `KEPT`. A reranker is replaced only by "none"."""
    if (group, option) in KEPT:
        return []
    if group == "reranker" and option != "none":
        return ["none"]
    return [name for name in OPTIONS.get(group, ()) if name != option]


def key_of(line: str) -> str:
    """Return the key or the group that an override sets."""
    return line.partition("=")[0].lstrip("+~")


def with_value(base: Sequence[str], line: str) -> Overrides:
    """Return the overrides with ``line`` appended; it replaces overrides of the same key, and keeps their ``+``."""
    replaced = [kept for kept in base if key_of(kept) == key_of(line)]
    signs = [kept.partition(key_of(line))[0].replace("~", "") for kept in replaced if line[0] not in "+~"]
    return (*(kept for kept in base if kept not in replaced), "".join(signs[-1:]) + line)


def with_change(base: Sequence[str], parameters: Mapping[str, str], factor: str, value: str) -> Overrides:
    """Return the overrides with a factor changed to ``value``: by `with_option` for a group, otherwise by `with_value`.

    ``parameters`` are the config's parameters before the change.
    """
    before = parameters.get(factor, "")
    has_settings = value != before and value[:1] != "{" and any(name.startswith(f"{factor}.") for name in parameters)
    if factor in OPTIONS or has_settings:
        return with_option(base, factor, before, value)
    return with_value(base, f"{factor}={value}")


def with_option(base: Sequence[str], group: str, before: str, option: str) -> Overrides:
    """Return the overrides with the option of a group changed from ``before`` to ``option``.

    The settings of the replaced option are removed, except for settings of legs that both retrievers share. A retriever
    that is not a hybrid is treated as its own leg.
    """
    others = [line for line in base if not _belongs(key_of(line), group)]
    carried = _carried(base, before, option) if group == "retriever" else ()
    return (*others, f"{group}={option}", *carried)


def _belongs(key: str, group: str) -> bool:
    """Return whether a key selects the option of a group, or sets a part or a parameter of that option."""
    package = key.partition("@")[2]
    return key == group or key.startswith((f"{group}.", f"{group}/", f"{group}@")) or package.startswith(f"{group}.")


def _carried(base: Sequence[str], before: str, option: str) -> Iterator[str]:
    """Yield the settings of the legs that the old and the new retriever share.

    Their keys change if a leg becomes the retriever itself, or the retriever becomes a leg.
    """
    for line in base:
        key = line.partition("=")[0]
        value = line[len(key) :]  # begins with "="; "" where a key is removed
        sign, name = key[: len(key) - len(key_of(line))], key_of(line)
        if option in _HYBRID and before in _HYBRID and _LEGS in key:
            yield line
        elif option in _SINGLE and before in _HYBRID and f"{_LEGS}.{option}." in key:
            within = key.rpartition(f"{_LEGS}.{option}.")[2]
            yield f"{key.partition('@')[0]}{value}" if "@" in key else f"{sign}retriever.{within}{value}"
        elif option in _HYBRID and before in _SINGLE and name.startswith("retriever."):
            yield f"{sign}{_LEGS}.{before}.{name.removeprefix('retriever.')}{value}"
        elif option in _HYBRID and before in _SINGLE and name == "retriever/index":
            yield f"retriever/index@{_LEGS}.{before}.index{value}"
