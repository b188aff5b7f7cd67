"""Compare configs on each cluster that dominates the questions, and on all other questions.

One question with a fifth of the traffic, or one document with a third of the questions, leaves too few effective
clusters, or degrees of freedom, for an interval over all questions. The other questions alone may be enough.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ragsweep.stats.inference.cluster_errors import FEWEST
from ragsweep.stats.inference.confidence_set import all_pairs
from ragsweep.stats.inference.differences import compare_amounts
from ragsweep.stats.inference.estimates import Concentration, Part
from ragsweep.stats.inference.matrix import Matrix, transform_amounts
from ragsweep.stats.inference.resampling import RESAMPLES, cluster_scores

Flags = NDArray[np.bool_]

MOST = 3
"""Maximum number of clusters that are compared separately."""
ROUNDED = 0.01
"""Tolerance of computed degrees of freedom."""


def dominating_clusters(matrix: Matrix, baseline: int = 0) -> tuple[int, ...]:
    """Return the largest clusters, as few as possible, whose removal makes intervals over all other questions usable.

    Intervals are usable if differences from the row ``baseline`` have at least the degrees of freedom of ten equal
    clusters. A single question with a fifth of the traffic leaves only one or two degrees of freedom, and so an
    arbitrarily wide interval. The largest cluster comes first. Empty if no cluster has to be removed, or if removing
    ``MOST`` clusters is not enough.
    """
    sizes = np.bincount(matrix.clusters, matrix.weights).astype(np.float64)
    order = np.argsort(-sizes, kind="stable")
    for count in range(min(MOST, len(order) - 1) + 1):
        part = matrix.select_questions(~np.isin(matrix.clusters, order[:count]))
        found = cluster_scores(part.values - part.values[baseline], part.clusters, part.weights)
        if found.degrees >= FEWEST - 1 - ROUNDED:
            return tuple(order[:count].tolist())
    return ()


def compare_parts(
    matrix: Matrix, baseline: int, unit: str = "", declared: bool = True, resamples: int = RESAMPLES
) -> Concentration | None:
    """Compare with the row ``baseline`` on each dominating cluster and on the rest; None if no cluster dominates.

    Args:
        matrix: The scores.
        baseline: The row that the others are compared with.
        unit: Unit of the metric; amounts are compared by ratios (see ``compare_amounts``).
        declared: Whether the baseline was declared rather than chosen by its scores (see ``compare_with_baseline``).
        resamples: Number of resamples of the intervals.
    """
    dominating = dominating_clusters(matrix, baseline)
    if not dominating:
        return None
    weights = np.ones(len(matrix.questions)) if matrix.weights is None else matrix.weights

    def compared(chosen: Flags, alone: bool) -> Part:
        part = matrix.select_questions(chosen)
        part = replace(part, clusters=np.arange(len(part.questions))) if alone else part
        share = float(weights[chosen].sum() / weights.sum())
        largest = None if declared else all_pairs(transform_amounts(part, unit), resamples=resamples).largest
        return Part(part.questions, share, compare_amounts(part, baseline, unit, largest, resamples))

    inside = [matrix.clusters == number for number in dominating]
    return Concentration(
        tuple(compared(chosen, alone=True) for chosen in inside), compared(~np.any(inside, axis=0), alone=False)
    )
