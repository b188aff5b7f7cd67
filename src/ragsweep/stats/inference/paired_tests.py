"""Signed-rank and sign-flip tests of paired differences, and Holm's correction for many tests."""

import math
from dataclasses import dataclass

import numpy as np

from ragsweep.core.data import Floats
from ragsweep.core.question_results import Doubles, Numbers
from ragsweep.stats.inference.resampling import cluster_sums

EXACT = 25
"""Maximum number of differing questions for which the rank sum's distribution is enumerated, with ties."""
FLIPS = 10_000
FIRST, DOUBT = 0.2, 0.1
"""``FIRST`` is the share of the flips that suffices for rows with a p-value above ``DOUBT``."""
TAIL = 1 / (2 * math.erfc(1.0))
"""3.18: upper bound on the tail probability of a weighted sum of random signs, as a multiple of the normal tail."""
ROUNDING = 1e-6
"""Tolerance, relative to the sum of absolute values, within which signed sums count as equal (they are in float32)."""
BLOCK = 500
SEED = 20261123


@dataclass(frozen=True, eq=False)
class Ranked:
    """Wilcoxon's signed rank test of each row. ``variant`` is "exact", "normal", or "none" if nothing differs."""

    statistic: Doubles  # the sum of the ranks of positive differences
    p: Doubles  # two-sided
    variant: tuple[str, ...]


def round_to_ties(differences: Doubles) -> Doubles:
    """Round differences (rows, questions) to 40 bits below each row's largest, so that .3 - .1 and .2 tie."""
    largest = np.abs(differences).max(axis=1, initial=0.0)
    shift = (40 - np.frexp(largest)[1])[:, None]
    return np.asarray(np.ldexp(np.rint(np.ldexp(differences, shift)), -shift))


def wilcoxon(differences: Doubles) -> Ranked:
    """Test whether differences (rows, questions) lie symmetrically around 0, by signed ranks (Wilcoxon 1945).

    Differences of 0 are dropped (Wilcoxon's own treatment); differences of equal size share their mean rank. With up to
    25 non-zero differences, the p-value is exact given the ties; with more, it is a normal approximation, with the
    variance corrected for ties and without a continuity correction. If nothing differs, p is 1. Questions count
    individually, without clusters.
    """
    apart = round_to_ties(differences)
    positive, count, ties = _rank_sums(apart)
    n = count.astype(np.float64)
    variance = n * (n + 1) * (2 * n + 1) / 24 - ties / 48
    with np.errstate(invalid="ignore", divide="ignore"):
        z = np.abs(positive - n * (n + 1) / 4) / np.sqrt(variance)
    p = np.array([math.erfc(one / math.sqrt(2)) if one == one else 1.0 for one in z.tolist()])
    variants = ["normal" if many else "exact" for many in (count > EXACT).tolist()]
    for row in np.flatnonzero(count <= EXACT).tolist():
        p[row] = _exact_p(apart[row][apart[row] != 0], float(positive[row]))
        variants[row] = variants[row] if count[row] else "none"
    return Ranked(positive, p, tuple(variants))


def _rank_sums(apart: Doubles) -> tuple[Doubles, Numbers, Doubles]:
    """Return each row's rank sum of positive differences, number of non-zero differences, and tie term.

    The tie term is the sum of t^3 - t over the groups of t non-zero differences of equal size.
    """
    rows, questions = apart.shape
    if not questions:
        return np.zeros(rows), np.zeros(rows, dtype=np.int64), np.zeros(rows)
    order = np.argsort(np.abs(apart), axis=1, kind="stable")
    ordered = np.take_along_axis(apart, order, axis=1)
    ranks, lengths = _middle_ranks(np.abs(ordered))
    zeros = (ordered == 0).sum(axis=1)
    positive = np.where(ordered > 0, ranks - zeros[:, None], 0.0).sum(axis=1)
    ties = np.where(ordered != 0, np.square(lengths) - 1.0, 0.0).sum(axis=1)
    return positive, questions - zeros, ties


