"""Base classes of metrics, and their shared arithmetic.

A metric gives one number per question, or NaN with a reason (``core.missing``). Its base class depends on its input:
EvidenceMetric and RetrievalMetric for rankings, AnswerMetric for single answers, JudgedAnswerMetric for answers that a
slow model judges, and ``judge_metric.JudgeMetric`` for cases that an LLM judges. Proportion defines the attributes of a
metric, with the values for a proportion; other metrics override some of them.
"""

import re
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.errors import ConfigError
from ragsweep.core.memoize import memoize_by_identity
from ragsweep.core.missing import (
    CONVERSATIONAL,
    NO_ANSWERS,
    NO_REFERENCE,
    NOT_JUDGED,
    UNANSWERABLE,
    score_where,
    score_with_evidence,
    score_with_retrieval,
)
from ragsweep.core.types import Answer, Case, EvaluationView, Judgement, PartTraits, Passage, Question, Scores


class Proportion:
    """The attributes of a metric, with defaults for a proportion; a subclass adds a name and ``score``."""

    TRAITS: ClassVar[PartTraits] = PartTraits(version="1")
    needs: tuple[str, ...] = ("evidence",)
    unit = ""
    higher_is_better: bool | None = True
    bounds: tuple[float | None, float | None] = (0.0, 1.0)
    quantile: float | None = None


class EvidenceMetric(Proportion):
    """A metric that scores the questions with relevant evidence; other questions get NaN and a reason."""

    def score(self, view: EvaluationView) -> Scores:
        """Score every question."""
        return score_with_evidence(view, self._values(view))

    @abstractmethod
    def _values(self, view: EvaluationView) -> NDArray[Any]:
        """Return an array with one number per question."""


class RetrievalMetric(EvidenceMetric):
    """A metric that scores the questions that need retrieval, including unanswerable ones."""

    needs = ("retrieval",)

    def score(self, view: EvaluationView) -> Scores:
        """Score every question."""
        return score_with_retrieval(view, self._values(view))


def per_question(view: EvaluationView, weights: NDArray[Any]) -> NDArray[np.float64]:
    """Sum ``weights``, one number per piece of evidence, over the pieces of each question."""
    size = len(view.questions)
    return np.bincount(view.evidence_question, weights, size).astype(np.float64, copy=False)


def evidences(view: EvaluationView) -> NDArray[np.float64]:
    """Return how many pieces of relevant evidence each question has."""
    return _evidences(view.evidence_question, len(view.questions))


@memoize_by_identity
def _evidences(evidence_question: NDArray[np.int64], questions: int) -> NDArray[np.float64]:
    return np.bincount(evidence_question, minlength=questions).astype(np.float64)


def withhold(scores: Scores, where: NDArray[np.bool_], reason: str) -> Scores:
    """Replace the scores at ``where`` by NaN and a reason; existing reasons are kept."""
    reasons = np.where(where & (scores.reasons == ""), reason, scores.reasons)
    return score_where(reasons == "", scores.values, reasons)


def divide(sums: NDArray[Any], counts: NDArray[Any]) -> NDArray[np.float64]:
    """Divide two one-dimensional arrays elementwise; division by 0 gives 0."""
    quotient = np.zeros(len(sums), dtype=np.float64)
    np.divide(sums, counts, out=quotient, where=counts != 0)
    return quotient


def is_within(ranks: NDArray[np.int64], cutoff: int | None) -> NDArray[np.bool_]:
    """Return which ranks are at least 1 and at most ``cutoff`` (None: no limit); rank 0 means not found."""
    reached: NDArray[np.bool_] = ranks > 0
    return reached if cutoff is None else reached & (ranks <= cutoff)


def name_at(name: str, cutoff: int | None) -> str:
    """Return a metric's name with its cutoff (``recall_at_10``), or without one for whole rankings.

    Raises ConfigError if the cutoff is below 1.
    """
    if cutoff is not None and cutoff < 1:
        raise ConfigError(f"metrics.{name}.cutoff must be at least 1, got {cutoff}")
    return name if cutoff is None else f"{name}_at_{cutoff}"


CITATIONS = re.compile(r"(```.*?```|`[^`\n]*`)|\s*\[(\d{1,3}(?:\s*,\s*\d{1,3})*)\]", re.DOTALL)
"""Matches citations such as ``[1, 3]`` (group 2: the numbers), and code (group 1), whose brackets are kept."""


