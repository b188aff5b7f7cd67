"""Compare configs with a baseline or in pairs, on all questions and on the clusters that dominate them.

One question with a fifth of the traffic, or one document with a third of the questions, leaves too few effective
clusters or degrees of freedom for an interval over all questions. The other questions alone may be enough.
"""

import math
from dataclasses import replace

import numpy as np

from ragsweep.core.data import Floats
from ragsweep.core.question_results import Doubles, Flags
from ragsweep.stats.inference.cluster_errors import FEW, FEWEST, enough_clusters
from ragsweep.stats.inference.estimates import LEVEL, AllPairs, Concentration, Differences, Part
from ragsweep.stats.inference.matrix import Matrix, has_ratios, is_amount, transform_amounts
from ragsweep.stats.inference.paired_tests import holm, randomisation, round_to_ties, wilcoxon
from ragsweep.stats.inference.resampling import (
    LARGEST,
    RESAMPLES,
    ClusteredScores,
    as_normal,
    bound,
    cluster_scores,
    deviations,
    student_quantile,
)

REFERENCE = "the reference"
IDENTICAL = "the same scores for every question"
CONSTANT = "the same difference for every question"
UNCONFIRMED = "too few questions differ: the interval excludes 0, but the exact tests do not confirm it"
NO_RATIO = "some values{of} are 0 or less, so there is no ratio: the interval assumes no long tail"


