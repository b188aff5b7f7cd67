"""Analyse answers: outcomes by kind of question, the effect of the context, and abstention by support."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.missing import NO_ANSWERS
from ragsweep.core.question_results import Flags, QuestionResults
from ragsweep.core.results import Result, Run
from ragsweep.stats import context_effect
from ragsweep.stats.comparable import redefined_metrics
from ragsweep.stats.context_effect import SERVED, ContextEffect, Success
from ragsweep.stats.inference.matrix import WEIGHT

NO_RETRIEVER = "ragsweep.parts.retrievers.NoRetriever"
FATES = ("correct_answer", "wrong_answer", "false_refusal", "correct_refusal", "hallucinated_answer")
ANSWERABLE = "answerable"
SAME = ("llm", "prompt", "system", "output")
"""Config keys that must be equal so that only the context can explain a difference between two configs' scores."""


class ContextPair(NamedTuple):
    """A config with context (``result``), and its comparison with a config without context (``base``)."""

    base: Result
    result: Result
    success: Success
    effect: ContextEffect


class CoveragePoint(NamedTuple):
    """A point of a risk-coverage curve: the result of giving only answers with a support of at least ``threshold``.

    Support is the generator's confidence in an answer. ``answered`` and ``coverage`` are the number and the share of
    questions that would be answered. ``score_answered`` is the mean score of the given answers (NaN without answers).
    ``score`` is the mean over all questions; a refusal counts 1 for an unanswerable question and 0 for an answerable
    one. ``hallucinated`` is the share of unanswerable questions that would be answered (NaN without such questions).
    """

    threshold: float
    answered: int
    coverage: float
    score_answered: float
    score: float
    hallucinated: float


class Cells(NamedTuple):
    """One row of the confusion matrix: the outcomes of all questions of one kind (see ``confusion``)."""

    kind: str  # "answerable", "unanswerable", or "unanswerable: " and a type
    counts: Mapping[str, int]  # outcome (one of ``FATES``) -> number of questions
    unknown: int  # number of questions with an unknown outcome


def against_no_context(results: Sequence[Result]) -> list[ContextPair]:
    """Pair each config that retrieves with a config that answers the same questions without context.

    The two configs must have the same golden set, equal values for the keys in ``SAME``, and the same definition of the
    success metric. If several configs without context match, the first is used. A config that retrieves is left out if
    no config without context matches. Any config is left out if it has no answers or no scores of its success metric.
    """
    answered = [result for result in results if {"abstained", success_of(result).metric} <= result.questions.keys()]
    bases = [result for result in answered if _without_context(result.run)]
    pairs = []
    for result in answered:
        success = success_of(result)
        base = next((base for base in bases if _alike(base, result, success.metric)), None)
        if base is not None and not _without_context(result.run):
            effect = context_effect.compare(base.questions, result.questions, success)
            pairs.append(ContextPair(base, result, success, effect))
    return pairs


def success_of(result: Result) -> Success:
    """Return a config's rule for solved questions (its key ``success``), with defaults for missing settings."""
    given = result.run.config.get("success") or {}
    metric = str(given.get("metric") or SERVED.metric)
    known = result.summaries.metrics.get(metric)
    higher = known is None or known.higher_is_better is not False
    return Success(metric, float(given.get("threshold", SERVED.threshold)), higher)


def confusion(outcomes: Mapping[str, Sequence[Any]]) -> list[Cells]:
    """Count the outcomes of the answerable questions and of each type of unanswerable question.

    ``outcomes`` has the columns of a config's results. The outcome of a question is unknown if its answer failed, or if
    the question is answerable but has no known correct answer. If answers are repeated, the first answer to each
    question counts. The list is empty for a config without answers, and for a system that only searches.
    """
    if not {"abstained", *FATES} <= outcomes.keys() or NO_ANSWERS in outcomes.get("answer_failed", ()):
        return []
    repeated = outcomes.repetitions.scores if isinstance(outcomes, QuestionResults) and outcomes.repetitions else {}
    first = {fate: repeated[fate][:, 0].tolist() if fate in repeated else outcomes[fate] for fate in FATES}
    types = outcomes.get("unanswerable_type") or [""] * len(outcomes["answerable"])
    rows: dict[str, list[str]] = {}
    for n, answerable in enumerate(outcomes["answerable"]):
        kind = ANSWERABLE if answerable else f"unanswerable: {types[n]}" if types[n] else "unanswerable"
        known = (fate for fate in FATES if not math.isnan(outcomes[fate][n]) and first[fate][n] == 1.0)
        rows.setdefault(kind, []).append(next(known, ""))
    ordered = sorted(rows, key=lambda kind: (kind != ANSWERABLE, kind))
    return [Cells(kind, {fate: rows[kind].count(fate) for fate in FATES}, rows[kind].count("")) for kind in ordered]


