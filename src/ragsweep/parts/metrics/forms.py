"""Answers of a judge, by a pydantic model: the schema that it is told, and the reading of what it says.

Whoever changes what is read as a verdict changes VERSION in ragas_library and in judge_swayed.
"""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

from ragsweep.parts.fences import unfence
from ragsweep.parts.judging import Form

BINARY = frozenset({"verdict", "attributed", "noncommittal"})
"""Fields of answers that are 0 or 1; their type says only: a whole number."""

NEEDED = frozenset({"question"})
"""Fields of ragas' answers without which there is no verdict: ragas scores an empty one 0."""

_CODE = re.compile(r"\s*```(?:json)?\s*\n(.*?)\n?\s*```\s*", re.DOTALL)


@cache
def form_of(model: Any) -> Form:
    """Make a form of one of ragas' models: its schema, closed, and with 0 and 1 where these are meant."""
    return Form(model.__name__, _closed(model.model_json_schema()), lambda text: read(text, model))


def _closed(schema: Any) -> Any:
    """Say of every object that it has all of its fields and no other, as structured outputs want it."""
    if isinstance(schema, list):
        return [_closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {key: _closed(value) for key, value in schema.items()}
    if isinstance(properties := closed.get("properties"), dict):
        closed |= {"additionalProperties": False, "required": list(properties)}
        for name in BINARY & properties.keys():
            properties[name] = {**properties[name], "enum": [0, 1]}
    return closed


def read(text: str, model: Any) -> Any:
    """Read an answer: all of it is one JSON value that conforms, be it in a block of code; nothing is searched for.

    Raises:
        ValueError: It does not conform, be it by "0.9", true or 7 where 0 or 1 is meant; the answer is not quoted.
    """
    from pydantic import ValidationError

    block = _CODE.fullmatch(text)
    try:
        found = model.model_validate_json(unfence(block[1] if block else text), strict=True)
    except ValidationError as fault:
        first = fault.errors(include_input=False, include_url=False, include_context=False)[0]
        place = ".".join(str(part) for part in first["loc"] if isinstance(part, int) or part in _names(model))
        raise ValueError(f"{place or 'the whole'}: {first['type'].replace('_', ' ')}") from None
    _check(json.loads(found.model_dump_json()), "")
    return found


def _names(model: Any) -> frozenset[str]:
    return frozenset(re.findall(r'"(\w+)":', json.dumps(model.model_json_schema())))


def _check(value: Any, place: str) -> None:
    if isinstance(value, list):
        for item in value:
            _check(item, place)
    elif isinstance(value, dict):
        for name, item in value.items():
            if name in BINARY and item not in (0, 1):
                raise ValueError(f"{name}: must be 0 or 1")
            if name in NEEDED and not str(item).strip():
                raise ValueError(f"{name}: must not be empty")
            _check(item, name)
