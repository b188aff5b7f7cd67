"""The section on the effects of swept parameters in a sweep's page."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ragsweep.core.plurals import part_shown, percentage
from ragsweep.report.document import Block, Charts, chart
from ragsweep.report.naming import short_keys, varying_keys
from ragsweep.report.page import charts, effect_charts
from ragsweep.report.page.effect_charts import MOST_LINES, Cloud, ParameterMeans, effects, swept_within
from ragsweep.report.page.view import PageView
from ragsweep.report.verdict import score
from ragsweep.stats.comparable import factor_values, factors
from ragsweep.stats.comparison import SweepComparison
from ragsweep.stats.curves import curve_of_best, flat_region

CURVE = (
    "Each point is the mean of all configs with this value; the band or bar is its 95 % interval. Points in colour, and"
    " all values in the grey region, may be the best; grey points are worse by more than chance explains."
)
CLOUD = "Each point is a config; the other settings vary, too."


def effect_items(view: PageView) -> Iterator[Block]:
    """Yield charts of each swept parameter's effect on scores; nothing without a comparison, or if scores are equal."""
    found = view.compared
    if not found or not found.differences.apart.any():
        return
    configs = {name: view.settings[name] for name in found.matrix.configs}
    if changes := _single_changes(view, found.matrix.configs[found.reference]):
        tornado = charts.differences(found, view.choice, changes)
        note = (
            "Each bar is one change to the reference, with its 95 % interval; the largest effect is on top. Changes"
            " for the better are in colour."
            f"{part_shown(charts.MOST_BARS, len(changes), 'changes', 'The largest')}"
        )
        yield chart(tornado, note)
        yield from _curves(view, found, list(swept_within(view.best_first, view.metric, ())))
        return
    keys = short_keys(varying_keys(list(configs.values())))
    compared = [one for one in view.results if one.name in configs]
    if view.report.sampler and len(keys) > 1:
        figure = effect_charts.parallel(compared, configs, view.metric, keys)
        note = "Each line is a config. The best tenth is in colour."
        note += part_shown(MOST_LINES, len(compared), which="The best")
        yield chart(figure, note)
    if view.report.sampler:  # a search has too few configs of each option
        yield from _curves(view, found, list(effects(found, configs)))
        return
    configs = {one.name: values for one, values in zip(compared, factor_values(compared), strict=True)}
    drawn = list(effects(found, configs))
    drawn += swept_within(view.best_first, view.metric, {one.key for one in drawn})
    yield from _curves(view, found, drawn)


def _curves(view: PageView, found: SweepComparison, drawn: Sequence[ParameterMeans | Cloud]) -> Iterator[Block]:
    notes = {ParameterMeans: CURVE, Cloud: CLOUD}
    options = []
    for one in drawn:
        note = " ".join([*_generalising(view, found, one), notes[type(one)]])
        options.append({"label": one.name, "figure": effect_charts.effect(one, view.metric, found.unit), "note": note})
    if options:
        yield Charts(options)


def _generalising(view: PageView, verdict: SweepComparison, shown: ParameterMeans | Cloud) -> Iterator[str]:
    """Yield a note on a curve: its best value, its flat region, and its cross-validated score on unseen questions.

    Yield nothing for a parameter without a curve over numbers.
    """
    if isinstance(shown, Cloud) or shown.numbers is None:
        return
    one = curve_of_best(view.best_first, shown.key, view.metric)
    if one is None:
        return
    low, high = one.flat
    if shown.configs == 1 and one.best in shown.numbers:  # to agree with the colours of the chart
        low, high = flat_region(shown.numbers, shown.may_be_best, shown.numbers.index(one.best))
    flat = f"{low:.10g} to {high:.10g} are not shown to be worse than the best"
    same = flat if low < high else "the neighbouring values are shown to be worse"
    chosen = next(point for point in one.points if point.value == one.chosen)
    unseen = "Too few independent questions for cross-validation."
    if not math.isnan(chosen.chosen):
        often = f"Cross-validation chooses {one.chosen:.10g} in {percentage(chosen.chosen)} of the folds"
        unseen = f"{often}; the chosen values score {score(verdict, one.held_out)} on unseen questions."
    through = one.points[0].config.partition(" ")[0]
    where = f" (of the curve through {through})" if len(one.points) < len(view.best_first) else ""
    yield f"Best in sample: {shown.name} {one.best:.10g}{where}, {score(verdict, one.best_mean)}; {same}. {unseen}"


def _single_changes(view: PageView, reference: str) -> dict[str, str]:
    """Map each config's name to its only change from the reference, as text.

    Return an empty dict if any config has no change or several changes, or if all configs change the same parameter.
    """
    base = next(one for one in view.results if one.name == reference)
    changes = {other.name: factors(base, other) for other in view.results if other is not base}
    if any(len(one) != 1 for one in changes.values()):
        return {}
    names = short_keys(list(dict.fromkeys(one[0].name for one in changes.values())))
    if len(names) < 2:
        return {}
    return {
        name: f"{name.partition(' ')[0]} {replace(one, name=names[one.name])}" for name, (one, *_) in changes.items()
    }
