"""The sources of a difference's variance: the questions, the sampled answers, and the judge."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.plurals import percentage
from ragsweep.core.question_results import Doubles, Flags, QuestionResults
from ragsweep.core.results import Result
from ragsweep.stats.inference.matrix import Matrix
from ragsweep.stats.inference.resampling import cluster_scores

_ROUNDING = 1e-9


@dataclass(frozen=True)
class VarianceShares:
    """The sources of the variance of a mean (or a mean difference), as shares that add up to 1.

    ``questions`` is due to the choice of questions. ``answers`` is due to the sampling of answers; NaN if every answer
    was sampled once. ``judge`` is due to the judge's noise; NaN if each answer was judged once; the judge's noise is
    then included in ``answers``. ``twice_*`` are the widths that the interval would have after doubling the number of
    questions, repetitions or judge samples, relative to its current width. For a config with one repetition, the
    answers' noise is included in ``questions``, and the effect of repetitions is unknown.
    """

    questions: float
    answers: float
    judge: float
    standard_error: float
    repetitions: tuple[int, ...]  # number of repetitions of each config's answers, baseline first
    twice_questions: float
    twice_repetitions: float  # NaN where a config has one repetition
    twice_samples: float  # for the judge; NaN where it judged once

    def __str__(self) -> str:
        """Describe the shares, and the effects of doubling, in a sentence."""
        counts = " and ".join(str(count) for count in dict.fromkeys(self.repetitions))
        once = math.isnan(self.answers)
        also = " and their answers, drawn once" if once else ""
        parts = [f"{percentage(self.questions)} comes from questions{also}"]
        parts += [] if once else [f"{percentage(self.answers)} from answers ({counts} repetitions)"]
        parts += [] if math.isnan(self.judge) else [f"{percentage(self.judge)} from the judge"]
        ways = [f"twice the questions would narrow the interval to {_two_digits(self.twice_questions)} of its width"]
        for what, width in (("repetitions", self.twice_repetitions), ("judge's samples", self.twice_samples)):
            if not math.isnan(width):
                more = f"as {percentage(width**-2 - 1)} more questions would"
                ways.append(f"twice the {what} to {_two_digits(width)} ({more})")
        partly = not once and math.isnan(self.twice_repetitions)
        what = "difference" if len(self.repetitions) > 1 else "mean"
        text = f"of the variance of this {what}, {', '.join(parts)}: {', '.join(ways)}"
        return text + ("; the noise of answers drawn once counts as noise of the questions" if partly else "")

    def repetitions_for(self, questions: float) -> int | None:
        """Return how many repetitions have the same effect as ``questions`` times the number of questions.

        Return None if no number of repetitions has this effect, or if the effect of repetitions is unknown.
        """
        reducible = 2 * (1 - self.twice_repetitions**2)
        left = 1 / questions - (1 - reducible)
        return math.ceil(max(self.repetitions) * reducible / left) if left > _ROUNDING else None


class _Repetitions(NamedTuple):
    """One config's scores of a metric; arrays are (questions, repetitions)."""

    scores: Doubles  # NaN where a repetition failed
    cases: NDArray[np.str_]  # hash of the judged case; "" where the judgement's error is unknown
    errors: Doubles  # standard errors of the judgements, 0 where unknown


def variance_shares(results: Sequence[Result], matrix: Matrix, share: float = 1.0) -> VarianceShares | None:
    """Split the variance of a config's mean, or of a difference between two; None if nothing is repeated or varies.

    The shares follow the method of moments for a nested design (Searle, Casella and McCulloch, Variance Components,
    1992, section 3.6). With R repetitions and S samples of the judge, the squared standard error (by cluster), times
    the number of questions, is var(questions) + var(answers) / R + var(judge) / (R S). The third term is the variance
    between samples. The second is the variance between the repetitions of a question, minus the judge's part in it. The
    first is the remainder. Negative estimates become 0. Noise is weighted by the square of the question's weight.
    Repetitions of both configs are paired by number, because they share seeds and, with the same context, answers. The
    result is also None if failures leave too few repetitions of every question.

    Args:
        results: The result of one config, or of two, the baseline first.
        matrix: Their scores of a metric, in rows of the same order.
        share: Factor on the baseline's scores in the difference.
    """
    tables = [_read(result.questions, matrix) for result in results]
    counts = tuple(table.scores.shape[1] for table in tables)
    sampled = all((table.cases != "").any() for table in tables)
    if not matrix.questions or (max(counts) < 2 and not sampled):
        return None
    values = matrix.values[-1] - (share * matrix.values[0] if len(results) > 1 else 0.0)
    error = float(cluster_scores(values[None, :], matrix.clusters, matrix.weights).errors[0])
    each = _noise(tables, sampled, share)
    known = ~np.isnan(each[:, 0])
    if not error > 0 or not known.any():
        return None
    squares = np.square(matrix.weights_or_ones)
    total = squares[known] @ each[known] / squares[known].sum() * squares.sum() / len(each) ** 2
    return _shares(total, error, counts, sampled)