def _middle_ranks(ordered: Doubles) -> tuple[Doubles, Doubles]:
    """Return the ranks (from 1) in sorted rows, and how many values share each rank; ties have their middle rank."""
    places = np.broadcast_to(np.arange(ordered.shape[1]), ordered.shape)
    new = np.ones(ordered.shape, dtype=bool)
    new[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    first = np.maximum.accumulate(np.where(new, places, 0), axis=1)
    ends = np.ones(ordered.shape, dtype=bool)
    ends[:, :-1] = new[:, 1:]
    backwards = np.where(ends, places, ordered.shape[1])[:, ::-1]
    last = np.minimum.accumulate(backwards, axis=1)[:, ::-1]
    return (first + last) / 2.0 + 1.0, (last - first + 1).astype(np.float64)


def _exact_p(values: Doubles, positive: float) -> float:
    """Return the two-sided p-value over all combinations of signs; ranks are doubled so that middle ranks are whole."""
    if not len(values):
        return 1.0
    doubled = np.rint(2 * _middle_ranks(np.sort(np.abs(values))[None, :])[0][0]).astype(np.int64)
    ways = np.zeros(int(doubled.sum()) + 1)
    ways[0] = 1.0
    for rank in doubled.tolist():
        ways[rank:] = ways[rank:] + ways[: len(ways) - rank]
    observed = round(2 * positive)
    tail = min(float(ways[: observed + 1].sum()), float(ways[observed:].sum()))
    return min(1.0, 2 * tail / 2.0 ** len(values))


def randomisation(differences: Doubles, clusters: Numbers) -> Doubles:
    """Test whether the mean difference of each row (rows, questions) is 0, by random signs (Fisher 1935).

    Return p-values (rows,). The differences of one cluster change their sign together. With at most ``FLIPS``
    combinations, all of them are counted and p is exact. Otherwise, p is (b + 1) / (n + 1) if b of n drawn combinations
    are at least as extreme (Phipson and Smyth 2010). For rows with p above .1, a fifth of the flips is drawn. Drawn
    flips cannot show a p-value below 1 / ``FLIPS``, but Holm's correction needs smaller p-values. Therefore, p is an
    upper bound on the exact p-value wherever this bound is at most 1 / ``FLIPS``: 3.18 times the normal tail (Bentkus
    and Dzindzalieta, Bernoulli 21, 2015). If nothing differs, p is 1.
    """
    if not differences.size:
        return np.ones(len(differences))
    sums = cluster_sums(round_to_ties(differences), clusters)
    sums = sums[:, np.any(sums != 0, axis=0)]
    if not sums.shape[1]:
        return np.ones(len(differences))
    observed = np.abs(sums.sum(axis=1)) - ROUNDING * np.abs(sums).sum(axis=1)
    count = sums.shape[1]
    if 2**count <= FLIPS:
        all_signs = (np.arange(2**count)[None, :] >> np.arange(count)[:, None] & 1) * 2 - 1
        return np.asarray(_beyond(sums, all_signs.astype(np.float32), observed) / 2.0**count)
    p_values = tail_bound(sums)
    unknown = np.flatnonzero(p_values > 1 / FLIPS)
    p_values[unknown] = _flipped(sums[unknown], observed[unknown])
    return p_values


def tail_bound(sums: Doubles) -> Doubles:
    """Return an upper bound on each row's p-value (rows,) by random signs of ``sums`` (rows, clusters)."""
    length = np.sqrt(np.square(sums).sum(axis=1))
    with np.errstate(invalid="ignore", divide="ignore"):
        away = np.where(length > 0, np.abs(sums.sum(axis=1)) / length, 0.0)
    return np.array([min(1.0, TAIL * math.erfc(one / math.sqrt(2))) for one in away.tolist()])


def _flipped(sums: Doubles, observed: Doubles) -> Doubles:
    """Return p-values (rows,) from a fifth of the flips or, for rows with p below ``DOUBT``, from all flips."""
    generator = np.random.default_rng((SEED, sums.shape[1]))
    beyond, drawn = np.zeros(len(sums)), np.zeros(len(sums))
    chosen, done = np.arange(len(sums)), 0
    for most in (math.ceil(FIRST * FLIPS), FLIPS):
        while done < most and len(chosen):
            bits = generator.integers(0, 256, ((sums.shape[1] + 7) // 8, BLOCK), dtype=np.uint8)
            signs = np.unpackbits(bits, axis=0, count=sums.shape[1]).astype(np.float32) * 2 - 1
            beyond[chosen] += _beyond(sums[chosen], signs, observed[chosen])
            done += BLOCK
        drawn[chosen] = done
        chosen = chosen[beyond[chosen] < DOUBT * done]
    return np.asarray((beyond + 1) / (drawn + 1))


def _beyond(sums: Doubles, signs: Floats, observed: Doubles) -> Doubles:
    """Count, per row, the flips whose sum is at least as far from 0 as the observed one."""
    flipped = sums.astype(np.float32) @ signs
    np.abs(flipped, out=flipped)
    return np.asarray(np.count_nonzero(flipped >= observed[:, None].astype(np.float32), axis=1), dtype=np.float64)


def holm(p_values: Doubles) -> Doubles:
    """Adjust p-values to control the probability of any false rejection among them (Holm 1979).

    NaN stays NaN and is not counted as a test.
    """
    adjusted = np.full(len(p_values), np.nan)
    order = np.argsort(p_values, kind="stable")[: int((~np.isnan(p_values)).sum())]
    factors = np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(p_values[order] * factors), 1.0)
    return adjusted
