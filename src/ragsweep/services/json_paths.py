"""Find values in JSON by paths as ``data.sources[*].text``."""

from __future__ import annotations

import re
from typing import Any

_STEP = re.compile(r"(?:^|\.)([^.\[\]]+)|\[(\d+|\*)\]")


class NotThere(ValueError):
    """A path leads nowhere."""


def steps(path: str) -> list[str | int]:
    """Take a path apart: names, places, and "*" for all of a list. Raises ValueError for what is no path."""
    found: list[str | int] = []
    position = 0
    while position < len(path):
        step = _STEP.match(path, position)
        if step is None:
            raise ValueError(f"{path!r} is no path; write names and places as in data.sources[*].text")
        name, place = step.groups()
        found.append(name if name is not None else "*" if place == "*" else int(place))
        position = step.end()
        if name == "*":
            raise ValueError(f"{path!r} is no path: all of a list are [*]")
    return found


def value_at(value: Any, path: str) -> Any:
    """Return what stands at a path; behind a ``[*]`` a list of what stands at the rest of it in each.

    Raises NotThere, with the part of the path that leads nowhere.
    """
    return _value(value, steps(path), "")


def _value(value: Any, rest: list[str | int], seen: str) -> Any:
    if not rest:
        return value
    step, here = rest[0], f"{seen}.{rest[0]}".lstrip(".") if isinstance(rest[0], str) else f"{seen}[{rest[0]}]"
    if step == "*":
        if not isinstance(value, list):
            raise NotThere(f"there is no list at {seen or 'the top'}")
        return [_value(one, rest[1:], f"{seen}[{n}]") for n, one in enumerate(value)]
    if isinstance(step, str) and isinstance(value, dict) and step in value:
        return _value(value[step], rest[1:], here)
    if isinstance(step, int) and isinstance(value, list) and step < len(value):
        return _value(value[step], rest[1:], here)
    raise NotThere(f"there is nothing at {here}")
