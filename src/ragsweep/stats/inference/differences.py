"""The difference of every config from one of them, with its uncertainty."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ragsweep.stats.inference.cluster_errors import FEWEST, enough_clusters
from ragsweep.stats.inference.matrix import Matrix
from ragsweep.stats.inference.max_t import bound
from ragsweep.stats.inference.paired_tests import holm, randomisation, round_to_ties, wilcoxon
from ragsweep.stats.inference.resampling import RESAMPLES, cluster_scores

Doubles = NDArray[np.float64]
Numbers = NDArray[np.int64]
Flags = NDArray[np.bool_]

BASELINE = "the baseline"
IDENTICAL = "the same scores for every question"
CONSTANT = "the same difference for every question"
TOO_SHORT = "may be too short: rare losses"
UNCONFIRMED = "too few questions differ: the interval excludes 0, the exact tests do not confirm it"
NO_RATIO = "some values are 0 or less, so that there is no ratio: the interval assumes no long tail"
SCALES = frozenset({"%", "points"})
"""Units of scales with two ends."""

FEW = f"fewer than {FEWEST} independent questions"


@dataclass(frozen=True, eq=False)
class Differences:
    """Each config less the baseline: arrays with one number a config, in the metric's unit and its own direction.

    Where less is better a negative ``estimate`` is the better one; ``better`` and ``worse`` respect that. ``low`` and
    ``high`` hold for all configs together at ``level``; ``standard_error`` is that of one difference, by clusters.
    ``effect`` is Cohen's d_z (1988): the mean difference in standard deviations of the differences, both weighted.
    ``apart`` counts the questions whose scores differ. An unknown number is NaN, with the reason in ``notes``.

    With ``ratios`` all of these are of logarithms: e to the ``estimate`` is the typical ratio to the baseline.
    """

    baseline: int
    level: float
    estimate: Doubles
    low: Doubles
    high: Doubles
    standard_error: Doubles
    wilcoxon: Doubles  # two-sided p-values
    randomisation: Doubles
    wilcoxon_holm: Doubles
    randomisation_holm: Doubles
    effect: Doubles
    apart: Numbers
    notes: tuple[str, ...]
    variants: tuple[str, ...]  # of Wilcoxon's test: "exact", "normal", "none"
    critical: float  # half-width of each interval in standard errors
    degrees: float  # degrees of freedom of the differences' t statistics
    largest: float  # quantile of the largest resampled deviation that ``critical`` rests on
    higher_is_better: bool = True
    ratios: bool = False
    by_labels: bool = False  # corrected by people's labels: the tests of judged scores are ignored

    @property
    def better(self) -> Flags:
        """The configs whose interval lies wholly on the better side of 0, confirmed by the exact tests."""
        return self.confirmed & (self.low > 0 if self.higher_is_better else self.high < 0)

    @property
    def worse(self) -> Flags:
        """The configs whose interval lies wholly on the worse side of 0, confirmed by the exact tests."""
        return self.confirmed & (self.high < 0 if self.higher_is_better else self.low > 0)

    @property
    def confirmed(self) -> Flags:
        """The configs whose difference the exact tests confirm.

        If few questions differ, an interval may exclude 0 although random signs would do so too often: the bootstrap is
        only an approximation there, and these tests are exact.
        """
        if self.by_labels:
            return np.ones(len(self.estimate), dtype=bool)
        exact = np.array([variant == "exact" for variant in self.variants], dtype=bool)
        return np.asarray((self.randomisation < 1 - self.level) & (~exact | (self.wilcoxon < 1 - self.level)))


def compare_with_baseline(
    matrix: Matrix, baseline: int, level: float = 0.95, resamples: int = RESAMPLES, largest: float | None = None
) -> Differences:
    """Compare every config with the row ``baseline``, paired by question.

    Intervals are max-T bootstrap by cluster (see ``max_t.bound``), with fixed standard errors; Wilcoxon's test
    treats questions one by one, the randomisation test flips clusters together, both of differences times weights;
    Holm's correction counts all other configs. With fewer than ten effective clusters there are no intervals, and the
    tests remain. Where the baseline was chosen by the scores themselves, ``largest`` is that of all pairs of configs
    (``confidence_set.all_pairs``): then the intervals hold for any chosen config.
    """
    differences = matrix.values - matrix.values[baseline]
    differences = round_to_ties(differences) if differences.size else differences
    data = cluster_scores(differences, matrix.clusters, matrix.weights, compared=True)  # independent of the baseline
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
    """Compare with the row ``baseline``: amounts in a ``unit`` that are all above 0 by their ratios, else differences.

    Milliseconds, tokens and money have long tails, so that intervals of mean differences cover the true one too seldom;
    on logarithms both tests and intervals are valid. If a value is 0 or less, ``notes`` states the assumption.
    """
    found = compare_with_baseline(transform_amounts(matrix, unit), baseline, resamples=resamples, largest=largest)
    if not is_amount(unit) or not matrix.values.size or has_ratios(matrix, unit):
        return replace(found, ratios=has_ratios(matrix, unit))
    notes = [f"{note}; {NO_RATIO}" if note else NO_RATIO for note in found.notes]
    notes[baseline] = found.notes[baseline]
    return replace(found, notes=tuple(notes))


def is_amount(unit: str) -> bool:
    """Return whether scores in a unit are amounts, which may have a long tail; those of a scale with ends have none."""
    return bool(unit) and unit not in SCALES


def has_ratios(matrix: Matrix, unit: str) -> bool:
    """Return whether scores are amounts in a ``unit``, all above 0, which are compared by their ratios."""
    return bool(is_amount(unit) and matrix.values.size and (matrix.scores > 0).all())


def transform_amounts(matrix: Matrix, unit: str) -> Matrix:
    """Return the compared scores: natural logarithms of amounts (``has_ratios``), with the same weights.

    Less the mean logarithm of all configs, so that the unit (seconds or milliseconds) and the order change nothing.
    """
    if not has_ratios(matrix, unit):
        return matrix
    logarithms = np.log(matrix.scores)
    logarithms -= logarithms.mean()
    return replace(matrix, values=logarithms if matrix.weights is None else logarithms * matrix.weights)


def _corrected(p_values: Doubles, others: Flags) -> Doubles:
    corrected = np.ones(len(p_values))
    corrected[others] = holm(p_values[others])
    return corrected


def _effects(differences: Doubles, weights: Doubles) -> Doubles:
    """Divide mean differences by their standard deviation: 0 if nothing differs, NaN if there is no spread.

    ``differences`` are times ``weights``, which have a mean of 1.
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
