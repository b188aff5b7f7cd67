"""Base classes of metrics, and functions that several metrics use.

For each question, a metric returns a number, or NaN with a reason (see ``core.missing``). Its base class depends on its
input: EvidenceMetric or RetrievalMetric for rankings, AnswerMetric for single answers, JudgedAnswerMetric for answers
that a slow model judges, and ``judge_metric.JudgeMetric`` for cases that an LLM judges. All of these inherit from
Proportion. Its default attributes suit a proportion; a subclass may override them.
"""

import re
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ragsweep.core.errors import ConfigError
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
from ragsweep.parts.languages import detect_language, language_code
from ragsweep.parts.limits import check_at_least


class Proportion:
    """Default attributes of a metric, suitable for a proportion; a subclass adds ``name`` and the method ``score``."""

    TRAITS: ClassVar[PartTraits] = PartTraits(version="1")
    needs: tuple[str, ...] = ("evidence",)
    unit = ""
    higher_is_better: bool | None = True
    bounds: tuple[float | None, float | None] = (0.0, 1.0)
    quantile: float | None = None


class EvidenceMetric(Proportion):
    """A metric that scores the questions with relevant evidence; other questions get NaN and a reason."""

    def score(self, view: EvaluationView) -> Scores:
        """Return one score per question; NaN and a reason for a question without relevant evidence."""
        return score_with_evidence(view, self._values(view))

    @abstractmethod
    def _values(self, view: EvaluationView) -> NDArray[Any]:
        """Return one number per question (questions,); ``score`` ignores the numbers of unscored questions."""


class RetrievalMetric(EvidenceMetric):
    """A metric that scores the questions that need retrieval, even unanswerable ones; other questions get NaN."""

    needs = ("retrieval",)

    def score(self, view: EvaluationView) -> Scores:
        """Return one score per question; NaN and a reason for a conversational question."""
        return score_with_retrieval(view, self._values(view))


def per_question(view: EvaluationView, weights: NDArray[Any]) -> NDArray[np.float64]:
    """Return, for each question (questions,), the sum of ``weights`` over its relevant pieces of evidence.

    ``weights`` (pieces,) has one number for each relevant piece of evidence of all questions.
    """
    size = len(view.questions)
    return np.bincount(view.evidence_question, weights, size).astype(np.float64, copy=False)


def evidences(view: EvaluationView) -> NDArray[np.float64]:
    """Return the number of relevant pieces of evidence of each question (questions,)."""
    return per_question(view, np.ones(len(view.evidence_question)))


def withhold(scores: Scores, where: NDArray[np.bool_], reason: str | NDArray[np.str_]) -> Scores:
    """Return ``scores`` with NaN where the mask ``where`` is true and, if a score had no reason yet, with ``reason``.

    ``reason`` is one reason for all these scores, or an array with one reason per score of ``scores``.
    """
    reasons = np.where(where & (scores.reasons == ""), reason, scores.reasons)
    return score_where(reasons == "", scores.values, reasons)


def divide(sums: NDArray[Any], counts: NDArray[Any]) -> NDArray[np.float64]:
    """Return the elementwise quotient of two one-dimensional arrays; 0 where the divisor is 0."""
    quotient = np.zeros(len(sums), dtype=np.float64)
    np.divide(sums, counts, out=quotient, where=counts != 0)
    return quotient


def is_within(ranks: NDArray[np.int64], cutoff: int | None) -> NDArray[np.bool_]:
    """Return a mask of the ranks from 1 to ``cutoff`` (None: no upper limit); rank 0 means "not found"."""
    reached: NDArray[np.bool_] = ranks > 0
    return reached if cutoff is None else reached & (ranks <= cutoff)


def name_at(name: str, cutoff: int | None) -> str:
    """Return a metric's name with its cutoff appended (``recall_at_10``), or unchanged if the cutoff is None.

    Raises ConfigError if the cutoff is below 1.
    """
    check_at_least(f"metrics.{name}", 1, cutoff=cutoff)
    return name if cutoff is None else f"{name}_at_{cutoff}"


CITED = re.compile(r"(\d{1,3})(?:\s*[-\u2013]\s*(\d{1,3}))?")
"""Matches the number of a cited passage (group 1), or a range of passages (group 2: the last number)."""

_LABEL = r"(?:(?i:(?:passage|document|doc|source|citation)s?)[\s:#.]*)?"
_NUMBERS = rf"{_LABEL}(?:\d{{1,3}}|[1-9]\d?\s*[-\u2013]\s*\d{{1,2}})"
_LIST = rf"{_NUMBERS}(?:\s*(?:[,;&\u3001\uff0c\uff1b]|(?:,\s*)?and)\s*{_NUMBERS})*"
CITATION = rf"\s*[\[\u3010\uff3b]({_LIST}|\^[1-9]\d{{0,2}}\^?)(?:\u2020[^\]\u3011\n]*)?[\]\u3011\uff3d]"
"""Pattern of a citation (group 1: the numbers), but not of ``[0-9]`` or ``[1-200]``.

Examples: ``[1, 3]``, ``[1-3]``, ``【1†L5】``, ``[Source 1]``, and ``[^1]``, the Markdown footnote.
"""

