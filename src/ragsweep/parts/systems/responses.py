"""Read what an external system returns: values at paths such as ``data.sources[*].text``, and their validation."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ragsweep.core.types import Answer, Passage, Response, Usage
from ragsweep.parts.prompts import begins_with_refusal

_STEP = re.compile(r"(?:^|\.)([^.\[\]]+)|\[(\d+|\*)\]")


def to_response(answer: Any, texts: Any, ids: Any, refusals: Sequence[str], usage: Usage) -> Response:
    """Create a response; ``texts`` and ``ids`` are lists of equal length, or None.

    An answer that is null or blank, or begins with one of the refusals, is an abstention.

    Raises:
        ValueError: A value has the wrong type or length.
    """
    if answer is not None and not isinstance(answer, str):
        raise ValueError(f"the answer is {answer!r:.60}, not a text")
    text = (answer or "").strip()
    lists = [_texts(name, given) for name, given in (("contexts", texts), ("ids", ids)) if given is not None]
    if len({len(one) for one in lists}) > 1:
        raise ValueError(f"there are {len(lists[0])} contexts and {len(lists[1])} ids")
    length = len(lists[0]) if lists else 0
    contexts = _texts("contexts", texts) if texts is not None else [""] * length
    names = _texts("ids", ids) if ids is not None else [""] * length
    return Response(
        Answer(text, not text or begins_with_refusal(text, refusals), usage=usage),
        tuple(Passage(name, context) for name, context in zip(names, contexts, strict=True) if name or context.strip()),
    )


def _texts(name: str, given: Any) -> list[str]:
    if not isinstance(given, list | tuple):
        raise ValueError(f"the {name} are {given!r:.60}, not a list")
    for one in given:
        if not isinstance(one, str | int) or isinstance(one, bool):
            raise ValueError(f"one of the {name} is {one!r:.60}, not a text")
    return [str(one) for one in given]


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
