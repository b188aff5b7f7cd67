"""Compare served requests with evaluated questions as two samples: by shares, by order and by ratios."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from ragsweep.core.question_results import Doubles, Numbers
from ragsweep.stats.inference.resampling import student_quantile

SHARE, ORDER, RATIO = "share", "order", "ratio"
"""Kinds of comparisons: the difference of shares, the probability of a larger number, and the typical ratio."""

Verdict = Literal["drift", "same", "open"]
DRIFT: Verdict = "drift"
SAME: Verdict = "same"
OPEN: Verdict = "open"

TOLERANCE = {SHARE: 0.05, ORDER: 0.1, RATIO: 1.5}
"""Largest changes that are not drift: of a share, of a probability (from .5), and of a typical number (a factor)."""

NOISE = 1e-6
"""Tolerance for equality, relative to the largest number, because scores from two machines differ by rounding."""

ROUNDING = 1e-12
"""Tolerance for the rounding error of a sum of weights."""

FEWEST = 10
"""Minimum number of independent questions on each side for a comparison."""


class ClusteredSample(NamedTuple):
    """Numbers (n,), without NaN; the numbers of one cluster are dependent, and the weights add up to 1.

    If ``is_repeated``, the numbers of one cluster are repetitions of one question, and large clusters reduce the number
    of ``independent`` questions. Otherwise, they come from different questions on one subject. Each cluster then counts
    as one independent question, or as less than one if a few weights dominate.
    """

    values: Doubles
    clusters: Numbers
    weights: Doubles
    is_repeated: bool = True

    @classmethod
    def of(
        cls, values: Sequence[float], clusters: Sequence[str], weights: Sequence[float] | None = None
    ) -> ClusteredSample:
        """Make a sample of a column's known values; without ``weights``, a cluster's values count as repetitions."""
        column = np.asarray(values, dtype=np.float64)
        known = ~np.isnan(column)
        named = [one for one, is_known in zip(clusters, known.tolist(), strict=True) if is_known]
        number = {one: n for n, one in enumerate(sorted(set(named)))}  # np.unique would pad every name to the longest
        numbers = np.array([number[one] for one in named], dtype=np.int64)
        given = np.ones(len(column)) if weights is None else np.asarray(weights, dtype=np.float64)
        shares = given[known] / max(given[known].sum(), 1e-300)
        return cls(column[known], numbers, shares, weights is None)

    @property
    def independent(self) -> float:
        """A lower bound on the effective number of independent questions (Kish, Survey Sampling, 1965)."""
        if not len(self.values):
            return 0.0
        if self.is_repeated:
            return 1 / float(np.square(np.bincount(self.clusters, self.weights)).sum())
        return min(float(self.clusters.max()) + 1, 1 / float(np.square(self.weights).sum()))

    def variance(self, influence: Doubles) -> float:
        """Return the variance of the weighted mean of ``influence`` (n,), with whole clusters as the sampling units."""
        count = int(self.clusters.max()) + 1
        mean = float(self.weights @ influence)
        sums = np.bincount(self.clusters, self.weights * (influence - mean), count)
        return float(np.square(sums).sum()) * count / max(count - 1, 1)


class EstimateInterval(NamedTuple):
    """An estimate and the ends of its two-sided interval at the level 1 - ``alpha``; NaN if unknown."""

    estimate: float
    low: float
    high: float


UNKNOWN = EstimateInterval(math.nan, math.nan, math.nan)


def share_interval(sample: ClusteredSample, alpha: float) -> EstimateInterval:
    """Bound a share by Clopper and Pearson's method (1934), with the sample's effective number of questions.

    With this number of questions, the binomial variance equals the clustered variance. The number is at least
    ``independent`` and at most the effective number without clusters. It equals the number of independent questions if
    the share is 0 or 1 or all clusters have the same mean, because the clustered variance is then unknown.
    """
    from scipy.special import betaincinv

    share, fewest = float(np.clip(sample.weights @ sample.values, 0, 1)), sample.independent
    most = 1 / float(np.square(sample.weights).sum())
    variance = sample.variance(sample.values)
    spread = share * (1 - share)
    # Weights add up to 1 except for rounding: neither a share of 1 nor a variance of 0 is exact.
    count = fewest if min(spread, variance) < ROUNDING else min(max(spread / variance, fewest), most)
    hits = share * count
    low = betaincinv(hits, count - hits + 1, alpha / 2) if share > ROUNDING else 0.0
    high = betaincinv(hits + 1, count - hits, 1 - alpha / 2) if 1 - share > ROUNDING else 1.0
    return EstimateInterval(share, float(low), float(high))


def mean_interval(sample: ClusteredSample, alpha: float) -> EstimateInterval:
    """Bound a mean by Student's t over the clusters; the ends are NaN for fewer than two independent questions."""
    mean, freedom = float(sample.weights @ sample.values), sample.independent - 1
    if freedom < 1:
        return EstimateInterval(mean, math.nan, math.nan)
    half = student_quantile(1 - alpha / 2, freedom) * math.sqrt(sample.variance(sample.values))
    return EstimateInterval(mean, mean - half, mean + half)