class AnswerMetric(Proportion):
    """A metric computed from single answers; a subclass adds a name and ``score_answer``."""

    needs: tuple[str, ...] = ("answer",)

    def score(self, view: EvaluationView) -> Scores:
        """Score every question; a failed answer gets NaN with its reason."""
        if view.answers is None:
            return to_scores([NO_ANSWERS] * len(view.questions))
        rows = zip(view.questions, view.answers.answers, view.answers.passages, strict=True)
        return to_scores([self._skip_reason(row[0]) or row[1].failed or self.score_answer(*row) for row in rows])

    @abstractmethod
    def score_answer(self, question: Question, answer: Answer, passages: Sequence[Passage]) -> float | str:
        """Score an answer that did not fail, or return the reason why it has no score."""

    def _skip_reason(self, question: Question) -> str:
        """Return why a question has no score, whatever the answer; empty if it can have one."""
        return ""


class JudgedAnswerMetric(Proportion):
    """A metric for which a slow model judges answers; ``_unjudged_score`` scores those that need no judgement."""

    TRAITS = PartTraits(skips_abstained=True)
    needs: tuple[str, ...] = ("answer",)
    name: str

    def score(self, view: EvaluationView) -> Scores:
        """Score every question; a judgement without a value gets NaN with its reason."""
        if view.answers is None:
            return to_scores([NO_ANSWERS] * len(view.questions))
        rows = zip(
            view.questions, judgements(view, self.name), view.answers.answers, view.answers.passages, strict=True
        )
        scores: list[float | str] = []
        for question, judgement, answer, passages in rows:
            known = self._skip_reason(question) or answer.failed or self._unjudged_score(answer, passages)
            scores.append(known if known != "" else judgement.reason or clamp(judgement.value, self.bounds))
        return to_scores(scores)

    @abstractmethod
    def _skip_reason(self, question: Question) -> str:
        """Return why a question has no score, whatever the answer; empty if it can have one."""

    @abstractmethod
    def _unjudged_score(self, answer: Answer, passages: Sequence[Passage]) -> float | str:
        """Return an answer's score or why it has none, if it needs no judgement; empty if it must be judged."""


def judgements(view: EvaluationView, metric: str) -> Sequence[Judgement]:
    """Return a metric's judgements, one per question; if it was not judged, all have the reason "not judged"."""
    return view.judgements.get(metric) or [Judgement(reason=NOT_JUDGED)] * len(view.questions)


def to_scores(results: Sequence[float | str]) -> Scores:
    """Convert one number or reason per question to scores."""
    values = [np.nan if isinstance(result, str) else result for result in results]
    reasons = [result if isinstance(result, str) else "" for result in results]
    return Scores(np.array(values, dtype=np.float64), np.array(reasons, dtype=np.str_))


def clamp(value: float, bounds: tuple[float | None, float | None]) -> float:
    """Clip a value to its bounds, which rounding may have exceeded."""
    lowest, highest = bounds
    return max(min(float(value), np.inf if highest is None else highest), -np.inf if lowest is None else lowest)


def is_refusal(answer: Answer) -> bool:
    """Return whether the generator declined, or its text is blank."""
    return answer.abstained or not answer.text.strip()


def answer_text(answer: Answer, expected: Sequence[str] = ()) -> str:
    """Return an answer's text without citations, except those in a right answer (``expected``); "" for a refusal."""
    return "" if is_refusal(answer) else without_citations(answer.text, expected)


def without_citations(text: str, expected: Sequence[str] = ()) -> str:
    """Remove the citations from a text; brackets in code, and those in a right answer (``expected``), are kept."""

    def kept(match: re.Match[str]) -> str:
        return match[1] or (match[0] if any(match[0].strip() in right for right in expected) else "")

    return CITATIONS.sub(kept, text).strip()


def reason_unreferenced(question: Question) -> str:
    """Return why the right answer is unknown; empty if it is known, or if the question is unanswerable."""
    if question.expected or not question.answerable:
        return ""
    return NO_REFERENCE if question.needs_retrieval else CONVERSATIONAL


def reason_incomparable(question: Question) -> str:
    """Return why there is no right answer to compare with; empty if there is one."""
    return reason_unreferenced(question) if question.answerable else UNANSWERABLE


def check_threshold(threshold: float, metric: str) -> float:
    """Return a threshold; raise ConfigError unless it is above 0 and at most 1."""
    if not 0 < threshold <= 1:
        raise ConfigError(f"metrics.{metric}.threshold must be above 0 and at most 1, got {threshold}")
    return threshold


def batches(cases: Sequence[Case], size: int) -> Iterator[list[tuple[int, Case]]]:
    """Yield batches of at most ``size`` cases, each with its index."""
    numbered = list(enumerate(cases))
    yield from (numbered[start : start + size] for start in range(0, len(numbered), size))