def compare_with_baseline(
    matrix: Matrix, baseline: int, resamples: int = RESAMPLES, largest: float | None = None
) -> Differences:
    """Compare every config with the row ``baseline``, paired by question.

    The intervals come from the max-T bootstrap by cluster (see ``bound``). Both tests use differences times weights.
    Wilcoxon's test treats questions as independent; the randomisation test flips whole clusters. Holm's correction
    counts every config except the baseline. With fewer than ten effective clusters, only tests are computed, without
    intervals. If the baseline was chosen by its scores, pass ``largest`` from ``all_pairs``, so that the intervals hold
    for any choice.
    """
    differences = round_to_ties(matrix.values - matrix.values[baseline])
    # with ``compared``, the correlation within clusters is the same for every baseline
    data = cluster_scores(differences, matrix.clusters, matrix.weights, compared=True)
    bounds = bound(data, resamples, largest)
    ranked, flipped = wilcoxon(differences), randomisation(differences, matrix.clusters)
    others = np.arange(len(differences)) != baseline
    known = enough_clusters(matrix.clusters, matrix.weights)
    weights = matrix.weights_or_ones
    bounds.low[baseline] = bounds.high[baseline] = 0.0
    found = Differences(
        baseline,
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
        tuple(REFERENCE if row == baseline else _note(each, known) for row, each in enumerate(differences / weights)),
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
    """Compare every config with the row ``baseline``: positive amounts with a ``unit`` by ratios, else by differences.

    Milliseconds, tokens and money have long tails, so intervals of mean differences miss the true value too often.
    Tests and intervals of logarithms are valid. If an amount is 0 or less, differences are compared, and ``notes`` has
    the reason.
    """
    found = compare_with_baseline(transform_amounts(matrix, unit), baseline, resamples=resamples, largest=largest)
    if not is_amount(unit) or not matrix.values.size or has_ratios(matrix, unit):
        return replace(found, ratios=has_ratios(matrix, unit))
    above = np.asarray((matrix.scores > 0).all(axis=1))
    whys = [NO_RATIO.format(of=" of other configs" if one and above[baseline] else "") for one in above]
    notes = [f"{note}; {why}" if note else why for note, why in zip(found.notes, whys, strict=True)]
    notes[baseline] = found.notes[baseline]
    return replace(found, notes=tuple(notes))


def _corrected(p_values: Doubles, others: Flags) -> Doubles:
    corrected = np.ones(len(p_values))
    corrected[others] = holm(p_values[others])
    return corrected


def _effects(differences: Doubles, weights: Doubles) -> Doubles:
    """Divide each mean difference by the standard deviation of the differences.

    The effect is 0 if nothing differs; it is NaN if all differences are equal but not 0, or if there are fewer than two
    questions. ``differences`` (rows, questions) are already multiplied by ``weights``, which have a mean of 1.
    """
    if differences.shape[1] < 2:
        return np.full(len(differences), np.nan)
    means = differences.mean(axis=1)
    squares = weights * np.square(differences / weights - means[:, None])
    spread = np.sqrt(squares.sum(axis=1) / (differences.shape[1] - 1))
    flat = spread <= 1e-9 * np.abs(differences).max(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(flat, np.where(means == 0, 0.0, np.nan), means / spread)


def _note(differences: Doubles, known: bool) -> str:
    if not known:
        return FEW
    if not differences.any():
        return IDENTICAL
    return CONSTANT if np.ptp(differences) <= 1e-9 * np.abs(differences).max() else ""


WORK = 500_000_000
"""Maximum number of pairs times resamples; with more than about 300 configs, there are fewer resamples."""
AT_ONCE = 250
"""Number of resamples per block of the pairwise comparison."""
SAME = 1e-5
"""Relative spread of a difference below which two configs differ only by rounding or a constant."""


def all_pairs(matrix: Matrix, level: float = LEVEL, resamples: int = RESAMPLES) -> AllPairs:
    """Compare all pairs of configs simultaneously (single-step max-T over pairs, clusters resampled).

    The method is like Tukey's for means but uses the observed dependence between configs. Configs with equal scores
    count as one. If only one config is left, or if there are too few clusters, ``largest`` is 0 and every config may be
    the best.
    """
    rows, place = np.unique(matrix.better, axis=0, return_inverse=True)
    place = place.reshape(-1)
    centre = rows.sum() / max(rows.size, 1) * (1.0 if matrix.weights is None else matrix.weights)
    data = cluster_scores(rows - centre, matrix.clusters, matrix.weights, compared=True)
    if len(rows) < 2 or not data.enough:
        return AllPairs(0.0, np.ones(len(place), dtype=bool))
    worse, scale = _pairs(data)
    widest = [_range(block, scale) for block in deviations(data.sums, affordable(len(rows), resamples))]
    drawn = np.sort(np.concatenate(widest))
    largest = float(drawn[min(math.ceil((len(drawn) + 1) * level), len(drawn)) - 1])
    return AllPairs(largest, np.asarray(worse.max(axis=1) <= largest)[place])


def _range(block: Floats, scale: Floats) -> Floats:
    """Return each resample's largest deviation of any pair, in standard errors; ``block`` is (resamples, configs)."""
    widest = np.zeros(len(block), dtype=np.float32)
    for start in range(0, len(block), AT_ONCE):
        rows, part = np.ascontiguousarray(block[start : start + AT_ONCE].T), widest[start : start + AT_ONCE]
        for step in range(len(rows) - 1):
            apart = rows[step + 1 :] - rows[step]
            apart *= scale[step, step + 1 :, None]
            np.maximum(part, np.maximum(apart.max(axis=0), -apart.min(axis=0)), out=part)
    return widest


def affordable(configs: int, resamples: int) -> int:
    """Reduce ``resamples`` so that the work does not exceed ``WORK``, but to no fewer than 1,000."""
    return min(resamples, max(WORK // (configs * configs // 2), 1000))


def _pairs(data: ClusteredScores) -> tuple[Doubles, Floats]:
    """Return each row's deficit to every other row in standard errors, and 1 / the spread of the resampled difference.

    Both arrays are (rows, rows). For a constant difference, the first array has ``LARGEST`` with the difference's sign,
    or 0 if nothing differs, and the second has 0.
    """
    variance = _squared_distances((data.sums * data.factors) @ data.sums.T) / data.sizes.sum() ** 2
    drawn = _squared_distances(data.sums @ data.sums.T)
    own = np.square(data.errors)
    scale = np.sqrt(own[:, None] + own[None, :]) + 1e-9 * np.abs(data.means).max()
    spread = variance > np.square(SAME * scale)
    gap = data.means[None, :] - data.means[:, None]
    errors = np.sqrt(np.where(spread, variance, 1.0))
    constant = np.where(np.abs(gap) > SAME * scale, np.sign(gap) * LARGEST, 0.0)
    worse = np.where(spread, as_normal(gap / errors, data.degrees), constant)
    with np.errstate(divide="ignore", invalid="ignore"):
        return worse, np.where(spread, 1 / np.sqrt(drawn), 0.0).astype(np.float32)


def _squared_distances(products: Doubles) -> Doubles:
    own = np.diag(products)
    return np.asarray(own[:, None] + own[None, :] - 2 * products)


MOST = 3
"""Maximum number of clusters that are compared separately."""
ROUNDED = 0.01
"""Tolerance for rounding in computed degrees of freedom."""


def dominating_clusters(matrix: Matrix, baseline: int = 0) -> tuple[int, ...]:
    """Return the largest clusters to remove, as few as possible, so that intervals over the other questions are usable.

    Intervals are usable if differences from the row ``baseline`` have at least the degrees of freedom of ten equal
    clusters. A single question with a fifth of the traffic leaves only one or two degrees of freedom, and so an
    arbitrarily wide interval. The largest cluster comes first. The result is empty if no cluster has to be removed, or
    if removing ``MOST`` clusters is not enough.
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
    """Compare configs with ``baseline`` on each of the ``dominating_clusters`` and on the rest; None if none dominates.

    Amounts with a ``unit`` are compared by ratios (see ``compare_amounts``). ``declared`` is true if the baseline was
    declared rather than chosen by its scores (see ``compare_with_baseline``).
    """
    dominating = dominating_clusters(matrix, baseline)
    if not dominating:
        return None
    weights = matrix.weights_or_ones

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


def student_interval(matrix: Matrix) -> tuple[float, float]:
    """Bound the mean difference (second minus first config) by Student's t over questions, at 95 %.

    Questions count as independent, even those on one document. Both ends are NaN with fewer than two questions.
    """
    differences = matrix.values[1] - matrix.values[0]
    if len(differences) < 2:
        return math.nan, math.nan
    middle, degrees = float(differences.mean()), len(differences) - 1
    apart = differences - matrix.weights_or_ones * middle
    error = math.sqrt(float(np.square(apart).sum()) / degrees / len(differences))
    half = student_quantile(0.975, degrees) * error
    return middle - half, middle + half


def bootstrap_interval(matrix: Matrix) -> tuple[float, float]:
    """Bound the mean difference (second minus first config) by the percentile bootstrap over clusters, at 95 %.

    Whole clusters are drawn, in 2,000 resamples with a fixed seed. Both ends are NaN with fewer than two clusters.
    """
    differences = matrix.values[1] - matrix.values[0]
    sums, sizes = np.bincount(matrix.clusters, differences), np.bincount(matrix.clusters, matrix.weights)
    if len(sums) < 2:
        return math.nan, math.nan
    drawn = np.random.default_rng(0).integers(0, len(sums), (2000, len(sums)))
    low, high = np.quantile(sums[drawn].sum(axis=1) / sizes[drawn].sum(axis=1), [0.025, 0.975])
    return float(low), float(high)
