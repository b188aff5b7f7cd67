"""Charts of a sweep as PNG and SVG: metrics by config or group, differences from the reference, abstention curves."""

from __future__ import annotations

import io
import math
import textwrap
import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

from ragsweep.core.ordering import in_order
from ragsweep.core.plurals import part_shown
from ragsweep.core.results import Result, Summary, objectives
from ragsweep.core.words import is_syllabic
from ragsweep.report.naming import rounded, short
from ragsweep.report.numbers import number
from ragsweep.report.sweep_table import unlabelled_note
from ragsweep.report.tables import count_scored, rank_results
from ragsweep.report.verdict import change
from ragsweep.stats.answer_outcomes import CoveragePoint, best_point
from ragsweep.stats.comparison import SweepComparison

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOUR = "#0072B2"  # blue of the Okabe-Ito palette: distinguishable from grey with every kind of colour vision
GREY = "#6b6b6b"
FEW = 8
"""Maximum number of configs in a chart with three panels per row; with more configs, a row has six narrow panels."""

LINE_HEIGHT, CHARACTER = 0.26, 0.07  # inches
LONGEST_LINE, MOST_LINES = 56, 3  # characters, lines of one name
MOST_PANELS, MOST_CONFIGS = 12, 20
PALETTE = (COLOUR, "#D55E00", "#009E73", "#CC79A7", "#000000")  # from the same palette
ABSTENTION = "Token F1 by share of questions answered. Dot: the best threshold in hindsight. End: no threshold applied."
DIFFERENCES = (
    "Bar: simultaneous 95 % interval. Hollow: another config is shown to be better. Filled: no config is shown to be"
    " better. Diamond: the choice."
)
RATIO_STEPS = (1.005, 1.01, 1.02, 1.05, 1.1, 1.25, 1.5, 2, 5, 10, 100, 10**4, 10**8, 10**16, 10**32, 10**64)
MOST_TICKS = 8
CJK_FONTS = ("Noto Sans CJK SC", "Noto Sans CJK JP", "WenQuanYi Micro Hei", "Droid Sans Fallback", "Arial Unicode MS",
    "Hiragino Sans GB", "Apple SD Gothic Neo", "Microsoft YaHei", "Yu Gothic", "Malgun Gothic")  # fmt: skip
NO_FONT = "Boxes in the PNG: no font with these letters is installed; the SVG contains the text."
CAPTION = "Point: value over the n questions that could be scored. Bar: 95 % interval."


class Picture(NamedTuple):
    """One chart in two formats: a PNG for screens, and an SVG with selectable text for papers."""

    png: bytes
    svg: bytes

    def files(self, name: str) -> dict[str, bytes]:
        """Return both files, as a mapping of the file names ``NAME.png`` and ``NAME.svg`` to contents."""
        return {f"{name}.png": self.png, f"{name}.svg": self.svg}


class Panel(NamedTuple):
    """One panel: title, axis label, and one summary per config (None: the config lacks the metric)."""

    title: str
    axis: str
    summaries: Sequence[Summary | None]


def metric_by_config(results: Sequence[Result], metrics: Sequence[str]) -> Picture:
    """Plot the values of metrics with their intervals, one panel per metric and one line per config.

    The configs are sorted by the first objective among the metrics, or else by the first metric, with the best on top.
    At most twenty configs and twelve metrics are shown.
    """
    configs, results = len(results), rank_results(results, deciding(results, metrics))[:MOST_CONFIGS]
    columns = {name: [result.summaries.metrics.get(name) for result in results] for name in metrics[:MOST_PANELS]}
    panels = [Panel(name, _axis(found), found) for name, found in columns.items()]
    note = part_shown(MOST_CONFIGS, configs, which="The best") + part_shown(MOST_PANELS, len(metrics), "metrics")
    return _draw([result.name for result in results], panels, False, note=note)


def deciding(results: Sequence[Result], metrics: Sequence[str]) -> str:
    """Return the first objective that is one of ``metrics`` or, if none is, the first of ``metrics``."""
    names = objectives(results[0].run.config) if results else ()
    return next((name for name in names if name in metrics), metrics[0])


