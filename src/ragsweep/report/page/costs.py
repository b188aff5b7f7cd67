"""The quality and the cost of indexes and embedders: recall, time per question, and build time."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ragsweep.core.results import Result, Summaries
from ragsweep.report.document import Block, Charts
from ragsweep.report.naming import read_numbers, short_keys, varying_keys
from ragsweep.report.numbers import cell, duration, number
from ragsweep.report.page.figures import (
    ACCENT,
    INK,
    MUTED,
    Figure,
    as_list,
    axis_type,
    categories,
    interval_bars,
    lines,
    literal,
    marker,
    scatter,
    titled,
)
from ragsweep.stats.comparable import factor_values
from ragsweep.stats.curves import groups_over

RECALL = "context_recall"
UNKNOWN = "unknown"
INDEX = (
    "These configs differ only in this number. ann_recall: the share of the nearest chunks that the index finds."
    " Search: median milliseconds per question. Build: seconds to build the index, once."
)
EMBEDDER = (
    "These configs differ only in the embedder. Bars are 95 % intervals. Question: the sum of the median milliseconds"
    " to embed a question and to search. Build: seconds to embed the corpus, once; for stored vectors, the time"
    " measured when they were computed."
)


class CostPanel(NamedTuple):
    """A quantity with one value per config (NaN: unknown), the labels of its points, and their error bars."""

    title: str
    values: Sequence[float]
    texts: Sequence[str]
    bars: Figure | None = None


def index_items(best_first: Sequence[Result], keys: Sequence[str], metric: str) -> Iterator[Block]:
    """Yield a chart of each numeric index parameter with at least three values in configs that differ in nothing else.

    ``best_first`` are the configs, best first by ``metric``; ``keys`` are the varying settings in the sweep's order.
    """
    options = []
    for key, name in short_keys([key for key in keys if ".index." in key]).items():
        for group in groups_over(best_first, key)[:1]:
            ordered = sorted(group, key=lambda one: float(one.run.parameters[key]))
            recall = next((one for one in ordered[0].summaries.metrics if one.startswith("ann_recall")), metric)
            panels = [
                CostPanel(recall, [one.summaries.metrics[recall].value for one in ordered], ()),
                _times("search, ms", [_milliseconds(one.summaries, "retrieve") for one in ordered]),
                _times("build, s", [_total(found["seconds"] for found in one.run.indexes.values()) for one in ordered]),
            ]
            figure = _draw(name, [one.run.parameters[key] for one in ordered], [one.name for one in ordered], panels)
            options.append({"label": name, "figure": figure})
    if options:
        yield Charts(options, INDEX, "What an index costs")


def embedder_items(best_first: Sequence[Result], metric: str) -> Iterator[Block]:
    """Yield charts of swept embedders and their parameters; ``best_first``: the configs, best first by ``metric``."""
    settings = factor_values(best_first)
    keys = [key for key in varying_keys(settings) if "embedder" in key.split(".")]
    options = []
    for key, name in short_keys(keys).items():
        group = _differing_in(key, best_first, settings)
        if len(group) < 2:
            continue
        values, ordered = list(group), list(group.values())
        recall = RECALL if all(RECALL in one.summaries.metrics for one in ordered) else metric
        summaries = [one.summaries.metrics[recall] for one in ordered]
        means, texts = [one.value for one in summaries], [cell(one) for one in summaries]
        panels = [
            CostPanel(recall, means, texts, interval_bars(summaries, MUTED)),
            _times("question, ms", [_milliseconds(one.summaries, "embed_queries", "retrieve") for one in ordered]),
            _builds(ordered),
        ]
        figure = _draw(name, values, [one.name for one in ordered], panels)
        options.append({"label": name, "figure": figure})
    if options:
        yield Charts(options, EMBEDDER, "What an embedder costs")


def _differing_in(key: str, best_first: Sequence[Result], settings: Sequence[Mapping[str, str]]) -> dict[str, Result]:
    """Map the values of ``key`` to configs that differ in nothing else, sorted by `_place`.

    If there are several groups of such configs, return the group with the best config; if there are none, return {}.
    """
    groups: dict[tuple[tuple[str, str], ...], dict[str, Result]] = {}
    for one, known in zip(best_first, settings, strict=True):
        if known.get(key):
            rest = tuple((name, text) for name, text in known.items() if name != key)
            groups.setdefault(rest, {}).setdefault(known[key], one)
    found = next((group for group in groups.values() if len(group) > 1), {})
    return dict(sorted(found.items(), key=lambda item: _place(item[0], found)))


def _place(value: str, group: Mapping[str, Result]) -> tuple[float, str]:
    """Return a sort key: the value if all values are numbers, else the number of the config that has the value."""
    if read_numbers(tuple(group)):
        return float(value), ""
    digits = group[value].name.partition(" ")[0].lstrip("#")
    return (float(digits) if digits.isdigit() else math.inf), value


def _builds(results: Sequence[Result]) -> CostPanel:
    """Return the panel of the times to embed the corpus, in seconds (NaN: unknown), labelled with chunks per second."""
    stages = [one.run.stages.get("embed", {}) for one in results]
    seconds = [one.get("first_seconds", 0.0) or math.nan for one in stages]
    speeds = [one.get("chunks", math.nan) / took for one, took in zip(stages, seconds, strict=True)]
    texts = [
        duration(took) + (f", {number(speed, 'chunks')} chunks/s" if math.isfinite(speed) else "")
        for took, speed in zip(seconds, speeds, strict=True)
    ]
    return CostPanel("build, s", seconds, texts)


def _times(title: str, values: Sequence[float]) -> CostPanel:
    unit = title.rpartition(" ")[2]
    return CostPanel(title, values, [f"{number(one, unit)} {unit}" if math.isfinite(one) else "" for one in values])


def _milliseconds(summaries: Summaries, *stages: str) -> float:
    return _total(found["p50_ms"] for stage, found in summaries.latency.items() if stage.startswith(stages))


def _total(amounts: Iterator[float]) -> float:
    """Add up amounts; return NaN if there is no amount, or if any of them is NaN."""
    known = list(amounts)
    return sum(known) if known else math.nan


def _draw(name: str, values: Sequence[str], configs: Sequence[str], panels: Sequence[CostPanel]) -> Figure:
    """Draw panels one below the other on one x axis: lines if ``values`` are numbers, else labelled points."""
    numbers = read_numbers(values)
    x: list[Any] = categories(values) if numbers is None else [*numbers]
    axis: Figure = (
        {"tickvals": x, **axis_type(numbers)} if numbers else {"type": "category", "range": [-0.5, len(x) - 0.5]}
    )
    layout: Figure = {"xaxis": {**titled(name), **axis}, "height": 460, "annotations": []}
    layout["xaxis"]["anchor"] = f"y{len(panels)}"
    places = [*map(math.log10, numbers)] if numbers and axis.get("type") == "log" else x  # annotations need exponents
    traces = []
    for n, panel in enumerate(panels):
        place, top = str(n + 1) if n else "", 1 - n / len(panels)
        known = [value for value in panel.values if math.isfinite(value)]
        # one option may take a thousand times as long as another
        scale = axis_type(known) if known and n and numbers is None else {}
        scale |= {"dtick": 1} if scale else {}  # powers of ten only
        layout[f"yaxis{place}"] = {**titled(panel.title), "domain": [top - 0.28, top], **scale}
        layout[f"yaxis{place}"] |= {"rangemode": "tozero"} if n and not scale else {}
        traces.append(_points(panel, x, configs, numbers is None) | {"yaxis": f"y{place}"})
        note = {"y": 0.5, "yref": f"y{place} domain", "text": UNKNOWN, "showarrow": False, "font": {"color": MUTED}}
        layout["annotations"] += [
            {"x": where, **note} for where, value in zip(places, panel.values, strict=True) if not math.isfinite(value)
        ]
    return {"data": traces, "layout": layout}


def _points(panel: CostPanel, x: Sequence[Any], configs: Sequence[str], options: bool) -> Figure:
    hover = [lines(config, f"{panel.title} {value:.3g}") for config, value in zip(configs, panel.values, strict=True)]
    trace = scatter("lines+markers", x, as_list(panel.values), hover, marker=marker(ACCENT, "circle", 8))
    trace["line"] = {"color": ACCENT, "width": 2}
    if options:
        trace |= {"mode": "markers+text", "textposition": "middle right", "textfont": {"color": INK}}
        trace |= {"text": [f"  {literal(text)}" for text in panel.texts], "cliponaxis": False}
    return trace | ({"error_y": panel.bars} if panel.bars else {})
