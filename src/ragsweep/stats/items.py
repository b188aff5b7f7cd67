"""Item analysis of a golden set: statistics of each question, and a small subset that ranks configs as the set does.

Scores are arrays (configs, questions) of numbers between 0 and 1; higher is better. No two configs may have equal rows
(see ``distinct_rows``).
"""

import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ragsweep.core.question_results import Doubles, Numbers
from ragsweep.stats.inference.matrix import Matrix

FEWEST = 8
"""Minimum number of distinct configs for a correlation over them."""
GOOD = 0.25
"""The share of the configs, best means first, that count as good."""
REDUNDANT = 0.98
"""Minimum correlation, over the configs, at which two questions of one cluster are redundant."""
_NORMAL = 1.959963984540054
"""The 97.5 % quantile of the standard normal distribution."""
_PRIOR = 2.0
"""Standard deviation of the normal priors of the logistic model's slope and intercept."""
_STEPS = 25
TINY = 1e-9
"""Tolerance for rounding."""


class Items(NamedTuple):
    """The item statistics of questions; columns are (questions,).

    ``difficulty`` is 1 minus the mean score. ``discrimination`` is the correlation, over the configs, of the score with
    the mean of the other questions; ``low`` and ``high`` are the ends of its 95 % interval by Fisher's z.
    ``information`` is defined in ``item_information``. For a question on which all configs have the same score, the
    information is 0 and the correlation is NaN.
    """

    difficulty: Doubles
    discrimination: Doubles
    low: Doubles
    high: Doubles
    information: Doubles


class Suspect(NamedTuple):
    """A question whose label is suspicious: worse configs do better on it, or all of the best configs fail it.

    ``good`` is the number of best configs; ``others`` is the number of other configs that do not fail the question.
    ``reversed`` is true if the interval of the question's discrimination is below 0; ``failed_by_best`` is true if all
    best configs fail the question and at least one other config does not.
    """

    question: int  # index of the question
    good: int
    others: int
    failed_by_best: bool
    reversed: bool


def distinct_rows(scores: Doubles) -> list[int]:
    """Return the index of the first row of each group of rows with the same scores."""
    return sorted(np.unique(scores, axis=0, return_index=True)[1].tolist())


def find_unanimous(scores: Doubles) -> tuple[list[int], list[int]]:
    """Return the indices of the questions on which all configs score 0, and of the questions on which all score 1."""
    return (
        np.flatnonzero((scores <= TINY).all(axis=0)).tolist(),
        np.flatnonzero((scores >= 1 - TINY).all(axis=0)).tolist(),
    )


def analyse_items(scores: Doubles) -> Items:
    """Compute the item statistics of each question; with fewer than 4 configs, the ends of intervals are NaN."""
    rest = rest_means(scores)
    found = _correlations(scores, rest)
    half = _NORMAL / math.sqrt(len(scores) - 3) if len(scores) > 3 else math.nan
    with np.errstate(divide="ignore"):
        z = np.arctanh(found)
    return Items(1 - scores.mean(axis=0), found, np.tanh(z - half), np.tanh(z + half), item_information(scores))


def rest_means(scores: Doubles) -> Doubles:
    """Return each config's mean on all other questions, as (configs, questions); 0 if there is only one question."""
    others = scores.shape[1] - 1
    return np.asarray((scores.sum(axis=1, keepdims=True) - scores) / max(others, 1))


def item_information(scores: Doubles) -> Doubles:
    """Return each question's information about which config is better; negative if better configs score worse on it.

    For scores of 0 and 1, the information is the Fisher information ``a^2 P (1 - P)`` of the two-parameter logistic
    model (Birnbaum 1968). It is averaged over the configs and has the sign of ``a``. For other scores, it is the item
    reliability index: the discrimination times the standard deviation (Gulliksen 1950). The information is 0 if all
    configs have the same score.
    """
    rest, spread = rest_means(scores), scores.std(axis=0)
    if np.isin(scores, (0, 1)).all():
        ability = _standardised_logits(rest, scores.shape[1])
        slope, intercept = fit_logistic(scores, ability)
        chance = 1 / (1 + np.exp(-(slope * ability + intercept)))
        found = np.asarray(np.sign(slope) * slope**2 * (chance * (1 - chance)).mean(axis=0))
    else:
        found = np.nan_to_num(_correlations(scores, rest)) * spread
    return np.where(spread > TINY, found, 0.0)


