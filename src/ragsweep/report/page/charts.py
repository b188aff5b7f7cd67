"""The charts of the page as plotly figures in JSON types, with placeholders such as ``$accent`` for colours."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ragsweep.core.results import Result
from ragsweep.report.naming import short
from ragsweep.report.numbers import cell, number
from ragsweep.report.page.figures import (
    ACCENT,
    DOTTED,
    FRAME,
    INK,
    MOST_LABELS,
    MUTED,
    ROW,
    SURFACE,
    TOP_DOWN,
    Figure,
    as_list,
    axis_type,
    categories,
    dates,
    finite,
    interval_bars,
    is_known,
    lines,
    literal,
    marker,
    scatter,
    titled,
)
from ragsweep.report.sweep_report import PastSweep
from ragsweep.report.sweep_table import unlabelled_note
from ragsweep.report.tables import count_scored, goodness, weighted_note
from ragsweep.report.verdict import change
from ragsweep.stats.comparable import is_complete
from ragsweep.stats.comparison import SweepComparison

Marks = Mapping[str, str]
"""Name of a config -> its roles: "choice", "baseline, best mean"."""

MOST_INTERVALS = 60
"""Maximum number of configs for which a scatter shows every interval."""
NEAR = 0.06
"""Share of an axis within which two labels would overlap."""
MOST_BARS = 40


def quality_against(results: Sequence[Result], metric: str, cost: str, marks: Marks) -> Figure:
    """Plot the quality of each config against its cost, and the Pareto front of the configs with enough scores.

    ``marks`` are the configs' roles. Configs that lack either value are left out; at least one config must have both
    values. With more than `MOST_INTERVALS` configs, only those with a role have an interval.
    """
    points = [one for one in results if is_known(one, metric) and is_known(one, cost)]
    whole = [one for one in points if is_complete(one, metric) and is_complete(one, cost)]
    front = _front(whole, metric, cost)
    line: Figure = {
        "type": "scatter",
        "mode": "lines",
        "hoverinfo": "skip",
        "x": [one.summaries.metrics[cost].value for one in front],
        "y": [one.summaries.metrics[metric].value for one in front],
        "line": {"color": ACCENT, "width": 1, "dash": "dot", "shape": "hv"},
    }
    traces = [line]
    values = [one.summaries.metrics[cost].value for one in points]
    near = NEAR * (max(values) - min(values))
    taken = [one.summaries.metrics[cost].value for one in points if one.name in marks]
    named = {one.name for one in front if all(abs(one.summaries.metrics[cost].value - other) > near for other in taken)}
    named = named if len(named) <= MOST_LABELS else set()
    for on_front in (False, True):
        plain = [one for one in points if one.name not in marks and (one.name in named) == on_front]
        if plain:
            look, intervals = marker(MUTED, "circle", 9), len(points) <= MOST_INTERVALS
            traces.append(_points(plain, metric, cost, look, on_front, intervals))
    for one in (one for one in points if one.name in marks):
        symbol = "diamond" if "choice" in marks[one.name] else "square" if "baseline" in marks[one.name] else "star"
        colour = INK if symbol == "square" else ACCENT
        trace = _points([one], metric, cost, marker(colour, symbol, 12), True, True)
        trace["text"] = [f"{trace['text'][0]} {marks[one.name]}"]
        traces.append(trace)
    for trace in traces[1:]:  # labels point away from the nearer edge, which would clip them
        middle = (max(values) + min(values)) / 2
        trace["textposition"] = ["top left" if x > middle else "top right" for x in trace["x"]]
    across, up = (titled(name, points[0].summaries.metrics[name].unit) for name in (cost, metric))
    return {"data": traces, "layout": {"xaxis": {**across, **axis_type(values)}, "yaxis": up, "height": 440}}


def differences(verdict: SweepComparison, choice: str | None, changes: Mapping[str, str] | None = None) -> Figure:
    """Plot the differences of up to `MOST_BARS` configs from the reference, best on top; the ``choice`` is a diamond.

    With ``changes`` (config name -> the config's only change from the reference), the figure is a tornado chart: bars,
    with the largest effect on top.
    """
    found, names = verdict.differences, verdict.matrix.configs
    gains = found.estimate if verdict.matrix.higher_is_better else -found.estimate
    rows = [row for row in range(len(names)) if not (changes and row == found.baseline)]
    rows = sorted(rows, key=lambda row: -abs(gains[row]) if changes else -gains[row])[:MOST_BARS]
    ends = np.stack([found.estimate, found.low, found.high])[:, rows]
    middle, low, high = np.exp(ends) if found.ratios else ends
    start = 1.0 if found.ratios else 0.0
    kept = [bool(verdict.may_be_best[row]) for row in rows]
    bars: Figure = {"type": "data", "symmetric": False, "thickness": 1.5, "width": 3, "color": MUTED}
    bars |= {"array": as_list(high - middle), "arrayminus": as_list(middle - low)}
    labels = [literal(short((changes or {}).get(names[row], names[row]))) for row in rows]
    hover = [
        lines(
            names[row],
            f"{verdict.metric}: {'the reference' if row == verdict.reference else change(verdict, row)}",
            "may be the best" if keep else "",
        )
        for row, keep in zip(rows, kept, strict=True)
    ]
    if changes:
        trace: Figure = {"type": "bar", "orientation": "h", "base": start, "x": as_list(middle - start), "width": 0.5}
        trace |= {"y": labels, "hovertext": hover, "hoverinfo": "text", "error_x": bars}
        trace["marker"] = {"color": [ACCENT if gains[row] > 0 else MUTED for row in rows]}
    else:
        symbols = [
            "diamond" if names[row] == choice else "circle" if keep else "circle-open"
            for row, keep in zip(rows, kept, strict=True)
        ]
        look = {"color": [ACCENT if keep else MUTED for keep in kept], "size": 10, "symbol": symbols}
        trace = scatter("markers", as_list(middle), labels, hover, error_x=bars, marker=look)
    first = names[found.baseline].partition(" ")[0]
    what = f"{'ratio to' if found.ratios else 'difference from'} {first} (right is better)"
    axis = titled(f"{verdict.metric}: {what}")
    axis |= {"type": "log"} if found.ratios else {}
    axis |= {} if verdict.matrix.higher_is_better else {"autorange": "reversed"}
    line: Figure = {"type": "line", "yref": "paper", "y0": 0, "y1": 1, "x0": start, "x1": start, "line": DOTTED}
    layout = {"xaxis": axis, "yaxis": TOP_DOWN, "shapes": [line], "height": FRAME + ROW * len(rows)}
    return {"data": [trace], "layout": layout}


def slices(results: Sequence[Result], label: str, metric: str) -> Figure:
    """Plot a heatmap of mean scores: one row per config, one column per value of the questions' ``label``."""
    sizes = _sizes(results, label, metric)
    values = list(sizes)
    found = [[one.summaries.groups.get(label, {}).get(value, {}).get(metric) for value in values] for one in results]
    turned = results[0].summaries.metrics[metric].higher_is_better is False
    trace = {
        "type": "heatmap",
        "x": [f"{name}<br>n = {sizes[value]:,}" for name, value in zip(categories(values), values, strict=True)],
        "y": [literal(short(one.name)) for one in results],
        "z": [[finite(one.value) if one else None for one in row] for row in found],
        "text": [
            [number(one.value, one.unit) if one and math.isfinite(one.value) else "" for one in row] for row in found
        ],
        "texttemplate": "%{text}",
        "hovertext": [
            [
                lines(one.name, f"{label} {value}", f"{metric} {cell(summary)}")
                for value, summary in zip(values, row, strict=True)
            ]
            for one, row in zip(results, found, strict=True)
        ],
        "hoverinfo": "text",
        "colorscale": [[0, SURFACE], [1, ACCENT]] if not turned else [[0, ACCENT], [1, SURFACE]],
        "showscale": False,
        "xgap": 2,
        "ygap": 2,
    }
    layout = {"xaxis": {"side": "top", "type": "category"}, "yaxis": TOP_DOWN, "height": FRAME + 30 * len(results)}
    return {"data": [trace], "layout": layout}


def history(past: Sequence[PastSweep], metric: str) -> Figure:
    """Plot the best value of each sweep over time; the last sweep is in colour."""
    summaries = [one.summary for one in past]
    hover = [lines(f"{one.reference} {one.title}", one.best, f"{metric} {cell(one.summary)}") for one in past]
    trace = scatter("lines+markers", dates(one.created for one in past), [one.value for one in summaries], hover)
    trace |= {"error_y": interval_bars(summaries, MUTED), "line": DOTTED}
    trace["marker"] = {"color": [MUTED] * (len(past) - 1) + [ACCENT], "size": 9}
    axis = titled(metric, summaries[0].unit)
    return {"data": [trace], "layout": {"xaxis": {"type": "date"}, "yaxis": axis, "height": 280}}


def boxes(results: Sequence[Result], label: str, metric: str) -> Figure:
    """Plot the questions' scores as box plots, one box per config and value of a label, for the first three configs."""
    sizes = list(_sizes(results, label, metric))
    names = dict(zip(sizes, categories(sizes), strict=True))
    traces = [
        {
            "type": "box",
            "name": literal(short(one.name)),
            "x": [names.get(str(value)) for value in one.questions[label]],
            "y": as_list(np.array(one.questions[metric], dtype=np.float64)),
            "boxmean": True,
            "marker": {"color": colour, "size": 4},
            "line": {"color": colour, "width": 1.5},
        }
        for one, colour in zip(results, (MUTED, ACCENT, INK), strict=False)
    ]
    axis = titled(metric, results[0].summaries.metrics[metric].unit)
    layout: Figure = {"boxmode": "group", "showlegend": True, "yaxis": axis, "height": 400}
    layout["xaxis"] = {"type": "category", "categoryorder": "array", "categoryarray": [*names.values()]}
    return {"data": traces, "layout": layout}


def boxes_option(results: Sequence[Result], label: str, metric: str, note: str) -> dict[str, Any]:
    """Return an option of a `Charts` block: the `boxes` of a label; the note counts questions without a value."""
    lack = unlabelled_note(results, label)
    return {"label": label, "figure": boxes(results, label, metric), "note": f"{note} {lack}".strip()}


def mean_in_boxes(results: Sequence[Result]) -> str:
    """Return "unweighted mean" if the questions have weights, which plotly's box plots ignore, else "mean"."""
    return "unweighted mean" if weighted_note(results[0]) else "mean"


def _sizes(results: Sequence[Result], label: str, metric: str) -> dict[str, int]:
    """Map label values to numbers of scored questions, largest first; values without scored questions are omitted."""
    sizes = count_scored(results, label, metric)
    return {value: size for value, size in sorted(sizes.items(), key=lambda item: -item[1]) if size}


def _points(results: Sequence[Result], metric: str, cost: str, marker: Figure, named: bool, intervals: bool) -> Figure:
    quality, costs = ([one.summaries.metrics[name] for one in results] for name in (metric, cost))
    hover = [
        lines(one.name, f"{metric} {cell(first)}", f"{cost} {cell(second)}")
        for one, first, second in zip(results, quality, costs, strict=True)
    ]
    mode, x, y = "markers+text" if named else "markers", [one.value for one in costs], [one.value for one in quality]
    trace = scatter(mode, x, y, hover, marker=marker, textfont={"color": INK})
    trace["text"] = [literal(one.name.partition(" ")[0]) for one in results]
    if intervals:
        trace["error_y"] = interval_bars(quality, marker["color"])
    return trace


def _front(points: Sequence[Result], metric: str, cost: str) -> list[Result]:
    """Return the configs on the Pareto front of quality and cost, the cheapest first."""
    ordered = sorted(
        points, key=lambda one: (one.summaries.metrics[cost].value, -goodness(one.summaries.metrics[metric]))
    )
    front: list[Result] = []
    for one in ordered:
        if not front or goodness(one.summaries.metrics[metric]) > goodness(front[-1].summaries.metrics[metric]):
            front.append(one)
    return front
