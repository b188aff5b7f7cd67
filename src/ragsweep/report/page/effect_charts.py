"""The charts of the effects of swept parameters: curves, clouds, and the parallel coordinates of a search."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.results import Result
from ragsweep.report.naming import read_numbers, rounded, short
from ragsweep.report.numbers import cell, number
from ragsweep.report.page.figures import (
    ACCENT,
    BAND,
    FRAME,
    GRID,
    INK,
    MOST_LABELS,
    MUTED,
    ROW,
    SURFACE,
    TOP_DOWN,
    Figure,
    as_list,
    axis_type,
    is_known,
    lines,
    literal,
    with_unit,
)
from ragsweep.report.tables import rank_results

Doubles = NDArray[np.float64]

MOST_TICKS = 8
UNSET = -0.1
"""Height at which a config's line crosses the axis of a parameter that the config lacks."""
MOST_LINES = 300
_STRETCH = {
    "type": "rect",
    "yref": "paper",
    "y0": 0,
    "y1": 1,
    "layer": "below",
    "fillcolor": GRID,
    "opacity": 0.45,
    "line": {"width": 0},
}
_TICK = {"showarrow": False, "xanchor": "left", "xshift": 5, "font": {"size": 10, "color": INK}, "bgcolor": SURFACE}


@dataclass(frozen=True, eq=False)
class ParameterMeans:
    """A parameter's values in order and, for each value, the mean over configs that have it, with its interval.

    ``numbers``: the values as numbers; None if one is not a number. ``may_be_best``: for each value, whether it is not
    shown to be worse than another.
    """

    key: str
    name: str
    values: tuple[str, ...]
    numbers: tuple[float, ...] | None
    mean: Doubles
    low: Doubles
    high: Doubles
    may_be_best: NDArray[np.bool_]
    configs: int  # number of configs in each mean


@dataclass(frozen=True, eq=False)
class Cloud:
    """A numeric parameter whose values were not all run with the same other settings: one point per config."""

    key: str
    name: str
    numbers: tuple[float, ...]
    mean: tuple[float, ...]
    configs: tuple[str, ...]


def effect(found: ParameterMeans | Cloud, metric: str, unit: str) -> Figure:
    """Plot the mean of each value of a swept parameter, and which may be best; for a `Cloud`, a point per config."""
    axis: Figure = {"title": {"text": literal(found.name)}}
    layout: Figure = {"xaxis": axis, "yaxis": {"title": {"text": literal(with_unit(metric, unit))}}, "height": 360}
    if isinstance(found, Cloud):
        hover = [
            lines(name, f"{found.name} {x:g}", f"{metric} {number(y, unit)}")
            for name, x, y in zip(found.configs, found.numbers, found.mean, strict=True)
        ]
        axis |= axis_type(found.numbers)
        trace: Figure = {"type": "scatter", "mode": "markers", "x": list(found.numbers), "y": list(found.mean)}
        trace |= {"marker": {"color": ACCENT, "size": 8, "opacity": 0.7}, "hovertext": hover, "hoverinfo": "text"}
        return {"data": [trace], "layout": layout}
    x: list[Any] = [literal(short(value)) for value in found.values] if found.numbers is None else [*found.numbers]
    colours = [ACCENT if best else MUTED for best in found.may_be_best.tolist()]
    hover = [
        lines(
            f"{found.name} {value}",
            f"{metric} {_interval(found, n, unit)}",
            "may be the best value" if found.may_be_best[n] else "worse than the best value",
        )
        for n, value in enumerate(found.values)
    ]
    points: Figure = {
        "type": "scatter",
        "x": x,
        "y": as_list(found.mean),
        "hovertext": hover,
        "hoverinfo": "text",
        "marker": {"color": colours, "size": 10},
        "line": {"color": ACCENT, "width": 2},
    }
    if found.numbers is None:  # downwards: names may be long
        bars: Figure = {"type": "data", "symmetric": False, "color": MUTED, "thickness": 1.5}
        bars |= {"array": as_list(found.high - found.mean), "arrayminus": as_list(found.mean - found.low)}
        layout |= {"xaxis": layout["yaxis"], "height": FRAME + ROW * len(x)}
        layout["yaxis"] = TOP_DOWN
        points |= {"x": points["y"], "y": x, "mode": "markers", "error_x": bars}
        return {"data": [points], "layout": layout}
    axis |= axis_type(found.numbers)
    axis |= {"tickmode": "array", "tickvals": x} if len(x) <= MOST_LABELS else {}
    band: Figure = {"type": "scatter", "mode": "lines", "fill": "toself", "fillcolor": BAND, "hoverinfo": "skip"}
    band |= {"x": [*x, *x[::-1]], "y": [*as_list(found.high), *as_list(found.low)[::-1]], "line": {"width": 0}}
    layout["shapes"] = [{**_STRETCH, "x0": first, "x1": last} for first, last in _stretches(found)]
    return {"data": [band, {**points, "mode": "lines+markers"}], "layout": layout}


