"""Read what an external system returns: values at paths such as ``data.sources[*].text``, and their validation."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import starmap, zip_longest
from typing import Any

from ragsweep.core.missing import THINKING
from ragsweep.core.types import Answer, Passage, Response, Usage
from ragsweep.parts.prompts import begins_with_refusal
from ragsweep.services.thoughts import TAGS, read_content, separate

_STEP = re.compile(r"(?:^|\.)([^.\[\]]+)|\[(\d+|\*)\]")


def to_response(
    answer: Any, texts: Any, ids: Any, refusals: Sequence[str], usage: Usage, tags: Sequence[str] | None = TAGS
) -> Response:
    """Create a response; ``texts`` and ``ids`` are lists of equal length, or None.

    The answer is a text or the parts of a chat message, without its thoughts, which ``tags`` enclose. An answer that is
    null or blank, or begins with one of the refusals, is an abstention; one that ends within thoughts is a failure.

    Raises:
        ValueError: A value has the wrong type or length.
    """
    written, parts, _ = read_content(answer)
    text, thoughts, unclosed = separate(written.strip(), tags)
    thoughts = "\n\n".join(filter(None, (parts, thoughts)))
    declined = not unclosed and (not text or begins_with_refusal(text, refusals))
    contexts, names = _texts("contexts", texts), _texts("ids", ids)
    if texts is not None and ids is not None and len(contexts) != len(names):
        raise ValueError(f"there are {len(contexts)} contexts and {len(names)} ids")
    passages = starmap(Passage, zip_longest(names, contexts, fillvalue=""))
    return Response(
        Answer(text, declined, THINKING if unclosed else "", usage=usage, thoughts=thoughts),
        tuple(passage for passage in passages if passage.name or passage.text.strip()),
    )


def _texts(name: str, values: Any) -> list[str]:
    if values is None:
        return []
    if not isinstance(values, list | tuple):
        raise ValueError(f"the {name} are {values!r:.60}, not a list")
    for value in values:
        if not isinstance(value, str | int) or isinstance(value, bool):
            raise ValueError(f"one of the {name} is {value!r:.60}, not a text")
    return [str(value) for value in values]


class PathNotFound(ValueError):
    """A path leads nowhere."""


def parse_path(path: str) -> list[str | int]:
    """Split a path into names, positions, and "*" for all of a list. Raises ValueError for an invalid path."""
    steps: list[str | int] = []
    position = 0
    while position < len(path):
        match = _STEP.match(path, position)
        if match is None:
            raise ValueError(f"{path!r} is no path; write names and places as in data.sources[*].text")
        name, index = match.groups()
        if name == "*":
            raise ValueError(f"{path!r} is no path: all of a list are [*]")
        steps.append(name or (index if index == "*" else int(index)))
        position = match.end()
    return steps


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
        return [_value(item, rest[1:], f"{seen}[{n}]") for n, item in enumerate(value)]
    if step in (value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()):
        return _value(value[step], rest[1:], here)
    raise PathNotFound(f"there is nothing at {here}")
