"""Two configs compared by one metric, as the sweep that both belong to compares them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ragsweep.core.results import Result
from ragsweep.stats.comparable import is_mean
from ragsweep.stats.comparison import find_margin, is_scored, list_references
from ragsweep.stats.inference.confidence_set import all_pairs
from ragsweep.stats.inference.differences import compare_amounts
from ragsweep.stats.inference.estimates import Differences
from ragsweep.stats.inference.matrix import Matrix, transform_amounts
from ragsweep.stats.inference.score_matrix import score_matrix
from ragsweep.stats.inference.shrinkage import posterior
from ragsweep.stats.verdict import Beliefs, PairVerdict, pair_verdict


@dataclass(frozen=True, eq=False)
class Family:
    """The configs among which a pair is compared: those of its sweep, or the pair alone.

    ``baseline`` is the declared baseline of the sweep, whose differences hold together; all other pairs hold together
    with all pairs of the sweep.
    """

    results: Sequence[Result]
    baseline: str | None = None

    def compare(self, first: Result, second: Result, metric: str) -> PairComparison:
        """Compare the second config with the first by one metric."""
        members = [one for one in self.results if one is first or one is second or self._is_member(one, metric)]
        matrix, unit = score_matrix(members, metric), first.summaries[metric].unit
        compared, rows = transform_amounts(matrix, unit), (members.index(first), members.index(second))
        largest: float | None = None
        if self.baseline == second.name:
            largest = compare_amounts(matrix, rows[1], unit).largest
        elif self.baseline != first.name and len(members) > 2:
            largest = all_pairs(compared).largest
        found, margin = compare_amounts(matrix, rows[0], unit, largest), find_margin(first.config, matrix, unit)
        return PairComparison(matrix, compared, rows, found, posterior(compared), margin)

    def _is_member(self, result: Result, metric: str) -> bool:
        references = {one.name for one in list_references(self.results)}
        return result.name not in references and is_scored(result, metric) and is_mean(result, metric)


@dataclass(frozen=True, eq=False)
class PairComparison:
    """A pair within its family: ``rows`` of ``matrix``, the first one the baseline of ``found``."""

    matrix: Matrix
    compared: Matrix
    rows: tuple[int, int]
    found: Differences
    beliefs: Beliefs
    margin: float

    @property
    def verdict(self) -> PairVerdict:
        """The verdict on the second config against the first."""
        return pair_verdict(self.found, self.rows[1], self.beliefs, self.margin)