def share_difference(now: ClusteredSample, before: ClusteredSample, alpha: float) -> EstimateInterval:
    """Bound the difference between two shares, given their intervals (Newcombe, Statistics in Medicine 17, 1998)."""
    one, two = share_interval(now, alpha), share_interval(before, alpha)
    difference = one.estimate - two.estimate
    below = math.hypot(one.estimate - one.low, two.high - two.estimate)
    above = math.hypot(one.high - one.estimate, two.estimate - two.low)
    return EstimateInterval(difference, max(difference - below, -1.0), min(difference + above, 1.0))


def superiority(now: ClusteredSample, before: ClusteredSample, alpha: float) -> EstimateInterval:
    """Bound the probability that a number in ``now`` is larger than a number in ``before``; ties count half.

    The variance is computed by cluster, from the ranks of each sample's numbers in the other sample (DeLong et al.,
    Biometrics 44, 1988; Obuchowski, Biometrics 53, 1997). The interval is computed on the logit scale, with Student's t
    (Satterthwaite). If the samples hardly overlap, this variance vanishes. The probability is therefore at least half
    the weight of one pair of numbers away from 0 and 1, and the standard error is at least the weight of one pair.
    """
    over, under = _placements(now, before), 1 - _placements(before, now)
    pair = 1 / (now.independent * before.independent)
    chance = float(np.clip(now.weights @ over, pair / 2, 1 - pair / 2))
    parts = now.variance(over), before.variance(under)
    freedom = [max(sample.independent - 1, 1.0) for sample in (now, before)]
    variance, degrees = sum(parts), min(freedom)
    if variance > pair * pair:
        spread = sum(part * part / one for part, one in zip(parts, freedom, strict=True))
        degrees = min(max(variance**2 / spread, degrees), sum(freedom))
    variance = max(variance, pair * pair)
    half = student_quantile(1 - alpha / 2, degrees) * math.sqrt(variance) / (chance * (1 - chance))
    center = math.log(chance / (1 - chance))
    return EstimateInterval(chance, _logistic(center - half), _logistic(center + half))


def _placements(one: ClusteredSample, other: ClusteredSample) -> Doubles:
    """Return, for each number of one sample, the weight of smaller numbers in the other; ties count half."""
    order = np.argsort(other.values, kind="stable")
    reached = np.concatenate([[0.0], np.cumsum(other.weights[order])])
    ordered = other.values[order]
    near = NOISE * max(float(np.abs(side.values).max()) for side in (one, other))
    smaller = reached[np.searchsorted(ordered, one.values - near, "left")]
    not_larger = reached[np.searchsorted(ordered, one.values + near, "right")]
    return np.asarray((smaller + not_larger) / 2 / reached[-1])


def _logistic(value: float) -> float:
    return 1 / (1 + math.exp(-value)) if value > -700 else 0.0


