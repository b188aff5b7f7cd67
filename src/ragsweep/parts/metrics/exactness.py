"""Compare an answer with the right ones word by word, as the evaluation of SQuAD 2.0 does.

Rajpurkar, Jia and Liang 2018, "Know What You Don't Know: Unanswerable Questions for SQuAD", and the evaluation script
published with it: lower case, no punctuation, no articles; the best of several right answers counts; the right answer
to an unanswerable question is none. Two things are ours: citations such as ``[1]`` do not count as words, and French.
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
from ragsweep.parts.metrics.answer_metric import AnswerMetric, said, unreferenced

Language = Literal["label", "english", "french"]

PUNCTUATION = str.maketrans("", "", string.punctuation)
ARTICLES = {
    "english": re.compile(r"\b(a|an|the)\b"),
    "french": re.compile(r"\b(le|la|les|un|une|des)\b"),
}
ELISIONS = re.compile(r"\b[ld]['\u2019]")
"""French articles that stand before a vowel; they go before the punctuation does, or they would stick to the word."""


class OfReferences(AnswerMetric):
    """Hold what comparisons with right answers have in common: whose articles do not count."""

    VERSION = "1"
    needs = ("answer", "reference")

    def __init__(self, language: Language = "label") -> None:
        self.language = language

    def lacking(self, question: Question) -> str:
        """It must be known what should be answered."""
        return unreferenced(question)


class ExactMatch(OfReferences):
    """Say whether the answer is a right one, word for word: 1 or 0; to an unanswerable question, whether it is none.

    Args:
        language: Whose articles do not count; "label": French where the question's label ``language`` says so.
    """

    VERSION = "1"
    name = "exact_match"

    def of(self, question: Question, answer: Answer, passages: Sequence[Passage]) -> float | str:
        """Compare with every right answer."""
        language = articles_of(question, self.language)
        given = normalise(said(answer), language)
        return float(any(given == right for right in right_answers(question, language)))


class TokenF1(OfReferences):
    """Take the harmonic mean of precision and recall of the answer's words; see ExactMatch for the rest.

    Args:
        language: Whose articles do not count; "label": French where the question's label ``language`` says so.
    """

    VERSION = "1"
    name = "token_f1"

    def of(self, question: Question, answer: Answer, passages: Sequence[Passage]) -> float | str:
        """Take the best over the right answers."""
        return best_f1(question, answer, self.language)


def best_f1(question: Question, answer: Answer, language: Language) -> float:
    """Take the best token F1 of an answer over the right ones."""
    chosen = articles_of(question, language)
    given = normalise(said(answer), chosen)
    return max(f1(given, right) for right in right_answers(question, chosen))


def articles_of(question: Question, language: Language) -> str:
    """Say whose articles do not count."""
    if language != "label":
        return language
    return "french" if code_of(question.labels.get("language", "")) == "fr" else "english"


def right_answers(question: Question, language: str) -> list[str]:
    """Normalise the right answers; of an unanswerable question, or where nothing is left, that is the empty one."""
    wanted = question.expected if question.answerable else ()
    return [right for right in (normalise(text, language) for text in wanted) if right] or [""]


@lru_cache(maxsize=1 << 14)
def normalise(text: str, language: str) -> str:
    """Lower case, no punctuation, no articles, single blanks."""
    lowered = text.lower()
    if language == "french":
        lowered = _without_punctuation(ELISIONS.sub(" ", lowered))
    bare = lowered.translate(PUNCTUATION)
    return " ".join(ARTICLES[language].sub(" ", bare).split())


def f1(given: str, right: str) -> float:
    """Compare the words of two normalised texts; where one has none, 1 if neither has."""
    one, other = given.split(), right.split()
    if not one or not other:
        return float(one == other)
    shared = (Counter(one) & Counter(other)).total()
    return 2 * shared / (len(one) + len(other))


def _without_punctuation(text: str) -> str:
    """Take away what the 32 signs of ASCII leave: guillemets, typographic quotes and dashes."""
    return "".join(letter for letter in text if letter.isascii() or not unicodedata.category(letter).startswith("P"))
