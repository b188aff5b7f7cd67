"""Word-by-word comparison with the right answers, as in the evaluation of SQuAD 2.0.

Rajpurkar, Jia and Liang 2018, "Know What You Don't Know: Unanswerable Questions for SQuAD", and its evaluation script:
lower case, no punctuation, no articles; the best of several right answers counts; the right answer to an unanswerable
question is none. Two additions: citations such as ``[1]`` are no words, and French articles.
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

from ragsweep.core.languages import code_of
from ragsweep.core.types import Answer, Passage, Question
from ragsweep.parts.metrics.answer_metric import AnswerMetric, answer_text, reason_unreferenced

Language = Literal["label", "english", "french"]

PUNCTUATION = str.maketrans("", "", string.punctuation)
ARTICLES = {"english": re.compile(r"\b(a|an|the)\b"), "french": re.compile(r"\b(le|la|les|un|une|des)\b")}
ELISIONS = re.compile(r"\b[ld]['\u2019]")
"""French articles before a vowel; removed before punctuation, which separates them from the word."""


class _Comparison(AnswerMetric):
    """A comparison with the right answers; ``language`` decides which articles are dropped."""

    needs = ("answer", "reference")

    def __init__(self, language: Language = "label") -> None:
        self.language = language

    def skip_reason(self, question: Question) -> str:
        """Leave out questions without a known right answer."""
        return reason_unreferenced(question)


class ExactMatch(_Comparison):
    """Whether the answer equals a right one word for word: 1 or 0.

    Args:
        language: Language of the articles to drop; "label": French where the question's label ``language`` is French.
    """

    VERSION = "1"
    name = "exact_match"

    def score_answer(self, question: Question, answer: Answer, passages: Sequence[Passage]) -> float | str:
        """Compare with every right answer."""
        language = _articles(question, self.language)
        return float(normalise(answer_text(answer), language) in right_answers(question, language))


class TokenF1(_Comparison):
    """Harmonic mean of precision and recall of the answer's words, best over the right answers.

    Args:
        language: As for ExactMatch.
    """

    VERSION = "1"
    name = "token_f1"

    def score_answer(self, question: Question, answer: Answer, passages: Sequence[Passage]) -> float | str:
        """Return the best F1 over the right answers."""
        return best_f1(question, answer, self.language)


def best_f1(question: Question, answer: Answer, language: Language) -> float:
    """Return the best token F1 of an answer over the right ones."""
    chosen = _articles(question, language)
    given = normalise(answer_text(answer), chosen)
    return max(f1(given, right) for right in right_answers(question, chosen))


def right_answers(question: Question, language: str) -> list[str]:
    """Normalise the right answers; an empty one where the question is unanswerable or nothing is left."""
    wanted = question.expected if question.answerable else ()
    return [right for right in (normalise(text, language) for text in wanted) if right] or [""]


@lru_cache(maxsize=1 << 14)
def normalise(text: str, language: str) -> str:
    """Convert to lower case, without punctuation and articles, with single spaces."""
    lowered = text.lower()
    if language == "french":  # guillemets, typographic quotes and dashes, which are not in ASCII's punctuation
        words = ELISIONS.sub(" ", lowered)
        lowered = "".join(one for one in words if one.isascii() or not unicodedata.category(one).startswith("P"))
    return " ".join(ARTICLES[language].sub(" ", lowered.translate(PUNCTUATION)).split())


def f1(given: str, right: str) -> float:
    """Return the F1 of two normalised texts; where one is empty, 1 if both are."""
    one, other = given.split(), right.split()
    if not one or not other:
        return float(one == other)
    shared = (Counter(one) & Counter(other)).total()
    return 2 * shared / (len(one) + len(other))


def _articles(question: Question, language: Language) -> str:
    if language != "label":
        return language
    return "french" if code_of(question.labels.get("language", "")) == "fr" else "english"
