"""Convert results by question to the flat table of exported files, with nested values as JSON strings, and back."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, reduce
from itertools import pairwise
from operator import getitem
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.question_results import (
    BY_QUESTION,
    UNKNOWN,
    EvidenceRanks,
    JudgedCases,
    QuestionResults,
    Repetitions,
    StepResults,
    map_arrays,
)

UNSCORED, TRACE, STEPS, REPEATED = "unscored", "evidence_trace", "steps", "answer_repetitions"
"""The names of the columns with JSON strings, after the columns of single values."""

FIELDS = "case_fields"
"""Name of the column for ``Question.fields``: one mapping per question or, in a flat table, its JSON string."""


def to_texts(results: QuestionResults) -> dict[str, list[Any]]:
    """Return the results as a flat table: name of a column -> one value per question (see ``docs/results.md``)."""
    table = {name: list(column) for name, column in results.items()}
    if FIELDS in table:
        table[FIELDS] = [json.dumps(one, ensure_ascii=False) for one in table[FIELDS]]
    if results.unscored:
        distinct = {id(row): row for row in results.unscored}  # questions that lack the same scores share one object
        texts = {place: json.dumps(row) for place, row in distinct.items()}
        table[UNSCORED] = [texts[id(row)] for row in results.unscored]
    if results.evidence:
        table[TRACE] = list(map(_compact, _traces(results.evidence, results.rows)))
    table[STEPS] = [_compact(results.steps_of(n)) for n in range(results.rows)]
    if results.repetitions:
        table[REPEATED] = [json.dumps(_repeated(results.repetitions, n)) for n in range(results.rows)]
    return table


def from_texts(table: Mapping[str, Sequence[Any]]) -> QuestionResults:
    """Return the results in a flat table that ``to_texts`` created.

    Raises ValueError, KeyError, TypeError or AttributeError if the table has a different format.
    """
    nested = {name: table.get(name) for name in (UNSCORED, TRACE, STEPS, REPEATED)}
    columns = {name: column for name, column in table.items() if name not in nested}
    if FIELDS in columns:
        columns[FIELDS] = list(map(json.loads, columns[FIELDS]))
    read = cache(json.loads)  # many questions lack the same scores, so their JSON strings are equal
    rows = {name: [read(text or "{}") for text in column or ()] for name, column in nested.items()}
    return QuestionResults(
        columns,
        rows[UNSCORED],
        _steps(rows[STEPS]),
        None if nested[TRACE] is None else _evidence(rows[TRACE]),
        _repetitions(rows[REPEATED]) if rows[REPEATED] else None,
    )


_compact = json.JSONEncoder(separators=(",", ":")).encode


def _traces(ranks: EvidenceRanks, questions: int) -> Iterator[dict[str, Any]]:
    """Yield one mapping per question: field of EvidenceRanks -> its values; {} for a question without evidence."""
    known = {name: value for name, value in vars(ranks).items() if name != "question" and value is not None}
    parts = list(pairwise(np.searchsorted(ranks.question, np.arange(questions + 1)).tolist()))

    def by_question(column: NDArray[Any]) -> list[Any]:
        numbers = _numbers(column)
        return [numbers[start:stop] for start, stop in parts]

    cells = {
        name: map_arrays(value, _numbers if name in BY_QUESTION else by_question)
        for name, value in known.items()
        if len(value)
    }
    for row, (start, stop) in zip(_rows(cells, questions), parts, strict=True):
        yield row if start < stop else {}


def _rows(columns: Any, count: int) -> Sequence[Any]:
    """Return a list of ``count`` values unchanged; turn a mapping of names to such lists into a list of mappings."""
    if not isinstance(columns, Mapping):
        return columns  # type: ignore[no-any-return]
    values = zip(*(_rows(column, count) for column in columns.values()), strict=True)
    return [dict(zip(columns, row, strict=True)) for row in values] if columns else [{}] * count


def _numbers(column: NDArray[Any]) -> list[float | None]:
    """Return the numbers of a column, with integral floats as int and NaN as None."""
    if column.dtype.kind != "f":
        return column.tolist()  # type: ignore[no-any-return]
    return [None if math.isnan(value) else int(value) if value.is_integer() else value for value in column.tolist()]


def _evidence(rows: Sequence[Mapping[str, Any]]) -> EvidenceRanks:
    example = next((row for row in rows if row), {})
    count = [len(row.get("ranked", ())) for row in rows]

    def column(path: Sequence[str], kind: type) -> Any:
        return np.array([value for row in rows if row for value in reduce(getitem, path, row)], dtype=kind)

    def single(path: Sequence[str]) -> Any:
        return np.array([reduce(getitem, path, row) if row else math.nan for row in rows], dtype=np.float64)

    def legs(name: str) -> Any:
        return {leg: column([name, leg], np.int64) for leg in example.get(name, {})}

    return EvidenceRanks(
        question=np.repeat(np.arange(len(rows)), count),
        held=column(["held"], np.float64),
        legs=legs("legs"),
        exact=legs("exact"),
        first=column(["first"], np.int64) if "first" in example else None,
        ranked=column(["ranked"], np.int64),
        context=column(["context"], np.int64) if "context" in example else None,
        top=single(["top"]) if "top" in example else None,
        scores={
            leg: {metric: single(["scores", leg, metric]) for metric in metrics}
            for leg, metrics in example.get("scores", {}).items()
        },
    )


def _steps(rows: Sequence[Mapping[str, Mapping[str, Any]]]) -> dict[str, StepResults]:
    names = dict.fromkeys(name for row in rows for name in row)
    return {
        name: StepResults(
            **{fact: [row.get(name, {}).get(fact, unknown) for row in rows] for fact, unknown in UNKNOWN.items()}
        )
        for name in names
    }


def _repeated(repeated: Repetitions, question: int) -> dict[str, Any]:
    row: dict[str, Any] = {"answers": repeated.answers[question].tolist()}
    row["scores"] = {name: list(map(_or_none, values[question])) for name, values in repeated.scores.items()}
    judged = {
        name: list(zip(one.cases[question].tolist(), map(_or_none, one.errors[question]), strict=True))
        for name, one in repeated.judged.items()
    }
    return row | ({"judged": judged} if judged else {})


def _or_none(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


def _repetitions(rows: Sequence[Mapping[str, Any]]) -> Repetitions:
    scores, judged = (_columns([row.get(key, {}) for row in rows]) for key in ("scores", "judged"))
    return Repetitions(
        np.array([row.get("answers", ()) for row in rows], dtype=np.int64),
        {name: np.array(column, dtype=np.float64) for name, column in scores.items()},  # None becomes NaN
        {name: _judged(column) for name, column in judged.items()},
    )


def _columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    return {name: [row[name] for row in rows] for name in next(iter(rows), {})}


def _judged(rows: Sequence[Sequence[tuple[str, float | None]]]) -> JudgedCases:
    cases = np.array([[case for case, _ in row] for row in rows], dtype=np.str_)
    return JudgedCases(cases, np.array([[error for _, error in row] for row in rows], dtype=np.float64))
