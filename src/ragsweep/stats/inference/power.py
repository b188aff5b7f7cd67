"""The smallest difference that a golden set can detect, and the number of questions needed for a given difference."""

import math
from statistics import NormalDist

import numpy as np

from ragsweep.core.question_results import Doubles, Numbers
from ragsweep.stats.inference.cluster_errors import FEW, FEWEST
from ragsweep.stats.inference.estimates import LEVEL, POWER, Differences, Power
from ragsweep.stats.inference.matrix import Matrix
from ragsweep.stats.inference.resampling import as_normal, cluster_scores, cluster_sums, student_quantile

SEED = 20261125
SIMULATED = 400
"""Number of simulated golden sets from which the power for a true gain is estimated."""
WIDEST = 8.0
"""The largest gain to try, in multiples of the gain derived from the observed spread."""
ROUGHLY = 0.02
"""Shortfall of a simulated power that is tolerated as simulation error."""
MOST = 1e9
"""Maximum number of questions of a plan; a difference that needs more is zero or due to rounding."""


def estimate_power(matrix: Matrix, baseline: int = 0, level: float = LEVEL) -> Power:
    """Return the minimum detectable effect of the configs against the baseline, from the observed paired variance.

    The effect is (t_{1 - alpha/2} + t_power) standard errors; the standard errors and degrees of freedom are by cluster
    (Bloom, Evaluation Review 19, 1995). If gains widen the spread, as additional hits do, the effect is larger; the
    factor is found by simulation from the differences of the config with the median error. For a comparison of many
    configs, ``level`` is the level of a single interval: :func:`each_level` of a sweep's differences, or
    :func:`shared_level`.
    """
    data = cluster_scores(matrix.values - matrix.values[baseline], matrix.clusters, matrix.weights)
    questions = matrix.values.shape[1]
    errors = np.where((data.errors > 0) & data.enough, data.errors, math.nan)
    spread, differing = errors * math.sqrt(questions), np.flatnonzero(errors > 0)
    if not len(differing):
        note = "no config differs from the baseline by more than a constant" if data.enough else FEW
        return Power(spread, math.nan, math.nan, questions, len(data.sizes), level, note)
    row = sorted(differing.tolist(), key=lambda row: float(errors[row]))[len(differing) // 2]
    gains, error = matrix.better[row] - matrix.better[baseline], float(errors[row])
    middle, smallest = float(np.median(errors[differing])), []
    for each in (level, LEVEL):
        critical = student_quantile((1 + each) / 2, data.degrees)
        expected = (critical + student_quantile(POWER, data.degrees)) * error
        smallest.append(middle * (_smallest_gain_shown(gains, matrix.clusters, expected, critical) / error))
    typical, alone = smallest
    return Power(spread, typical, alone, questions, len(data.sizes), level)


def _smallest_gain_shown(gains: Doubles, clusters: Numbers, gain: float, critical: float) -> float:
    """Return the smallest true mean gain, at least ``gain``, whose interval excludes 0 with probability ``POWER``.

    Golden sets are simulated by drawing from the observed clusters. Gaining clusters are drawn more often, so that the
    mean is the true gain; the additional hits also widen the spread. Only gains up to ``WIDEST`` times ``gain``, and
    below the gain of the best cluster, are tried. Return NaN if none of them is shown often enough; return ``gain`` if
    no cluster gains. ``critical`` is in standard errors.
    """
    sums, size = np.sort(cluster_sums(gains[None, :], clusters)[0]), len(gains) / (clusters.max() + 1)
    if sums[-1] <= 0:
        return gain
    places = np.random.default_rng((SEED, len(sums))).random((SIMULATED // 2, len(sums)))
    places = np.concatenate([places, 1 - places])  # antithetic: lucky and unlucky sets are equally frequent

    def is_shown(true: float) -> bool:
        weights = np.cumsum(_lifted(sums, true * size))
        drawn = sums[np.minimum(np.searchsorted(weights / weights[-1], places), len(sums) - 1)]
        shown = drawn.mean(axis=1) > critical * drawn.std(axis=1, ddof=1) / np.sqrt(len(sums))
        return bool(shown.mean() >= POWER - ROUGHLY)

    most = min(WIDEST * gain, 0.98 * float(sums[-1]) / size)
    if is_shown(gain):
        return gain
    if most <= gain or not is_shown(most):
        return math.nan
    low, high = gain, most
    while high > 1.03 * low:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if is_shown(middle) else (middle, high)
    return float(high)


def _lifted(sums: Doubles, mean: float) -> Doubles:
    """Return weights under which the mean of ``sums`` is ``mean``, or as close to it as possible.

    All gaining clusters have one weight, and all other clusters another.
    """
    won = sums > 0
    rest = float(sums[~won].mean()) if (~won).any() else 0.0
    share = min(max((mean - rest) / (float(sums[won].mean()) - rest), 0.0), 1.0)
    return np.where(won, share / won.sum(), (1 - share) / max(int((~won).sum()), 1))


def each_level(differences: Differences) -> float:
    """Return the level that each interval of a sweep's differences has on its own; ``LEVEL`` without intervals.

    With several intervals, the level is usually above ``LEVEL``, because all must hold simultaneously. The result is at
    least ``LEVEL``, even if the resampled critical value is much too small, as it can be if differences have few
    distinct values.
    """
    if not differences.critical > 0:
        return LEVEL
    normal = float(as_normal(np.array(differences.critical), differences.degrees))
    return max(2 * NormalDist().cdf(normal) - 1, LEVEL)


def shared_level(comparisons: int, level: float = LEVEL) -> float:
    """Return the level that each comparison with one baseline needs for all to hold simultaneously at ``level``.

    The method is Dunnett's (JASA 50, 1955), with the normal distribution. It assumes equal errors of all differences
    and a correlation of 1/2, as for configs with equally spread and equally correlated scores.
    """
    from scipy.optimize import brentq

    if comparisons == 1:
        return level
    normal = NormalDist()
    nodes, weights = np.polynomial.hermite_e.hermegauss(64)

    def holds(critical: float) -> float:
        inside = [
            normal.cdf(node + critical * math.sqrt(2)) - normal.cdf(node - critical * math.sqrt(2))
            for node in nodes.tolist()
        ]
        return float(weights @ np.power(inside, comparisons) / math.sqrt(2 * math.pi))

    ends = normal.inv_cdf((1 + level) / 2), normal.inv_cdf(1 - (1 - level) / (2 * comparisons))
    return 2 * normal.cdf(float(brentq(lambda critical: holds(critical) - level, *ends))) - 1


def questions_needed(effect: float, spread: float, level: float = LEVEL) -> int | None:
    """Return the number of questions needed to show a true difference of ``effect`` with probability ``POWER``.

    The number is the smallest n, at least ten, with a detectable effect (see :func:`estimate_power`, with one question
    per cluster) of at most the size of ``effect``. ``spread`` is the standard deviation of the paired differences per
    question, in the same unit. Return None if the number is above ``MOST``, if the effect is 0 or infinite, or if
    ``effect`` or ``spread`` is NaN.
    """
    if not effect or not math.isfinite(effect) or math.isnan(spread):
        return None
    normal = NormalDist()
    least = ((normal.inv_cdf((1 + level) / 2) + normal.inv_cdf(POWER)) * spread / effect) ** 2
    if least > MOST:
        return None
    count = max(math.ceil(least), FEWEST)
    while sum(student_quantile(share, count - 1) for share in ((1 + level) / 2, POWER)) * spread > abs(
        effect
    ) * math.sqrt(count):
        count += 1
    return count


def typical_questions_needed(found: Power, effect: float) -> int | None:
    """Return the number of questions needed to show a true difference of ``effect`` for a config of median spread.

    ``found`` has the spreads and the level. Return None if all spreads are NaN, or if ``questions_needed`` does. The
    sign of ``effect`` does not matter.
    """
    if np.isnan(found.spread).all():
        return None
    return questions_needed(effect, float(np.nanmedian(found.spread)), found.level)
