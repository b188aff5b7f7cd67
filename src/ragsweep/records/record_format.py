"""The stored form of a config's outcome: columns of numbers are binary blocks, and everything else is JSON.

The columns that do not depend on the config (question ids, texts, labels) are in a separate block of JSON. This block
is stored once, under its hash, for all configs with the same questions. Decoding a record never executes code from it.
NaN is written as ``NaN``, which is not standard JSON.
"""

import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

from ragsweep.core.errors import InputError
from ragsweep.core.question_results import (
    EvidenceRanks,
    JudgedCases,
    QuestionResults,
    Repetitions,
    StepResults,
    map_arrays,
)
from ragsweep.core.question_texts import FIELDS, from_texts
from ragsweep.core.results import (
    COMPLETE,
    DROPPED,
    PARTIAL,
    RACING,
    DatasetFacts,
    Failure,
    Result,
    Run,
    Summaries,
    Summary,
    TargetResult,
)

FORMAT, OF_TEXTS = "ragsweep.record/3", "ragsweep.record/2"
"""The format that is written, and an earlier format that can still be read: a flat table (see `question_texts`)."""

FAILED = "failed"
STATUS = {COMPLETE: "finished", PARTIAL: "partial", RACING: "racing", DROPPED: "dropped"}

OWN = frozenset({"searched", "context", "answer", "abstained", "answer_failed", "answer_thoughts"})
"""Columns that depend on the config; all other columns of strings or booleans belong to the golden set."""

SHARED = frozenset({"evidence", "weight", FIELDS})
"""Columns that belong to the golden set although they contain neither strings nor booleans."""

DOUBLES = frozenset({"held", "top", "scores"})
"""The fields of EvidenceRanks whose values are floats; the values of the other fields are integers."""

NUMBERS = {"float": "<f8", "int": "<i8"}
KINDS = (*NUMBERS, "own", "shared")


class OtherRecordFormat(InputError):
    """The error for a record in a format that this version of ragsweep cannot read."""


@dataclass(frozen=True)
class Encoded:
    """A record in its stored form; ``shared`` is the same for all configs with the same questions."""

    status: str  # "finished", "partial", "racing", "dropped" or "failed"
    signature: str | None
    text: str  # JSON: run, summaries and the layout of the question columns; or a failure
    scores: bytes = b""  # columns of floats, concatenated, as little-endian doubles
    counts: bytes = b""  # columns of integers, as little-endian 64-bit integers
    own: bytes = b""  # JSON: the other columns of this config, and its nested values
    shared: bytes = b""  # JSON: columns of the golden set
    shared_digest: str = ""  # sha256 of shared; empty for a failure

    def digest(self) -> str:
        """Return a hash of the record, with ``shared_digest`` in place of ``shared``."""
        state = hashlib.sha256(json.dumps([self.status, self.signature, self.text, self.shared_digest]).encode())
        for part in (self.scores, self.counts, self.own):
            state.update(len(part).to_bytes(8, "big"))
            state.update(part)
        return state.hexdigest()


def encode(outcome: Result | Failure) -> Encoded:
    """Return the outcome of a config in its stored form."""
    if isinstance(outcome, Failure):
        return Encoded(FAILED, None, _to_json({"format": FORMAT, **vars(outcome)}))
    dataset = {name: value for name, value in vars(outcome.run.dataset).items() if name != "held"}
    plain = {**vars(outcome.run), "dataset": dataset, **_summaries_to_plain(outcome.summaries)}
    blocks: dict[str, dict[str, list[Any]]] = {kind: {} for kind in KINDS}
    layout = []
    for name, column in outcome.questions.items():
        values = list(column.tolist() if hasattr(column, "tolist") else column)
        kind = _kind(name, values)
        blocks[kind][name] = values
        layout.append([name, kind, len(values)])
    shared = _to_json(blocks["shared"]).encode()
    return Encoded(
        status=STATUS[outcome.run.state],
        signature=outcome.run.signature,
        text=_to_json({"format": FORMAT, **plain, "columns": layout}),
        scores=_pack("float", blocks["float"]),
        counts=_pack("int", blocks["int"]),
        own=_to_json({"columns": blocks["own"], **_nested(outcome.questions)}).encode(),
        shared=shared,
        shared_digest=hashlib.sha256(shared).hexdigest(),
    )


