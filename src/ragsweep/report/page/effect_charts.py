"""The effects of swept parameters, and their charts: curves, scatter plots, and parallel coordinates of a search."""

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ragsweep.core.question_results import Doubles, Flags
from ragsweep.core.results import Result
from ragsweep.report.naming import read_numbers, rounded, short, short_keys, varying_keys
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
    categories,
    is_known,
    lines,
    literal,
    scatter,
    titled,
)
from ragsweep.report.tables import rank_results
from ragsweep.stats.comparison import SweepComparison
from ragsweep.stats.curves import curve_of_best
from ragsweep.stats.inference.differences import all_pairs
from ragsweep.stats.inference.matrix import transform_amounts
from ragsweep.stats.intervals import means_with_intervals

Settings = Mapping[str, str]

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
    """A parameter's values in order, each with the mean score of the configs that have it, and the mean's interval.

    ``numbers``: the values as numbers; None if any value is not a number. ``may_be_best``: for each value, whether no
    other value is shown to be better.
    """

    key: str
    name: str
    values: tuple[str, ...]
    numbers: tuple[float, ...] | None
    mean: Doubles
    low: Doubles
    high: Doubles
    may_be_best: Flags
    configs: int  # number of configs in each mean


@dataclass(frozen=True, eq=False)
class Cloud:
    """One point per config, for a numeric parameter whose values were not all run with the same other settings."""

    key: str
    name: str
    numbers: tuple[float, ...]
    mean: tuple[float, ...]
    configs: tuple[str, ...]


def effects(verdict: SweepComparison, settings: Mapping[str, Settings]) -> Iterator[ParameterMeans | Cloud]:
    """Yield the effect of each varying parameter; ``settings``: config name -> key -> value.

    A parameter has a curve if each of its values was run with the same settings of all other parameters, so that
    only this parameter explains the differences. Otherwise, a numeric parameter has a scatter plot (`Cloud`), and any
    other parameter is omitted.
    """
    configs = [settings[name] for name in verdict.matrix.configs]
    keys = varying_keys(configs)
    for key, name in short_keys(keys).items():
        rows: dict[str, list[int]] = {}
        for row, config in enumerate(configs):
            if key in config:
                rows.setdefault(config[key], []).append(row)
        if len(rows) < 2:
            continue
        if _crossed(configs, key, keys, rows):
            yield _curve(verdict, key, name, rows)
        elif (numbers := read_numbers(tuple(rows))) is not None:
            points = [(value, row) for value, members in zip(numbers, rows.values(), strict=True) for row in members]
            placed, means = [row for _, row in points], verdict.means.tolist()
            names = tuple(verdict.matrix.configs[row] for row in placed)
            yield Cloud(key, name, tuple(value for value, _ in points), tuple(means[row] for row in placed), names)


def swept_within(best_first: Sequence[Result], metric: str, drawn: Collection[str]) -> Iterator[ParameterMeans]:
    """Yield the curve of each numeric parameter that has no chart yet, such as the weight of a hybrid.

    A parameter for which `curve_of_best` finds no curve is omitted. ``drawn``: the keys of parameters with a chart.
    """
    settings = [one.run.parameters for one in best_first]
    for key, name in short_keys([one for one in varying_keys(settings) if one not in drawn]).items():
        found = curve_of_best(best_first, key, metric)
        if found is not None:
            values = tuple(one.value for one in found.points)
            mean, low, high = np.array([(one.mean, one.low, one.high) for one in found.points]).T
            best, names = np.array(found.may_be_best), tuple(f"{one:.10g}" for one in values)
            yield ParameterMeans(key, name, names, values, mean, low, high, best, 1)


def _crossed(configs: Sequence[Settings], key: str, keys: Sequence[str], rows: Mapping[str, Sequence[int]]) -> bool:
    """Return whether a parameter is crossed with all others.

    That is, all configs have the key, and each of its values was run equally often with each combination of other
    settings.
    """
    others = [one for one in keys if one != key]
    found = [Counter(tuple(configs[row].get(one) for one in others) for row in members) for members in rows.values()]
    return sum(map(len, rows.values())) == len(configs) and all(one == found[0] for one in found)


def _curve(verdict: SweepComparison, key: str, name: str, rows: Mapping[str, Sequence[int]]) -> ParameterMeans:
    numbers = read_numbers(tuple(rows))
    values = list(rows) if numbers is None else [value for _, value in sorted(zip(numbers, rows, strict=True))]
    means = np.stack([verdict.matrix.values[list(rows[value])].mean(axis=0) for value in values])
    pooled = replace(verdict.matrix, values=means, configs=tuple(values))
    unbounded = np.full(len(values), np.nan)
    mean, low, high = means_with_intervals(pooled.scores, unbounded, unbounded, pooled.weights, pooled.clusters)
    ordered = None if numbers is None else tuple(sorted(numbers))
    best = all_pairs(transform_amounts(pooled, verdict.unit)).may_be_best
    if len(verdict.results) == len(values):  # each value is one config, to which the verdict applies
        best = verdict.may_be_best[[rows[value][0] for value in values]]
    return ParameterMeans(key, name, tuple(values), ordered, mean, low, high, best, len(rows[values[0]]))


# --- charts -----------------------------------------------------------------------------------------------------------


def effect(found: ParameterMeans | Cloud, metric: str, unit: str) -> Figure:
    """Plot the mean score of each value of a parameter, and mark the values that may be best.

    A `Cloud` is plotted as one point per config.
    """
    axis = titled(found.name)
    layout: Figure = {"xaxis": axis, "yaxis": titled(metric, unit), "height": 360}
    if isinstance(found, Cloud):
        hover = [
            lines(name, f"{found.name} {x:.10g}", f"{metric} {number(y, unit)}")
            for name, x, y in zip(found.configs, found.numbers, found.mean, strict=True)
        ]
        axis |= axis_type(found.numbers)
        look = {"color": ACCENT, "size": 8, "opacity": 0.7}
        return {"data": [scatter("markers", found.numbers, found.mean, hover, marker=look)], "layout": layout}
    x: list[Any] = categories(found.values) if found.numbers is None else [*found.numbers]
    colours = [ACCENT if best else MUTED for best in found.may_be_best.tolist()]
    hover = []
    for n, value in enumerate(found.values):
        mean, low, high = (float(one[n]) for one in (found.mean, found.low, found.high))
        ends = f" [{number(low, unit)}, {number(high, unit)}]" if math.isfinite(low) and math.isfinite(high) else ""
        best = "may be the best value" if found.may_be_best[n] else "worse than the best value"
        hover.append(lines(f"{found.name} {value}", f"{metric} {number(mean, unit)}{ends}", best))
    points = scatter("lines+markers", x, as_list(found.mean), hover, marker={"color": colours, "size": 10})
    points["line"] = {"color": ACCENT, "width": 2}
    if found.numbers is None:  # one row per value, because names may be long
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
    return {"data": [band, points], "layout": layout}


def parallel(
    results: Sequence[Result], settings: Mapping[str, Settings], metric: str, names: Mapping[str, str]
) -> Figure:
    """Plot the configs of a search in parallel coordinates (parameters and score), with the best tenth highlighted.

    At most the best `MOST_LINES` configs are shown. ``settings``: config name -> key -> value. ``names``: key -> short
    name of each varying parameter.
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
        traces.append(scatter("lines+markers", x, y, hover, **look))
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
    """Return the texts' heights from 0 to 1 (to scale if all are numbers, else even; `UNSET` for ""), and the ticks."""
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