def metric_by_label(results: Sequence[Result], metric: str, label: str = "category") -> Picture:
    """Plot one metric by groups of questions: one panel per value of the label, with the same axis in all panels.

    At most twelve values, those with the most scored questions, and at most the twenty best configs are shown.
    """
    configs, results = len(results), rank_results(results, metric)[:MOST_CONFIGS]
    sizes = count_scored(results, label, metric)
    scored = {value: size for value, size in sizes.items() if size}
    shown = sorted(scored, key=lambda value: -scored[value])[:MOST_PANELS]
    panels = []
    for value in in_order(sorted(shown)):
        found = [result.summaries.groups.get(label, {}).get(value, {}).get(metric) for result in results]
        panels.append(Panel(value or "(none)", _axis(found, metric), found))
    note = part_shown(MOST_CONFIGS, configs, which="The best") + part_shown(MOST_PANELS, len(scored), "groups")
    if empty := sorted(set(sizes) - set(scored)):
        note += f" No question could be scored in: {', '.join(empty)}."
    note += f" {lack}." if (lack := unlabelled_note(results, label)) else ""
    return _draw([result.name for result in results], panels, True, title=f"{metric} by {label}", note=note)


def abstention(curves: Mapping[str, Sequence[CoveragePoint]]) -> Picture:
    """Plot the mean token F1 against the share of questions answered, if only the most confident answers are given.

    One panel shows the mean over the answered questions, and the other shows the mean over all questions; each panel
    has one curve per config. A curve is flat between its points, because questions of equal support are answered
    together. At most five configs, those with the best score in hindsight, are shown.
    """
    from matplotlib.figure import Figure

    shown = sorted(curves, key=lambda name: -best_point(curves[name]).score)[: len(PALETTE)]
    figure = Figure(figsize=(9.0, 3.8), layout="constrained")
    answered, all_questions = figure.subplots(1, 2, sharey=True)
    for name, colour in zip(shown, PALETTE, strict=False):
        points = curves[name]
        coverage = [point.coverage for point in points]
        answered.step(coverage[1:], [point.score_answered for point in points[1:]], color=colour, where="pre")
        label = _literal(f"{_label(name)}: {number(best_point(points).score)}")
        all_questions.step(coverage, [point.score for point in points], color=colour, where="pre", label=label)
        all_questions.plot(best_point(points).coverage, best_point(points).score, "o", color=colour, markersize=5)
    for axes, title in ((answered, "of answered questions"), (all_questions, "of all questions, refusals included")):
        axes.set_title(title, y=1.0, fontsize=10, fontweight="bold")
        axes.set_xlabel("share of questions answered, most confident first", fontsize=8)
        axes.set_xlim(0, 1.02)
        axes.set_ylim(0, 1.02)
        _style(axes, "top", "right")
    answered.set_ylabel("mean token_f1", fontsize=8)
    figure.legend(loc="outside lower center", fontsize=8, frameon=False)
    caption = ABSTENTION + part_shown(len(shown), len(curves))
    figure.suptitle(_literal(caption), x=0.01, ha="left", fontsize=8, color=GREY)
    return _render(figure)


