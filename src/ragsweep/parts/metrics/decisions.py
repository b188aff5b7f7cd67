"""Decisions of a system: whether it searches, and whether it answers.

Answers form a confusion matrix: an answerable question is answered correctly, answered wrongly or refused; an
unanswerable one is refused or answered nonetheless. Each cell is a proportion of the questions of its own row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from ragsweep.core.missing import ANSWERABLE, CONVERSATIONAL, NEEDS_RETRIEVAL, NO_ROUTER, UNANSWERABLE
from ragsweep.core.types import Answer, EvaluationView, Passage, Question, Route, Scores
from ragsweep.parts.metrics.bases import (
    AnswerMetric,
    Proportion,
    answer_text,
    check_threshold,
    is_refusal,
    reason_unreferenced,
    to_scores,
)
from ragsweep.parts.metrics.right_answers import Language, Match, best_f1, check_match, keyword_coverage


class RouterAccuracy(Proportion):
    """Proportion of questions that are routed as the golden set's ``needs_retrieval`` demands."""

    VERSION = "1"
    needs = ("router",)
    name = "router_accuracy"

    def score(self, view: EvaluationView) -> Scores:
        """Score every question; a failed decision is NaN with its reason."""
        if view.routes is None:
            return to_scores([NO_ROUTER] * len(view.questions))
        pairs = zip(view.questions, view.routes, strict=True)
        return to_scores([self.skip_reason(one) or route.failed or self._of(one, route) for one, route in pairs])

    def skip_reason(self, question: Question) -> str:
        """Return why a question is not scored; empty where it is."""
        return ""

    def _of(self, question: Question, route: Route) -> float:
        return float(route.search == question.needs_retrieval)


class MissedSearch(RouterAccuracy):
    """Proportion of the questions that need the corpus but are answered without a search."""

    VERSION = "1"
    name = "missed_search"
    higher_is_better = False

    def skip_reason(self, question: Question) -> str:
        """Leave out conversation."""
        return "" if question.needs_retrieval else CONVERSATIONAL

    def _of(self, question: Question, route: Route) -> float:
        return float(not route.search)


class NeedlessSearch(RouterAccuracy):
    """Proportion of conversation for which the corpus is searched, which costs time and adds misleading context."""

    VERSION = "1"
    name = "needless_search"
    higher_is_better = False

    def skip_reason(self, question: Question) -> str:
        """Leave out questions that need the corpus."""
        return NEEDS_RETRIEVAL if question.needs_retrieval else ""

    def _of(self, question: Question, route: Route) -> float:
        return float(route.search)


Fate = Literal["correct_answer", "wrong_answer", "false_refusal", "correct_refusal", "hallucinated_answer"]
OF_UNANSWERABLE = ("correct_refusal", "hallucinated_answer")
WELCOME = ("correct_answer", "correct_refusal")
FATES = ("correct_answer", "wrong_answer", "false_refusal", *OF_UNANSWERABLE)
"""All cells, the answerable questions' first."""


class AnswerFate(AnswerMetric):
    """Whether a question falls into this cell: 1 or 0; questions of the other row are not scored.

    Args:
        fate: The cell of the matrix; it is the metric's name.
        threshold: Token F1 from which an answer is correct; one with all keywords of its question is correct, too.
        language: As for TokenF1, and for the stems of keywords.
        match: As for KeywordCoverage.

    Raises:
        ConfigError: The threshold is not above 0 and at most 1, or ``match`` is unknown.
    """

    VERSION = "1"

    def __init__(self, fate: Fate, threshold: float = 0.5, language: Language = "label", match: Match = "word") -> None:
        self.name = fate
        self.threshold = check_threshold(threshold, fate)
        self.language = language
        self.match = check_match(match, fate)
        self.higher_is_better = fate in WELCOME

    def skip_reason(self, question: Question) -> str:
        """Leave out questions of the other row, and those without a known right answer."""
        if question.answerable == (self.name in OF_UNANSWERABLE):
            return ANSWERABLE if question.answerable else UNANSWERABLE
        return reason_unreferenced(question)

    def score_answer(self, question: Question, answer: Answer, passages: Sequence[Passage]) -> float | str:
        """Compare the answer's cell with this one."""
        return float(fate_of(question, answer, self) == self.name)


class SuccessRate(AnswerMetric):
    """Whether a question was answered correctly, or correctly refused: 1 or 0.

    Args:
        threshold: As for AnswerFate.
        language: As for AnswerFate.
        match: As for AnswerFate.

    Raises:
        ConfigError: The threshold is not above 0 and at most 1, or ``match`` is unknown.
    """

    VERSION = "1"
    name = "success_rate"

    def __init__(self, threshold: float = 0.5, language: Language = "label", match: Match = "word") -> None:
        self.threshold = check_threshold(threshold, self.name)
        self.language = language
        self.match = check_match(match, self.name)

    def skip_reason(self, question: Question) -> str:
        """Leave out questions without a known right answer."""
        return reason_unreferenced(question)

    def score_answer(self, question: Question, answer: Answer, passages: Sequence[Passage]) -> float | str:
        """Check the answer's cell."""
        return float(fate_of(question, answer, self) in WELCOME)


class Refusal(AnswerMetric):
    """Whether the question was refused, by the generator's words or a blank answer: 1 or 0."""

    VERSION = "1"
    name = "refusal"
    higher_is_better = None

    def score_answer(self, question: Question, answer: Answer, passages: Sequence[Passage]) -> float | str:
        """Check for a refusal."""
        return float(is_refusal(answer))


class Rule(Protocol):
    """The rule by which an answer is correct; see AnswerFate."""

    threshold: float
    language: Language
    match: Match


def fate_of(question: Question, answer: Answer, rule: Rule) -> str:
    """Return the cell of an answer that did not fail, to a question whose right answer is known."""
    if is_refusal(answer):
        return "false_refusal" if question.answerable else "correct_refusal"
    if not question.answerable:
        return "hallucinated_answer"
    has_keywords = (
        bool(question.keywords) and keyword_coverage(question, answer_text(answer), rule.match, rule.language) == 1.0
    )
    is_correct = has_keywords or best_f1(question, answer, rule.language) >= rule.threshold
    return "correct_answer" if is_correct else "wrong_answer"
