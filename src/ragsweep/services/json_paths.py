"""Find values in JSON by paths such as ``data.sources[*].text``."""

from __future__ import annotations

import re
from typing import Any

_STEP = re.compile(r"(?:^|\.)([^.\[\]]+)|\[(\d+|\*)\]")


class PathNotFound(ValueError):
    """A path leads nowhere."""


def parse_path(path: str) -> list[str | int]:
    """Split a path into names, positions, and "*" for all of a list. Raises ValueError for an invalid path."""
    found: list[str | int] = []
    position = 0
    while position < len(path):
        step = _STEP.match(path, position)
        if step is None:
            raise ValueError(f"{path!r} is no path; write names and places as in data.sources[*].text")
        name, index = step.groups()
        found.append(name if name is not None else "*" if index == "*" else int(index))
        position = step.end()
        if name == "*":
            raise ValueError(f"{path!r} is no path: all of a list are [*]")
    return found


def value_at(value: Any, path: str) -> Any:
    """Return the value at a path; behind a ``[*]`` a list of the values at the rest of the path in each item.

    Raises PathNotFound, with the part of the path that leads nowhere.
    """
    return _value(value, parse_path(path), "")


def _value(value: Any, rest: list[str | int], seen: str) -> Any:
    if not rest:
        return value
    step, here = rest[0], f"{seen}.{rest[0]}".lstrip(".") if isinstance(rest[0], str) else f"{seen}[{rest[0]}]"
    if step == "*":
        if not isinstance(value, list):
            raise PathNotFound(f"there is no list at {seen or 'the top'}")
        return [_value(one, rest[1:], f"{seen}[{n}]") for n, one in enumerate(value)]
    if isinstance(step, str) and isinstance(value, dict) and step in value:
        return _value(value[step], rest[1:], here)
    if isinstance(step, int) and isinstance(value, list) and step < len(value):
        return _value(value[step], rest[1:], here)
    raise PathNotFound(f"there is nothing at {here}")
