"""The difference of every config from a baseline, with its uncertainty."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ragsweep.stats.inference.cluster_errors import FEWEST, enough_clusters
from ragsweep.stats.inference.estimates import Differences
from ragsweep.stats.inference.matrix import Matrix, has_ratios, is_amount, transform_amounts
from ragsweep.stats.inference.max_t import bound
from ragsweep.stats.inference.paired_tests import holm, randomisation, round_to_ties, wilcoxon
from ragsweep.stats.inference.resampling import RESAMPLES, cluster_scores

Doubles = NDArray[np.float64]
Numbers = NDArray[np.int64]
Flags = NDArray[np.bool_]

BASELINE = "the baseline"
IDENTICAL = "the same scores for every question"
CONSTANT = "the same difference for every question"
UNCONFIRMED = "too few questions differ: the interval excludes 0, but the exact tests do not confirm it"
NO_RATIO = "some values are 0 or less, so there is no ratio: the interval assumes no long tail"
FEW = f"fewer than {FEWEST} independent questions"


def compare_with_baseline(
    matrix: Matrix, baseline: int, level: float = 0.95, resamples: int = RESAMPLES, largest: float | None = None
) -> Differences:
    """Compare every config with the row ``baseline``, paired by question.

    The intervals are from the max-T bootstrap by cluster (see ``max_t.bound``). Both tests use differences times
    weights: Wilcoxon's test treats questions as independent, the randomisation test flips whole clusters. Holm's
    correction counts every config except the baseline. With fewer than ten effective clusters there are tests but no
    intervals. If the baseline was chosen by its scores, pass the ``largest`` of all pairs of configs
    (``confidence_set.all_pairs``): then the intervals hold whichever config was chosen.
    """
    differences = matrix.values - matrix.values[baseline]
    differences = round_to_ties(differences) if differences.size else differences
    # with ``compared`` the correlation within clusters is the same for every baseline
    data = cluster_scores(differences, matrix.clusters, matrix.weights, compared=True)
    bounds = bound(data, level, resamples, largest)
    ranked, flipped = wilcoxon(differences), randomisation(differences, matrix.clusters)
    others = np.arange(len(differences)) != baseline
    known = enough_clusters(matrix.clusters, matrix.weights)
    weights = np.ones(differences.shape[1]) if matrix.weights is None else matrix.weights
    bounds.low[baseline] = bounds.high[baseline] = 0.0
    found = Differences(
        baseline,
        level,
        bounds.means,
        bounds.low,
        bounds.high,
        bounds.errors,
        ranked.p,
        flipped,
        _corrected(ranked.p, others),
        _corrected(flipped, others),
        _effects(differences, weights),
        np.count_nonzero(differences, axis=1),
        _notes(differences / weights, baseline, known),
        ranked.variant,
        bounds.critical,
        bounds.degrees,
        bounds.largest,
        matrix.higher_is_better,
    )
    unconfirmed = others & ((found.low > 0) | (found.high < 0)) & ~found.confirmed
    notes = [UNCONFIRMED if one else note for note, one in zip(found.notes, unconfirmed, strict=True)]
    return replace(found, notes=tuple(notes))


def compare_amounts(
    matrix: Matrix, baseline: int, unit: str, largest: float | None = None, resamples: int = RESAMPLES
) -> Differences:
    """Compare with the row ``baseline``: by ratios for positive amounts with a ``unit``, else by differences.

    Milliseconds, tokens and money have long tails, so intervals of mean differences miss the true value too often; on
    logarithms both tests and intervals are valid. If an amount is 0 or less, differences are compared and ``notes``
    states this.
    """
    found = compare_with_baseline(transform_amounts(matrix, unit), baseline, resamples=resamples, largest=largest)
    if not is_amount(unit) or not matrix.values.size or has_ratios(matrix, unit):
        return replace(found, ratios=has_ratios(matrix, unit))
    notes = [f"{note}; {NO_RATIO}" if note else NO_RATIO for note in found.notes]
    notes[baseline] = found.notes[baseline]
    return replace(found, notes=tuple(notes))


def _corrected(p_values: Doubles, others: Flags) -> Doubles:
    corrected = np.ones(len(p_values))
    corrected[others] = holm(p_values[others])
    return corrected


def _effects(differences: Doubles, weights: Doubles) -> Doubles:
    """Divide each mean difference by the standard deviation of the differences.

    The effect is 0 if nothing differs; it is NaN if all differences are the same number other than 0, or for fewer than
    two questions. ``differences`` (rows, questions) are already multiplied by ``weights``, which have a mean of 1.
    """
    if differences.shape[1] < 2:
        return np.full(len(differences), np.nan)
    means = differences.mean(axis=1)
    squares = weights * np.square(differences / weights - means[:, None])
    spread = np.sqrt(squares.sum(axis=1) / (differences.shape[1] - 1))
    flat = spread <= 1e-9 * np.abs(differences).max(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(flat, np.where(means == 0, 0.0, np.nan), means / spread)


def _notes(differences: Doubles, baseline: int, known: bool) -> tuple[str, ...]:
    def note(row: int, scores: Doubles) -> str:
        if row == baseline:
            return BASELINE
        if not known:
            return FEW
        if not scores.any():
            return IDENTICAL
        return CONSTANT if np.ptp(scores) <= 1e-9 * np.abs(scores).max() else ""

    return tuple(note(row, scores) for row, scores in enumerate(differences))