def ratio(now: ClusteredSample, before: ClusteredSample, alpha: float) -> EstimateInterval:
    """Bound the typical ratio of the numbers of ``now`` to the numbers of ``before``; all must be above 0.

    If ``now`` is divided by this ratio, neither sample is more likely to have the larger number (Hodges and Lehmann,
    Annals of Mathematical Statistics 34, 1963). The interval contains the ratios that ``superiority`` does not exclude;
    it extends from 0 to infinity if the samples are too small to exclude any ratio.
    """
    logs = [sample._replace(values=np.log(sample.values)) for sample in (now, before)]
    reach = float(
        max(abs(logs[0].values.max() - logs[1].values.min()), abs(logs[0].values.min() - logs[1].values.max()))
    )

    def is_above(shift: float, end: int) -> bool:
        moved = logs[0]._replace(values=logs[0].values - shift)
        return superiority(moved, logs[1], alpha)[end] > 0.5

    def first(end: int) -> float:
        """Find the smallest ratio at which item ``end`` of ``superiority`` is at most .5; it may be 0 or infinity."""
        low, high = -reach - 1, reach + 1
        if not is_above(low, end):
            return 0.0
        if is_above(high, end):
            return math.inf
        for _ in range(40):
            middle = (low + high) / 2
            low, high = (middle, high) if is_above(middle, end) else (low, middle)
        return math.exp((low + high) / 2)

    return EstimateInterval(first(0), first(1), first(2))


@dataclass(frozen=True)
class Quantity:
    """A property of requests (``now``) and evaluated questions (``before``), with the kind of comparison."""

    name: str
    kind: str
    now: ClusteredSample
    before: ClusteredSample
    tolerance: float


@dataclass(frozen=True)
class Drift:
    """A quantity of the requests (``now``) and of the evaluation (``before``), and the comparison of the two.

    The quantity is a share or a median. ``compared`` is the difference of the shares, the probability that a request's
    number is larger, or the ratio. ``verdict`` is "drift" if the whole interval is outside the tolerance, "same" if all
    of it is inside, else "open".
    """

    name: str
    kind: str
    now: float
    before: float
    compared: EstimateInterval
    requests: int  # number of requests with a known value
    verdict: Verdict
    tolerance: float


def compare(quantities: Sequence[Quantity], alpha: float = 0.05) -> list[Drift]:
    """Compare each quantity; the probability that any interval misses the true value is at most ``alpha`` (Bonferroni).

    The verdict on a quantity is "open", with NaN for its comparison, if one of its samples has fewer than ``FEWEST``
    independent questions. The results are in the order of ``quantities``.
    """
    tested = [one for one in quantities if min(one.now.independent, one.before.independent) >= FEWEST]
    each = alpha / max(len(tested), 1)
    return [_compare(one, each if any(one is some for some in tested) else None) for one in quantities]


def _compare(quantity: Quantity, alpha: float | None) -> Drift:
    now, before, kind, tolerance = quantity.now, quantity.before, quantity.kind, quantity.tolerance
    shown = _share if kind == SHARE else _median
    compared, verdict = UNKNOWN, OPEN
    if alpha is not None:
        compared = {SHARE: share_difference, ORDER: superiority, RATIO: ratio}[kind](now, before, alpha)
        least, most = {
            SHARE: (-tolerance, tolerance),
            ORDER: (0.5 - tolerance, 0.5 + tolerance),
            RATIO: (1 / tolerance, tolerance),
        }[kind]
        if compared.low > most or compared.high < least:
            verdict = DRIFT
        elif least <= compared.low and compared.high <= most:
            verdict = SAME
    return Drift(quantity.name, kind, shown(now), shown(before), compared, len(now.values), verdict, tolerance)


def _share(sample: ClusteredSample) -> float:
    return float(sample.weights @ sample.values) if len(sample.values) else math.nan


def _median(sample: ClusteredSample) -> float:
    if not len(sample.values):
        return math.nan
    order = np.argsort(sample.values, kind="stable")
    reached, ordered = np.cumsum(sample.weights[order]), sample.values[order]
    ends = np.searchsorted(reached, [0.5 - ROUNDING, 0.5 + ROUNDING])  # the two differ if a cumulative weight is .5
    return float(ordered[np.minimum(ends, len(ordered) - 1)].mean())
