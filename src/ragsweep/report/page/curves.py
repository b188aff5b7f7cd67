"""The effects of swept parameters: the mean of each value and whether it may be the best, or one point per config."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.results import Result
from ragsweep.report.naming import read_numbers, short_keys, varying_keys
from ragsweep.report.page.effect_charts import Cloud, ParameterMeans
from ragsweep.stats import curves as swept
from ragsweep.stats.comparison import SweepComparison
from ragsweep.stats.inference.differences import all_pairs
from ragsweep.stats.inference.matrix import transform_amounts
from ragsweep.stats.intervals import means_with_intervals

Settings = Mapping[str, str]
Doubles = NDArray[np.float64]


def effects(verdict: SweepComparison, settings: Mapping[str, Settings]) -> Iterator[ParameterMeans | Cloud]:
    """Yield the effect of each varying parameter; ``settings``: config name -> key -> value.

    A parameter has a curve if each of its values was run with the same settings of all other parameters, so that the
    means differ in nothing else. A numeric parameter without a curve has a cloud; any other parameter without one is
    omitted.
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
            yield _cloud(verdict, key, name, dict(zip(rows, numbers, strict=True)), rows)


def curve_of_best(best_first: Sequence[Result], key: str, metric: str) -> swept.Curve | None:
    """Return a parameter's curve through the best config that has one; None if no config has one."""
    found = (next(iter(swept.curves(group, key, metric)), None) for group in groups_over(best_first, key))
    return next((one for one in found if one), None)


def groups_over(best_first: Sequence[Result], key: str) -> list[list[Result]]:
    """Group configs that differ only in ``key``, whose values must be numbers.

    Groups with fewer than three values are left out. The group with the best config comes first.
    """
    groups: dict[tuple[tuple[str, str], ...], list[Result]] = {}
    for one in best_first:
        if read_numbers([one.run.parameters.get(key, "")]):
            rest = tuple((name, text) for name, text in one.run.parameters.items() if name != key)
            groups.setdefault(rest, []).append(one)
    return [group for group in groups.values() if len({one.run.parameters[key] for one in group}) >= swept.FEWEST]


def swept_within(best_first: Sequence[Result], metric: str, drawn: Collection[str]) -> Iterator[ParameterMeans]:
    """Yield a curve for each numeric parameter without a chart, such as a hybrid's weight (see `curve_of_best`).

    A parameter without such a curve is omitted. ``drawn``: the keys of the parameters that have a chart.
    """
    settings = [one.run.parameters for one in best_first]
    for key, name in short_keys([one for one in varying_keys(settings) if one not in drawn]).items():
        found = curve_of_best(best_first, key, metric)
        if found is not None:
            values = tuple(one.value for one in found.points)
            mean, low, high = np.array([(one.mean, one.low, one.high) for one in found.points]).T
            flat = np.array([found.flat[0] <= value <= found.flat[1] for value in values])
            yield ParameterMeans(key, name, tuple(f"{one:g}" for one in values), values, mean, low, high, flat, 1)


def _crossed(configs: Sequence[Settings], key: str, keys: Sequence[str], rows: Mapping[str, Sequence[int]]) -> bool:
    """Return whether all configs have a key, and its values were run equally often with the same other settings."""
    others = [one for one in keys if one != key]
    found = [Counter(tuple(configs[row].get(one) for one in others) for row in members) for members in rows.values()]
    return sum(map(len, rows.values())) == len(configs) and all(one == found[0] for one in found)


def _curve(verdict: SweepComparison, key: str, name: str, rows: Mapping[str, Sequence[int]]) -> ParameterMeans:
    numbers = read_numbers(tuple(rows))
    values = list(rows) if numbers is None else [value for _, value in sorted(zip(numbers, rows, strict=True))]
    means = np.stack([verdict.matrix.values[list(rows[value])].mean(axis=0) for value in values])
    pooled = replace(verdict.matrix, values=means, configs=tuple(values))
    unbounded = np.full(len(values), np.nan)
    mean, low, high = means_with_intervals(pooled.scores, unbounded, unbounded, pooled.weights)
    ordered = None if numbers is None else tuple(sorted(numbers))
    best = all_pairs(transform_amounts(pooled, verdict.unit)).may_be_best
    return ParameterMeans(key, name, tuple(values), ordered, mean, low, high, best, len(rows[values[0]]))


def _cloud(
    verdict: SweepComparison, key: str, name: str, numbers: Mapping[str, float], rows: Mapping[str, Sequence[int]]
) -> Cloud:
    points = [(numbers[value], row) for value, members in rows.items() for row in members]
    means = verdict.means.tolist()
    return Cloud(
        key,
        name,
        tuple(number for number, _ in points),
        tuple(means[row] for _, row in points),
        tuple(verdict.matrix.configs[row] for _, row in points),
    )
