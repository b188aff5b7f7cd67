"""The scores of several configs for one metric as a matrix, with the same questions in every row.

A score that is missing because of the config, not the question, is replaced by the worst score. Otherwise, a config
could improve its mean by declining the questions that it would get wrong.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.errors import InputError, nearest
from ragsweep.core.missing import OWN_REASONS, failed
from ragsweep.core.question_results import Doubles, Flags, Numbers, QuestionResults
from ragsweep.core.results import Result
from ragsweep.stats.inference.cluster_errors import varying

SOURCE, WEIGHT = "source", "weight"
"""The columns of ``QuestionResults`` with each question's cluster and weight."""

LARGEST = math.log(sys.float_info.max)
"""The logarithm of the largest float."""

SCALES = frozenset({"%", "points"})
"""Units of bounded scales."""


@dataclass(frozen=True, eq=False)
class Matrix:
    """Scores of several configs for the same questions, without gaps.

    ``values`` is (configs, questions), in the metric's direction (``higher_is_better``). Questions of one cluster share
    their source document and are resampled together. ``asked`` counts the questions with a score in at least one
    config; the matrix has only the questions with a score in all configs. For weighted questions, ``values`` are scores
    times ``weights`` (of mean 1), so that plain means of ``values`` are weighted means of the scores. ``declined``
    marks the worst scores that replace declined answers (see ``fill_declined``).
    """

    values: Doubles
    clusters: Numbers  # (questions,), numbered from 0
    configs: tuple[str, ...]
    questions: tuple[str, ...]  # question ids
    metric: str = ""
    higher_is_better: bool = True
    asked: int = 0
    weights: Doubles | None = None  # (questions,)
    declined: Flags | None = None  # (configs, questions); None if there are none
    unit: str = ""

    @property
    def declines(self) -> tuple[int, ...]:
        """The number of declined answers of each config; all of these answers have the worst score."""
        return (0,) * len(self.configs) if self.declined is None else tuple(self.declined.sum(axis=1).tolist())

    @property
    def declined_note(self) -> str:
        """A note on the configs that declined questions, with counts; "" if there are none."""
        found = [f"{count:,} of {name}" for name, count in zip(self.configs, self.declines, strict=True) if count]
        return f"declined or nothing to measure, counted as the worst score: {', '.join(found)}" if found else ""

    @property
    def coverage(self) -> float:
        """Questions with a score in all configs, as a share of questions with a score in any; NaN if there are none."""
        return len(self.questions) / self.asked if self.asked else math.nan

    @property
    def scores(self) -> Doubles:
        """The scores without the weights of their questions."""
        return self.values if self.weights is None else self.values / self.weights

    @property
    def weights_or_ones(self) -> Doubles:
        """The weight of every question (questions,), or 1 if the questions are not weighted."""
        return np.ones(self.values.shape[1]) if self.weights is None else self.weights

    @property
    def sign(self) -> float:
        """1 if higher scores are better, else -1."""
        return 1.0 if self.higher_is_better else -1.0

    @property
    def better(self) -> Doubles:
        """The ``values``, negated if lower is better."""
        return self.values if self.higher_is_better else -self.values

    def select_configs(self, rows: Sequence[int]) -> Matrix:
        """Return the matrix of the configs in ``rows``, in this order."""
        return replace(
            self,
            values=self.values[list(rows)],
            configs=tuple(self.configs[row] for row in rows),
            declined=None if self.declined is None else self.declined[list(rows)],
        )

    def select_questions(self, chosen: Flags) -> Matrix:
        """Return the matrix of the ``chosen`` questions, with clusters renumbered and weights rescaled to mean 1."""
        names = tuple(name for name, kept in zip(self.questions, chosen.tolist(), strict=True) if kept)
        weights = None if self.weights is None else relative(self.weights[chosen])
        values = self.scores[:, chosen] if weights is None else self.scores[:, chosen] * weights
        declined = None if self.declined is None else self.declined[:, chosen]
        return replace(
            self,
            values=values,
            clusters=number_clusters(self.clusters[chosen]),
            questions=names,
            weights=weights,
            declined=declined,
        )


