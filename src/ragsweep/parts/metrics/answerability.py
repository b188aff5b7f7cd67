"""Who was answered, and rightly: the confusion matrix of answerable and unanswerable questions, cell by cell.

An answerable question is answered rightly, answered wrongly or refused; an unanswerable one is refused, or answered
although there is no answer. Each cell is a share of the questions of its own row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from ragsweep.core.reasons import ANSWERABLE, UNANSWERABLE
from ragsweep.core.types import Answer, Passage, Question
from ragsweep.parts.metrics.answer_metric import AnswerMetric, checked, refused, said, unreferenced
from ragsweep.parts.metrics.exactness import Language, best_f1
from ragsweep.parts.metrics.keywords import Match, checked_match, covered

Fate = Literal["correct_answer", "wrong_answer", "false_refusal", "correct_refusal", "hallucinated_answer"]

OF_UNANSWERABLE = ("correct_refusal", "hallucinated_answer")
WELCOME = ("correct_answer", "correct_refusal")


class AnswerFate(AnswerMetric):
    """Say whether a question met this fate: 1 or 0; questions of the other row have no score.

    Args:
        fate: The cell of the matrix; it is the metric's name.
        threshold: An answer is right from this token F1 on, or when it holds all keywords of its question.
        language: As for TokenF1, and for the stems of keywords.
        match: How keywords are looked for, as for KeywordCoverage.

    Raises:
        ConfigError: The threshold is not above 0 and at most 1, or ``match`` is not known.
    """

    VERSION = "1"

    def __init__(self, fate: Fate, threshold: float = 0.5, language: Language = "label", match: Match = "word") -> None:
        self.name = fate
        self.threshold = checked(threshold, fate)
        self.language = language
        self.match = checked_match(match, fate)
        self.higher_is_better = fate in WELCOME

    def lacking(self, question: Question) -> str:
        """A question must stand in the fate's row of the matrix, and it must be known what should be answered."""
        if question.answerable == (self.name in OF_UNANSWERABLE):
            return ANSWERABLE if question.answerable else UNANSWERABLE
        return unreferenced(question)

    def of(self, question: Question, answer: Answer, passages: Sequence[Passage]) -> float | str:
        """Find the answer's fate."""
        return float(fate_of(question, answer, self) == self.name)


class SuccessRate(AnswerMetric):
    """Say whether a question was served: answered rightly, or refused where there is no answer; 1 or 0.

    Args:
        threshold: As for AnswerFate.
        language: As for AnswerFate.
        match: As for AnswerFate.

    Raises:
        ConfigError: The threshold is not above 0 and at most 1, or ``match`` is not known.
    """

    VERSION = "1"
    name = "success_rate"

    def __init__(self, threshold: float = 0.5, language: Language = "label", match: Match = "word") -> None:
        self.threshold = checked(threshold, self.name)
        self.language = language
        self.match = checked_match(match, self.name)

    def lacking(self, question: Question) -> str:
        """It must be known what should be answered."""
        return unreferenced(question)

    def of(self, question: Question, answer: Answer, passages: Sequence[Passage]) -> float | str:
        """Find the answer's fate."""
        return float(fate_of(question, answer, self) in WELCOME)


class Refusal(AnswerMetric):
    """Say whether a question was refused, by the generator's word or a blank answer: 1 or 0."""

    VERSION = "1"
    name = "refusal"
    higher_is_better = None

    def of(self, question: Question, answer: Answer, passages: Sequence[Passage]) -> float | str:
        """Look at the answer."""
        return float(refused(answer))


FATES = ("correct_answer", "wrong_answer", "false_refusal", *OF_UNANSWERABLE)
"""Every fate, the answerable questions' first."""


class Rule(Protocol):
    """When an answer is right: see AnswerFate."""

    threshold: float
    language: Language
    match: Match


def fate_of(question: Question, answer: Answer, rule: Rule) -> str:
    """Name the fate of an answer that did not fail, to a question of which it is known what should be answered."""
    if refused(answer):
        return "false_refusal" if question.answerable else "correct_refusal"
    if not question.answerable:
        return "hallucinated_answer"
    whole = bool(question.keywords) and covered(question, said(answer), rule.match, rule.language) == 1.0
    return "correct_answer" if whole or best_f1(question, answer, rule.language) >= rule.threshold else "wrong_answer"
