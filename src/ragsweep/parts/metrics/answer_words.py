"""Comparison of answers with the right ones, word by word.

Words are those of the evaluation of SQuAD 2.0 (Rajpurkar, Jia and Liang 2018, "Know What You Don't Know: Unanswerable
Questions for SQuAD", and its evaluation script): lower case, no punctuation, no articles; the best of several right
answers counts; the right answer to an unanswerable question is none. Additions, which do not affect ASCII English:
citations such as ``[1]`` are not words; French articles and elided words (``l'``, ``qu'``); Unicode's compatibility
forms (NFKC), case folding, punctuation and digits; each character is a word in scripts that are written without spaces,
and in Hangul, where particles join the word (as in the evaluations of CMRC 2018 and KorQuAD).
"""

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Literal

from ragsweep.core.types import Answer, PartTraits, Passage, Question
from ragsweep.core.words import is_syllabic, without_soft_hyphens
from ragsweep.parts.languages import detect_language, language_code
from ragsweep.parts.metrics.bases import AnswerMetric, answer_text, reason_incomparable, reason_unreferenced

Language = Literal["label", "english", "french"]

PUNCTUATION = str.maketrans("", "", string.punctuation + "\u2044\u2212")
"""ASCII punctuation, and two signs that Unicode classifies as mathematical: the fraction slash (½), and minus."""

ARTICLES = {"english": re.compile(r"\b(a|an|the)\b"), "french": re.compile(r"\b(le|la|les|un|une|des)\b")}
ELISIONS = re.compile(r"\b(?:[cdjlmnst]|qu)['\u2019]")
"""French words that are elided before a vowel; removed before the punctuation, which marks their end."""

LINKS = str.maketrans(dict.fromkeys("-/'\u2019\u2010\u2011\u2012\u2013\u2014\u2044\u2212", " "))
"""Punctuation that may join two words: ``1994-1998``, ``Newton's``."""

_DECIMAL = re.compile(r"(?<![\d.,])(\d+)[.,](?!\d{3}(?!\d))(\d+)(?![.,]?\d)")
"""A number with one point or comma, unless three digits follow, which may separate thousands."""

_POINT = "\ue000"  # a private-use character, which no rule removes

SHORT = 6
"""Maximum words of a short right answer: a right reply contains it verbatim, but may rephrase a longer one."""


class ExactMatch(AnswerMetric):
    """Whether the answer equals a right one word for word: 1 or 0."""

    TRAITS = PartTraits(version="3")
    name = "exact_match"
    needs = ("answer", "reference")

    def __init__(self, language: Language = "label") -> None:
        self.language = language

    def _skip_reason(self, question: Question) -> str:
        return reason_unreferenced(question)

    def score_answer(self, question: Question, answer: Answer, passages: Sequence[Passage]) -> float | str:
        """Score one answer, or return the reason why it has no score."""
        text, right_answers = _normalised(question, answer, articles_of(question, self.language))
        return float(text in right_answers)


class TokenF1(ExactMatch):
    """Harmonic mean of precision and recall of the answer's words, best over the right answers."""

    TRAITS = PartTraits(version="3")
    name = "token_f1"

    def score_answer(self, question: Question, answer: Answer, passages: Sequence[Passage]) -> float | str:
        """Score one answer, or return the reason why it has no score."""
        text, right_answers = _normalised(question, answer, articles_of(question, self.language))
        return max(f1(text, right) for right in right_answers)


class TokenRecall(ExactMatch):
    """Proportion of a right answer's words that the answer contains, best over the right answers.

    A refusal scores 0; unanswerable questions are not scored.
    """

    TRAITS = PartTraits(version="2")
    name = "token_recall"

    def _skip_reason(self, question: Question) -> str:
        return reason_incomparable(question)

    def score_answer(self, question: Question, answer: Answer, passages: Sequence[Passage]) -> float | str:
        """Score one answer, or return the reason why it has no score."""
        text, language = answer_text(answer, question.expected), articles_of(question, self.language)
        return max(recall(text, right, language) for right in question.expected) if text else 0.0


class ContainsAnswer(TokenRecall):
    """Whether the answer contains a right one, all its words in sequence: 1 or 0.

    A refusal scores 0; unanswerable questions are not scored. A negation around the right answer is not seen, and an
    answer that copies its context contains whatever that contains. The measure is the "sub-EM" of FlashRAG (Jin et al.
    2024), with whole words: ``15`` does not contain ``1``.
    """

    TRAITS = PartTraits(version="2")
    name = "contains_answer"

    def score_answer(self, question: Question, answer: Answer, passages: Sequence[Passage]) -> float | str:
        """Score one answer, or return the reason why it has no score."""
        text, language = answer_text(answer, question.expected), articles_of(question, self.language)
        return float(bool(text) and any(contains(text, right, language) for right in question.expected))


