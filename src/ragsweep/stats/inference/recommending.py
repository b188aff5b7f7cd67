"""What to recommend: a config shown better than the baseline, or shown as good as the best and cheaper, or none."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.errors import InputError, nearest
from ragsweep.stats.inference.differences import Differences
from ragsweep.stats.inference.matrix import Matrix
from ragsweep.stats.inference.max_t import student_quantile
from ragsweep.stats.inference.noninferiority import Gate, gate
from ragsweep.stats.inference.resampling import cluster_scores

Doubles = NDArray[np.float64]
Flags = NDArray[np.bool_]
Kind = Literal["better", "as_good_and_cheaper", "none"]

BETTER: Kind = "better"
AS_GOOD: Kind = "as_good_and_cheaper"
NONE: Kind = "none"
COSTS = ("cost_per_1000", "context_tokens", "latency_p95_ms")
"""What a config costs, and in which order it decides: money, else what money would be paid for, else time."""
MARGIN = 0.05
"""Default margin: points of a metric without a unit, else this share of the baseline's mean."""
SAVING = 0.1
"""A cost that is not lower by at least this share of the baseline's is no reason to change anything."""
ERROR = 0.05
"""How often, at most, a config is called as good as the best and is worse by more than the margin."""


MOST_TRIED = 20
"""Candidates that are tried: the error rate left for the next one is less than one in a million."""


class ConfigCost(NamedTuple):
    """One number a config, NaN where it is not known, and which configs are shown to cost less or more than row 0."""

    value: Doubles
    cheaper: Flags
    dearer: Flags
    least: float = 0.0  # a saving of less is none, whatever its share


@dataclass(frozen=True, eq=False)
class ContextLength:
    """How the contexts of configs compare with the baseline's, for a metric that can only rise with its length."""

    keys: tuple[str, ...]  # that differ: top_k, context_budget
    longer: Flags  # (configs,)
    alone: Flags  # (configs,): nothing else differs from the baseline


@dataclass(frozen=True, eq=False)
class Pairs:
    """How configs are compared two by two: by the scores of a matrix."""

    matrix: Matrix

    @property
    def means(self) -> Doubles:
        """The configs' means; more is better."""
        return np.asarray(self.matrix.better.mean(axis=1))

    def gate(self, first: int, second: int, margin: float, level: float) -> Gate:
        """Decide whether the second config is worse than the first by more than ``margin``."""
        return gate(self.matrix.select_configs((first, second)), margin, level=level)

    def can_pass(self, row: int, rivals: Sequence[int], margin: float, level: float) -> bool:
        """Return whether a row may pass the gate against each rival: all are compared at once."""
        better, clusters = self.matrix.better, self.matrix.clusters
        data = cluster_scores(better[rivals] - better[row], clusters, self.matrix.weights)
        return not (data.means + student_quantile(level, data.degrees) * data.errors > margin).any()


@dataclass(frozen=True)
class Change:
    """A mean difference with its interval, positive where the first config is the better one."""

    estimate: float
    low: float
    high: float


@dataclass(frozen=True)
class Recommendation:
    """What follows from a sweep; rows are those of its matrix.

    ``config`` is the recommended row, None for kind "none". ``best`` is the row with the highest mean among those
    within the limits and the baseline. ``from_best`` is how the recommended config differs from it: a 95 % interval, or
    of "as_good_and_cheaper" the one whose lower end was shown to lie above -``margin``; None where it is the best.
    ``cost`` names the cost by which it is the cheaper one. Of "none", ``untold`` is the row with the lowest ``cost``
    that is not shown to be lower than the baseline's. ``decide_by`` names the keys that lengthen the context where
    the metric can only rise with them: a lead that comes from them is no reason to choose a config. ``within`` counts
    the configs within the ``limits``.
    """

    kind: Kind
    config: int | None
    best: int
    margin: float
    from_best: Change | None = None
    cost: str = ""
    untold: int | None = None
    decide_by: tuple[str, ...] = ()
    limits: Mapping[str, float] = field(default_factory=dict)
    within: int = 0
    note: str = ""


def recommend(
    pairs: Pairs,
    differences: Differences,
    costs: Mapping[str, ConfigCost],
    constraints: Mapping[str, float | None],
    margin: float,
    lengths: ContextLength | None = None,
) -> Recommendation:
    """Recommend a config, or none.

    "better": the highest mean of the configs within the limits whose simultaneous interval against the baseline (row 0)
    lies above 0. Else "as_good_and_cheaper": the cheapest config that costs less than the baseline, or the baseline if
    the best costs more, and is shown not worse than any other one by more than ``margin``. Candidates are tried in the
    order of their cost, which the scores do not change: the cheapest at half of the error rate, the next at a quarter,
    and so on, so that the whole rule errs in at most 5 % of sweeps (weighted Bonferroni; each candidate is an
    intersection-union test: Berger, Technometrics 24, 1982). Otherwise "none".

    Args:
        pairs: Comparisons of two configs; row 0 is the baseline.
        differences: All configs against row 0.
        costs: Name of a cost -> its values: those of ``COSTS``.
        constraints: Name of a cost -> what a config may cost at most; None for no limit. A config of which a limited
            cost is not known is not within the limit.
        margin: How much worse than the best is as good, in the metric's unit.
        lengths: Given for a metric that can only rise with the length of the context. Without limits on costs a lead
            that may come from a longer context alone is not taken for an improvement.

    Raises:
        InputError: A limit on something that is no known cost.
    """
    limits = _limits(constraints)
    allowed = _allowed(costs, limits, len(pairs.means))
    known = replace(NOTHING, best=_highest(pairs, allowed | _baseline(allowed)), margin=margin, limits=limits,
                    within=int(allowed.sum()))  # fmt: skip
    if math.isnan(differences.critical):
        return replace(known, note=differences.notes[-1])
    shown = differences.better & allowed
    longer = np.zeros_like(shown) if lengths is None or limits else lengths.longer
    if lengths is not None and (shown & longer).any():
        known = replace(known, decide_by=lengths.keys)
    if (shown & ~longer).any():
        return _better(pairs, known, shown & ~longer)
    if (cheaper := _as_good(pairs, known, costs, allowed)) is not None:
        return cheaper
    if lengths is not None and (shown & ~lengths.alone).any():
        return _better(pairs, known, shown & ~lengths.alone)
    return _with_untold(known, costs, allowed)


