"""Scores as single values, and the score of one answer to one question."""

from dataclasses import replace

import numpy as np

from ragsweep.core.types import Answer, Answers, EvaluationView, JudgedMetric, Metric, Passage, Question
from ragsweep.testing.metrics import answered, judgements

NOTHING = answered([])


def rows(metric: Metric, view: EvaluationView) -> list[float | str]:
    """Return the value of each question, or the reason why there is none."""
    values, reasons = metric.score(view)
    return [reason or value for value, reason in zip(values.tolist(), reasons.tolist(), strict=True)]


def score_one(metric: Metric, question: Question, answer: Answer | str, *passages: str) -> float | str:
    """Return the score of an answer that was given these passages, or the reason why it has none."""
    given = Answer(answer) if isinstance(answer, str) else answer
    read = tuple(Passage(f"p{n}", text) for n, text in enumerate(passages))
    view = replace(NOTHING, questions=(question,), answers=Answers([given], [read], np.zeros(1, dtype=np.int64)))
    if isinstance(metric, JudgedMetric):
        view = replace(view, judgements=judgements(view, metric))
    return rows(metric, view)[0]
