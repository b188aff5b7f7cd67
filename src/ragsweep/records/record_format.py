"""The form in which the ledger keeps what became of a config: small fields as JSON, scores as one block of doubles.

What a table of questions says whatever the config (ids, texts, labels) is a block of its own, named by its hash, so
that it is kept once for all configs of a golden set. Nothing that is read can run code. JSON is strict: numbers that it
has no word for stand as null, and beside the document is said where they were.
"""

from __future__ import annotations

import hashlib
import json
import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any

import numpy as np

from ragsweep.core.errors import InputError
from ragsweep.core.results import (
    COMPLETE,
    DROPPED,
    PARTIAL,
    RACING,
    DatasetFacts,
    Failure,
    Result,
    Summary,
    TargetResult,
)

FORMAT = "ragsweep.record/1"
FINISHED, FAILED, UNFINISHED = "finished", "failed", "partial"
STATUS = {COMPLETE: FINISHED, PARTIAL: UNFINISHED, RACING: "racing", DROPPED: "dropped"}

OWN = frozenset({"context", "unscored", "answer", "abstained", "answer_failed"})
"""Columns of text that each config has of its own; other text, and how much evidence there is, are the golden set's."""

SHARED_NUMBERS = frozenset({"evidence"})
NUMBERS = {"float": "d", "int": "q"}  # as both struct and numpy spell them
TABLES = frozenset({"summaries", "first_stage"})
NOT_KEPT = frozenset({"rankings", "qrels", "outcomes"})
SUMMARY = tuple(field.name for field in fields(Summary))
AMOUNTS = tuple(SUMMARY.index(name) for name in ("value", "low", "high", "low_bound", "high_bound"))
JUDGED_AMOUNTS = ("value", "threshold")

SHORTEST = SUMMARY.index("low_bound")
"""Fields of the summaries in records of a time when nothing was said of what went wrong; they are read all the same."""

Path = tuple[str | int, ...]
Lost = tuple[Path, str]
"""Where in a document a number was that JSON has no word for: "nan", "inf" or "-inf"."""


@dataclass(frozen=True)
class Encoded:
    """One record: what the ledger's columns hold. ``shared`` is the same for all configs of a golden set."""

    status: str  # "finished", "partial", "racing", "dropped" or "failed"
    signature: str | None
    text: str  # JSON: every field but the table of questions, and how that is laid out
    scores: bytes = b""  # columns of floats, one behind the other, as little-endian doubles
    counts: bytes = b""  # columns of whole numbers, as little-endian 64-bit integers
    own: bytes = b""  # JSON: columns of text that this config has of its own
    shared: bytes = b""  # JSON: columns of the golden set
    shared_digest: str = ""  # sha256 of shared; empty where there is none

    def digest(self) -> str:
        """Hash all of a record: the numbers of a row would not tell that they were changed."""
        state = hashlib.sha256(json.dumps([self.status, self.signature, self.text, self.shared_digest]).encode())
        for part in (self.scores, self.counts, self.own):
            state.update(len(part).to_bytes(8, "big"))
            state.update(part)
        return state.hexdigest()


def encode(outcome: Result | Failure) -> Encoded:
    """Put what became of a config into the form that is kept; rankings are not, the store and the tracker have them."""
    plain = {field.name: getattr(outcome, field.name) for field in fields(outcome) if field.name not in NOT_KEPT}
    if isinstance(outcome, Failure):
        return Encoded(FAILED, None, _dumps({"format": FORMAT, **plain}))
    plain["dataset"] = {name: value for name, value in vars(outcome.dataset).items() if name != "held"}
    lost: list[Lost] = []
    plain["targets"] = [_judged(one, n, lost) for n, one in enumerate(outcome.targets)]
    for name in TABLES:
        plain[name] = _rows(plain[name], (name,), lost)
    plain["groups"] = {
        label: {value: _rows(group, ("groups", label, value), lost) for value, group in values.items()}
        for label, values in outcome.groups.items()
    }
    columns = {name: _listed(column) for name, column in outcome.outcomes.items()}
    kinds = {name: _kind(name, column) for name, column in columns.items()}
    blocks = {kind: [name for name in columns if kinds[name] == kind] for kind in ("float", "int", "own", "shared")}
    shared, digest = _shared({name: columns[name] for name in blocks["shared"]})
    layout = [[name, kinds[name], len(columns[name])] for name in columns]
    return Encoded(
        status=STATUS[outcome.state],
        signature=outcome.signature,
        text=_dumps({"format": FORMAT, **plain, "columns": layout}, lost),
        scores=_packed("float", [columns[name] for name in blocks["float"]]),
        counts=_packed("int", [columns[name] for name in blocks["int"]]),
        own=_dumps({name: _pooled(columns[name]) for name in blocks["own"]}).encode(),
        shared=shared,
        shared_digest=digest,
    )


