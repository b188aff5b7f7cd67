"""Extract values from the response of a system, at paths such as ``data.sources[*].text``, and validate them."""

import math
import re
from collections.abc import Sequence
from itertools import starmap, zip_longest
from typing import Any, NamedTuple

import numpy as np

from ragsweep.core.escaping import well_formed
from ragsweep.core.missing import THINKING
from ragsweep.core.types import Answer, Passage, Response, Usage
from ragsweep.parts.prompts import begins_with_refusal
from ragsweep.services.replies import EventStream
from ragsweep.services.thoughts import TAGS, read_content, separate

_STEP = re.compile(r"(?:^|\.)([^.\[\]]+)|\[(\d+|\*)\]")


KINDS = {
    "ids": ("a string", str | int),
    "contexts": ("a string", str | int),
    "scores": ("a finite number", int | float),
}
"""The name of each list that a system may return -> the type of its items, in words and as a Python type."""


class Returned(NamedTuple):
    """The values that a system returned, not yet validated; None for a missing value."""

    answer: Any = None
    contexts: Any = None
    ids: Any = None
    scores: Any = None


def to_response(found: Returned, refusals: Sequence[str], usage: Usage, tags: Sequence[str] | None = TAGS) -> Response:
    """Return a response with the validated values. Raises ValueError if a value has the wrong type or length.

    ``contexts``, ``ids`` and ``scores`` are lists of equal length, or None. Nested lists of chunks (one list per
    document) become one list; if a document has a single id or score, it applies to all chunks of the document. Chunks
    without an id and without text are dropped.

    The answer is a string, or a list of the parts of a chat message. Thoughts (separate parts, or text enclosed in
    ``tags``) are removed from the answer. An answer that is null or blank, or that begins with one of ``refusals``, is
    an abstention. An answer that ends within thoughts counts as failed.
    """
    written, parts, _ = read_content(found.answer)
    text, thoughts, unclosed = separate(written.strip(), tags)
    thoughts = "\n\n".join(filter(None, (parts, thoughts)))
    declined = not unclosed and (not text or begins_with_refusal(text, refusals))
    names, contexts, scores = _columns(found)
    passages = list(starmap(Passage, zip_longest(names, contexts, fillvalue="")))
    kept = [n for n, passage in enumerate(passages) if passage.name or passage.text.strip()]
    return Response(
        Answer(text, declined, THINKING if unclosed else "", usage=usage, thoughts=thoughts),
        tuple(passages[n] for n in kept),
        tuple(scores[n] for n in kept if scores),
    )


def _columns(found: Returned) -> tuple[list[str], list[str], list[float]]:
    """Return ids, contexts and scores as flat lists of equal length; a missing list is empty.

    Raises ValueError if the lengths differ, or if a value has the wrong type.
    """
    found = Returned(found.answer, *map(_native, found[1:]))
    given = {name: getattr(found, name) for name in KINDS}
    for name, values in given.items():
        if not isinstance(values, list | tuple | None):
            raise ValueError(f"the {name} are {values!r:.60}, not a list; return a list, or correct the path of {name}")
    shape = next((some for some in (found.contexts, found.ids) if some is not None), ())
    columns = {name: _flat(values or (), shape) for name, values in given.items()}
    counts = {name: len(column) for name, column in columns.items() if given[name] is not None}
    if len(set(counts.values())) > 1:
        lengths = ", ".join(f"{count} ({name})" for name, count in counts.items())
        raise ValueError(f"the lists of {' and '.join(counts)} must have equal lengths, got {lengths}")
    for name, (kind, types) in KINDS.items():
        for value in columns[name]:
            is_infinite = isinstance(value, float) and not math.isfinite(value)
            if not isinstance(value, types) or isinstance(value, bool) or is_infinite:
                raise ValueError(
                    f"one of the {name} is {value!r:.60}, not {kind}; correct the value, or the path of {name}"
                )
    ids, contexts = ([well_formed(str(value)) for value in columns[name]] for name in ("ids", "contexts"))
    return ids, contexts, [*map(float, columns["scores"])]


def _native(value: Any) -> Any:
    """Convert NumPy arrays and numbers, such as scores and ids from a function, to values of Python's types."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return [*map(_native, value)] if isinstance(value, list | tuple) else value


def _flat(values: Sequence[Any], shape: Sequence[Any]) -> list[Any]:
    """Return the items of nested lists as one list.

    ``shape`` is the list of contexts or ids that is parallel to ``values``. If an item of ``shape`` is a list but the
    value at the same index is not, the value is repeated for each item of that list.
    """
    flat: list[Any] = []
    for value, beside in zip_longest(values, shape[: len(values)]):
        if isinstance(value, list | tuple):
            flat += _flat(value, beside if isinstance(beside, list | tuple) else ())
        else:
            flat += [value] * (len(_flat(beside, ())) if isinstance(beside, list | tuple) else 1)
    return flat


class PathNotFound(ValueError):
    """Raised for a path that does not exist in a value."""


def parse_path(path: str) -> list[str | int]:
    """Return the steps of a path: names, indices, and "*" for all items of a list; an empty path has no steps.

    Raises ValueError for an invalid path.
    """
    steps: list[str | int] = []
    position = 0
    while position < len(path):
        match = _STEP.match(path, position)
        if match is None:
            raise ValueError(f"{path!r} is not a path; write names and indices as in data.sources[*].text")
        name, index = match.groups()
        if name == "*":
            raise ValueError(f"{path!r} is not a path: use [*] for all items of a list")
        steps.append(name or (index if index == "*" else int(index)))
        position = match.end()
    return steps


def value_at(value: Any, path: str) -> Any:
    """Return the value at a path in ``value``; the empty path returns ``value`` itself.

    ``[*]`` returns a list of the values at the rest of the path, one for each item of the list at this point. Raises
    PathNotFound, naming the first missing part of the path, and ValueError for an invalid path.
    """
    return _value(value, parse_path(path), "")


def value_in_events(stream: EventStream, path: str) -> Any:
    """Join and return the strings at a path in the events of a stream; events without the path are ignored.

    Lists of the parts of a chat message are joined, too, as one list in which each string is a part. If no value at the
    path is a string or a list of parts, return the last value that is not null, or None if all are null. Raises
    PathNotFound if the path exists in no event, and ValueError for an invalid path or a stream without events.
    """
    found, fault = list[Any](), ValueError("the stream has no events")
    for event in stream.events:
        try:
            found.append(value_at(event, path))
        except PathNotFound as missing:
            fault = missing
    if not found:
        raise fault
    values = [value for value in found if value is not None]
    texts = [value for value in values if isinstance(value, str)]
    if any(map(_is_content, values)):
        lists = [[{"type": "text", "text": value}] if isinstance(value, str) else value for value in values]
        return [part for parts in lists if isinstance(parts, list) for part in parts]
    return "".join(texts) if texts else values[-1] if values else None


def _is_content(value: Any) -> bool:
    """Return whether a value is a list of the parts of a chat message."""
    return isinstance(value, list) and bool(value) and all(isinstance(part, dict) and "type" in part for part in value)


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
    raise PathNotFound(f"there is no value at {here}")