def relative(weights: Doubles) -> Doubles:
    """Scale weights to a mean of 1."""
    return np.asarray(weights / weights.mean()) if len(weights) else weights


def number_clusters(names: NDArray[np.generic]) -> Numbers:
    """Number the clusters from 0 in the sorted order of their names; ``names`` has the cluster of each question."""
    return np.asarray(np.unique(names, return_inverse=True)[1], dtype=np.int64)


def is_amount(unit: str) -> bool:
    """Return whether a metric with this unit is an amount, which may have a long tail; False for "" and ``SCALES``."""
    return bool(unit) and unit not in SCALES


def has_ratios(matrix: Matrix, unit: str) -> bool:
    """Return whether scores are compared by ratios: positive amounts with a ``unit``."""
    return bool(is_amount(unit) and matrix.values.size and (matrix.scores > 0).all())


def transform_amounts(matrix: Matrix, unit: str) -> Matrix:
    """Return the matrix of the scores to compare: natural logarithms if ``has_ratios``, else the matrix unchanged.

    The mean logarithm of all configs is subtracted, so that neither the unit (seconds or milliseconds) nor the order of
    the configs has an effect.
    """
    if not has_ratios(matrix, unit):
        return matrix
    logarithms = np.log(matrix.scores)
    logarithms -= logarithms.mean()
    return replace(matrix, values=logarithms if matrix.weights is None else logarithms * matrix.weights)


def ratio_of(logarithm: float) -> float:
    """Return the ratio with this natural logarithm, but at most the largest float and at least its inverse.

    The intervals of a few questions with dominating weights can exceed that range.
    """
    return math.exp(max(min(logarithm, LARGEST), -LARGEST))  # in this order, NaN remains NaN


def score_matrix(results: Sequence[Result], metric: str) -> Matrix:
    """Return the matrix of a metric's scores, on the questions with a score in all results (see ``fill_declined``).

    Raises:
        InputError: A result has no such metric, or the metric has no direction.
    """
    for result in results:
        known_metrics = result.summaries.metrics
        if metric not in known_metrics:
            raise InputError(f'{result.name}: no metric "{metric}" was measured{nearest(metric, known_metrics)}')
        if known_metrics[metric].higher_is_better is None:
            raise InputError(
                f"{metric}: cannot rank configs, because neither higher nor lower values are better; choose another"
                " metric"
            )
    ids = list(dict.fromkeys(chain.from_iterable(result.questions["question_id"] for result in results)))
    rows = [_scores(result.questions, metric, ids) for result in results]
    scores = np.array(rows, dtype=np.float64).reshape(len(results), len(ids))
    declined = fill_declined(results, metric, ids, scores)
    known = ~np.isnan(scores)
    both = np.flatnonzero(known.all(axis=0))
    sources, row_of = clusters_of(results[0]), results[0].questions.row_of
    names = tuple(ids[n] for n in both.tolist())
    weights = _weights(results, names)
    return Matrix(
        scores[:, both] if weights is None else scores[:, both] * weights,
        number_clusters(np.array([sources[row_of[name]] for name in names], dtype=np.str_)),
        tuple(result.name for result in results),
        names,
        metric,
        bool(results[0].summaries.metrics[metric].higher_is_better),
        int(known.any(axis=0).sum()),
        weights,
        declined[:, both] if declined.any() else None,
        results[0].summaries.metrics[metric].unit,
    )


def _weights(results: Sequence[Result], names: Sequence[str]) -> Doubles | None:
    """Return the weights of questions, with a mean of 1; None if there are none or all are equal."""
    column = results[0].questions.get(WEIGHT)
    if column is None:
        return None
    row_of = results[0].questions.row_of
    weights = varying(np.array([column[row_of[name]] for name in names], dtype=np.float64))
    return None if weights is None else relative(weights)


def _scores(questions: QuestionResults, metric: str, ids: Sequence[str]) -> Sequence[float]:
    """Return a result's scores for these questions; NaN where missing."""
    asked, column = questions["question_id"], questions[metric]
    if list(asked) == ids:
        return column
    scored = dict(zip(asked, column, strict=True))
    return [scored.get(name, math.nan) for name in ids]