def decode(encoded: Encoded) -> Result | Failure:
    """Read a record back; ``rankings`` and ``qrels`` of a result are empty.

    Raises:
        InputError: The record is damaged, or was written in a form that this version does not know.
    """
    try:
        return _decode(encoded)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as fault:
        raise InputError(f"a record of the ledger is damaged: {type(fault).__name__}: {fault}") from None


def _decode(encoded: Encoded) -> Result | Failure:
    plain = _loads(encoded.text)
    if plain.pop("format") != FORMAT:
        raise ValueError(f"its form is not {FORMAT}")
    plain["overrides"] = tuple(plain["overrides"])
    if encoded.status == FAILED:
        return Failure(**plain)
    shared = _golden(encoded.shared, encoded.shared_digest)
    plain["dataset"] = DatasetFacts(**{**plain["dataset"], "notes": tuple(plain["dataset"]["notes"])})
    for name in TABLES & plain.keys():  # records of a time when there was one table only are read all the same
        plain[name] = _summaries(plain[name])
    plain["groups"] = {
        label: {value: _summaries(group) for value, group in values.items()}
        for label, values in plain["groups"].items()
    }
    plain["targets"] = tuple(TargetResult(**one) for one in plain.get("targets", ()))
    plain["warnings"] = tuple(plain["warnings"])
    outcomes = _columns(plain.pop("columns"), encoded, shared)
    return Result(**plain, outcomes=outcomes, rankings={})


# --- the table of questions --------------------------------------------------------------------------------------


def _listed(column: Sequence[Any]) -> list[Any]:
    found = column.tolist() if hasattr(column, "tolist") else column
    return found if isinstance(found, list) else list(found)


def _kind(name: str, column: Sequence[Any]) -> str:
    """Say in which block a column is kept; mixed columns go as JSON."""
    kind = _type(column)
    if kind is float:
        return "float"
    if kind is int and name not in SHARED_NUMBERS and max(map(abs, column)) < 2**63:
        return "int"
    if name in OWN:
        return "own"
    return "shared" if kind in (str, bool) or name in SHARED_NUMBERS or not column else "own"


def _type(column: Sequence[Any]) -> type | None:
    """Return the one type of all values; None where there are several, or no values."""
    types = set(map(type, column))
    return types.pop() if len(types) == 1 else None


def _shared(columns: Mapping[str, list[Any]]) -> tuple[bytes, str]:
    """Write the golden set's columns, and hash them."""
    data = _dumps(columns).encode()
    return data, hashlib.sha256(data).hexdigest()


def _pooled(column: list[Any]) -> list[Any] | dict[str, list[Any]]:
    """Write a text that many questions have once, and its number in its places."""
    if _type(column) is not str or 2 * len(texts := dict.fromkeys(column)) > len(column):
        return column
    number = {text: n for n, text in enumerate(texts)}
    return {"texts": list(texts), "numbers": [number[text] for text in column]}


def _unpooled(column: list[Any] | dict[str, list[Any]]) -> list[Any]:
    return [column["texts"][n] for n in column["numbers"]] if isinstance(column, dict) else column


def _packed(kind: str, columns: Sequence[Sequence[Any]]) -> bytes:
    return b"".join(struct.pack(f"<{len(column)}{NUMBERS[kind]}", *column) for column in columns)


