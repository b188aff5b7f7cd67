"""Decisions of a system: whether it searches, and whether it answers.

Answers form a confusion matrix: an answerable question is answered correctly, answered wrongly or refused; an
unanswerable one is refused or answered nonetheless. Each cell is a proportion of its row.
"""

from collections.abc import Sequence
from typing import Literal, get_args

from ragsweep.core.missing import ANSWERABLE, CONVERSATIONAL, NEEDS_RETRIEVAL, NO_ROUTER, UNANSWERABLE
from ragsweep.core.types import Answer, EvaluationView, PartTraits, Passage, Question, Route, Scores
from ragsweep.parts.metrics.answer_words import Language, articles_of, is_right
from ragsweep.parts.metrics.bases import (
    AnswerMetric,
    Proportion,
    answer_text,
    check_threshold,
    is_refusal,
    reason_unreferenced,
    to_scores,
)
from ragsweep.parts.metrics.right_answers import Match, keyword_coverage


class RouterAccuracy(Proportion):
    """Proportion of questions that are routed as the golden set's ``needs_retrieval`` requires."""

    TRAITS = PartTraits(version="1")
    needs = ("router",)
    name = "router_accuracy"

    def score(self, view: EvaluationView) -> Scores:
        """Score every question; a failed decision gets NaN with its reason."""
        if view.routes is None:
            return to_scores([NO_ROUTER] * len(view.questions))
        return to_scores([self._score_route(*row) for row in zip(view.questions, view.routes, strict=True)])

    def _score_route(self, question: Question, route: Route) -> float | str:
        return route.failed or float(route.search == question.needs_retrieval)


class MissedSearch(RouterAccuracy):
    """Among the questions that need the corpus, the proportion that is answered without a search."""

    TRAITS = PartTraits(version="1")
    name = "missed_search"
    higher_is_better = False

    def _score_route(self, question: Question, route: Route) -> float | str:
        return (route.failed or float(not route.search)) if question.needs_retrieval else CONVERSATIONAL


class NeedlessSearch(RouterAccuracy):
    """Proportion of conversational questions that lead to a search, which costs time and can add misleading context."""

    TRAITS = PartTraits(version="1")
    name = "needless_search"
    higher_is_better = False

    def _score_route(self, question: Question, route: Route) -> float | str:
        return NEEDS_RETRIEVAL if question.needs_retrieval else route.failed or float(route.search)


class SearchRate(RouterAccuracy):
    """Proportion of questions for which the router decides to search the corpus."""

    TRAITS = PartTraits(version="1")
    name = "search_rate"
    higher_is_better = None

    def _score_route(self, question: Question, route: Route) -> float | str:
        return route.failed or float(route.search)


Fate = Literal["correct_answer", "wrong_answer", "false_refusal", "correct_refusal", "hallucinated_answer"]
FATES: tuple[Fate, ...] = get_args(Fate)
"""The cells of the matrix; the first three are for answerable questions."""

OF_UNANSWERABLE = FATES[3:]
WELCOME = ("correct_answer", "correct_refusal")


class SuccessRate(AnswerMetric):
    """Whether a question was answered correctly, or correctly refused: 1 or 0.

    An answer is correct if it contains all keywords of the question, or a right answer (see ``is_right``); a refusal is
    correct if the question is unanswerable.
    """

    TRAITS = PartTraits(version="4")
    name: str = "success_rate"

    def __init__(self, threshold: float = 0.5, language: Language = "label", match: Match = "word") -> None:
        self.threshold = check_threshold(threshold, self.name)
        self.language: Language = language
        self.match: Match = match

    def _skip_reason(self, question: Question) -> str:
        return reason_unreferenced(question)

    def score_answer(self, question: Question, answer: Answer, passages: Sequence[Passage]) -> float | str:
        """Score one answer, or return the reason why it has no score."""
        return float(self._fate(question, answer) in WELCOME)

    def _fate(self, question: Question, answer: Answer) -> Fate:
        """Return the cell of an answer that did not fail; an answerable question must have a known right answer."""
        if is_refusal(answer):
            return "false_refusal" if question.answerable else "correct_refusal"
        if not question.answerable:
            return "hallucinated_answer"
        text = answer_text(answer, question.expected)
        has_keywords = bool(question.keywords) and keyword_coverage(question, text, self.match, self.language) == 1.0
        language = articles_of(question, self.language)
        is_correct = has_keywords or is_right(text, question.expected, language, self.threshold)
        return "correct_answer" if is_correct else "wrong_answer"


class AnswerFate(SuccessRate):
    """Whether the outcome is the one that the metric is named after: 1 or 0.

    The outcome is a cell of the confusion matrix. Only the questions of the cell's row are scored: either all
    answerable questions or all unanswerable ones.
    """

    TRAITS = PartTraits(version="4")

    def __init__(self, fate: Fate, threshold: float = 0.5, language: Language = "label", match: Match = "word") -> None:
        self.name = fate
        super().__init__(threshold, language, match)
        self.higher_is_better = fate in WELCOME

    def _skip_reason(self, question: Question) -> str:
        if question.answerable == (self.name in OF_UNANSWERABLE):
            return ANSWERABLE if question.answerable else UNANSWERABLE
        return reason_unreferenced(question)

    def score_answer(self, question: Question, answer: Answer, passages: Sequence[Passage]) -> float | str:
        """Score one answer, or return the reason why it has no score."""
        return float(self._fate(question, answer) == self.name)


class Refusal(AnswerMetric):
    """Whether the generator declined to answer, or its answer is blank: 1 or 0."""

    TRAITS = PartTraits(version="1")
    name = "refusal"
    higher_is_better = None

    def score_answer(self, question: Question, answer: Answer, passages: Sequence[Passage]) -> float | str:
        """Score one answer, or return the reason why it has no score."""
        return float(is_refusal(answer))
