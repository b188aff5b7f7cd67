"""Charts of two configs side by side: bars, response time against quality, kinds of findings, and history."""

import time
from collections import Counter
from collections.abc import Sequence

import numpy as np

from ragsweep.core.results import Result, Summary
from ragsweep.report.numbers import cell
from ragsweep.report.page.figures import (
    ACCENT,
    DOTTED,
    INK,
    MUTED,
    SURFACE,
    TOP_DOWN,
    Figure,
    as_list,
    finite,
    interval_bars,
    lines,
    literal,
    with_unit,
)

NONE = "(none)"
"""The kind of a missing counterpart: nothing expected, or nothing found."""

COLOURS = (MUTED, ACCENT)


def bars(pair: Sequence[Result], metrics: Sequence[str]) -> Figure:
    """Plot the means of metrics that share a unit, with their intervals, two bars per metric."""
    traces: list[Figure] = []
    for result, colour in zip(pair, COLOURS, strict=True):
        found = [result.summaries.metrics[name] for name in metrics]
        intervals = interval_bars(found, INK) | {"thickness": 1.5, "width": 4}
        traces.append(
            {
                "type": "bar",
                "name": literal(result.name),
                "x": [literal(name) for name in metrics],
                "y": [finite(one.value) for one in found],
                "marker": {"color": colour},
                "error_y": intervals,
                "hovertext": [lines(result.name, f"{one.name} {cell(one)}") for one in found],
                "hoverinfo": "text",
            }
        )
    layout: Figure = {"barmode": "group", "showlegend": True, "xaxis": {"type": "category"}, "height": 380}
    return {"data": traces, "layout": layout | {"yaxis": {"rangemode": "tozero"}}}


def time_against(pair: Sequence[Result], metric: str, milliseconds: Sequence[Sequence[float]]) -> Figure:
    """Plot each question by response time and score; ``milliseconds`` has a list of times for each config."""
    traces = [
        {
            "type": "scatter",
            "mode": "markers",
            "name": literal(result.name),
            "x": as_list(np.array(times)),
            "y": as_list(np.array(result.questions[metric], dtype=np.float64)),
            "marker": {"color": colour, "size": 7, "opacity": 0.7},
            "hovertext": [lines(result.name, str(name)) for name in result.questions["question_id"]],
            "hoverinfo": "text",
        }
        for result, times, colour in zip(pair, milliseconds, COLOURS, strict=True)
    ]
    title = literal(with_unit(metric, pair[0].summaries.metrics[metric].unit))
    layout = {"xaxis": {"title": {"text": "response time, ms"}}, "yaxis": {"title": {"text": title}}, "height": 400}
    return {"data": traces, "layout": {"showlegend": True, **layout}}


def confusion(counts: Counter[tuple[str, str]]) -> Figure:
    """Plot the confusion matrix of (expected, found) kinds; the kind "" is a missing counterpart (see `NONE`)."""
    kinds = [*sorted({kind for pair in counts for kind in pair} - {""}), ""]
    names = [literal(kind or NONE) for kind in kinds]
    rows = [[counts[expected, found] for found in kinds] for expected in kinds]
    trace: Figure = {"type": "heatmap", "x": names, "y": names, "z": rows, "showscale": False, "xgap": 2, "ygap": 2}
    trace |= {"colorscale": [[0, SURFACE], [1, ACCENT]], "hoverinfo": "skip", "texttemplate": "%{text}"}
    trace["text"] = [[str(count) if count else "" for count in row] for row in rows]
    layout = {
        "xaxis": {"side": "top", "type": "category", "title": {"text": "found"}},
        "yaxis": {**TOP_DOWN, "title": {"text": "expected"}},
        "height": 160 + 34 * len(kinds),
    }
    return {"data": [trace], "layout": layout}


def over_time(metric: str, names: Sequence[str], runs: Sequence[tuple[float, Sequence[Summary]]]) -> Figure:
    """Plot a metric of both configs over time; each run has a time (in seconds since the epoch) and two summaries."""
    days = [time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(when)) for when, _ in runs]
    traces = [
        {
            "type": "scatter",
            "mode": "lines+markers",
            "name": literal(name),
            "x": days,
            "y": [finite(found[n].value) for _, found in runs],
            "marker": {"color": colour, "size": 8},
            "line": DOTTED | {"color": colour},
        }
        for n, (name, colour) in enumerate(zip(names, COLOURS, strict=True))
    ]
    title = {"title": {"text": literal(metric)}}
    return {"data": traces, "layout": {"showlegend": True, "xaxis": {"type": "date"}, "yaxis": title, "height": 300}}
