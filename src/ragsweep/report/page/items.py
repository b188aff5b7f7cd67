"""Items of a section of the page: groups of charts that show one at a time, and sortable tables."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ragsweep.core.results import Result, Summary
from ragsweep.report.numbers import NOT_MEASURED

Item = dict[str, Any]
_AMOUNT = re.compile(r"^(?:x )?([+-]?[\d,]*\.?\d+(?:e[+-]?\d+)?)(?![\w.])")


@dataclass(frozen=True)
class PastSweep:
    """The result of this or an earlier sweep on the same questions: its best config by the objective."""

    reference: str  # the name that commands take
    title: str
    created: float  # seconds since the epoch
    configs: int
    best: str
    summary: Summary


def sort_key(result: Result | None, column: str, text: str) -> float | str | None:
    """Return the sort key of a cell: the metric itself, the number that it begins with, or its text."""
    if result and column in result.summaries:
        value = result.summaries[column].value
        return value if math.isfinite(value) else None
    if amount := _AMOUNT.match(text):
        return float(amount[1].replace(",", ""))
    return None if text in ("", NOT_MEASURED) else text.casefold()


def make_charts(options: Sequence[Item], note: str, title: str = "") -> Item:
    """Make a group of charts that shows one at a time."""
    return {"kind": "charts", "title": title, "note": note, "options": options}


def make_table(header: Sequence[str], rows: Sequence[Sequence[str]], note: str = "", title: str = "") -> Item:
    """Make a table; right-aligned columns begin with ``>``."""
    keys = [[sort_key(None, "", text) for text in row] for row in rows]
    names, right = [name.removeprefix(">") for name in header], [name.startswith(">") for name in header]
    texts = [[*row] for row in rows]
    return {"kind": "table", "title": title, "note": note, "header": names, "right": right, "rows": texts, "keys": keys}