NOTHING = Recommendation(NONE, None, 0, MARGIN)


def _limits(constraints: Mapping[str, float | None]) -> dict[str, float]:
    limits = {name: limit for name, limit in constraints.items() if limit is not None}
    for name in limits:
        if name not in COSTS:
            raise InputError(f'a limit on "{name}", which is no cost{nearest(name, COSTS)}')
    return limits


def _allowed(costs: Mapping[str, ConfigCost], limits: Mapping[str, float], count: int) -> Flags:
    allowed = np.ones(count, dtype=bool)
    for name, limit in limits.items():
        allowed &= costs[name].value <= limit if name in costs else False
    return allowed


def _baseline(like: Flags) -> Flags:
    return np.asarray(np.arange(len(like)) == 0)


def _highest(pairs: Pairs, among: Flags) -> int:
    return int(np.where(among, pairs.means, -np.inf).argmax())


def _better(pairs: Pairs, known: Recommendation, among: Flags) -> Recommendation:
    row = _highest(pairs, among)
    change = None if row == known.best else _change(pairs, row, known.best, 0.975)
    return replace(known, kind=BETTER, config=row, from_best=change)


def _as_good(
    pairs: Pairs, known: Recommendation, costs: Mapping[str, ConfigCost], allowed: Flags
) -> Recommendation | None:
    """Try the cheaper configs, the cheapest first; None if no one is shown to be as good as the best."""
    rivals = np.flatnonzero(allowed | _baseline(allowed)).tolist()
    name = _deciding(costs, rivals)
    if not name:
        return None
    candidates = [row for row in _cheaper(costs[name], rivals, known.best) if allowed[row]]
    for place, row in enumerate(candidates[:MOST_TRIED]):
        level = 1 - ERROR / 2 ** (place + (row != candidates[-1]))
        if _not_worse(pairs, row, rivals, known.margin, level):
            change = None if row == known.best else _change(pairs, row, known.best, level)
            return replace(known, kind=AS_GOOD, config=row, from_best=change, cost=name)
    return None


def _with_untold(known: Recommendation, costs: Mapping[str, ConfigCost], allowed: Flags) -> Recommendation:
    """Add the cheapest row by the deciding cost, if that may be chance."""
    name = _deciding(costs, np.flatnonzero(allowed | _baseline(allowed)).tolist())
    rows = [row for row in np.flatnonzero(allowed).tolist() if name and _saves(costs[name], row, 0)]
    cheapest = min(rows, key=lambda row: float(costs[name].value[row]), default=0)
    return replace(known, cost=name, untold=cheapest) if rows and not costs[name].cheaper[cheapest] else known


def _deciding(costs: Mapping[str, ConfigCost], rows: Sequence[int]) -> str:
    """Return the first cost that is known of all rows and sets one apart from the baseline; "" if there is none.

    By its value, be it chance: a cost that decides after it must not make a config cheaper that may cost more by it.
    """
    for name in COSTS:
        if name in costs and not np.isnan(costs[name].value[rows]).any():
            one = costs[name]
            if any(_saves(one, row, 0) or _saves(one, 0, row) for row in rows):
                return name
    return ""


def _saves(cost: ConfigCost, row: int, other: int) -> bool:
    """Return whether a row's cost is lower than another one's by a tenth at least."""
    return bool(cost.value[other] - cost.value[row] >= max(SAVING * cost.value[other], cost.least))


def _cheaper(cost: ConfigCost, rows: Sequence[int], best: int) -> list[int]:
    """List the rows shown to cost less than the baseline, the cheapest first; last the baseline, if the best is dearer.

    That the baseline is cheaper than the best one must be shown, too.
    """
    found = [row for row in rows if _saves(cost, row, 0) and cost.cheaper[row]]
    keep = _saves(cost, 0, best) and cost.dearer[best]
    return [*sorted(found, key=lambda row: (cost.value[row], row)), *([0] if keep else [])]


def _not_worse(pairs: Pairs, row: int, rivals: Sequence[int], margin: float, level: float) -> bool:
    """Return whether a row is shown not worse than each rival by more than the margin, each at ``level``.

    The gate, which allows for losses too rare to have been seen, has the last word.
    """
    if not pairs.can_pass(row, rivals, margin, level):
        return False
    others = sorted((rival for rival in rivals if rival != row), key=lambda rival: -float(pairs.means[rival]))
    return all(pairs.gate(rival, row, margin, level).decision == "pass" for rival in others)


def _change(pairs: Pairs, row: int, other: int, level: float) -> Change:
    """Return by how much one row is better than another; each end of the interval is one-sided at ``level``."""
    found = pairs.gate(other, row, 0.0, level)
    return Change(found.slack, found.low, found.high)
