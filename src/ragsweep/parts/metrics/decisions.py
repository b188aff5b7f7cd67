"""Metrics of a system's decisions: whether it searches, and whether it answers.

The outcomes of answering form a confusion matrix. Its row of answerable questions has three cells: correct answer,
wrong answer, and refusal. Its row of unanswerable questions has two: refusal, and answer. AnswerFate measures each cell
as a proportion of its row.
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
    """Proportion of the questions that the router routes correctly, that is, according to ``needs_retrieval``."""

    TRAITS = PartTraits(version="1")
    needs = ("router",)
    name = "router_accuracy"

    def score(self, view: EvaluationView) -> Scores:
        """Return one score per question; NaN and a reason if there is no router, or if the router's decision failed."""
        if view.routes is None:
            return to_scores([NO_ROUTER] * len(view.questions))
        return to_scores([self._score_route(*row) for row in zip(view.questions, view.routes, strict=True)])

    def _score_route(self, question: Question, route: Route) -> float | str:
        return route.failed or float(route.search == question.needs_retrieval)


class MissedSearch(RouterAccuracy):
    """Of the questions that need retrieval, the proportion for which the router decides against a search."""

    TRAITS = PartTraits(version="1")
    name = "missed_search"
    higher_is_better = False

    def _score_route(self, question: Question, route: Route) -> float | str:
        return (route.failed or float(not route.search)) if question.needs_retrieval else CONVERSATIONAL


class NeedlessSearch(RouterAccuracy):
    """Proportion of the conversational questions for which the router decides to search the corpus.

    A needless search costs time and can add misleading context.
    """

    TRAITS = PartTraits(version="1")
    name = "needless_search"
    higher_is_better = False

    def _score_route(self, question: Question, route: Route) -> float | str:
        return NEEDS_RETRIEVAL if question.needs_retrieval else route.failed or float(route.search)


class SearchRate(RouterAccuracy):
    """Proportion of all questions for which the router decides to search the corpus."""

    TRAITS = PartTraits(version="1")
    name = "search_rate"
    higher_is_better = None

    def _score_route(self, question: Question, route: Route) -> float | str:
        return route.failed or float(route.search)


Fate = Literal["correct_answer", "wrong_answer", "false_refusal", "correct_refusal", "hallucinated_answer"]
FATES: tuple[Fate, ...] = get_args(Fate)
"""The cells of the confusion matrix; the first three are for answerable questions, the others for unanswerable ones."""

OF_UNANSWERABLE = FATES[3:]
WELCOME = ("correct_answer", "correct_refusal")


class SuccessRate(AnswerMetric):
    """Whether the outcome is a correct answer or a correct refusal: 1 or 0.

    An answer to an answerable question is correct if it contains all keywords of the question, or a reference answer
    (see ``is_right``). A refusal is correct if the question is unanswerable. An answerable question with neither a
    reference answer nor keywords is not scored.
    """

    TRAITS = PartTraits(version="12")
    name: str = "success_rate"

    def __init__(self, threshold: float = 0.5, language: Language = "label", match: Match = "word") -> None:
        self.threshold = check_threshold(threshold, self.name)
        self.language: Language = language
        self.match: Match = match

    def _skip_reason(self, question: Question) -> str:
        return reason_unreferenced(question)

    def score_answer(self, question: Question, answer: Answer, passages: Sequence[Passage]) -> float | str:
        """Return 1.0 for a correct answer or a correct refusal, else 0.0."""
        return float(self._fate(question, answer) in WELCOME)

    def _fate(self, question: Question, answer: Answer) -> Fate:
        """Return the cell in the confusion matrix of an answer that did not fail, to a question that is scored."""
        if is_refusal(answer):
            return "false_refusal" if question.answerable else "correct_refusal"
        if not question.answerable:
            return "hallucinated_answer"
        text, worded = answer_text(answer, question.expected), answer_text(answer, question.keywords)
        has_keywords = bool(question.keywords) and keyword_coverage(question, worded, self.match, self.language) == 1.0
        language = articles_of(question, self.language)
        is_correct = has_keywords or is_right(text, question.references, language, self.threshold)
        return "correct_answer" if is_correct else "wrong_answer"


class AnswerFate(SuccessRate):
    """Whether the outcome falls in the cell ``fate`` of the confusion matrix: 1 or 0.

    The metric has the name of the cell. Only the questions of the cell's row are scored: answerable questions with a
    reference answer or keywords, or unanswerable questions.
    """

    TRAITS = PartTraits(version="12")

    def __init__(self, fate: Fate, threshold: float = 0.5, language: Language = "label", match: Match = "word") -> None:
        self.name = fate
        super().__init__(threshold, language, match)
        self.higher_is_better = fate in WELCOME

    def _skip_reason(self, question: Question) -> str:
        if question.answerable == (self.name in OF_UNANSWERABLE):
            return ANSWERABLE if question.answerable else UNANSWERABLE
        return reason_unreferenced(question)

    def score_answer(self, question: Question, answer: Answer, passages: Sequence[Passage]) -> float | str:
        """Return 1.0 if the answer is in the cell ``fate``, else 0.0."""
        return float(self._fate(question, answer) == self.name)


class Refusal(AnswerMetric):
    """Whether the generator declined to answer, or its answer is blank: 1 or 0."""

    TRAITS = PartTraits(version="1")
    name = "refusal"
    higher_is_better = None

    def score_answer(self, question: Question, answer: Answer, passages: Sequence[Passage]) -> float | str:
        """Return 1.0 for a refusal, else 0.0."""
        return float(is_refusal(answer))
