"""Temporary form of records."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from ragsweep.results import DatasetFacts, Failure, Result, Summary


class Encoded(NamedTuple):
    text: str
    scores: bytes
    shared: bytes

    @property
    def shared_digest(self) -> str:
        return hashlib.sha256(self.shared).hexdigest()


def encode(outcome: Result | Failure) -> Encoded:
    if isinstance(outcome, Result):
        outcome = dataclasses.replace(outcome, rankings={})
    return Encoded(json.dumps([type(outcome).__name__, _to_json(dataclasses.asdict(outcome))]), b"", b"")


def decode(kept: Encoded) -> Result | Failure:
    kind, fields = json.loads(kept.text)
    return _outcome(kind, fields)


def _to_json(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _to_json(item) for key, item in value.items()}
    if hasattr(value, "tolist"):
        return _to_json(value.tolist())
    if isinstance(value, list | tuple):
        return [_to_json(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _outcome(status: str, fields: dict[str, Any]) -> Result | Failure:
    fields["overrides"] = tuple(fields["overrides"])
    if status == "Failure":
        return Failure(**fields)
    fields["dataset"] = DatasetFacts(**{**fields["dataset"], "notes": tuple(fields["dataset"]["notes"])})
    fields["summaries"] = _summaries(fields["summaries"])
    fields["groups"] = {
        label: {value: _summaries(group) for value, group in values.items()}
        for label, values in fields["groups"].items()
    }
    fields["warnings"] = tuple(fields["warnings"])
    return Result(**fields)


def _summaries(fields: dict[str, dict[str, Any]]) -> dict[str, Summary]:
    numbers = ("value", "low", "high")
    return {
        name: Summary(**{**one, **{key: math.nan for key in numbers if one[key] is None}})
        for name, one in fields.items()
    }
