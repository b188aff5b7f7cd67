"""Optuna's own plots of a study as PNG files, laid out for many parameters."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

MOST_PANELS = 12
"""Most parameters of one plot, the most important first."""
MOST_PAIRS = 3
"""Most parameters of which all pairs are plotted."""
ROW = 6
"""Panels in a row."""
LONGEST = 24
"""Most characters of labels below a panel that fit without tilting."""

_log = logging.getLogger(__name__)


def draw(study: Any, names: Sequence[str], folder: Path) -> list[str]:
    """Plot an Optuna study into a folder, and return the names of the files; plots that fail are left out.

    Args:
        study: Optuna's.
        names: Of the objectives.
        folder: Is created.
    """
    folder.mkdir(parents=True, exist_ok=True)
    drawn: list[str] = []
    if not any(trial.values is not None for trial in study.get_trials(deepcopy=False)):
        return drawn
    with _quiet():
        ranked = _ranked(study)
        for name, make in _pictures(study, names, ranked):
            try:
                _save(make(), folder / f"{name}.png")
                drawn.append(f"{name}.png")
            except Exception as fault:  # a plot must not end the search
                _log.debug("no plot %s: %s: %s", name, type(fault).__name__, fault)
    return drawn


def _pictures(study: Any, names: Sequence[str], ranked: Sequence[str]) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield the name of each plot, and a function that draws it and returns its axes."""
    from optuna.visualization import matplotlib as pictures

    several = len(study.directions) > 1
    if several:
        yield "search_pareto_front", lambda: pictures.plot_pareto_front(study, target_names=list(names))
    yield "search_importance", lambda: _importance(study, names, len(ranked))
    for place, name in enumerate(names):
        of = {"target": _value(place), "target_name": name} if several else {"target_name": name}
        suffix = f"_{_safe(name)}" if several else ""
        yield f"search_history{suffix}", partial(_history, study, of)
        yield f"search_slice{suffix}", partial(_slices, study, ranked[:MOST_PANELS], of)
        yield f"search_parallel{suffix}", partial(_parallel, study, _always(study, ranked)[:MOST_PANELS], of)
        yield f"search_contour{suffix}", partial(_contours, study, ranked[:MOST_PAIRS], of)


def _history(study: Any, of: dict[str, Any]) -> Any:
    from optuna.visualization import matplotlib as pictures

    return _sized(pictures.plot_optimization_history(study, **of), 7, 4)


def _value(place: int) -> Callable[[Any], float]:
    return lambda trial: float(trial.values[place])


def _ranked(study: Any) -> list[str]:
    """List the parameters with several values by importance, or by name where that is undefined."""
    from optuna.importance import get_param_importances

    complete = [trial for trial in study.get_trials(deepcopy=False) if trial.values is not None]
    taken: dict[str, set[str]] = {}
    for trial in complete:
        for name, value in trial.params.items():
            taken.setdefault(name, set()).add(repr(value))
    several = [name for name, values in sorted(taken.items()) if len(values) > 1]
    try:
        weights = get_param_importances(study)
    except Exception:
        return several
    return sorted(several, key=lambda name: -weights.get(name, 0.0))


def _always(study: Any, ranked: Sequence[str]) -> list[str]:
    """Return the parameters that all trials have, as parallel coordinates need."""
    complete = [trial for trial in study.get_trials(deepcopy=False) if trial.values is not None and trial.params]
    return [name for name in ranked if all(name in trial.params for trial in complete)]


def _importance(study: Any, names: Sequence[str], parameters: int) -> Any:
    from optuna.visualization import matplotlib as pictures

    if not parameters:
        raise ValueError("no parameter took several values")
    axes = pictures.plot_param_importances(study)
    legend = axes.get_legend()
    for text, name in zip(legend.get_texts() if legend else (), names, strict=False):
        text.set_text(name)
    return _sized(axes, 7.0, 1.4 + 0.35 * max(parameters, 3))


