"""Colours, axes, markers and texts that all charts of the pages share."""

import html
import math
import time
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ragsweep.core.results import Result, Summary
from ragsweep.report.naming import short

Figure = dict[str, Any]

ACCENT, MUTED, INK, GRID, BAND, SURFACE = "$accent", "$muted", "$ink", "$grid", "$band", "$surface"
MOST_LABELS = 12
ROW, FRAME = 26, 110  # pixels
TOP_DOWN: Figure = {"autorange": "reversed", "type": "category"}
"""A vertical axis of names, with the first name on top."""
DOTTED: Figure = {"color": MUTED, "width": 1, "dash": "dot"}
WIDE = 20
"""Minimum ratio of the largest to the smallest number for a logarithmic axis."""


def literal(text: str) -> str:
    """Escape the characters in ``text`` that plotly would read as markup."""
    return html.escape(text, quote=False)


def categories(values: Sequence[str]) -> list[str]:
    """Shorten and escape the values of an axis; equal short forms are numbered, so that they remain distinct."""
    names = [short(value) for value in values]
    numbers = (f" ({names[:n].count(name) + 1})" if names.count(name) > 1 else "" for n, name in enumerate(names))
    return [literal(f"{name}{number}") for name, number in zip(names, numbers, strict=True)]


def lines(*texts: str) -> str:
    """Return strings, escaped, as the lines of a hover text; empty strings are skipped."""
    return "<br>".join(literal(text) for text in texts if text)


def is_known(result: Result, metric: str) -> bool:
    """Return whether a config has a finite value of a metric."""
    return metric in result.summaries.metrics and math.isfinite(result.summaries.metrics[metric].value)


def as_list(values: Any) -> list[float | None]:
    """Convert an array to a list in JSON types; NaN and infinity become None."""
    return [finite(value) for value in np.asarray(values).tolist()]


def finite(value: float) -> float | None:
    """Convert a number to a JSON type: NaN and infinity become None."""
    return value if math.isfinite(value) else None


def dates(times: Iterable[float]) -> list[str]:
    """Format seconds since the epoch as the values of an axis of the type ``date``."""
    return [time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(one)) for one in times]


def axis_type(values: Sequence[float]) -> Figure:
    """Return a logarithmic axis type if all numbers are positive and span a factor of `WIDE` or more, else {}."""
    return {"type": "log"} if min(values) > 0 and max(values) / min(values) >= WIDE else {}


def titled(text: str, unit: str = "") -> Figure:
    """Return plotly's properties of an axis with a title, followed by the unit unless the title contains it."""
    return {"title": {"text": literal(f"{text}, {unit}" if unit and unit not in text else text)}}


def scatter(mode: str, x: Sequence[Any], y: Sequence[Any], hover: Sequence[str], **look: Any) -> Figure:
    """Return plotly's trace of markers, lines or both; ``hover`` are the hover texts of the points."""
    trace = {"type": "scatter", "mode": mode, "x": [*x], "y": [*y]}
    return {**trace, "hovertext": [*hover], "hoverinfo": "text", **look}


def marker(colour: str, symbol: str, size: int) -> Figure:
    """Return plotly's style of a point."""
    return {"color": colour, "symbol": symbol, "size": size}


def interval_bars(summaries: Sequence[Summary], colour: str) -> Figure:
    """Return plotly's vertical error bars that span the intervals of the summaries."""
    return {
        "type": "data",
        "symmetric": False,
        "array": [finite(one.high - one.value) for one in summaries],
        "arrayminus": [finite(one.value - one.low) for one in summaries],
        "color": colour,
        "thickness": 1,
        "width": 0,
    }
