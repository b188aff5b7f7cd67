"""Objectives: the metric, or several, by which configs are compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ragsweep.core.errors import ConfigError
from ragsweep.core.results import Result


def objectives(config: Mapping[str, Any]) -> tuple[str, ...]:
    """List the metrics that the key ``objective`` names, the one that decides first; none where there is no such key.

    Raises ConfigError for what is neither a name nor a list of different names.
    """
    given = config.get("objective")
    if given is None:
        return ()
    listed = [given] if isinstance(given, str) else list(given) if isinstance(given, Sequence) else []
    if not listed or not all(isinstance(one, str) for one in listed) or len(set(listed)) < len(listed):
        raise ConfigError(f"objective: must be a metric, or a list of different ones, given {given!r}")
    return tuple(listed)


def pareto_front(results: Sequence[Result], metrics: Sequence[str]) -> list[Result]:
    """Keep the configs than which no other is as good in every metric and better in one (the Pareto front).

    A config of which a metric is not known is on no front, and neither beats any. Those with the same values stay
    together.
    """
    points = [(one, point) for one in results if (point := _point(one, metrics)) is not None]
    return [one for one, point in points if not any(_beats(other, point) for _, other in points)]


def _point(result: Result, metrics: Sequence[str]) -> tuple[float, ...] | None:
    """Turn a config's values so that more is better; None where one is not known."""
    found = [result.summaries[name] for name in metrics if name in result.summaries]
    point = tuple(-one.value if one.higher_is_better is False else one.value for one in found)
    return point if len(point) == len(metrics) and all(value == value for value in point) else None


def _beats(one: Sequence[float], other: Sequence[float]) -> bool:
    return one != other and all(mine >= its for mine, its in zip(one, other, strict=True))
