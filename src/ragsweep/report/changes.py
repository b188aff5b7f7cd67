"""Differences between configs as people and programs read them: signed numbers, aligned lines, tables."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ragsweep.report.numbers import NOT_MEASURED, with_interval
from ragsweep.stats.inference.differences import Differences

Row = Mapping[str, Any]
"""A row of a table: column -> value."""


def difference(found: Differences, config: int, unit: str = "") -> str:
    """Write the difference of one config from the baseline, with its interval."""
    return with_interval(float(found.estimate[config]), float(found.low[config]), float(found.high[config]), unit)


def word(differences: Differences, config: int) -> str:
    """Return a word or two on whether a config is better than the baseline."""
    if differences.better[config] or differences.worse[config]:
        return "better" if differences.better[config] else "worse"
    return "the same" if not differences.apart[config] else "cannot tell"


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Align texts below each other, a column as wide as its widest text."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["   ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def table(rows: Iterable[Row]) -> dict[str, list[Any]]:
    """Return rows in MLflow's JSON form of tables: ``columns`` and ``data``, null for what is not finite."""
    rows = list(rows)
    columns = list(rows[0]) if rows else []
    return {"columns": columns, "data": [[null(row[name]) for name in columns] for row in rows]}


def null(value: Any) -> Any:
    """Return None for a number that JSON has no word for."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def markdown(rows: Sequence[Row]) -> str:
    """Write rows as a table in markdown; texts cannot break out of their cells."""
    if not rows:
        return ""
    lines = [list(rows[0]), ["---"] * len(rows[0]), *([_cell(value) for value in row.values()] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _cell(value: Any) -> str:
    text = NOT_MEASURED if value is None or value == "" else str(value)
    return " ".join(text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").split())
