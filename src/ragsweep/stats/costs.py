"""The costs of configs in money, context tokens and time, and tests for savings."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.results import Result
from ragsweep.stats.choice import COSTS
from ragsweep.stats.comparable import is_mean
from ragsweep.stats.inference.differences import compare_amounts
from ragsweep.stats.inference.estimates import Differences
from ragsweep.stats.inference.matrix import Matrix
from ragsweep.stats.inference.score_matrix import score_matrix
from ragsweep.stats.latencies import LEAST_MS, latency_apart

Doubles = NDArray[np.float64]

SAVING = 0.1
"""Minimum share of a cost that counts as a saving."""


@dataclass(frozen=True, eq=False)
class ConfigCosts:
    """The costs of the compared configs: ``values`` maps a cost's name to one number per config, NaN if unknown."""

    results: Sequence[Result]
    is_usable: Callable[[Result, str], bool]  # whether enough questions of a config have a score for a metric

    @cached_property
    def values(self) -> Mapping[str, Doubles]:
        """The costs that are known for at least one config."""
        found = {name: np.array([self._value(result, name) for result in self.results]) for name in COSTS}
        return {name: values for name, values in found.items() if not np.isnan(values).all()}

    def deciding(self, rows: Sequence[int]) -> str:
        """Return the first cost that all rows have and that differs by at least a saving; "" if there is none.

        The point estimates count, significant or not: a saving of lower priority must not outweigh a possible increase
        in a cost of higher priority.
        """
        for name, values in self.values.items():
            both = values[list(rows)]
            if not np.isnan(both).any() and self._is_saving(name, both.max(), both.min()):
                return name
        return ""

    def saves(self, name: str, row: int, other: int) -> bool:
        """Return whether a row costs at least a tenth less than another, and is shown to cost less.

        A mean is tested question by question; False if either config has too few scores. Quantiles of latencies must
        differ by more than the machine's drift explains.
        """
        values = self.values[name]
        if not self._is_saving(name, values[other], values[row]):
            return False
        if (found := self.difference(name, row, other)) is not None:
            return bool(found.better[1])
        return name.startswith("latency") and latency_apart(self.results[row], self.results[other], name)

    def difference(self, name: str, row: int, other: int) -> Differences | None:
        """Compare a cost of ``row`` (row 1 of the returned differences) with the same cost of ``other`` (row 0).

        None for a quantile, or if either config has too few scores for this cost.
        """
        matrix, pair = self._matrices[name], [self.results[n].name for n in (other, row)]
        if matrix is None or not {*pair} <= {*matrix.configs}:
            return None
        unit = self.results[row].summaries.metrics[name].unit
        return compare_amounts(matrix.select_configs([*map(matrix.configs.index, pair)]), 0, unit)

    @cached_property
    def _matrices(self) -> Mapping[str, Matrix | None]:
        found: dict[str, Matrix | None] = dict.fromkeys(COSTS)
        for name in self.values:
            means = [
                one
                for one in self.results
                if name in one.summaries.metrics and self.is_usable(one, name) and is_mean(one, name)
            ]
            if len(means) > 1:
                matrix = score_matrix(means, name)
                found[name] = matrix if matrix.questions else None
        return found

    def _value(self, result: Result, name: str) -> float:
        usable = name in result.summaries.metrics and self.is_usable(result, name)
        return result.summaries.metrics[name].value if usable else math.nan

    def _is_saving(self, name: str, before: float, after: float) -> bool:
        least = LEAST_MS if name.startswith("latency") else 0.0
        return bool(before - after >= max(SAVING * before, least) and before > after)
