"""Compare a judge with humans (agreement, corrected scores) and with itself (the noise in a judged metric)."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.errors import InputError
from ragsweep.core.plurals import count_reasons
from ragsweep.stats.inference.matrix import Matrix
from ragsweep.stats.inference.prediction_powered import prediction_powered

LEVEL = 0.95
Z = NormalDist().inv_cdf(0.5 + LEVEL / 2)


class Interval(NamedTuple):
    """A value and its 95 % interval; NaN if there are no data."""

    value: float = math.nan
    low: float = math.nan
    high: float = math.nan


class Share(NamedTuple):
    """The share of ``hits`` in ``n`` items."""

    hits: int
    n: int

    @property
    def interval(self) -> Interval:
        """The share with Wilson's 95 % score interval (JASA 22, 1927); all NaN for n = 0."""
        hits, n = self
        if not n:
            return Interval()
        share, square = hits / n, Z * Z / n
        middle = (share + square / 2) / (1 + square)
        half = Z * math.sqrt(share * (1 - share) / n + square / (4 * n)) / (1 + square)
        low, high = max(middle - half, 0.0), min(middle + half, 1.0)
        return Interval(share, low if hits else 0.0, high if hits < n else 1.0)


class Confusion(NamedTuple):
    """The shares of the human passes (sensitivity) and of the human fails (specificity) on which the judge agrees."""

    sensitivity: Share
    specificity: Share


def confusion(judge: Sequence[bool], people: Sequence[bool]) -> Confusion:
    """Count the human passes, and the human fails, on which the judge agrees; True means that the item passes."""
    passed, right = np.asarray(judge, dtype=bool), np.asarray(people, dtype=bool)
    return Confusion(
        Share(int((passed & right).sum()), int(right.sum())), Share(int((~passed & ~right).sum()), int((~right).sum()))
    )


def kappa(one: NDArray[Any], other: NDArray[Any], weights: Literal["none", "linear", "quadratic"] = "none") -> float:
    """Return the chance-corrected agreement of two raters of the same items.

    The result is Cohen's kappa (1960) or, with ``weights``, Cohen's weighted kappa (1968). The cost of a disagreement
    in weighted kappa is the distance between the two values, or its square. Values are compared as numbers, not as
    ranks, so scores may lie between the steps of a scale; with equal steps, the result is the kappa of ranks. Return
    NaN if both raters always give the same single value.
    """
    first, second = np.asarray(one, dtype=np.float64), np.asarray(other, dtype=np.float64)
    cost: Callable[[Any], Any] = {"none": np.sign, "linear": np.abs, "quadratic": np.square}[weights]
    values, counts = np.unique(first, return_counts=True)
    other_values, other_counts = np.unique(second, return_counts=True)
    costs_of_pairs = cost(np.abs(values[:, None] - other_values[None, :]))
    expected = float(counts @ costs_of_pairs @ other_counts) / len(first) ** 2
    return 1 - float(cost(np.abs(first - second)).mean()) / expected if expected else math.nan


RATED = range(10, 5001)
"""The numbers of items for which kappa has an interval; resampling more items would take too long."""