def parallel(
    results: Sequence[Result], settings: Mapping[str, Mapping[str, str]], metric: str, names: Mapping[str, str]
) -> Figure:
    """Plot each config of a search as a line across its parameters to its score; highlight the best tenth.

    ``settings``: config name -> key -> value. ``names``: key -> short name of each varying parameter.
    """
    known = rank_results([one for one in results if is_known(one, metric)], metric)[:MOST_LINES]
    axes = [_heights([settings[one.name].get(key, "") for one in known]) for key in names]
    axes.append(_heights([f"{one.summaries.metrics[metric].value:.6g}" for one in known]))
    titles = [*names.values(), metric]
    best = max(1, len(known) // 10)
    traces = []
    for rows, colour, width in ((range(best, len(known)), MUTED, 0.7), (range(best), ACCENT, 2)):
        x: list[Any] = []
        y: list[Any] = []
        hover: list[str] = []
        for row in rows:
            x += [*range(len(axes)), None]
            y += [*(heights[row] for heights, _ in axes), None]
            hover += [lines(known[row].name, f"{metric} {cell(known[row].summaries.metrics[metric])}")] * (
                len(axes) + 1
            )
        look = {"opacity": 0.8, "line": {"color": colour, "width": width}, "marker": {"color": colour, "size": 4}}
        points = {"x": x, "y": y, "hovertext": hover, "hoverinfo": "text"}
        traces.append({"type": "scatter", "mode": "lines+markers", **points, **look})
    notes = [
        {"x": n, "y": height, "text": literal(short(text)), **_TICK}
        for n, (_, ticks) in enumerate(axes)
        for text, height in ticks
    ]
    axis: Figure = {"tickmode": "array", "tickvals": [*range(len(titles))], "ticktext": [*map(literal, titles)]}
    axis |= {"side": "top", "range": [-0.1, len(titles) - 0.5]}
    heights = {"visible": False, "range": [-0.15, 1.05]}
    return {"data": traces, "layout": {"xaxis": axis, "yaxis": heights, "annotations": notes, "height": 460}}


def _stretches(found: ParameterMeans) -> list[tuple[float, float]]:
    """Return the ends of each run of two or more neighbouring values that may be the best."""
    stretches: list[tuple[float, float]] = []
    open_before = False
    for value, best in zip(found.numbers or (), found.may_be_best.tolist(), strict=False):
        if best:
            stretches.append((stretches.pop()[0], value) if open_before else (value, value))
        open_before = best
    return [(first, last) for first, last in stretches if last > first]


def _heights(texts: Sequence[str]) -> tuple[list[float], list[tuple[str, float]]]:
    """Return each value's height on an axis from 0 to 1, and the ticks; numbers are to scale, unset values below 0."""
    names = list(dict.fromkeys(text for text in texts if text))
    numbers = read_numbers(names)
    if numbers is None:
        place = {name: n / max(len(names) - 1, 1) for n, name in enumerate(names)}
    else:
        low, width = min(numbers), max(numbers) - min(numbers) or 1.0
        place = {name: (one - low) / width for name, one in zip(names, numbers, strict=True)}
    shown = sorted(names, key=place.__getitem__)
    shown = shown if len(shown) <= MOST_TICKS else [shown[0], shown[-1]] if numbers else shown[:MOST_LABELS]
    ticks = [(rounded(name), place[name]) for name in shown]
    return [place.get(text, UNSET) for text in texts], [*ticks, *([("not set", UNSET)] if "" in texts else [])]


def _interval(found: ParameterMeans, n: int, unit: str) -> str:
    value, low, high = (float(one[n]) for one in (found.mean, found.low, found.high))
    ends = f" [{number(low, unit)}, {number(high, unit)}]" if math.isfinite(low) and math.isfinite(high) else ""
    return f"{number(value, unit)}{ends}"
