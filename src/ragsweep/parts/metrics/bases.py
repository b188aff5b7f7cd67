"""Bases of the metrics: proportions, metrics of answers, and arithmetic over evidence."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.errors import ConfigError
from ragsweep.core.memoize import memoize_by_identity
from ragsweep.core.missing import CONVERSATIONAL, NO_ANSWERS, NO_REFERENCE, NOT_JUDGED, UNANSWERABLE
from ragsweep.core.types import Answer, Case, EvaluationView, Judgement, Passage, Question, Scores


class Proportion:
    """Attributes of a proportion; a metric adds its name and ``score``."""

    VERSION = "1"
    needs: tuple[str, ...] = ("evidence",)
    unit = ""
    higher_is_better: bool | None = True
    bounds: tuple[float | None, float | None] = (0.0, 1.0)
    quantile: float | None = None


def per_question(view: EvaluationView, weights: NDArray[Any]) -> NDArray[np.float64]:
    """Sum one number per evidence (evidences,) to one per question (questions,)."""
    size = len(view.questions)
    return np.bincount(view.evidence_question, weights, size).astype(np.float64, copy=False)


def evidences(view: EvaluationView) -> NDArray[np.float64]:
    """Count the evidences of each question (questions,)."""
    return _evidences(view.evidence_question, len(view.questions))


@memoize_by_identity
def _evidences(evidence_question: NDArray[np.int64], questions: int) -> NDArray[np.float64]:
    return np.bincount(evidence_question, minlength=questions).astype(np.float64)


def divide(sums: NDArray[Any], counts: NDArray[Any]) -> NDArray[np.float64]:
    """Divide; a quotient by 0 is 0."""
    quotient = np.zeros(len(sums), dtype=np.float64)
    np.divide(sums, counts, out=quotient, where=counts != 0)
    return quotient


def is_within(ranks: NDArray[np.int64], cutoff: int | None) -> NDArray[np.bool_]:
    """Return which ranks are reached (not 0) and within the cutoff, where there is one."""
    reached: NDArray[np.bool_] = ranks > 0
    return reached if cutoff is None else reached & (ranks <= cutoff)


def name_at(name: str, cutoff: int | None) -> str:
    """Return a metric's name with its cutoff (``recall_at_10``), without where whole rankings are evaluated.

    Raises:
        ConfigError: The cutoff is below 1.
    """
    if cutoff is not None and cutoff < 1:
        raise ConfigError(f"the cutoff of {name} must be at least 1, not {cutoff}")
    return name if cutoff is None else f"{name}_at_{cutoff}"


CITATIONS = re.compile(r"(```.*?```|`[^`\n]*`)|\s*\[(\d{1,3}(?:\s*,\s*\d{1,3})*)\]", re.DOTALL)
"""Citations such as ``[1]`` or ``[1, 3]`` (group 2); group 1 is code, where brackets are an index."""


class AnswerMetric(Proportion):
    """A proportion that is computed from each answer by itself."""

    needs: tuple[str, ...] = ("answer",)

    def score(self, view: EvaluationView) -> Scores:
        """Score every question; a failed answer is NaN with its reason."""
        if view.answers is None:
            return to_scores([NO_ANSWERS] * len(view.questions))
        rows = zip(view.questions, view.answers.answers, view.answers.passages, strict=True)
        return to_scores([self.skip_reason(row[0]) or row[1].failed or self.score_answer(*row) for row in rows])

    def skip_reason(self, question: Question) -> str:
        """Return why a question is not scored, whatever the answer; empty where it is."""
        return ""

    @abstractmethod
    def score_answer(self, question: Question, answer: Answer, passages: Sequence[Passage]) -> float | str:
        """Score an answer that did not fail, or return the reason why it has no score."""


class JudgedAnswerMetric(Proportion):
    """A proportion that a slow model computes for the answers that need it."""

    SKIPS_ABSTAINED = True
    needs: tuple[str, ...] = ("answer",)
    name: str

    def score(self, view: EvaluationView) -> Scores:
        """Score every question; a judgement without a value is NaN with its reason."""
        if view.answers is None:
            return to_scores([NO_ANSWERS] * len(view.questions))
        judgements = view.judgements.get(self.name) or [Judgement(reason=NOT_JUDGED)] * len(view.questions)
        rows = zip(view.questions, judgements, view.answers.answers, view.answers.passages, strict=True)
        return to_scores([self._score(*row) for row in rows])

    @abstractmethod
    def skip_reason(self, question: Question) -> str:
        """Return why a question is not scored, whatever the answer; empty where it is."""

    @abstractmethod
    def unjudged_score(self, answer: Answer, passages: Sequence[Passage]) -> float | str:
        """Return the score, or the reason, of an answer that needs no judgement; empty where it needs one."""

    def _score(
        self, question: Question, judgement: Judgement, answer: Answer, passages: Sequence[Passage]
    ) -> float | str:
        known = self.skip_reason(question) or answer.failed or self.unjudged_score(answer, passages)
        return known if known != "" else judgement.reason or clamp(judgement.value, self.bounds)


def to_scores(found: Sequence[float | str]) -> Scores:
    """Arrange numbers and reasons, one per question, as scores."""
    values = [np.nan if isinstance(one, str) else one for one in found]
    reasons = [one if isinstance(one, str) else "" for one in found]
    return Scores(np.array(values, dtype=np.float64), np.array(reasons, dtype=np.str_))


def clamp(value: float, bounds: tuple[float | None, float | None]) -> float:
    """Return a value within its bounds, which rounding may have exceeded."""
    lowest, highest = bounds
    return max(min(float(value), np.inf if highest is None else highest), -np.inf if lowest is None else lowest)


def is_refusal(answer: Answer) -> bool:
    """Return whether the generator declined, or its text is blank."""
    return answer.abstained or not answer.text.strip()


def answer_text(answer: Answer) -> str:
    """Return an answer's text without citations; empty for a refusal."""
    return "" if is_refusal(answer) else without_citations(answer.text)


def without_citations(text: str) -> str:
    """Remove the citations from a text, except for brackets in code."""
    return CITATIONS.sub(lambda found: found[1] or "", text).strip()


def reason_unreferenced(question: Question) -> str:
    """Return why the right answer is not known; empty where it is, or where none is right (unanswerable)."""
    if question.expected or not question.answerable:
        return ""
    return NO_REFERENCE if question.needs_retrieval else CONVERSATIONAL


def reason_incomparable(question: Question) -> str:
    """Return why there is no right answer to compare with; empty where there is one."""
    return reason_unreferenced(question) if question.answerable else UNANSWERABLE


def reason_conversational(question: Question) -> str:
    """Return "conversational" for a question that needs no passage; else empty."""
    return "" if question.needs_retrieval else CONVERSATIONAL


def check_threshold(threshold: float, metric: str) -> float:
    """Return a threshold; raise ConfigError where it is not above 0 and at most 1."""
    if not 0 < threshold <= 1:
        raise ConfigError(f"the threshold of {metric} must be above 0 and at most 1, not {threshold}")
    return threshold


def batches(cases: Sequence[Case], size: int) -> Iterator[list[tuple[int, Case]]]:
    """Yield numbered cases in batches."""
    numbered = list(enumerate(cases))
    yield from (numbered[start : start + size] for start in range(0, len(numbered), size))
