"""Read people's labels of answers, and other scores by question, from a table or JSON lines."""

from __future__ import annotations

import math
from pathlib import Path

from ragsweep.core.errors import Faults, InputError
from ragsweep.core.results import HumanLabel
from ragsweep.golden.reading import UniqueIds, plain_number, read_rows
from ragsweep.golden.tables import Columns, is_table, read_table

_WORDS = {"true": 1.0, "false": 0.0, "yes": 1.0, "no": 0.0}
_OPTIONAL = ("run", "answer")


def read_labels(path: Path, column: str = "label") -> list[HumanLabel]:
    """Read CSV, TSV or JSON lines with ``question_id``, ``metric``, a number in ``column``, and maybe run and answer.

    The number may be a text (a table's cell), or true or false.

    Raises:
        InputError: The file cannot be read, is empty, or has unusable rows; all of them at once.
    """
    faults, unique = Faults(), UniqueIds("question and metric")
    labels: list[HumanLabel] = []
    names = ("question_id", "metric", column)
    rows = (
        read_table(path, Columns("the file", {}, (*names, *_OPTIONAL), names), faults) if is_table(path)
        else read_rows(path, faults)
    )  # fmt: skip
    for row in rows:
        question, metric = row.identifier("question_id"), row.identifier("metric")
        text = row.scalars().get(column, "").strip().lower()
        number = _WORDS[text] if text in _WORDS else plain_number(text) if text else math.nan
        if not text:
            row.fault(f'has no "{column}", a number')
        elif not math.isfinite(number):
            row.fault(f'"{column}" is "{text}", not a number')
        run, answer = row.scalars().get("run", "").strip(), row.text("answer")
        unique.check(" / ".join(filter(None, [question, metric, run, answer])) if question and metric else "", row)
        labels.append(HumanLabel(question, metric, number, run, answer))
    faults.raise_any()
    if not labels:
        raise InputError(f"{path}: has no {column}; give rows with question_id, metric and {column}")
    return labels