def find_suspects(scores: Doubles, items: Items) -> list[Suspect]:
    """Find questions with a possibly wrong label (see ``Suspect``), lowest discrimination first.

    Questions that every config fails are excluded. The good configs of a question are the best quarter, including ties,
    on the other questions.
    """
    rest, good = rest_means(scores), math.ceil(GOOD * len(scores))
    best = rest >= np.sort(rest, axis=0)[-good] - TINY
    fails = scores <= TINY
    others = (~fails & ~best).sum(axis=0)
    failed, turned = (fails | ~best).all(axis=0) & (others > 0), items.high < 0
    order = np.argsort(items.discrimination, kind="stable").tolist()
    return [
        Suspect(n, int(best[:, n].sum()), int(others[n]), bool(failed[n]), bool(turned[n]))
        for n in order
        if failed[n] or turned[n]
    ]


def find_redundant(scores: Doubles, clusters: Numbers) -> list[list[int]]:
    """Within each cluster, group the questions whose correlation with the first of their group is at least .98.

    Return the groups of two or more questions, as indices. Questions on which all configs have the same score are in no
    group, because they have no correlation.
    """
    groups = []
    varied = scores.std(axis=0) > TINY
    for cluster in np.unique(clusters).tolist():
        left = np.flatnonzero((clusters == cluster) & varied)
        while len(left) > 1:
            same = _correlations(scores[:, left], scores[:, left[:1]]) >= REDUNDANT - TINY
            same[0] = True
            if same.sum() > 1:
                groups.append(left[same].tolist())
            left = left[~same]
    return groups


def _correlations(one: Doubles, other: Doubles) -> Doubles:
    """Correlate column by column; NaN for a column without spread."""
    x, y = one - one.mean(axis=0), other - other.mean(axis=0)
    spreads = np.sqrt((x * x).sum(axis=0) * (y * y).sum(axis=0))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(spreads > TINY, np.clip((x * y).sum(axis=0) / spreads, -1, 1), np.nan))


def _standardised_logits(rest: Doubles, questions: int) -> Doubles:
    """Convert means on the other questions to abilities of the configs, standardised for each question."""
    share = (rest * (questions - 1) + 0.5) / questions
    logits = np.log(share / (1 - share))
    spread = logits.std(axis=0)
    return np.asarray((logits - logits.mean(axis=0)) / np.where(spread > TINY, spread, np.inf))


def fit_logistic(hits: Doubles, ability: Doubles) -> tuple[Doubles, Doubles]:
    """Return each column's slope and intercept: the posterior mode under normal priors, found by Newton's method."""
    slope, intercept = np.zeros(hits.shape[1]), np.zeros(hits.shape[1])
    for _ in range(_STEPS):
        chance = 1 / (1 + np.exp(-(slope * ability + intercept)))
        weight, missed = chance * (1 - chance), hits - chance
        down = (missed * ability).sum(axis=0) - slope / _PRIOR**2, missed.sum(axis=0) - intercept / _PRIOR**2
        aa, bb = ((weight * ability**k).sum(axis=0) + _PRIOR**-2 for k in (2, 0))
        ab = (weight * ability).sum(axis=0)
        bottom = aa * bb - ab * ab
        slope = slope + (bb * down[0] - ab * down[1]) / bottom
        intercept = intercept + (aa * down[1] - ab * down[0]) / bottom
    return slope, intercept


DIVISIONS, RANDOM = 20, 100
"""The number of ways to halve the configs, and the number of random subsets for each."""
_SHRINKAGE = 0.5
"""Shrinkage of each covariance: with few configs, many correlations occur by chance."""
_SEED = 20261125


class Agreement(NamedTuple):
    """Correlations between the configs' means on some and on all questions: Kendall's tau-b and Pearson's."""

    tau: float
    pearson: float


class Estimate(NamedTuple):
    """How well a subset that was chosen from the scores of one half of the configs ranks the other half.

    ``chosen`` and ``random`` are means over the divisions, for the chosen subsets and for random subsets of the same
    size; 90 % of the random subsets are between ``low`` and ``high``.
    """

    chosen: Agreement
    random: Agreement
    low: Agreement
    high: Agreement
    configs: int  # number of configs in the ranked half