def abstention_curves(results: Sequence[Result]) -> dict[str, list[CoveragePoint]]:
    """Return risk-coverage curves by config name; configs without answer support or token F1 scores are left out."""
    columns = ("answer_support", "token_f1", "answerable", "refusal")
    curves = {}
    for result in results:
        if set(columns) <= result.questions.keys():
            support, scores, answerable, refusal = (result.questions[column] for column in columns)
            weights = result.questions.get(WEIGHT)
            points = coverage_curve(support, scores, answerable, [value == 1.0 for value in refusal], weights)
            if points:
                curves[result.name] = points
    return curves


def coverage_curve(
    support: Sequence[float],
    scores: Sequence[float],
    answerable: Sequence[bool],
    refused: Sequence[bool],
    weights: Sequence[float] | None = None,
) -> list[CoveragePoint]:
    """Return the risk-coverage curve (El-Yaniv and Wiener, JMLR 11, 2010), from no answers to all given answers.

    The answers that a generator refused to give are unknown, so the curve ends at the generator's own threshold.
    Questions with equal support are answered together: the first point has no answers, and each distinct support, in
    descending order, adds one point. Questions without a score, and answers without support, are left out. The list
    is empty if no answer has both a score and support.

    Args:
        support: The generator's confidence in each answer; NaN if missing.
        scores: The scores of the answers; NaN where not measured.
        answerable: Whether each question can be answered.
        refused: Whether the generator itself declined each question.
        weights: Weights of the questions in shares and averages; None means equal weights.
    """
    sure, score = np.asarray(support, dtype=np.float64), np.asarray(scores, dtype=np.float64)
    exists, declined = np.asarray(answerable, dtype=bool), np.asarray(refused, dtype=bool)
    usable = ~np.isnan(score) & (declined | ~np.isnan(sure))  # a refusal needs no support
    sure, score, exists, declined = sure[usable], score[usable], exists[usable], declined[usable]
    weight = None if weights is None else np.asarray(weights, dtype=np.float64)[usable]

    def average(values: NDArray[Any], chosen: Flags) -> float:
        if not chosen.any():
            return math.nan
        return float(np.average(values[chosen], weights=None if weight is None else weight[chosen]))

    everything = np.ones(len(score), dtype=bool)
    thresholds = np.unique(sure[~declined])[::-1].tolist()
    points = []
    for threshold in [math.inf, *thresholds] if thresholds else ():
        given = ~declined & (sure >= threshold)
        answered = int(given.sum())
        points.append(
            CoveragePoint(
                threshold=threshold,
                answered=answered,
                coverage=average(given, everything),
                score_answered=average(score, given),
                score=average(np.where(given, score, ~exists), everything),
                hallucinated=average(given, ~exists),
            )
        )
    return points


def best_point(points: Sequence[CoveragePoint]) -> CoveragePoint:
    """Return the point with the best score over all questions; of tied points, the one with the fewest answers.

    On other questions, the score at this threshold will usually be a little worse. ``points`` must not be empty.
    """
    return max(points, key=lambda point: (point.score, point.threshold))


def _without_context(run: Run) -> bool:
    chosen = run.config.get("retriever")
    return isinstance(chosen, Mapping) and chosen.get("_target_") == NO_RETRIEVER


def _alike(base: Result, result: Result, metric: str) -> bool:
    same = base.run.dataset.golden_digest == result.run.dataset.golden_digest and metric in base.questions
    same = same and not redefined_metrics(base, result, [metric])
    return same and all(base.run.config.get(key) == result.run.config.get(key) for key in SAME)
