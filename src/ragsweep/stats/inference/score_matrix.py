"""Align the scores of one metric of several results as a matrix."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.errors import InputError, nearest
from ragsweep.core.results import Result
from ragsweep.stats.inference.declined import fill_declined
from ragsweep.stats.inference.matrix import SOURCE, WEIGHT, Matrix, number_clusters, relative

Doubles = NDArray[np.float64]


def score_matrix(results: Sequence[Result], metric: str) -> Matrix:
    """Align the scores of one metric, question by question; a declined answer has the worst score.

    Raises:
        InputError: A result has no such metric, the metric has no direction, or it is not a mean over questions.
    """
    for result in results:
        _check(result, metric)
    ids = list(dict.fromkeys(chain.from_iterable(result.outcomes["question_id"] for result in results)))
    rows = [_scores(result, metric, ids) for result in results]
    scores = np.array(rows, dtype=np.float64).reshape(len(results), len(ids))
    declined = fill_declined(results, metric, ids, scores)
    known = ~np.isnan(scores)
    both = np.flatnonzero(known.all(axis=0))
    sources = dict(zip(results[0].outcomes["question_id"], clusters_of(results[0]), strict=True)) if results else {}
    names = tuple(ids[n] for n in both.tolist())
    weights = _weights(results, names)
    return Matrix(
        scores[:, both] if weights is None else scores[:, both] * weights,
        number_clusters(np.array([sources[name] for name in names], dtype=np.str_)),
        tuple(result.name for result in results),
        names,
        metric,
        bool(results[0].summaries[metric].higher_is_better) if results else True,
        int(known.any(axis=0).sum()),
        weights,
        declined[:, both] if declined.any() else None,
    )


def _weights(results: Sequence[Result], names: Sequence[str]) -> Doubles | None:
    """Return the weights of questions, with a mean of 1; None where all count alike."""
    column = results[0].outcomes.get(WEIGHT) if results else None
    if column is None:
        return None
    given = dict(zip(results[0].outcomes["question_id"], column, strict=True))
    found = np.array([given[name] for name in names], dtype=np.float64)
    return None if len(found) and (found == found[0]).all() else relative(found)


def _check(result: Result, metric: str) -> None:
    if metric not in result.summaries:
        raise InputError(f'{result.name}: no metric "{metric}" was measured{nearest(metric, result.summaries)}')
    if result.summaries[metric].higher_is_better is None:
        raise InputError(f"{metric}: neither more nor less of it is better, so that no config is better by it")


def _scores(result: Result, metric: str, ids: Sequence[str]) -> Sequence[float]:
    """Return a result's scores of these questions; NaN where it has none."""
    asked, column = result.outcomes["question_id"], result.outcomes[metric]
    if list(asked) == ids:
        return column
    scored = dict(zip(asked, column, strict=True))
    return [scored.get(name, math.nan) for name in ids]


def clusters_of(result: Result) -> Sequence[str]:
    """Name each question's cluster; older records have no clusters: each question is its own."""
    return result.outcomes.get(SOURCE) or result.outcomes["question_id"]
