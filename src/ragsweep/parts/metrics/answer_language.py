"""Say whether an answer is in the language of its question."""

from __future__ import annotations

from collections.abc import Sequence

from ragsweep.core.languages import code_of, tell
from ragsweep.core.reasons import ABSTAINED, UNKNOWN_LANGUAGE
from ragsweep.core.types import Answer, Passage, Question
from ragsweep.parts.metrics.answer_metric import AnswerMetric, refused, without_citations


class AnswerLanguage(AnswerMetric):
    """Say whether the answer is in the question's language: 1 or 0.

    The question's language is its label ``language``, else told from its text, as the answer's is: by the small words
    of English, French, German, Spanish, Italian, Dutch and Portuguese. A name or a number has no language.
    """

    VERSION = "1"
    name = "answer_language"

    def of(self, question: Question, answer: Answer, passages: Sequence[Passage]) -> float | str:
        """Tell both languages."""
        if refused(answer):
            return ABSTAINED
        label = question.labels.get("language", "")
        asked = code_of(label) if label else tell(question.text)
        answered = tell(without_citations(answer.text))
        return float(asked == answered) if asked and answered else UNKNOWN_LANGUAGE