CITATIONS = re.compile(rf"(```.*?```|`[^`\n]*`|(?<=\w)\[0\])|{CITATION}", re.DOTALL)
"""Matches citations (group 2: the numbers), and text that is not to be searched for citations (group 1).

Group 1 is code, or ``[0]`` directly after a word, as in ``argv[0]``; passages are numbered from 1.
"""


class AnswerMetric(Proportion):
    """A metric that scores each answer separately; a subclass adds ``name`` and the method ``score_answer``."""

    needs: tuple[str, ...] = ("answer",)

    def score(self, view: EvaluationView) -> Scores:
        """Return one score per question; NaN and a reason if its answer is missing, failed or cannot be scored."""
        if view.answers is None:
            return to_scores([NO_ANSWERS] * len(view.questions))
        rows = zip(view.questions, view.answers.answers, view.answers.passages, strict=True)
        return to_scores([self._skip_reason(row[0]) or row[1].failed or self.score_answer(*row) for row in rows])

    @abstractmethod
    def score_answer(self, question: Question, answer: Answer, passages: Sequence[Passage]) -> float | str:
        """Return the score of an answer that did not fail, or the reason why it has no score."""

    def _skip_reason(self, question: Question) -> str:
        """Return the reason why answers to the question cannot be scored; "" if they can be scored."""
        return ""


class JudgedAnswerMetric(AnswerMetric):
    """A metric whose ``score_answer`` returns NOT_JUDGED for the answers that a slow model must judge."""

    TRAITS = PartTraits(skips_abstained=True)
    name: str

    def score(self, view: EvaluationView) -> Scores:
        """Return one score per question: the result of ``score_answer`` or, if that is NOT_JUDGED, the judged value."""
        known = super().score(view)
        rows = zip(known.values.tolist(), known.reasons.tolist(), judgements(view, self.name), strict=True)
        results = [
            judgement.reason or clamp(judgement.value, self.bounds) if reason == NOT_JUDGED else reason or value
            for value, reason, judgement in rows
        ]
        return to_scores(results)


def judgements(view: EvaluationView, metric: str) -> Sequence[Judgement]:
    """Return one judgement of ``metric`` per question; if ``view`` has none, the reason of each is "not judged"."""
    return view.judgements.get(metric) or [Judgement(reason=NOT_JUDGED)] * len(view.questions)


def to_scores(results: Sequence[float | str]) -> Scores:
    """Convert results, one number or reason per question, to scores; a reason becomes NaN with this reason."""
    values = [np.nan if isinstance(result, str) else result for result in results]
    reasons = [result if isinstance(result, str) else "" for result in results]
    return Scores(np.array(values, dtype=np.float64), np.array(reasons, dtype=np.str_))


def clamp(value: float, bounds: tuple[float | None, float | None]) -> float:
    """Return a value clipped to ``bounds`` (lowest, highest; None: no bound), to correct rounding errors."""
    lowest, highest = bounds
    return max(min(float(value), np.inf if highest is None else highest), -np.inf if lowest is None else lowest)


def is_refusal(answer: Answer) -> bool:
    """Return whether the generator abstained or the answer's text is blank."""
    return answer.abstained or not answer.text.strip()


def answer_text(answer: Answer, expected: Sequence[str]) -> str:
    """Return an answer's text without citations, except those that occur in ``expected``; "" for a refusal."""
    return "" if is_refusal(answer) else without_citations(answer.text, expected)


def without_citations(text: str, expected: Sequence[str] = ()) -> str:
    """Return a stripped text without citations; code, and citations that occur in ``expected``, are kept."""

    def kept(match: re.Match[str]) -> str:
        return match[1] or (match[0] if any(match[0].strip() in right for right in expected) else "")

    return CITATIONS.sub(kept, text).strip()


_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL)


def spoken_language(text: str) -> str:
    """Return the detected language of a text as a two-letter code, or ""; words in program code are ignored."""
    return detect_language(_CODE.sub(" ", text))


def question_language(question: Question) -> str:
    """Return a question's language code, from its label ``language`` or, without one, from its text; "" if unknown."""
    label = question.labels.get("language", "")
    return language_code(label) if label else spoken_language(question.text)


def reason_unreferenced(question: Question) -> str:
    """Return the reason why a question has no right answer; "" if it has one or is unanswerable."""
    if question.expected or not question.answerable:
        return ""
    return NO_REFERENCE if question.needs_retrieval else CONVERSATIONAL


def reason_incomparable(question: Question) -> str:
    """Return the reason why answers to a question cannot be compared with a right answer; "" if they can be."""
    return reason_unreferenced(question) if question.answerable else UNANSWERABLE


def check_threshold(threshold: float, metric: str, key: str = "threshold") -> float:
    """Return ``threshold``; raise ConfigError, which names ``metric`` and ``key``, unless it is in (0, 1]."""
    if not 0 < threshold <= 1:
        raise ConfigError(f"metrics.{metric}.{key} must be above 0 and at most 1, got {threshold}")
    return threshold


def batches(cases: Sequence[Case], size: int) -> Iterator[list[tuple[int, Case]]]:
    """Yield lists of at most ``size`` pairs (index, case)."""
    numbered = list(enumerate(cases))
    yield from (numbered[start : start + size] for start in range(0, len(numbered), size))