def kappa_interval(one: NDArray[Any], other: NDArray[Any], weights: Literal["none", "linear", "quadratic"]) -> Interval:
    """Return kappa and its interval by the percentile bootstrap over items (1,000 resamples, fixed seed).

    The bounds are NaN if the number of items is not in ``RATED``. They are also NaN if a rater gives only one value:
    kappa would be 0 in every resample, and an interval without width would be misleading.
    """
    value = kappa(one, other, weights)
    if len(one) not in RATED or math.isnan(value) or 1 in (len(set(one)), len(set(other))):
        return Interval(value)
    draws = np.random.default_rng(0).integers(0, len(one), (1000, len(one)))
    resampled = [kappa(one[rows], other[rows], weights) for rows in draws]
    low, high = np.nanquantile(resampled, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(value, float(low), float(high))


def corrected_share(passed: Share, errors: Confusion) -> Interval:
    """Estimate the share of items that truly pass, from the share that a judge passes and the judge's errors.

    The interval includes the uncertainty of the measured errors. The estimate is Rogan and Gladen's (American Journal
    of Epidemiology 107, 1978). The interval is Lang and Reiczigel's (Preventive Veterinary Medicine 113, 2014): the
    delta method on shares with added successes and failures. The estimate and both ends are clipped to [0, 1]. They are
    NaN if no items were judged, if the labels lack passes or fails, or if the judge was no better than chance on the
    labels.

    Args:
        passed: The share of all judged items that the judge passes.
        errors: The judge's agreement with humans on a random subset of these items.
    """
    positive, negative = errors
    if not passed.n or not positive.n or not negative.n:
        return Interval()
    power = positive.hits / positive.n + negative.hits / negative.n - 1
    observed = (passed.hits + Z * Z / 2) / (passed.n + Z * Z)
    sensitivity, specificity = ((share.hits + 1) / (share.n + 2) for share in errors)
    better = sensitivity + specificity - 1
    if power <= 0 or better <= 0:
        return Interval()
    point = (passed.hits / passed.n + negative.hits / negative.n - 1) / power
    middle = (observed + specificity - 1) / better
    spread_positive = sensitivity * (1 - sensitivity) / positive.n
    spread_negative = specificity * (1 - specificity) / negative.n
    moved = 2 * Z * Z * (middle * spread_positive - (1 - middle) * spread_negative)
    variance = (
        observed * (1 - observed) / (passed.n + Z * Z)
        + middle**2 * spread_positive
        + (1 - middle) ** 2 * spread_negative
    )
    half = Z * math.sqrt(variance) / better
    low, high = middle + moved - half, middle + moved + half
    return Interval(*(min(max(value, 0.0), 1.0) for value in (point, low, high)))


class Noise(NamedTuple):
    """The differences between two judgements of the same questions; all but ``n`` are NaN if ``n`` is below 2."""

    n: int  # number of questions with a score in both judgements
    mean_difference: float  # second judgement minus first
    spread: float  # standard deviation of the differences per question
    of_one: float  # standard deviation of one verdict: spread / sqrt(2)
    of_the_mean: float  # 95 % bound on the chance difference between two means over n questions
    changed: float  # share of questions whose scores differ


def noise(first: Sequence[float], second: Sequence[float], weights: Sequence[float] | None = None) -> Noise:
    """Measure the differences between two judgements of the same questions, ignoring questions with a NaN score.

    The ``weights`` of the questions affect only ``mean_difference`` and ``of_the_mean``.
    """
    one, other = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    known = ~(np.isnan(one) | np.isnan(other))
    differences = (other - one)[known]
    n = len(differences)
    if n < 2:
        return Noise(n, *[math.nan] * 5)
    spread, mean = float(differences.std(ddof=1)), float(differences.mean())
    of_the_mean = Z * spread / math.sqrt(n)
    if weights is not None:
        shares = np.asarray(weights, dtype=np.float64)[known]
        shares = shares / shares.sum()
        mean, of_the_mean = float(shares @ differences), of_the_mean * math.sqrt(n * float(shares @ shares))
    return Noise(
        n=n,
        mean_difference=mean,
        spread=spread,
        of_one=spread / math.sqrt(2),
        of_the_mean=of_the_mean,
        changed=float((differences != 0).mean()),
    )


UNKNOWN = "not among the judged questions (check question_id)"


class PassMark(NamedTuple):
    """The score from which a judged answer passes or, if lower is better, from which it fails."""

    score: float
    higher_is_better: bool = True

    def passes(self, scores: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Flag the scores that pass."""
        return scores >= self.score if self.higher_is_better else scores < self.score


@dataclass(frozen=True)
class Calibration:
    """The agreement of one metric's judge with human labels.

    A score passes if it is at least ``threshold`` or, if lower is better, if it is below ``threshold``. ``kappa``
    compares passes and fails; ``weighted_kappa`` compares the scores, with quadratic weights. ``passed`` is the share
    of all verdicts that pass; ``corrected_passed`` is this share, corrected for the judge's errors. ``mean`` is the
    mean score; ``corrected_mean`` is this mean, corrected by the labels. ``corrected_mean`` is NaN if there are too few
    labels, or if all labels, but not all scores, are 0 or 1.
    """

    metric: str
    n_verdicts: int
    n_labels: int
    n_compared: int
    threshold: float
    higher_is_better: bool
    kappa: Interval
    weighted_kappa: Interval
    sensitivity: Interval
    specificity: Interval
    n_right: int
    n_wrong: int
    passed: Interval
    corrected_passed: Interval
    mean: float
    corrected_mean: Interval
    missing: Mapping[str, int]  # number of labels without a verdict, by reason


def measure(
    metric: str,
    verdicts: Mapping[str, float],
    labels: Mapping[str, float],
    threshold: PassMark,
    sources: Mapping[str, str] | None = None,
    reasons: Mapping[str, str] | None = None,
) -> Calibration:
    """Compare the verdicts of a metric with the labels for the same questions.

    Args:
        metric: The metric's name.
        verdicts: Question -> score by the judge.
        labels: Question -> human label.
        threshold: The pass mark for verdicts and labels. If all labels, but not all verdicts, are 0 or 1, the pass mark
        for labels is .5.
        sources: Question -> its cluster; None means that each question is its own cluster.
        reasons: Question -> why it has no verdict.

    Raises:
        InputError: No labelled question has a verdict.
    """
    both = [question for question in labels if question in verdicts]
    missing = Counter((reasons or {}).get(question) or UNKNOWN for question in labels if question not in verdicts)
    if not both:
        why = f"{metric}: no labelled question has a verdict: {count_reasons(missing)}"
        raise InputError(f"{why}; label questions that the judge has scored")
    judge, people = (np.array([scores[question] for question in both]) for scores in (verdicts, labels))
    everything = np.array(list(verdicts.values()))
    # Labels that are all 0 or 1 state only whether answers pass; they cannot correct a mean of other scores.
    marks = bool(np.isin(people, (0, 1)).all() and not np.isin(everything, (0, 1)).all())
    passes, passing = map(threshold.passes, (judge, everything))
    right = (threshold._replace(score=0.5) if marks else threshold).passes(people)
    errors = confusion(passes.tolist(), right.tolist())
    passed = Share(int(passing.sum()), len(everything))
    clusters = np.unique([(sources or {}).get(question, question) for question in verdicts], return_inverse=True)[1]
    scores = np.array([labels.get(question, math.nan) for question in verdicts])
    matrix = Matrix(everything[None, :], clusters, (metric,), tuple(verdicts), metric, asked=len(verdicts))
    corrected = prediction_powered(matrix, scores[None, :], (1.0,))
    counts = len(verdicts), len(labels), len(both)
    return Calibration(
        metric,
        *counts,
        *threshold,
        kappa=kappa_interval(passes, right, "none"),
        weighted_kappa=kappa_interval(judge, people, "quadratic"),
        sensitivity=errors.sensitivity.interval,
        specificity=errors.specificity.interval,
        n_right=errors.sensitivity.n,
        n_wrong=errors.specificity.n,
        passed=passed.interval,
        corrected_passed=corrected_share(passed, errors),
        mean=float(everything.mean()),
        corrected_mean=Interval() if marks else Interval(*corrected[:3]),
        missing=missing,
    )
