"""Read human labels of answers, and other scores of questions, from a table or JSON lines."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from ragsweep.core.errors import Faults, InputError
from ragsweep.core.results import HumanLabel
from ragsweep.golden.reading import UniqueIds, read_rows
from ragsweep.golden.structured_cells import plain_number
from ragsweep.golden.tables import Columns, is_table, read_table

_WORDS = {"true": 1.0, "false": 0.0, "yes": 1.0, "no": 0.0}
_SCALES, _PER_CENT = (2, 3, 4, 5, 7, 10, 20), 100
_OPTIONAL = ("run", "answer")


def read_labels(path: Path, column: str = "label") -> list[HumanLabel]:
    """Return the labels in a table or JSON lines with ``question_id``, ``metric``, and the field named by ``column``.

    The fields ``run`` and ``answer`` are optional. The field named by ``column`` contains a number or a boolean,
    possibly as a string; true and "yes" mean 1, and false and "no" mean 0. Raises InputError if the file cannot be read
    or has no rows, or if rows are unusable or repeated; a single message lists the faults of all rows.
    """
    faults, unique = Faults(), UniqueIds("question and metric")
    labels: list[HumanLabel] = []
    names = ("question_id", "metric", column)
    table = Columns("", {}, (*names, *_OPTIONAL), names)
    for row in read_table(path, table, faults) if is_table(path) else read_rows(path, faults):
        question, metric = row.identifier("question_id"), row.identifier("metric")
        text = row.scalars().get(column, "").strip().lower()
        number = _WORDS[text] if text in _WORDS else plain_number(text) if text else math.nan
        if not text:
            row.fault(f'has no number in "{column}"; add one, or remove the row')
        elif not math.isfinite(number):
            row.fault(f'"{column}" is "{text}"; use a number, yes or no')
        run, answer = row.scalars().get("run", "").strip(), row.text("answer")
        unique.check(" / ".join(filter(None, [question, metric, run, answer])) if question and metric else "", row)
        labels.append(HumanLabel(question, metric, number, run, answer, row.where))
    faults.raise_any()
    if not labels:
        raise InputError(f"{path}: contains no rows; add some with question_id, metric and {column}")
    return labels


def check_scale(labels: Sequence[HumanLabel], bounds: Mapping[str, tuple[float, float]]) -> None:
    """Raise InputError for labels outside the bounds of their metric; ``bounds``: metric -> (lowest, highest value).

    The message names the lines of the labels. If all labels of a metric are 0 or 1, they mean wrong or right, and the
    bounds of the metric do not apply.
    """
    faults = Faults()
    for metric, (low, high) in bounds.items():
        given = [label for label in labels if label.metric == metric]
        values = [label.value for label in given]
        if {*values} <= {0.0, 1.0} or (low <= min(values) and max(values) <= high):
            continue
        for label in given:
            if not low <= label.value <= high:
                fact = f"the label {label.value:g} of {metric} is not between {low:g} and {high:g}"
                faults.add(label.where, f"{fact}; {_likely_scale(values, (low, high))}")
    faults.raise_any()


def _likely_scale(values: Sequence[float], bounds: tuple[float, float]) -> str:
    """Return advice on bringing labels within the metric's bounds: a conversion, if their scale can be guessed."""
    low, high, way = min(values), max(values), f"use scores from {bounds[0]:g} to {bounds[1]:g}, or only 0 and 1"
    if bounds != (0.0, 1.0) or low < 0 or high > _PER_CENT:
        return way
    whole = all(value.is_integer() for value in values)
    if whole and low >= 1 and high in _SCALES:
        return f"on a scale of 1 to {high:g}, replace each label by (label - 1) / {high - 1:g}; otherwise, {way}"
    most = next(most for most in (*_SCALES, _PER_CENT) if high <= most)
    kind = "percentages" if most == _PER_CENT else f"points out of {most}"
    return f"divide {kind} by {most}; otherwise, {way}"