def _shares(noise: Doubles, error: float, counts: tuple[int, ...], sampled: bool) -> VarianceShares:
    """Return the shares of a squared standard error, given the components of the mean's noise (see ``_noise``)."""
    spread, visible, judge = noise.tolist()
    variance, answers = error**2, max(spread - visible, 0.0)
    scale = min(1.0, variance / (answers + judge)) / variance if answers + judge else 0.0
    answers, judge, repeatable = answers * scale, judge * scale, min(visible, judge) * scale
    return VarianceShares(
        questions=max(1 - answers - judge, 0.0),
        answers=answers if max(counts) > 1 else math.nan,
        judge=judge if sampled else math.nan,
        standard_error=error,
        repetitions=counts,
        twice_questions=math.sqrt(0.5),
        twice_repetitions=math.sqrt(1 - (answers + repeatable) / 2) if min(counts) > 1 else math.nan,
        twice_samples=math.sqrt(1 - judge / 2) if sampled else math.nan,
    )


def _read(questions: QuestionResults, matrix: Matrix) -> _Repetitions:
    """Read a config's repetitions of a metric; without repetitions, return a single one without noise."""
    repeated, count = questions.repetitions, len(matrix.questions)
    if repeated is None or matrix.metric not in repeated.scores:
        return _Repetitions(np.zeros((count, 1)), np.full((count, 1), "", "U12"), np.zeros((count, 1)))
    rows = [questions.row_of[name] for name in matrix.questions]
    scores = repeated.scores[matrix.metric][rows]
    if matrix.metric not in repeated.judged:
        return _Repetitions(scores, np.full(scores.shape, "", "U12"), np.zeros(scores.shape))
    cases, errors = (column[rows] for column in repeated.judged[matrix.metric])
    return _Repetitions(scores, np.where(np.isnan(errors), "", cases), np.nan_to_num(errors))


def _noise(tables: Sequence[_Repetitions], sampled: bool, share: float) -> Doubles:
    """Estimate three components of the noise of each question's mean (or difference), as (questions, 3).

    The first is the variance between repetitions, the second is the judge's part in it, and the third is the judge's
    variance in the mean. The second and third differ because repetitions with the same text share a judgement with its
    error. All three are NaN if failures leave a config too few repetitions.
    """
    planned = [table.scores.shape[1] for table in tables]
    scores = np.concatenate([table.scores - np.fmax.reduce(table.scores, axis=1)[:, None] for table in tables], axis=1)
    cases, errors = (np.concatenate(parts, axis=1) for parts in zip(*(table[1:] for table in tables), strict=True))
    found = np.full((len(scores), 3), np.nan)
    patterns, which = np.unique(~np.isnan(scores), axis=0, return_inverse=True)
    for number, pattern in enumerate(patterns):
        one = np.flatnonzero(which.ravel() == number)
        counts = np.add.reduceat(pattern, np.cumsum([0, *planned[:-1]]), dtype=int)
        if (counts < np.minimum(planned, 2)).any():
            continue
        between, weights = _forms(planned, pattern, share)
        drawn, case, error = scores[one][:, pattern], cases[one][:, pattern], errors[one][:, pattern]
        alike = (case[:, :, None] == case[:, None, :]) * error[:, :, None] * error[:, None, :] * sampled
        found[one, 0] = np.einsum("qa,ab,qb->q", drawn, between, drawn)
        found[one, 1] = np.einsum("qab,ab->q", alike, between)
        found[one, 2] = np.einsum("a,qab,b->q", weights, alike, weights)
    return found


def _forms(planned: Sequence[int], known: Flags, share: float) -> tuple[Doubles, Doubles]:
    """Return the quadratic form F of a mean difference's variance, and the scores' weights in that difference.

    For the scores x of all known repetitions, x' F x is a sum over all ordered pairs of configs, including each config
    with itself. A pair contributes the covariance between the common repetitions of the two configs, times the factor
    of this covariance in the variance of the difference.
    """
    config = np.repeat(np.arange(len(planned)), planned)[known]
    number = np.concatenate([np.arange(count) for count in planned])[known]
    weights = np.where(config == len(planned) - 1, 1.0, -share) / np.bincount(config)[config]
    form = np.zeros((len(weights), len(weights)))
    for one, other in product(range(len(planned)), repeat=2):
        mine, others = np.flatnonzero(config == one), np.flatnonzero(config == other)
        both, left, right = np.intersect1d(number[mine], number[others], return_indices=True)
        if (count := len(both)) > 1:
            rows, columns = mine[left], others[right]
            centred = (np.eye(count) - 1 / count) * count / (count - 1)
            form[np.ix_(rows, columns)] = np.outer(weights[rows], weights[columns]) * centred
    return form, weights


def _two_digits(value: float) -> str:
    return f"{value:.2f}".removeprefix("0")