def choose_mini(matrix: Matrix, categories: Sequence[str], size: int, given: Sequence[int] = ()) -> list[int]:
    """Greedily choose ``size`` questions whose summed scores correlate best with the sums of all scores.

    The correlation is over the configs. Return the sorted indices of the questions. Covariances of different questions
    are halved. Each category has its proportional share of the subset; a cluster has at most its share, rounded up,
    while questions of other clusters are available. ``categories`` has each question's category; ``given`` has the
    indices of questions to include.
    """
    scores = matrix.values - matrix.values.mean(axis=0)
    variances, columns = np.square(scores).sum(axis=0), np.ascontiguousarray(scores.T)
    with_all = columns @ ((1 - _SHRINKAGE) * scores.sum(axis=1)) + _SHRINKAGE * variances
    kinds = np.unique(np.array(categories), return_inverse=True)[1]
    places = quotas(Counter(kinds.tolist()), size)
    room = np.array([places[n] for n in range(len(places))], dtype=np.int64)
    caps = np.ceil(np.bincount(matrix.clusters) * size / len(kinds) - TINY).astype(np.int64)
    left, total, covariance, variance = np.ones(len(kinds), dtype=bool), np.zeros(len(scores)), 0.0, 0.0
    chosen: list[int] = []
    while len(chosen) < size:
        possible = left & (room[kinds] > 0)
        possible = capped if (capped := possible & (caps[matrix.clusters] > 0)).any() else possible
        top = covariance + with_all
        bottom = variance + variances + columns @ (2 * (1 - _SHRINKAGE) * total)
        with np.errstate(invalid="ignore", divide="ignore"):
            gain = np.where(bottom > TINY, top / np.sqrt(np.maximum(bottom, 0)), 0.0)
        is_given = len(chosen) < len(given)
        best = given[len(chosen)] if is_given else int(np.argmax(np.where(possible, gain, -np.inf)))
        chosen.append(best)
        left[best] = False
        room[kinds[best]] -= 1
        caps[matrix.clusters[best]] -= 1
        total, covariance, variance = total + scores[:, best], float(top[best]), float(bottom[best])
    return sorted(chosen)


def quotas(counts: Counter[int], size: int) -> dict[int, int]:
    """Split ``size`` into whole numbers in proportion to ``counts``, by the largest remainder method."""
    total = counts.total()
    exact = {kind: size * count / total for kind, count in counts.items()}
    found = {kind: math.floor(share + TINY) for kind, share in exact.items()}
    order = sorted(exact, key=lambda kind: (found[kind] - exact[kind], kind))
    for kind in order[: size - sum(found.values())]:
        found[kind] += 1
    return found


def estimate_mini(matrix: Matrix, categories: Sequence[str], size: int, given: Sequence[int] = ()) -> Estimate:
    """Estimate how well a subset chosen from one half of the configs ranks the other half (20 random divisions)."""
    generator = np.random.default_rng(_SEED)
    configs, questions = matrix.values.shape
    chosen, drawn = list[Doubles](), list[Doubles]()
    for _ in range(DIVISIONS):
        order = generator.permutation(configs)
        one, other = order[: configs // 2].tolist(), matrix.values[order[configs // 2 :]]
        picked = other[:, choose_mini(matrix.select_configs(one), categories, size, given)].sum(axis=1)
        parts = [other[:, generator.permutation(questions)[:size]].sum(axis=1) for _ in range(RANDOM)]
        chosen.append(agreements(other.sum(axis=1), picked[None]))
        drawn.append(agreements(other.sum(axis=1), np.array(parts)))
    all_drawn = np.concatenate(drawn)
    low, high = np.nanquantile(all_drawn, (0.05, 0.95), axis=0)
    means = (np.nanmean(np.concatenate(rows), axis=0) for rows in (chosen, drawn))
    first, second = (Agreement(*mean.tolist()) for mean in means)
    return Estimate(first, second, Agreement(*low.tolist()), Agreement(*high.tolist()), configs - configs // 2)


def agreements(whole: Doubles, parts: Doubles) -> Doubles:
    """Return Kendall's tau-b and Pearson's correlation of each part (parts, configs) with the whole (configs,).

    The result is (parts, 2). A correlation is 0 for a part without differences between configs, and NaN if the
    whole has no differences.
    """
    one, other = np.triu_indices(len(whole), 1)
    rank = np.sign(np.round(whole[one] - whole[other], 9))
    ranks = np.sign(np.round(parts[:, one] - parts[:, other], 9))
    line, lines = whole - whole.mean(), parts - parts.mean(axis=1, keepdims=True)
    return np.stack([_cosines(rank, ranks), _cosines(line, lines)], axis=1)


def _cosines(one: Doubles, others: Doubles) -> Doubles:
    length, lengths = np.sqrt(one @ one), np.sqrt(np.square(others).sum(axis=1))
    if length <= TINY:
        return np.full(len(others), np.nan)
    return np.asarray(np.where(lengths > TINY, others @ one / np.maximum(length * lengths, TINY), 0.0))
