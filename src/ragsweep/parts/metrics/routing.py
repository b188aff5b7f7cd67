"""Metrics of a router: whether the corpus is searched for the questions that need it, and only for those."""

from __future__ import annotations

from ragsweep.core.missing import CONVERSATIONAL, NEEDS_RETRIEVAL, NO_ROUTER
from ragsweep.core.types import EvaluationView, Question, Route, Scores
from ragsweep.parts.metrics.answer_metric import to_scores
from ragsweep.parts.metrics.proportion import Proportion


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
