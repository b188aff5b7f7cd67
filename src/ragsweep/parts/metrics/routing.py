"""Metrics of a router: does it search for what needs the corpus, and for nothing else."""

from __future__ import annotations

from ragsweep.core.reasons import CONVERSATIONAL, NEEDS_RETRIEVAL, NO_ROUTER
from ragsweep.core.types import Question, Route, Scores, View
from ragsweep.parts.metrics.answered import laid_out
from ragsweep.parts.metrics.share import Share


class RouterAccuracy(Share):
    """Share of questions that are routed as the golden set says (``needs_retrieval``)."""

    needs = ("router",)
    name = "router_accuracy"

    def score(self, view: View) -> Scores:
        """Score every question; a decision that failed has its own reason."""
        if view.routes is None:
            return laid_out([NO_ROUTER] * len(view.questions))
        rows = zip(view.questions, view.routes, strict=True)
        return laid_out([self.lacking(asked) or route.failed or self._of(asked, route) for asked, route in rows])

    def lacking(self, question: Question) -> str:
        """Say why a question does not count, or nothing."""
        return ""

    def _of(self, question: Question, route: Route) -> float:
        return float(route.search == question.needs_retrieval)


class MissedSearch(RouterAccuracy):
    """Share of the questions that need the corpus for which it is not searched: they are answered without context."""

    name = "missed_search"
    higher_is_better = False

    def lacking(self, question: Question) -> str:
        """Conversation cannot miss it."""
        return "" if question.needs_retrieval else CONVERSATIONAL

    def _of(self, question: Question, route: Route) -> float:
        return float(not route.search)


class NeedlessSearch(RouterAccuracy):
    """Share of conversation for which the corpus is searched: time spent, and context that misleads."""

    name = "needless_search"
    higher_is_better = False

    def lacking(self, question: Question) -> str:
        """What needs the corpus is never searched for needlessly."""
        return NEEDS_RETRIEVAL if question.needs_retrieval else ""

    def _of(self, question: Question, route: Route) -> float:
        return float(route.search)
