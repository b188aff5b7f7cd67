"""Read scores by people, or by a judge: a number by question and metric."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path

from ragsweep.core.errors import Faults, InputError
from ragsweep.core.results import Result
from ragsweep.golden.reading import Row, Seen, plain_number, read_rows
from ragsweep.golden.tables import Columns, is_table, read_table

Scores = Mapping[str, Mapping[str, float]]
"""Metric -> question id -> number."""

_WORDS = {"true": 1.0, "false": 0.0, "yes": 1.0, "no": 0.0}


def read_scores(path: Path, column: str) -> Scores:
    """Read a table (CSV, TSV) or JSON lines with ``question_id``, ``metric`` and a number in ``column``.

    Raises:
        InputError: The file cannot be read, holds nothing, or rows of it cannot be used; all of them at once.
    """
    faults = Faults()
    found: dict[str, dict[str, float]] = {}
    seen = Seen("question and metric")
    for row in _rows(path, column, faults):
        question, metric = row.identifier("question_id"), row.identifier("metric")
        number = _number(row, column)
        seen.note(f"{question} / {metric}" if question and metric else "", row)
        found.setdefault(metric, {})[question] = number
    faults.raise_any()
    if not found:
        raise InputError(f"{path}: holds no {column}; give rows with question_id, metric and {column}")
    return found


def scores_of(result: Result) -> Scores:
    """Return the scores of an evaluated config, those that were measured."""
    ids, names = result.outcomes["question_id"], result.summaries
    return {
        name: {
            question: float(value)
            for question, value in zip(ids, result.outcomes[name], strict=True)
            if value is not None and math.isfinite(value)
        }
        for name in names
        if name in result.outcomes
    }


def _rows(path: Path, column: str, faults: Faults) -> Iterator[Row]:
    if not is_table(path):
        return read_rows(path, faults)
    names = ("question_id", "metric", column)
    return read_table(path, Columns("the file", {}, names, names), faults)


def _number(row: Row, column: str) -> float:
    """Take a number, be it written as a text (a table's cell), or as true or false."""
    value = row.scalars().get(column, "").strip().lower()
    if not value:
        row.fault(f'has no "{column}", a number')
        return math.nan
    number = _WORDS[value] if value in _WORDS else plain_number(value)
    if not math.isfinite(number):
        row.fault(f'"{column}" is "{value}", not a number')
    return number
