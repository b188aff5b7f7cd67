"""What metrics of answers have in common: one number, or a reason, for each question and what was said to it."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterator, Sequence

import numpy as np

from ragsweep.core.errors import ConfigError
from ragsweep.core.reasons import CONVERSATIONAL, NO_ANSWERS, NO_REFERENCE, NOT_JUDGED, UNANSWERABLE
from ragsweep.core.types import Answer, Answers, Case, Judgement, Passage, Question, Scores, View
from ragsweep.parts.metrics.proportion import Proportion

MARKERS = re.compile(r"(```.*?```|`[^`\n]*`)|\s*\[(\d{1,3}(?:\s*,\s*\d{1,3})*)\]", re.DOTALL)
"""Citations such as ``[1]`` or ``[1, 3]``; group 1 is code, where brackets are an index."""


class AnswerMetric(Proportion):
    """State the attributes of a share that is read off each answer, and score the answers one by one."""

    needs: tuple[str, ...] = ("answer",)

    def score(self, view: View) -> Scores:
        """Score every question; an answer that failed has its own reason."""
        if view.answers is None:
            return to_scores([NO_ANSWERS] * len(view.questions))
        answers, passages, _ = view.answers
        rows = zip(view.questions, answers, passages, strict=True)
        return to_scores([self.lacking(row[0]) or row[1].failed or self.of(*row) for row in rows])

    def lacking(self, question: Question) -> str:
        """Say why a question cannot be scored, whatever is answered, or nothing."""
        return ""

    @abstractmethod
    def of(self, question: Question, answer: Answer, passages: Sequence[Passage]) -> float | str:
        """Score one answer that did not fail, or say why it has no score."""


class JudgedAnswerMetric(Proportion):
    """State the attributes of a share that is judged, and read the judgements on answers that were given."""

    SKIPS_ABSTAINED = True  # what a generator declines with says nothing that could be judged
    needs: tuple[str, ...] = ("answer",)
    name: str

    def score(self, view: View) -> Scores:
        """Score every question; a judgement without a value has its own reason."""
        judgements = view.judgements.get(self.name) or [Judgement(reason=NOT_JUDGED)] * len(view.questions)
        if view.answers is None:
            return to_scores([NO_ANSWERS] * len(view.questions))
        rows = zip(view.questions, judgements, range(len(judgements)), strict=True)
        return to_scores([self._one(question, judgement, view.answers, n) for question, judgement, n in rows])

    @abstractmethod
    def lacking(self, question: Question) -> str:
        """Say why a question cannot be scored, whatever is answered, or nothing."""

    @abstractmethod
    def unjudged_score(self, answer: Answer, passages: Sequence[Passage]) -> float | str:
        """Score an answer that nobody needs to judge, or give a reason; nothing where the judgement says it."""

    def _one(self, question: Question, judgement: Judgement, answers: Answers, n: int) -> float | str:
        answer = answers.answers[n]
        known = self.lacking(question) or answer.failed or self.unjudged_score(answer, answers.passages[n])
        return known if known != "" else judgement.reason or clamped(judgement.value, self.bounds)


def to_scores(found: Sequence[float | str]) -> Scores:
    """Lay out numbers and reasons, one a question."""
    values = [np.nan if isinstance(one, str) else one for one in found]
    reasons = [one if isinstance(one, str) else "" for one in found]
    return Scores(np.array(values, dtype=np.float64), np.array(reasons, dtype=np.str_))


def clamped(value: float, bounds: tuple[float | None, float | None]) -> float:
    """Put a value that rounding has carried over a bound back on it."""
    lowest, highest = bounds
    return max(min(float(value), np.inf if highest is None else highest), -np.inf if lowest is None else lowest)


def refused(answer: Answer) -> bool:
    """Say whether nothing was answered: the generator declined, or its text is blank."""
    return answer.abstained or not answer.text.strip()


def said(answer: Answer) -> str:
    """Return what an answer says, without its citations; nothing where it was refused."""
    return "" if refused(answer) else without_citations(answer.text)


def without_citations(text: str) -> str:
    """Take the citations out of a text; code keeps its brackets."""
    return MARKERS.sub(lambda found: found[1] or "", text).strip()


def unreferenced(question: Question) -> str:
    """Say why it is not known what should be answered, or nothing; to an unanswerable question, nothing should be."""
    if question.expected or not question.answerable:
        return ""
    return NO_REFERENCE if question.needs_retrieval else CONVERSATIONAL


def unanswerable(question: Question) -> str:
    """Say why a question has no right answer to compare with, or nothing where it has one."""
    return unreferenced(question) if question.answerable else UNANSWERABLE


def conversational(question: Question) -> str:
    """Say that a question is asked of no passage, where it is not."""
    return "" if question.needs_retrieval else CONVERSATIONAL


def checked(threshold: float, metric: str) -> float:
    """Return a threshold of a share."""
    if not 0 < threshold <= 1:
        raise ConfigError(f"the threshold of {metric} must be above 0 and at most 1, not {threshold}")
    return threshold


def batches(cases: Sequence[Case], size: int) -> Iterator[list[tuple[int, Case]]]:
    """Yield cases with their numbers, so many at a time."""
    numbered = list(enumerate(cases))
    yield from (numbered[start : start + size] for start in range(0, len(numbered), size))
