"""Item analysis of a golden set: each question's difficulty and discrimination between configs.

Scores are arrays (configs, questions) of numbers between 0 and 1; higher is better. No two configs may have equal rows
(see ``distinct_rows``).
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]
Numbers = NDArray[np.int64]

FEWEST = 8
"""Minimum number of distinct configs for a correlation over them."""
GOOD = 0.25
"""Share of the configs that counts as good."""
REDUNDANT = 0.98
"""Two questions of one cluster are redundant if their correlation over the configs is at least this."""
_NORMAL = 1.959963984540054
"""The 97.5 % quantile of the standard normal distribution."""
_PRIOR = 2.0
"""Standard deviation of the normal priors of the logistic model's slope and intercept."""
_STEPS = 25
TINY = 1e-9
"""Rounding tolerance of a score."""


class Items(NamedTuple):
    """The item statistics of questions; columns are (questions,).

    ``difficulty`` is 1 minus the mean score. ``discrimination`` is the correlation, over the configs, with the mean of
    the other questions; ``low`` and ``high`` are the ends of its 95 % interval by Fisher's z. ``information`` is that
    of ``item_information``. If all configs have the same score, it is 0 and the correlation is NaN.
    """

    difficulty: Doubles
    discrimination: Doubles
    low: Doubles
    high: Doubles
    information: Doubles


class Suspect(NamedTuple):
    """A question with a suspicious label: it is reversed, or all of the best configs fail it and some others do not.

    ``good`` is the number of best configs, ``others`` the number of other configs that do not fail. ``reversed``: the
    interval of the question's discrimination is below 0.
    """

    question: int  # its index
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
    """Compute the item statistics of each question; fewer than 4 configs give no intervals."""
    rest = rest_means(scores)
    found = _correlations(scores, rest)
    half = _NORMAL / math.sqrt(len(scores) - 3) if len(scores) > 3 else math.nan
    with np.errstate(divide="ignore"):
        z = np.arctanh(found)
    return Items(1 - scores.mean(axis=0), found, np.tanh(z - half), np.tanh(z + half), item_information(scores))


def rest_means(scores: Doubles) -> Doubles:
    """Return, for each config and question, the config's mean on the other questions."""
    others = scores.shape[1] - 1
    return np.asarray((scores.sum(axis=1, keepdims=True) - scores) / max(others, 1))


def item_information(scores: Doubles) -> Doubles:
    """Return each question's information on which config is better; negative if better configs score worse.

    For hits and misses it is the Fisher information of the two-parameter logistic model, ``a^2 P (1 - P)`` (Birnbaum
    1968), averaged over the configs, with the sign of a. For other scores it is the discrimination times the standard
    deviation, which is the item reliability index (Gulliksen 1950).
    """
    rest, spread = rest_means(scores), scores.std(axis=0)
    if np.isin(scores, (0, 1)).all():
        found = _logistic_information(scores, _standardised_logits(rest, scores.shape[1]))
    else:
        found = np.nan_to_num(_correlations(scores, rest)) * spread
    return np.where(spread > TINY, found, 0.0)


def find_suspects(scores: Doubles, items: Items) -> list[Suspect]:
    """Find questions with a possibly wrong label, the least discriminating first.

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

    Questions on which all configs have the same score are in no group: their redundancy is undetermined.
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
    """Convert means on the other questions to abilities of the configs, with mean 0 and deviation 1 per question."""
    share = (rest * (questions - 1) + 0.5) / questions
    logits = np.log(share / (1 - share))
    spread = logits.std(axis=0)
    return np.asarray((logits - logits.mean(axis=0)) / np.where(spread > TINY, spread, np.inf))


def _logistic_information(hits: Doubles, ability: Doubles) -> Doubles:
    slope, intercept = fit_logistic(hits, ability)
    chance = 1 / (1 + np.exp(-(slope * ability + intercept)))
    return np.asarray(np.sign(slope) * slope**2 * (chance * (1 - chance)).mean(axis=0))


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