def differences(verdict: SweepComparison, choice: str | None = None) -> Picture:
    """Plot the difference of each config from the reference, best on top.

    Points right of the line are better: the axis is reversed if less is better. At most the best 20 configs are shown.
    ``choice`` is the name of the config to mark; a search may have chosen it on other questions.
    """
    from matplotlib.figure import Figure

    found, rising = verdict.differences, verdict.matrix.higher_is_better
    order = sorted(range(len(found.estimate)), key=found.estimate.item, reverse=rising)[:MOST_CONFIGS]
    labels = [_label(verdict.matrix.configs[row]) for row in order]
    lines = sum(1 + 0.6 * label.count("\n") for label in labels)
    width = 6.2 + CHARACTER * max(len(line) for label in labels for line in label.split("\n"))
    figure = Figure(figsize=(width, LINE_HEIGHT * max(lines, 3) + 1.5), layout="constrained")
    axes = figure.subplots()
    axes.axvline(0, color=GREY, linewidth=1)
    for line, row in enumerate(order):
        kept = bool(verdict.may_be_best[row])
        colour = COLOUR if kept else GREY
        if math.isfinite(found.low[row]) and math.isfinite(found.high[row]):
            axes.hlines(line, found.low[row], found.high[row], colour, lw=1.6)
        marker, size = ("D", 7) if verdict.matrix.configs[row] == choice else ("o", 5)
        inside = colour if kept else "white"
        axes.plot(found.estimate[row], line, marker, color=colour, markerfacecolor=inside, markersize=size)
        if row != verdict.reference:
            _write(axes, change(verdict, row), found.estimate[row], line)
    axes.set_yticks(range(len(labels)), [_literal(label) for label in labels])
    axes.set_ylim(len(labels) - 0.5, -0.5)
    against = f"{'ratio to' if found.ratios else 'difference from'} {_label(verdict.matrix.configs[verdict.reference])}"
    axes.set_title(_literal(f"{verdict.metric}: {against}"), y=1.0, fontsize=10)
    unit = f", {verdict.unit}" if verdict.unit and not found.ratios else ""
    what = "ratio for a typical question" if found.ratios else "mean difference"
    if found.ratios:
        axes.margins(x=0.1)
        places, texts = _ratio_ticks(*axes.get_xlim())
        axes.set_xticks(places, texts)
    axes.xaxis.set_inverted(not rising)
    about = f"{what} over {len(verdict.matrix.questions):,} questions{unit}; right is better"
    axes.set_xlabel(_literal(about), fontsize=8)
    _style(axes, "top", "right", "left")
    caption = DIFFERENCES + part_shown(len(order), len(found.estimate), which="The best")
    caption = textwrap.fill(caption, int(width * 14))
    figure.supxlabel(_literal(caption), x=0.01, ha="left", fontsize=8, color=GREY)
    return _render(figure)


def _ratio_ticks(low: float, high: float) -> tuple[list[float], list[str]]:
    """Return the ticks between two logarithms of ratios, also as logarithms, and their labels (``0.8x``)."""
    step = next(step for step in RATIO_STEPS if (high - low) / math.log(step) <= MOST_TICKS)
    powers = range(math.ceil(low / math.log(step)), math.floor(high / math.log(step)) + 1)
    return [n * math.log(step) for n in powers], [f"{step**n:.3g}x" for n in powers]


def _write(axes: Axes, text: str, place: float, line: int) -> None:
    axes.annotate(text, (place, line), (0, 3), textcoords="offset points", ha="center", fontsize=7, color=GREY)