@lru_cache(maxsize=4)
def _golden(shared: bytes, digest: str) -> dict[str, list[Any]]:
    """Check and read a golden set's columns, once for all records of a sweep: they share them, and change nothing."""
    if hashlib.sha256(shared).hexdigest() != digest:
        raise ValueError(f"the columns of the golden set are not those of {digest[:12]}")
    columns: dict[str, list[Any]] = _loads(shared)
    return columns


def _columns(
    layout: Sequence[tuple[str, str, int]], encoded: Encoded, shared: Mapping[str, list[Any]]
) -> dict[str, list[Any]]:
    """Put the columns together in their order."""
    texts = {"own": _loads(encoded.own), "shared": shared}
    packed = {"float": encoded.scores, "int": encoded.counts}
    blocks = {
        kind: np.frombuffer(block, f"<{NUMBERS[kind]}").tolist() if block else [] for kind, block in packed.items()
    }
    at = dict.fromkeys(blocks, 0)
    columns: dict[str, list[Any]] = {}
    for name, kind, length in layout:
        if kind in texts:
            columns[name] = _unpooled(texts[kind][name])
        else:
            columns[name] = blocks[kind][at[kind] : at[kind] + length]
            at[kind] += length
    if any(at[kind] != len(block) for kind, block in blocks.items()):
        raise ValueError("a block of numbers is longer, or shorter, than its columns")
    return columns


# --- summaries: many, so their names are not repeated ------------------------------------------------------------


def _rows(summaries: Mapping[str, Summary], path: Path, lost: list[Lost]) -> dict[str, list[Any]]:
    rows: dict[str, list[Any]] = {}
    for key, one in summaries.items():
        row: list[Any] = [
            one.name, one.value, one.low, one.high, one.n_total, one.n_scored, one.n_skipped, one.n_failed, one.unit,
            one.higher_is_better, one.reasons, one.low_bound, one.high_bound, one.coverage,
        ]  # fmt: skip
        for place in AMOUNTS:
            if not math.isfinite(row[place]):
                lost.append(((*path, key, place), str(float(row[place]))))
                row[place] = None
        rows[key] = row
    return rows


def _judged(one: TargetResult, number: int, lost: list[Lost]) -> dict[str, Any]:
    row = dict(vars(one))
    for name in JUDGED_AMOUNTS:
        if not math.isfinite(row[name]):
            lost.append((("targets", number, name), str(float(row[name]))))
            row[name] = None
    return row


def _summaries(rows: Mapping[str, Sequence[Any]]) -> dict[str, Summary]:
    for row in rows.values():
        if not SHORTEST <= len(row) <= len(SUMMARY):
            raise ValueError(f"a summary of {len(row)} fields")
    return {key: Summary(**dict(zip(SUMMARY, row, strict=False))) for key, row in rows.items()}


# --- strict JSON that loses no number ----------------------------------------------------------------------------


def _dumps(value: Any, lost: Sequence[Lost] = ()) -> str:
    """Write ``[document]``, or ``[document, lost]`` where numbers stand as null; ``lost``: those that do already."""
    try:
        text = json.dumps([value, *([lost] if lost else [])], allow_nan=False, separators=(",", ":"), default=_plain)
    except ValueError:
        found = [*lost, *((path, str(number)) for path, number in _not_finite(value, ()))]
        text = json.dumps([_strict(value), found], allow_nan=False, separators=(",", ":"), default=_plain)
    return text


def _loads(text: str | bytes) -> Any:
    document, *lost = json.loads(text)
    for path, number in lost[0] if lost else ():
        inside = document
        for key in path[:-1]:
            inside = inside[key]
        inside[path[-1]] = float(number)
    return document


def _plain(value: Any) -> Any:
    """Turn what a config may hold besides JSON's types into them: numpy's numbers, other mappings; the rest as text."""
    if hasattr(value, "tolist"):
        return value.tolist()
    return dict(value) if isinstance(value, Mapping) else str(value)


def _strict(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _strict(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _not_finite(value: Any, path: Path) -> Iterator[tuple[Path, float]]:
    if isinstance(value, float) and not math.isfinite(value):
        yield path, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _not_finite(item, (*path, str(key)))
    elif isinstance(value, list | tuple):
        for n, item in enumerate(value):
            yield from _not_finite(item, (*path, n))