def decode_shared(data: bytes, digest: str) -> dict[str, list[Any]]:
    """Return the columns of a golden set, by name. Raises InputError if ``data`` does not have the hash ``digest``."""
    if hashlib.sha256(data).hexdigest() != digest:
        raise InputError(f"a record cannot be decoded: the golden set's columns do not match the digest {digest[:12]}")
    columns: dict[str, list[Any]] = json.loads(data)
    return columns


def decode(encoded: Encoded, shared: Mapping[str, list[Any]]) -> Result | Failure:
    """Return the outcome in a record; ``shared`` has the golden set's columns, from `decode_shared`.

    Raises InputError if the record is damaged, and OtherRecordFormat if it has an unknown format.
    """
    try:
        plain = json.loads(encoded.text)
        form = plain.pop("format")
        if form not in (FORMAT, OF_TEXTS):
            written = f"format {form!s:.40}; this version writes format {FORMAT}"
            raise OtherRecordFormat(f"a record was written by another version of ragsweep ({written})")
        plain["overrides"] = tuple(plain["overrides"])
        if encoded.status == FAILED:
            return Failure(**plain)
        plain["dataset"] = DatasetFacts(**{**plain["dataset"], "notes": tuple(plain["dataset"]["notes"])})
        plain["warnings"] = tuple(plain["warnings"])
        questions = _questions(plain.pop("columns"), encoded, shared, form)
        summaries = _summaries_from_plain(plain)
        return Result(Run(**plain), questions, summaries)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError) as fault:
        raise InputError(f"a record cannot be decoded: {type(fault).__name__}: {fault}") from None


def decode_summary(text: str, metric: str) -> tuple[str, Summary] | None:
    """Return the config's name and its summary of ``metric``; ``text`` is `Encoded.text` of a result.

    Return None if the result has no summary of this metric.
    """
    plain = json.loads(text)
    row = plain["summaries"].get(metric)
    return (plain["name"], Summary(*row)) if row else None


# --- questions ------------------------------------------------------------------------------------------


def _kind(name: str, column: Sequence[Any]) -> str:
    """Return the block in which a column is stored: "float", "int", "own" or "shared".

    "own" also stores columns of mixed or other types, and of integers that exceed 64 bits.
    """
    types = set(map(type, column))
    if name in OWN:
        return "own"
    if name in SHARED or types <= {str, bool}:
        return "shared"
    if types == {float}:
        return "float"
    return "int" if types == {int} and max(map(abs, column)) < 2**63 else "own"


def _pack(kind: str, columns: Mapping[str, Sequence[Any]]) -> bytes:
    return b"".join(np.array(column, NUMBERS[kind]).tobytes() for column in columns.values())


def _nested(questions: QuestionResults) -> dict[str, Any]:
    """Return the results that are not columns (reasons, steps, evidence ranks, repetitions), for ``_to_json``."""
    distinct = {id(row): row for row in questions.unscored}  # questions that lack the same scores share one object
    numbers = {key: n for n, key in enumerate(distinct)}
    return {
        "unscored": {"distinct": list(distinct.values()), "rows": [numbers[id(row)] for row in questions.unscored]},
        "steps": {name: step.known for name, step in questions.steps.items()},
        "evidence": questions.evidence and vars(questions.evidence),
        "repetitions": questions.repetitions and vars(questions.repetitions),
    }


def _questions(
    layout: Sequence[tuple[str, str, int]], encoded: Encoded, shared: Mapping[str, list[Any]], form: str
) -> QuestionResults:
    own = json.loads(encoded.own)
    if form == OF_TEXTS:
        return from_texts(_columns(layout, encoded, own, shared))
    columns = _columns(layout, encoded, own["columns"], shared)
    count = layout[0][2] if layout else 0
    ranks, repeated = own["evidence"], own["repetitions"]
    types = {name: np.float64 if name in DOUBLES else np.int64 for name in ranks or ()}
    return QuestionResults(
        columns,
        [own["unscored"]["distinct"][n] for n in own["unscored"]["rows"]],
        {name: StepResults.of(count, facts) for name, facts in own["steps"].items()},
        ranks and EvidenceRanks(**{name: _array(column, types[name]) for name, column in ranks.items()}),
        repeated and _repetitions(**repeated),
    )