def _slices(study: Any, parameters: Sequence[str], of: dict[str, Any]) -> Any:
    """Lay the panels out in rows; Optuna puts all into one."""
    from optuna.visualization import matplotlib as pictures

    if not parameters:
        raise ValueError("no parameter took several values")
    axes = pictures.plot_slice(study, params=list(parameters), **of)
    panels = list(axes.flat) if hasattr(axes, "flat") else [axes]
    rows = -(-len(panels) // ROW)
    grid = panels[0].figure.add_gridspec(rows, min(ROW, len(panels)))
    for number, one in enumerate(panels):
        one.set_subplotspec(grid[number // ROW, number % ROW])
        one.tick_params(labelleft=number % ROW == 0)
        one.set_ylabel(of["target_name"] if number % ROW == 0 else "")
        _tilt(one)
    for bar in panels[0].figure.axes[len(panels) :]:  # the colour bar of trial numbers
        bar.remove()
    panels[0].figure.suptitle("Slice Plot (darker: later)")
    return _sized(axes, 2.6 * max(min(len(panels), ROW), 2), 2.6 * rows + 0.6)


def _parallel(study: Any, parameters: Sequence[str], of: dict[str, Any]) -> Any:
    from optuna.visualization import matplotlib as pictures

    if not parameters:
        raise ValueError("no parameter is in all trials")
    axes = pictures.plot_parallel_coordinate(study, params=list(parameters), **of)
    axes.tick_params(axis="x", rotation=20)
    return _sized(axes, 1.7 * len(parameters) + 3, 4.5)


def _tilt(axes: Any) -> None:
    """Tilt labels that would overlap."""
    from matplotlib.category import StrCategoryLocator

    words = isinstance(axes.xaxis.get_major_locator(), StrCategoryLocator)
    labels = [label.get_text() for label in axes.get_xticklabels()]
    if words or sum(map(len, labels)) > LONGEST:
        axes.tick_params(axis="x", rotation=20)


def _contours(study: Any, parameters: Sequence[str], of: dict[str, Any]) -> Any:
    from optuna.visualization import matplotlib as pictures

    if len(parameters) < 2:
        raise ValueError("fewer than two parameters")
    axes = pictures.plot_contour(study, params=list(parameters), **of)
    return _sized(axes, 2.8 * len(parameters) + 1, 2.6 * len(parameters))


def _sized(axes: Any, width: float, height: float) -> Any:
    one = axes.flat[0] if hasattr(axes, "flat") else axes
    one.figure.set_size_inches(width, height)
    return axes


def _save(axes: Any, path: Path) -> None:
    one = axes.flat[0] if hasattr(axes, "flat") else axes
    figure = one.figure
    parallel = "parallel" in path.name  # overlaid axes, which the layout engine does not support
    if not parallel:
        figure.set_layout_engine("constrained")
    for each in figure.axes:
        each.tick_params(labelsize=7)
        each.xaxis.label.set_fontsize(8)
        each.yaxis.label.set_fontsize(8)
    figure.savefig(path, dpi=110, bbox_inches="tight" if parallel else None, metadata={"Software": None})


@contextmanager
def _quiet() -> Iterator[None]:
    """Draw without a display and without experimental warnings; close all figures afterwards."""
    import matplotlib
    import optuna
    from matplotlib import pyplot

    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    before, there = matplotlib.get_backend(), set(pyplot.get_fignums())
    pyplot.switch_backend("agg")
    try:
        with warnings.catch_warnings(), matplotlib.rc_context():
            warnings.simplefilter("ignore")
            yield
    finally:
        optuna.logging.set_verbosity(verbosity)
        for number in set(pyplot.get_fignums()) - there:
            pyplot.close(number)
        if before.lower() != "agg":
            pyplot.switch_backend(before)


def _safe(name: str) -> str:
    return "".join(letter if letter.isalnum() else "_" for letter in name)