def clusters_of(result: Result) -> Sequence[str]:
    """Return the name of each question's cluster or, for older records without clusters, the question's id."""
    return result.questions.get(SOURCE) or result.questions["question_id"]


def fill_declined(results: Sequence[Result], metric: str, ids: Sequence[str], scores: Doubles) -> Flags:
    """Give missing scores with a reason in ``OWN_REASONS`` the worst score; return a mask of the replaced scores.

    ``scores`` (configs, questions), NaN where missing, is modified in place; the mask has the same shape. With several
    configs, only questions for which another config has a score are filled, because the metric applies to these
    questions. Scores of unanswerable questions, and of metrics without a worst score, are unchanged.
    """
    known, declined = ~np.isnan(scores), np.zeros(scores.shape, dtype=bool)
    summary = results[0].summaries.metrics[metric]
    worst = worst_score(summary.unit, summary.higher_is_better, scores)
    lacking = ~known & (known.any(axis=0) if len(results) > 1 else True)
    if math.isnan(worst):
        return declined
    for row in np.flatnonzero(lacking.any(axis=1)).tolist():
        for n in np.flatnonzero(lacking[row]).tolist():
            place = results[row].questions.row_of.get(ids[n])
            declined[row, n] = (
                place is not None
                and missing_reason(results[row], place, metric) in OWN_REASONS
                and not is_declined_rightly(results[row], place)
            )
    scores[declined] = worst
    return declined


def worst_score(unit: str, higher_is_better: bool | None, scores: Doubles) -> float:
    """Return the worst score, 0 or 1; NaN for a unit, an unknown direction, no scores, or a score outside 0 to 1."""
    known = scores[~np.isnan(scores)]
    if unit or higher_is_better is None or not known.size or known.min() < 0 or known.max() > 1:
        return math.nan
    return 0.0 if higher_is_better else 1.0


def missing_reason(result: Result, place: int, metric: str) -> str:
    """Return the reason why the question in row ``place`` has no score; "" if none is recorded."""
    unscored = result.questions.unscored
    return unscored[place].get(metric, "") if unscored else ""


def is_declined_rightly(result: Result, place: int) -> bool:
    """Return whether the question in row ``place`` is unanswerable, so that declining it is correct."""
    column = result.questions.get("answerable")
    return column is not None and not column[place]


class FilledCandidate(NamedTuple):
    """A candidate with the worst score where it failed or declined: ``worst`` has the ids of these questions.

    If the metric has no worst score, these questions remain unscored and ``missing`` has their ids instead.
    """

    result: Result
    worst: Sequence[str]
    missing: Sequence[str]


def with_worst_cases(baseline: Result | None, candidate: Result, metric: str) -> FilledCandidate:
    """Give the candidate the worst score where it failed or declined, if the metric has one (``worst_score``).

    A missing score is replaced if the baseline has a score on the question; without a baseline, it is replaced if
    measuring failed or the reason is in ``OWN_REASONS``. A declined unanswerable question stays unscored, because
    declining it is correct. The baseline's declined answers get the worst score later, in the matrix
    (``fill_declined``).
    """
    ids, scores = candidate.questions["question_id"], np.array(candidate.questions[metric], dtype=np.float64)
    unscored = np.flatnonzero(np.isnan(scores)).tolist()
    reasons = {n: missing_reason(candidate, n, metric) for n in unscored}
    if baseline is not None:
        known = dict(zip(baseline.questions["question_id"], baseline.questions[metric], strict=True))
        lost = [n for n in unscored if not math.isnan(known.get(ids[n], math.nan))]
    else:
        lost = [n for n in unscored if failed(reasons[n]) or reasons[n] in OWN_REASONS]
    lost = [n for n in lost if failed(reasons[n]) or not is_declined_rightly(candidate, n)]
    names, summary = [ids[n] for n in lost], candidate.summaries.metrics[metric]
    worst = worst_score(summary.unit, summary.higher_is_better, scores)
    if not lost or math.isnan(worst):
        return FilledCandidate(candidate, (), names)
    scores[lost] = worst
    questions = candidate.questions.with_columns({metric: scores.tolist()})
    return FilledCandidate(replace(candidate, questions=questions), names, ())
