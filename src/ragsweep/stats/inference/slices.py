"""Compare configs in slices, one for every value of every label, with a correction for multiplicity."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from ragsweep.core.question_results import Flags, Numbers
from ragsweep.stats.inference.estimates import Differences, Reversal, Slice
from ragsweep.stats.inference.matrix import Matrix
from ragsweep.stats.inference.paired_tests import holm, randomisation, round_to_ties
from ragsweep.stats.inference.rare_losses import find_exposed, largest_losses
from ragsweep.stats.inference.resampling import (
    RESAMPLES,
    SimultaneousIntervals,
    bound,
    cluster_scores,
    largest_deviation,
    needed_p_value,
)

SMALL = 20
"""Slices with fewer questions are marked as small, because they show only large differences."""
WORK = 20_000_000_000
"""Maximum number of multiplications for all intervals; beyond it, fewer resamples are drawn, but at least 1,000."""


def by_slice(
    matrix: Matrix,
    labels: Mapping[str, Sequence[str]],
    resamples: int = RESAMPLES,
    rising: Flags | None = None,
) -> tuple[Slice, ...]:
    """In each slice, compare every config with the first one; correct for all comparisons (max-T; Holm).

    ``labels`` maps the name of a label to its value for each question of the matrix, in the matrix's order; "" means
    that a question has no value. The number of ``resamples`` is reduced if the work would exceed ``WORK``. ``rising``
    flags the configs that, by the metric's definition, are never worse than the first one on any question, or never
    better; they are not ``exposed``.
    """
    chosen = [
        (label, value, np.array([one == value for one in values], dtype=bool))
        for label, values in labels.items()
        for value in sorted({one for one in values if one})
    ]
    if not chosen:
        return ()
    differences = replace(matrix, values=round_to_ties(matrix.values - matrix.values[0]))
    parts = [differences.select_questions(mask) for *_, mask in chosen]
    p_values = np.stack([randomisation(part.values, part.clusters) for part in parts])
    p_values[:, 0] = math.nan  # so that Holm's correction does not count the baseline
    corrected = holm(p_values.ravel()).reshape(p_values.shape)
    most, guarded = largest_losses(matrix.scores[0], matrix.unit), True if rising is None else ~rising
    found = []
    intervals = _intervals(parts, [matrix.clusters[mask] for *_, mask in chosen], matrix, resamples)
    for (label, value, _), part, ends, p, adjusted in zip(chosen, parts, intervals, p_values, corrected, strict=True):
        shown, allowed = (ends.low > 0) | (ends.high < 0), needed_p_value(ends.critical, ends.degrees)
        exposed = find_exposed(part.values, part.clusters, shown, most, allowed) & guarded
        numbers, questions = (ends.means, ends.low, ends.high, p, adjusted, exposed), len(part.questions)
        found.append(Slice(label, value, questions, questions < SMALL, *numbers, matrix.higher_is_better))
    return tuple(found)


def reversals(overall: Differences, slices: Sequence[Slice], rows: Sequence[int]) -> tuple[Reversal, ...]:
    """Find the configs that are shown to be better than the baseline on average but seem worse in a slice.

    The result is in the order of ``slices``. ``rows`` maps each row of a slice to its row in ``overall``.
    """
    return tuple(
        Reversal(config, one.label, one.value, one.small, bool(one.exposed[n]))
        for one in slices
        for n, config in enumerate(rows)
        if one.seems_worse[n] and overall.better[config]
    )


def _intervals(
    parts: Sequence[Matrix], clusters: Sequence[Numbers], matrix: Matrix, resamples: int
) -> list[SimultaneousIntervals]:
    """Return the mean differences of each slice with their intervals, which hold simultaneously for all slices.

    The slices are resampled together: their standardised sums are spread over the clusters of all questions. Whole
    clusters are drawn, so the number of questions in a slice varies between resamples; as a linearisation, the sums
    nevertheless use deviations from the slice's observed mean. Each interval has its own slice's errors and degrees of
    freedom. ``clusters`` has the clusters of each slice's questions as they are numbered in ``matrix``.
    """
    found = [cluster_scores(part.values, part.clusters, part.weights) for part in parts]
    known = []
    for one, own in zip(found, clusters, strict=True):
        if one.enough:
            sums = np.zeros((len(one.standardised), int(matrix.clusters.max()) + 1))
            sums[:, np.unique(own)] = one.standardised
            known.append(sums)
    largest = 0.0
    if known:
        fewer = min(resamples, max(WORK // (len(known) * matrix.values.size), 1000))
        largest = largest_deviation(np.concatenate(known), fewer)
    return [bound(one, largest=largest) for one in found]
