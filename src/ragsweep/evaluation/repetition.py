"""Read repeated answers and score them: the mean over a question's repetitions, and the score of each repetition."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.identity import Node, Rows, content_hash
from ragsweep.core.missing import OWN_REASONS, SKIPPED, failed
from ragsweep.core.question_results import JudgedCases, Repetitions
from ragsweep.core.types import Answer, EvaluationView, JudgedMetric, Judgement, Metric, Question, Scores
from ragsweep.evaluation.answering import unpacked
from ragsweep.evaluation.config_graph import Repetition
from ragsweep.evaluation.experiment import Experiment
from ragsweep.evaluation.question_table import QuestionTable
from ragsweep.evaluation.scoring import score_metric
from ragsweep.parts.answer_outputs import mark_cut
from ragsweep.stats.inference.matrix import worst_score

_OF_FIRST = {"latency", "exact"}
"""Metrics with one of these needs are scored only once, with the first answers."""


def read_answers(
    get: Callable[[Node, Rows], Any],
    experiment: Experiment,
    table: QuestionTable,
    one: Repetition,
    view: EvaluationView,
) -> EvaluationView:
    """Return a view with the answers and the verdicts of one repetition, and their costs.

    Verdicts that are not repeated, and the passages of the answers, come from ``view``.
    """
    answers = view.answers
    if one.answer and answers:
        items = experiment.with_costs(unpacked(get(one.answer, table.answered), Answer), one.answer)
        answers = answers._replace(answers=mark_cut(items, experiment.output))
    verdicts = {
        name: experiment.with_costs(unpacked(get(node, table.judged), Judgement)) for name, node in one.verdicts.items()
    }
    return replace(view, answers=answers, judgements={**view.judgements, **verdicts})


@dataclass(frozen=True)
class RepeatedScores:
    """The scores of every question: for a repeated metric, the mean over the repetitions.

    ``repetitions`` contains the scores of each repetition; it is None if neither answers nor judgements are
    repeated.
    """

    scores: Mapping[str, Scores]
    repetitions: Repetitions | None
    broken: Mapping[str, NDArray[np.int64]]  # repeated metric -> the number of failed repetitions of each question

    def lost(self, scores: Mapping[str, Scores]) -> dict[str, NDArray[np.int64]]:
        """Return, by metric, each question's number of failed repetitions; 0 without a score in ``scores``.

        Metrics for which all numbers are 0 are omitted.
        """
        counts = {name: np.where(np.isnan(scores[name].values), 0, some) for name, some in self.broken.items()}
        return {name: some for name, some in counts.items() if some.any()}


def score_repetitions(metrics: Sequence[Metric], views: Sequence[EvaluationView]) -> RepeatedScores:
    """Score every repetition, and average the available scores of each question.

    If only some repetitions of an answerable question have a score, the others get the worst score if they declined or
    have nothing to measure (see ``worst_score``), as in comparisons of configs. If no repetition of a question has a
    score, the reason is copied from the first repetition to which the metric does not apply (a declined answer does not
    count), else from the first failed repetition, else from the first repetition. Metrics that need latency or exact
    search, and metrics that are quantiles, are scored only for the first repetition.
    """
    scores, repeated, broken = dict[str, Scores](), dict[str, np.ndarray](), dict[str, NDArray[np.int64]]()
    for metric in metrics:
        scores[metric.name] = score_metric(metric, views[0])
        if metric.quantile is not None or _OF_FIRST & set(metric.needs):
            continue
        each = [scores[metric.name], *(score_metric(metric, view) for view in views[1:])]
        values = _with_worst(metric, each, views[0].questions)
        drawn = bool({"answer", "judge"} & set(metric.needs)) or not np.array_equal(values[1:], values[:-1], True)
        if len(views) > 1 and drawn:
            scores[metric.name], broken[metric.name] = _averaged(values, each)
            repeated[metric.name] = values
        elif views[0].answers and samples_of(metric) > 1:
            repeated[metric.name] = values
    single = _repetitions(metrics, views, repeated) if len(views) > 1 or repeated else None
    return RepeatedScores(scores, single, broken)


def _with_worst(metric: Metric, each: Sequence[Scores], questions: Sequence[Question]) -> NDArray[np.float64]:
    """Return the scores (repetitions, questions), with missing scores replaced as in ``score_repetitions``.

    Without the replacement, a config would gain by declining some repetitions.
    """
    values = np.stack([one.values for one in each])
    known = ~np.isnan(values)
    partly = ~known & known.any(axis=0)
    if not partly.any():
        return values
    own = np.isin(np.stack([one.reasons for one in each]), [*OWN_REASONS])
    answerable = np.array([question.answerable for question in questions], dtype=bool)
    return np.where(partly & own & answerable, worst_score(metric.unit, metric.higher_is_better, values), values)


def _averaged(values: NDArray[np.float64], each: Sequence[Scores]) -> tuple[Scores, NDArray[np.int64]]:
    """Return the mean of ``values`` over the repetitions (axis 0), and each question's number of failed repetitions."""
    reasons = np.stack([one.reasons for one in each])
    known = ~np.isnan(values)
    count, broken = known.sum(axis=0), np.vectorize(failed, otypes=[bool])(reasons)
    means = np.where(count > 0, np.nansum(values, axis=0) / np.maximum(count, 1), np.nan)
    skipped = np.isin(reasons, [*(SKIPPED - OWN_REASONS)])
    why = reasons[np.argmax(2 * skipped + broken, axis=0), np.arange(reasons.shape[1])]
    return Scores(means, np.where(count > 0, "", why).astype(np.str_)), broken.sum(axis=0)


def _repetitions(
    metrics: Sequence[Metric], views: Sequence[EvaluationView], repeated: Mapping[str, np.ndarray]
) -> Repetitions:
    sampled = [metric for metric in metrics if metric.name in repeated and samples_of(metric) > 1]
    texts = [[answer.text for answer in view.answers.answers] for view in views if view.answers]
    firsts = [[row.index(text) for text in row] for row in zip(*texts, strict=True)]
    return Repetitions(
        np.array(firsts, dtype=np.int64),
        {name: values.T for name, values in repeated.items()},
        {metric.name: _judged(metric, views) for metric in sampled},
    )


def samples_of(metric: Metric) -> int:
    """Return the number of judgements whose mean is a score; 1 for a metric without a judge."""
    return int(getattr(metric, "samples", 1)) if isinstance(metric, JudgedMetric) else 1


def _judged(metric: Any, views: Sequence[EvaluationView]) -> JudgedCases:
    """Return the hash of every judged case, and the standard error of its judgement (questions, repetitions)."""
    errors = [[one.spread / math.sqrt(metric.samples) for one in view.judgements[metric.name]] for view in views]
    cases = [[_case(metric, view, n) for n in range(len(view.questions))] for view in views]
    return JudgedCases(np.array(cases, dtype=np.str_).T, np.array(errors, dtype=np.float64).T)


def _case(metric: Any, view: EvaluationView, question: int) -> str:
    assert view.answers is not None
    contexts = [passage.text for passage in view.answers.passages[question]] if "contexts" in metric.uses else []
    text = view.answers.answers[question].text if "answer" in metric.uses else ""
    return content_hash([text, contexts])[:12]
