"""Choose which config to recommend, given expected means, costs and the tolerated loss."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from ragsweep.core.question_results import Doubles, Flags
from ragsweep.core.results import Result
from ragsweep.stats.comparable import is_mean, is_scored
from ragsweep.stats.inference.differences import compare_amounts
from ragsweep.stats.inference.estimates import Differences, RareLosses
from ragsweep.stats.inference.matrix import Matrix, has_ratios, score_matrix
from ragsweep.stats.latencies import LEAST_MS, latency_apart
from ragsweep.stats.verdict import LIKELY, Beliefs

COSTS = ("cost_per_1000", "context_tokens", "latency_p95_ms")
"""The cost metrics, in order of priority: money, billed quantities, time."""
SAVING = 0.1
"""Minimum saving, as a share of the higher of two costs."""
TOLERANCES = {"margin": 0.05, "loss": 0.005}
"""Defaults of ``recommend.margin`` and ``recommend.loss``.

For a metric with a unit, they are shares of the mean over all configs.
"""
TIE = 1e-9
"""Tolerance, relative to the largest value, within which expected values tie."""


@dataclass(frozen=True, eq=False)
class ConfigCosts:
    """The costs of the compared configs: ``values`` maps a cost's name to one number per config, NaN if unknown."""

    results: Sequence[Result]

    @cached_property
    def values(self) -> Mapping[str, Doubles]:
        """The costs that are known for at least one config."""
        found = {}
        for name in COSTS:
            known = [one.summaries.metrics[name].value if is_scored(one, name) else math.nan for one in self.results]
            if not np.isnan(known).all():
                found[name] = np.array(known)
        return found

    def deciding(self, rows: Sequence[int]) -> str:
        """Return the first cost that is known for all rows and varies by a tenth or more; "" if there is none.

        The observed values count, whether or not their difference is significant: a saving in a cost of lower priority
        must not outweigh a possible increase in a cost of higher priority. A latency must also vary by ``LEAST_MS``.
        """
        for name, values in self.values.items():
            both = values[list(rows)]
            if not np.isnan(both).any() and self._is_saving(name, both.max(), both.min()):
                return name
        return ""

    def saves(self, name: str, row: int, other: int) -> bool:
        """Return whether ``row`` is significantly cheaper than ``other`` in the cost ``name``.

        The difference must also be at least a tenth of the higher cost (and ``LEAST_MS`` for a latency). A mean is
        tested question by question; the result is False if either config has too few scores. Quantiles of latencies are
        tested by ``latency_apart``; for a quantile of any other cost, the result is False.
        """
        values = self.values[name]
        if not self._is_saving(name, values[other], values[row]):
            return False
        if (found := self.difference(name, row, other)) is not None:
            return bool(found.better[1])
        return name.startswith("latency") and latency_apart(self.results[row], self.results[other], name)

    def difference(self, name: str, row: int, other: int) -> Differences | None:
        """Compare a cost of ``row`` (row 1 of the returned differences) with the same cost of ``other`` (row 0).

        Return None for a quantile, if either config has too few scores for this cost, or if no question has a score in
        all configs with enough scores.
        """
        matrix, pair = self._matrices.get(name), [self.results[n].name for n in (other, row)]
        if matrix is None or not {*pair} <= {*matrix.configs}:
            return None
        unit = self.results[row].summaries.metrics[name].unit
        return compare_amounts(matrix.select_configs([*map(matrix.configs.index, pair)]), 0, unit)

    @cached_property
    def _matrices(self) -> Mapping[str, Matrix | None]:
        found = {}
        for name in self.values:
            means = [one for one in self.results if is_scored(one, name) and is_mean(one, name)]
            matrix = score_matrix(means, name) if len(means) > 1 else None
            found[name] = matrix if matrix and matrix.questions else None
        return found

    def _is_saving(self, name: str, before: float, after: float) -> bool:
        least = LEAST_MS if name.startswith("latency") else 0.0
        return bool(before - after >= max(SAVING * before, least) and before > after)


@dataclass(frozen=True)
class Against:
    """The choice compared with another config, ``row``.

    ``probability`` is the probability that the choice's true mean is better. ``gain`` is the choice's expected lead.
    ``lost`` is the expected size of the choice's deficit, given that its true mean is worse; 0 if a worse true mean is
    practically impossible. With too few clusters or labels, ``probability`` and ``lost`` are NaN.
    """

    row: int
    probability: float
    gain: float
    lost: float


@dataclass(frozen=True)
class Choice:
    """The recommended config; all rows are rows of the sweep's matrix.

    ``row`` is the choice: ``best``, or a preferred config (cheaper, or the declared baseline) with an expected loss
    against ``best`` below ``loss``. ``row`` is None if no config is within the ``limits``. ``cost`` is the name of the
    cost for which a cheaper config was preferred, else "". ``losses`` is the effect of rare losses on the choice's lead
    over the baseline.
    """

    row: int | None
    best: int  # best expected mean of the rows that may be chosen, or of all rows if there are none
    loss: float
    cost: str = ""
    baseline: Against | None = None  # None if no baseline is declared or it is the choice
    runner_up: Against | None = None
    sacrificed: Against | None = None  # the best config, if another one is the choice
    losses: RareLosses | None = None
    limits: Mapping[str, float] = field(default_factory=dict)
    within: int = 0  # number of configs within the limits
    refusing: Collection[int] = ()  # rows that refuse every answerable question; other rows take precedence