def _style(axes: Axes, *hidden: str) -> None:
    """Set the common style of all charts; ``hidden`` are the sides of the frame that are not drawn."""
    axes.tick_params(labelsize=8, length=0)
    axes.grid(color="#e4e4e4", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[list(hidden)].set_visible(False)


def _axis(summaries: Sequence[Summary | None], name: str = "") -> str:
    """Return an axis label: the metric, its unit, the better direction, and the number of questions."""
    known = [summary for summary in summaries if summary is not None]
    if not known:
        return name
    first = known[0]
    better = {True: "higher is better", False: "lower is better", None: ""}[first.higher_is_better]
    counts = sorted({summary.n_scored for summary in known})
    n = f"n = {counts[0]}" if len(counts) == 1 else f"n = {counts[0]} to {counts[-1]}"
    first_line = ", ".join(part for part in (name, first.unit, better) if part)
    return "\n".join(part for part in (first_line, f"{n} of {first.n_total}") if part)


def _draw(names: Sequence[str], panels: Sequence[Panel], shared: bool, title: str = "", note: str = "") -> Picture:
    """Draw the panels in rows, with a title and a note; if ``shared``, all panels have the same x axis."""
    from matplotlib.figure import Figure

    labels = [_label(name) for name in names]
    most, panel_width = (3, 3.0) if len(names) <= FEW else (6, 2.2)
    columns = max(1, min(most, len(panels)))
    rows = max(1, math.ceil(len(panels) / columns))
    text = [line for label in labels for line in label.split("\n")]
    width = max(columns * panel_width + CHARACTER * max(map(len, text), default=0) + 0.3, 5.0)
    height = rows * (LINE_HEIGHT * max(0.6 * (len(text) - len(labels)) + len(labels), 2) + 1.0) + 0.7
    figure = Figure(figsize=(width, height), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False, sharey=True, sharex=shared)
    for n, axes in enumerate(grid.flat):
        if n < len(panels):
            fitted = textwrap.fill(short(panels[n].title), int(panel_width * 12))
            _panel(axes, panels[n]._replace(title=fitted), labels, first=n % columns == 0)
        else:
            axes.set_axis_off()
    if title:
        figure.suptitle(_literal(title), x=0.01, ha="left", fontsize=11, fontweight="bold")
    caption = textwrap.fill(f"{CAPTION}{note}", int(width * 15))
    figure.supxlabel(_literal(caption), x=0.01, ha="left", fontsize=8, color=GREY)
    return _render(figure)


def _panel(axes: Axes, panel: Panel, labels: Sequence[str], first: bool) -> None:
    known = [(line, one) for line, one in enumerate(panel.summaries) if one is not None and math.isfinite(one.value)]
    bars = [(line, one) for line, one in known if math.isfinite(one.low) and math.isfinite(one.high)]
    axes.hlines([line for line, _ in bars], [one.low for _, one in bars], [one.high for _, one in bars], COLOUR, lw=1.6)
    axes.plot([one.value for _, one in known], [line for line, _ in known], "o", color=COLOUR, markersize=5)
    for line, one in known:
        _write(axes, number(one.value, one.unit), one.value, line)
    for line in set(range(len(labels))) - {line for line, _ in known}:
        place = ("axes fraction", "data")
        axes.annotate("not measured", (0.03, line), xycoords=place, va="center", fontsize=8, color=GREY)
    axes.set_title(_literal(panel.title), y=1.0, fontsize=10, fontweight="bold")  # fixed y: no ticks are measured
    axes.set_xlabel(_literal(panel.axis), fontsize=8)
    axes.set_yticks(range(len(labels)), [_literal(label) for label in labels])
    axes.set_ylim(max(len(labels), 1) - 0.5, -0.5)
    axes.locator_params(axis="x", nbins=5)
    axes.tick_params(labelbottom=True, labelleft=first)
    _style(axes, "top", "right", "left")


def _label(name: str) -> str:
    """Round decimal numbers in a name, cut the middle out of a long name, and wrap the name at spaces and commas."""
    name, most = rounded(name), LONGEST_LINE * MOST_LINES
    if len(name) > most:
        name = f"{name[: most // 2 - 8]}…{name[-most // 2 + 8 :]}"
    return "\n".join(line.replace(", ", ",") for line in textwrap.wrap(name.replace(",", ", "), LONGEST_LINE))


def _literal(text: str) -> str:
    """Escape dollar signs, which matplotlib would read as math delimiters."""
    return text.replace("$", r"\$")


def _render(figure: Figure) -> Picture:
    from matplotlib import font_manager, image, rc_context
    from matplotlib.backends import backend_agg, backend_svg
    from matplotlib.text import Text

    png, svg = io.BytesIO(), io.StringIO()
    figure.set_dpi(120)
    texts = [text for text in figure.findobj(Text) if isinstance(text, Text) and any(map(is_syllabic, text.get_text()))]
    fonts = [name for name in CJK_FONTS if name in font_manager.get_font_names()]
    for text in texts:
        text.set_fontfamily([*text.get_fontfamily(), *fonts])
    if texts and not fonts:
        figure.texts[-1].set_text(f"{figure.texts[-1].get_text()}\n{NO_FONT}")  # the caption
    options: Any = {"dpi": figure.dpi, "metadata": {"Software": None}, "pil_kwargs": {"compress_level": 3}}
    canvas: Any = backend_agg.FigureCanvasAgg(figure)
    style: Any = {"svg.fonttype": "none", "svg.hashsalt": "ragsweep"}
    with rc_context(style), warnings.catch_warnings(), ThreadPoolExecutor(1) as pool:
        warnings.filterwarnings("ignore", "Glyph .* missing from font")  # the SVG contains the text
        canvas.draw()  # savefig would draw everything twice
        saved = pool.submit(image.imsave, png, canvas.buffer_rgba(), format="png", origin="upper", **options)
        figure.set_layout_engine("none")  # keep the layout of the PNG, which is compressed while the SVG is drawn
        backend_svg.FigureCanvasSVG(figure).print_svg(svg, metadata={"Date": None})  # type: ignore[no-untyped-call]
        saved.result()
    return Picture(png.getvalue(), svg.getvalue().encode("utf-8", "replace"))