def is_right(text: str, expected: Sequence[str], language: str, threshold: float) -> bool:
    """Return whether a reply contains one of the right answers.

    A right answer of at most SHORT words must be contained. A longer one needs at least ``threshold`` of its words,
    unless it contains a short right answer, which is then required. Two characters of a script without spaces count as
    one word.
    """
    short = [one for one in expected if _length(one, language) <= SHORT]
    long = [one for one in expected if one not in short and not any(contains(one, core, language) for core in short)]
    return any(contains(text, one, language) for one in short) or any(
        recall(text, one, language) >= threshold for one in long
    )


def _length(text: str, language: str) -> float:
    return sum(0.5 if _is_word(word[0]) else 1 for word in normalise(text, language).split())


def contains(text: str, right: str, language: str) -> bool:
    """Return whether a text has all words of a right answer in sequence, with compounds whole or split in both."""
    for links in ({}, LINKS):
        said, wanted = (_with_decimals(one.translate(links), language) for one in (text, right))
        if wanted and f" {wanted} " in f" {said} ":
            return True
    return not wanted and f" {bare(right)} " in f" {bare(text)} "


def recall(text: str, right: str, language: str) -> float:
    """Return the proportion of a right answer's words in a text; if it has no words, 1 for equal texts, else 0."""
    words, wanted = (_with_decimals(one, language).split() for one in (text, right))
    shared = (Counter(words) & Counter(wanted)).total()
    return shared / len(wanted) if wanted else float(bare(text) == bare(right))


@lru_cache(maxsize=1 << 14)
def normalise(text: str, language: str) -> str:
    """Return a text in lower case, without punctuation and the language's articles, its words between single spaces."""
    lowered = text.lower() if text.isascii() else _fold(text)
    if language == "french":
        lowered = ELISIONS.sub(" ", lowered)
    plain = lowered.translate(PUNCTUATION)
    return " ".join(ARTICLES[language].sub(" ", plain if plain.isascii() else _separated(plain)).split())


def _with_decimals(text: str, language: str) -> str:
    """Normalise a text, keeping the decimal mark of numbers, so that ``1.5`` equals ``1,5`` but not ``15``."""
    return normalise(_DECIMAL.sub(rf"\1{_POINT}\2", text), language)


def articles_of(question: Question, language: Language) -> str:
    """Return "french" or "english", whose articles are dropped; "label" means the question's label, else detection."""
    if language != "label":
        return language
    label = question.labels.get("language", "")
    return "french" if (language_code(label) if label else detect_language(question.text)) == "fr" else "english"


def _normalised(question: Question, answer: Answer, language: str) -> tuple[str, list[str]]:
    """Normalise an answer and the right ones, which are one empty text for an unanswerable question.

    If nothing remains of the right answers to an answerable question (``A``, ``?``), punctuation and articles are kept
    in all.
    """
    texts = question.expected if question.answerable else ()
    text, right_answers = answer_text(answer, texts), [normalise(one, language) for one in texts]
    if texts and not any(right_answers):
        return bare(text), [bare(one) for one in texts]
    return normalise(text, language), list(filter(None, right_answers)) or [""]


def f1(text: str, right: str) -> float:
    """Return the F1 of two normalised texts; if either is empty, 1 if both are, else 0."""
    words, wanted = text.split(), right.split()
    if not words or not wanted:
        return float(words == wanted)
    shared = (Counter(words) & Counter(wanted)).total()
    return 2 * shared / (len(words) + len(wanted))


def bare(text: str) -> str:
    """Fold the case and compatibility forms of a text, and collapse whitespace; punctuation is kept."""
    return " ".join(_fold(text).split())


def _fold(text: str) -> str:
    """Remove case and compatibility forms; folding case can leave marks that are not composed."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", without_soft_hyphens(text)).casefold())


def _separated(text: str) -> str:
    """Drop Unicode punctuation, currency signs and invisible characters; separate words of one character."""
    letters, alone = [], False
    for letter in text:
        category = unicodedata.category(letter)
        if category[0] == "P" or category in ("Sc", "Cf"):
            continue
        if category[0] != "M":  # a mark belongs to the letter before it
            alone, before = _is_word(letter), alone
            letters += [" "] if alone or before else []
        letters.append(str(unicodedata.decimal(letter)) if letter.isdecimal() else letter)
    return "".join(letters)


@cache
def _is_word(letter: str) -> bool:
    """Return whether a single character is a word; digits and numerals are not, or fifteen would contain five."""
    return is_syllabic(letter) and not letter.isnumeric()