def choose(
    beliefs: Beliefs,
    costs: ConfigCosts,
    constraints: Mapping[str, float | None],
    loss: float,
    refusing: Collection[int] = (),
    baseline: int | None = None,
) -> Choice:
    """Choose a config; the order and the names of the configs have no effect.

    Args:
        beliefs: Estimates of the configs' true means.
        costs: The costs of these configs.
        constraints: Name of a cost -> its upper limit; None for no limit. A config with an unknown value of a limited
        cost is not within the limit.
        loss: Exclusive upper limit of the expected loss against the best config, in the unit of the means.
        refusing: Rows that refuse every answerable question. One of them is chosen only if no other row is within the
        limits.
        baseline: The row of the config in production, if one is declared. Unless the limits or ``refusing`` exclude it,
        the baseline is chosen if three conditions hold. First, its expected mean ties with the best, or its expected
        loss against the best config is below ``loss``. Second, the best config is neither likely better nor shown to be
        cheaper. Third, no config is chosen for its lower cost.
    """
    limits = {name: limit for name, limit in constraints.items() if limit is not None}
    allowed = within_limits(costs.values, limits, len(beliefs.means))
    answering = allowed & ~np.isin(np.arange(len(allowed)), list(refusing))
    among = answering if answering.any() else allowed
    highest = _by_preference(beliefs.means, costs, range(len(allowed)))[0]
    base = Choice(None, highest, loss, limits=limits, within=int(allowed.sum()), refusing=refusing)
    if not among.any():
        return base
    order = _by_preference(beliefs.means, costs, np.flatnonzero(among).tolist())
    best, means = order[0], beliefs.means
    tied = means[best] - TIE * np.abs(means[order]).max()
    if baseline in order and means[baseline] >= tied and not _is_worth_a_change(beliefs, costs, best, baseline):
        best = baseline
    near = [row for row in order if beliefs.expected_loss(row, best) < loss]
    row, cost = _cheapest(costs, best, near)
    if baseline in near and not cost and not _is_worth_a_change(beliefs, costs, best, baseline):
        row = baseline
    # Configs with equal scores on every question are interchangeable, so neither has an expected loss.
    gap = means - means[row]
    rest = [other for other in order if other != row and (gap[other] or beliefs.expected_loss(row, other) != 0)]
    return replace(
        base,
        row=row,
        best=best,
        cost=cost,
        baseline=None if baseline is None or baseline == row else against(beliefs, row, baseline),
        runner_up=against(beliefs, row, rest[0]) if rest else None,
        sacrificed=against(beliefs, row, best) if row != best else None,
    )


def _is_worth_a_change(beliefs: Beliefs, costs: ConfigCosts, best: int, baseline: int) -> bool:
    """Return whether the best config is likely better than the baseline or shown to be cheaper."""
    name = costs.deciding([best, baseline])
    cheaper = bool(name) and costs.saves(name, best, baseline)
    return cheaper or beliefs.probability_better(best, baseline) > LIKELY


def against(beliefs: Beliefs, row: int, other: int) -> Against:
    """Compare ``row``, as the choice, with ``other``."""
    probability = beliefs.probability_better(row, other)
    worse, loss = 1 - probability, beliefs.expected_loss(row, other)
    gain = float(beliefs.means[row] - beliefs.means[other])
    return Against(other, probability, gain, 0.0 if worse <= TIE else loss / worse)


def within_limits(costs: Mapping[str, Doubles], limits: Mapping[str, float], count: int) -> Flags:
    """Flag those of ``count`` configs whose costs, where a limit is set, are known and within the limit."""
    allowed = np.ones(count, dtype=bool)
    for name, limit in limits.items():
        allowed &= costs[name] <= limit if name in costs else False
    return allowed


def _by_preference(means: Doubles, costs: ConfigCosts, rows: Sequence[int]) -> list[int]:
    """Sort rows by expected mean, best first; break ties by costs except latency, which is noisy, then by settings."""
    size = float(np.abs(means[list(rows)]).max()) or 1.0

    def preference(row: int) -> tuple[float | str, ...]:
        prices = [float(values[row]) for name, values in costs.values.items() if not name.startswith("latency")]
        known = [math.inf if math.isnan(price) else price for price in prices]
        result = costs.results[row]
        # Parameters come first, because the signature may contain a path or a port and thus differ between machines.
        settings = "\n".join(f"{key}={value}" for key, value in sorted(result.run.parameters.items()))
        return (-round(float(means[row]) / size / TIE) * TIE, *known, settings, result.run.signature)

    return sorted(rows, key=preference)


def _cheapest(costs: ConfigCosts, best: int, near: Sequence[int]) -> tuple[int, str]:
    """Return the cheapest ``near`` row shown to cost less than ``best``, and the cost's name; else ``best`` and ""."""
    name = costs.deciding([best, *near])
    if name:
        values = costs.values[name]
        # The sort is stable: rows with equal costs keep the order of their means.
        for row in sorted((row for row in near if row != best), key=lambda row: float(values[row])):
            if costs.saves(name, row, best):
                return row, name
    return best, ""


def find_tolerance(config: Mapping[str, Any], key: Literal["margin", "loss"], matrix: Matrix, unit: str) -> float:
    """Return ``recommend.margin`` or ``recommend.loss``, or its default, in the unit of the compared scores.

    Two means count as equal within the margin; the choice's expected loss must be below ``recommend.loss``. If ratios
    are compared, the result is log(1 + tolerance / mean). The mean is taken over all configs, so that the result does
    not depend on any single config.
    """
    given, default = (config.get("recommend") or {}).get(key), TOLERANCES[key]
    if not (unit and matrix.questions):
        return default if given is None else float(given)
    mean = abs(float(matrix.values.mean()))
    if has_ratios(matrix, unit):
        return math.log1p(default if given is None else float(given) / mean)
    return default * mean if given is None else float(given)