def _array(values: Any, kind: type) -> Any:
    """Return ``values`` with every list, including lists in nested mappings, as an array of the type ``kind``."""
    return map_arrays(values, partial(np.array, dtype=kind))


def _repetitions(answers: Any, scores: Any, judged: Mapping[str, tuple[Any, Any]]) -> Repetitions:
    cases = {
        name: JudgedCases(_array(cases, np.str_), _array(errors, np.float64))
        for name, (cases, errors) in judged.items()
    }
    return Repetitions(_array(answers, np.int64), _array(scores, np.float64), cases)


def _columns(
    layout: Sequence[tuple[str, str, int]], encoded: Encoded, own: Mapping[str, Any], shared: Mapping[str, list[Any]]
) -> dict[str, list[Any]]:
    """Return all columns of a record, by name, in the order of ``layout``.

    Raises ValueError if the blocks of numbers are shorter or longer than the columns.
    """
    texts = {"own": {name: _interned(column) for name, column in own.items()}, "shared": shared}
    numbers = {"float": encoded.scores, "int": encoded.counts}
    left = {kind: iter(np.frombuffer(block, NUMBERS[kind]).tolist()) for kind, block in numbers.items()}
    columns: dict[str, list[Any]] = {}
    for name, kind, length in layout:
        columns[name] = texts[kind][name] if kind in texts else list(islice(left[kind], length))
        if kind in left and len(columns[name]) != length:
            raise ValueError(f"the column {name} is truncated")
    if any(True for values in left.values() for _ in values):
        raise ValueError("a block of numbers is longer than its columns")
    return columns


def _interned(value: Any) -> Any:
    """Return a value with all strings interned, to save memory: the configs of a sweep have most strings in common."""
    if isinstance(value, list):
        return [_interned(item) for item in value]
    return sys.intern(value) if isinstance(value, str) else value


# --- JSON --------------------------------------------------------------------------------------------------------


def _summaries_to_plain(summaries: Summaries) -> dict[str, Any]:
    """Return ``summaries`` as plain values, with the field ``metrics`` under the key "summaries"."""
    groups = {
        label: {value: _rows(group) for value, group in values.items()} for label, values in summaries.groups.items()
    }
    metrics = {"summaries": _rows(summaries.metrics), "first_stage": _rows(summaries.first_stage)}
    plain = {name: value for name, value in vars(summaries).items() if name != "metrics"}
    return {**plain, **metrics, "groups": groups, "targets": list(map(vars, summaries.targets))}


def _summaries_from_plain(plain: dict[str, Any]) -> Summaries:
    """Remove the fields of Summaries from ``plain``, a record's fields, and return the Summaries.

    Fields that an earlier version of ragsweep did not store get their defaults.
    """
    plain["metrics"] = plain.pop("summaries")
    stored = {one.name: plain.pop(one.name) for one in fields(Summaries) if one.name in plain}
    for name in ("metrics", "first_stage"):
        stored[name] = _summaries(stored[name])
    stored["groups"] = {
        label: {value: _summaries(group) for value, group in values.items()}
        for label, values in stored["groups"].items()
    }
    return Summaries(**{**stored, "targets": tuple(TargetResult(**target) for target in stored["targets"])})


def _rows(summaries: Mapping[str, Summary]) -> dict[str, list[Any]]:
    """Return each summary as a list of its values, in the order of the fields of Summary."""
    return {key: list(vars(summary).values()) for key, summary in summaries.items()}


def _summaries(rows: Mapping[str, Sequence[Any]]) -> dict[str, Summary]:
    return {key: Summary(*row) for key, row in rows.items()}


def _to_json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), default=_plain)


def _plain(value: Any) -> Any:
    """Return a JSON value for a numpy number, an array or a mapping; return any other value as a string."""
    if hasattr(value, "tolist"):
        return value.tolist()
    return dict(value) if isinstance(value, Mapping) else str(value)
