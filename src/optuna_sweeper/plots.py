"""Draw Optuna's own plots of a study as PNG and SVG files, with a layout for many parameters."""

import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

MOST_PANELS = 12
"""Maximum number of parameters in the slice and parallel plots; the most important parameters are shown."""
MOST_PAIRS = 3
"""Maximum number of parameters in the contour plot; the plot has a panel for each pair of parameters."""
ROW = 6
"""Number of panels per row."""
LONGEST = 24
"""Maximum total length, in characters, of the labels that fit below a panel without rotation."""

_log = logging.getLogger(__name__)


def draw(study: Any, names: Sequence[str], folder: Path) -> list[str]:
    """Draw a study's plots into a folder and return the names of the files; a plot that fails is left out.

    ``names`` are the names of the objectives. If no trial is complete, nothing is drawn.
    """
    import matplotlib
    import optuna
    from matplotlib import pyplot

    folder.mkdir(parents=True, exist_ok=True)
    drawn: list[str] = []
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    logging.getLogger("matplotlib.category").setLevel(logging.WARNING)  # choices such as "5" are plotted as text
    pyplot.switch_backend("agg")  # there may be no display
    # Text stays text in SVG, and the output is deterministic.
    with warnings.catch_warnings(), matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "ragsweep"}):
        warnings.simplefilter("ignore")
        for name, plot, size in _plots(study, names):
            try:
                drawn += _save(plot(), size, folder, name)
            except Exception as fault:  # a plot must not end the search
                _log.debug("the plot %s was not drawn: %s: %s", name, type(fault).__name__, fault)
            pyplot.close("all")
    return drawn


def _plots(study: Any, names: Sequence[str]) -> Iterator[tuple[str, Callable[[], Any], tuple[float, float]]]:
    """Yield (name, function, size in inches) per possible plot; the function draws the plot and returns its axes."""
    from optuna.visualization import matplotlib as visual

    complete = [trial for trial in study.get_trials(deepcopy=False) if trial.values is not None]
    if not complete:
        return
    ranked = _rank_parameters(study, complete)
    sliced, pairs = ranked[:MOST_PANELS], ranked[:MOST_PAIRS]
    always = [name for name in ranked if all(name in trial.params for trial in complete if trial.params)][:MOST_PANELS]
    if several := len(names) > 1:
        yield "search_pareto_front", partial(visual.plot_pareto_front, study, target_names=list(names)), (6.4, 4.8)
    if ranked:
        yield "search_importance", partial(_importance, study, names), (7, 1.4 + 0.35 * max(len(ranked), 3))
    for position, name in enumerate(names):
        of: dict[str, Any] = {"target_name": name, "target": partial(_value, position) if several else None}
        suffix = "_" + "".join(letter if letter.isalnum() else "_" for letter in name) if several else ""
        yield f"search_history{suffix}", partial(visual.plot_optimization_history, study, **of), (7, 4)
        if sliced:
            columns, rows = min(len(sliced), ROW), -(-len(sliced) // ROW)
            slices = partial(_slices, study, sliced, of)
            yield f"search_slice{suffix}", slices, (2.6 * max(columns, 2), 2.6 * rows + 0.6)
        if always:
            parallel = partial(visual.plot_parallel_coordinate, study, params=always, **of)
            yield f"search_parallel{suffix}", parallel, (1.7 * len(always) + 3, 4.5)
        if len(pairs) > 1:
            contour = partial(visual.plot_contour, study, params=pairs, **of)
            yield f"search_contour{suffix}", contour, (2.8 * len(pairs) + 1, 2.6 * len(pairs))


def _value(position: int, trial: Any) -> float:
    return float(trial.values[position])


def _rank_parameters(study: Any, complete: Sequence[Any]) -> list[str]:
    """List the parameters with several values, by descending importance, or by name if importance is undefined."""
    from optuna.importance import get_param_importances

    values: dict[str, set[str]] = {}
    for trial in complete:
        for name, value in trial.params.items():
            values.setdefault(name, set()).add(repr(value))
    several = [name for name in sorted(values) if len(values[name]) > 1]
    try:
        weights = get_param_importances(study)
    except Exception:
        return several
    return sorted(several, key=lambda name: -weights.get(name, 0.0))


def _importance(study: Any, names: Sequence[str]) -> Any:
    from optuna.visualization import matplotlib as visual

    axes = visual.plot_param_importances(study)
    legend = axes.get_legend()
    for text, name in zip(legend.get_texts() if legend else (), names, strict=False):
        text.set_text(name)
    return axes


def _slices(study: Any, parameters: list[str], of: dict[str, Any]) -> Any:
    """Draw the slice plot with its panels in rows of `ROW`; Optuna puts all panels into one row."""
    from matplotlib.category import StrCategoryLocator
    from optuna.visualization import matplotlib as visual

    axes = visual.plot_slice(study, params=parameters, **of)
    panels = list(axes.flat) if hasattr(axes, "flat") else [axes]
    figure = panels[0].figure
    grid = figure.add_gridspec(-(-len(panels) // ROW), min(ROW, len(panels)))
    for number, panel in enumerate(panels):
        first = number % ROW == 0
        panel.set_subplotspec(grid[number // ROW, number % ROW])
        panel.tick_params(labelleft=first)
        panel.set_ylabel(of["target_name"] if first else "")
        words = isinstance(panel.xaxis.get_major_locator(), StrCategoryLocator)
        if words or sum(len(label.get_text()) for label in panel.get_xticklabels()) > LONGEST:
            panel.tick_params(axis="x", rotation=20)  # otherwise labels would overlap
    for bar in figure.axes[len(panels) :]:  # the colour bar of trial numbers
        bar.remove()
    figure.suptitle("Slice Plot (darker: later)")
    return axes


def _save(axes: Any, size: tuple[float, float], folder: Path, name: str) -> list[str]:
    axes = axes.flat[0] if hasattr(axes, "flat") else axes
    axes.figure.set_size_inches(*size)
    overlaid = "parallel" in name  # the layout engine does not support the overlaid axes of this plot
    if overlaid:
        axes.tick_params(axis="x", rotation=20)
    else:
        axes.figure.set_layout_engine("constrained")
    for each in axes.figure.axes:
        each.tick_params(labelsize=7)
        each.xaxis.label.set_fontsize(8)
        each.yaxis.label.set_fontsize(8)
    files = {f"{name}.png": {"Software": None}, f"{name}.svg": {"Date": None}}
    for file, metadata in files.items():
        axes.figure.savefig(folder / file, dpi=110, bbox_inches="tight" if overlaid else None, metadata=metadata)
    return list(files)
