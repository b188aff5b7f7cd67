"""Comparison of answers with right answers, word by word.

Words are defined as in SQuAD 2.0 (Rajpurkar, Jia and Liang 2018, "Know What You Don't Know: Unanswerable Questions for
SQuAD", and its evaluation script): lower case, no punctuation, no articles. The best of several right answers counts,
and the right answer to an unanswerable question is an empty text. Beyond SQuAD, citations such as ``[1]`` are not
words, and a right answer that consists only of articles and punctuation is compared without removing them. Text other
than ASCII English is normalised further: French articles and elided words (``l'``, ``qu'``) are removed, as is
Unicode's punctuation; compatibility forms (NFKC), case and digits are folded. Each character is a word in scripts that
are written without spaces, and in Hangul, where particles join the word (as in the evaluations of CMRC 2018 and
KorQuAD).
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
"""Removes ASCII punctuation, and two signs that Unicode classifies as mathematical: fraction slash and minus."""

ARTICLES = {"english": re.compile(r"\b(a|an|the)\b"), "french": re.compile(r"\b(le|la|les|un|une|des)\b")}
ELISIONS = re.compile(r"\b(?:[cdjlmnst]|qu)['\u2019]")
"""French words that are elided before a vowel. They end in an apostrophe, so they are removed before punctuation."""

LINKS = str.maketrans(dict.fromkeys("-/'\u2019\u2010\u2011\u2012\u2013\u2014\u2044\u2212", " "))
"""Replaces punctuation that may join two words (``1994-1998``, ``Newton's``) by spaces."""

_DECIMAL = re.compile(r"(?<![\d.,])(\d+)[.,](?!\d{3}(?!\d))(\d+)(?![.,]?\d)")
"""A number with one point or comma, unless exactly three digits follow: such a sign may separate thousands."""

_POINT = "\ue000"  # a private-use character, which no rule removes

SHORT = 6
"""Maximum number of words of a short right answer. A reply must contain it whole, but may rephrase a longer one."""


class ExactMatch(AnswerMetric):
    """Whether the answer equals a right answer word for word: 1 or 0."""

    TRAITS = PartTraits(version="3")
    name = "exact_match"
    needs = ("answer", "reference")

    def __init__(self, language: Language = "label") -> None:
        self.language = language

    def _skip_reason(self, question: Question) -> str:
        return reason_unreferenced(question)

    def score_answer(self, question: Question, answer: Answer, passages: Sequence[Passage]) -> float | str:
        """Score one answer, or return the reason why it has no score."""
        language = articles_of(question, self.language)
        texts = question.expected if question.answerable else ()
        text, right_answers = answer_text(answer, texts), [normalise(one, language) for one in texts]
        if texts and not any(right_answers):  # such as A or ?: all texts keep punctuation and articles
            return max(self._compare(bare(text), bare(one)) for one in texts)
        text = normalise(text, language)
        return max(self._compare(text, right) for right in list(filter(None, right_answers)) or [""])

    def _compare(self, text: str, right: str) -> float:
        return float(text == right)


class TokenF1(ExactMatch):
    """Harmonic mean of the precision and recall of the answer's words; the best of several right answers counts."""

    TRAITS = PartTraits(version="3")
    name = "token_f1"

    def _compare(self, text: str, right: str) -> float:
        words, wanted = text.split(), right.split()
        shared = (Counter(words) & Counter(wanted)).total()
        return 2 * shared / (len(words) + len(wanted)) if words or wanted else 1.0


class TokenRecall(ExactMatch):
    """Proportion of a right answer's words that the answer contains; the best of several right answers counts.

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
    """Whether the answer contains all words of a right answer in sequence: 1 or 0.

    A refusal scores 0; unanswerable questions are not scored. A negation around the right answer is not detected, and
    an answer that copies its whole context contains every right answer that the context contains. The measure is the
    "sub-EM" of FlashRAG (Jin et al. 2024), with whole words: ``15`` does not contain ``1``.
    """

    TRAITS = PartTraits(version="2")
    name = "contains_answer"

    def score_answer(self, question: Question, answer: Answer, passages: Sequence[Passage]) -> float | str:
        """Score one answer, or return the reason why it has no score."""
        text, language = answer_text(answer, question.expected), articles_of(question, self.language)
        return float(bool(text) and any(contains(text, right, language) for right in question.expected))


def is_right(text: str, expected: Sequence[str], language: str, threshold: float) -> bool:
    """Return whether a reply contains one of the right answers.

    A right answer of at most SHORT words must occur whole; here two characters of a script without spaces, or of
    Hangul, count as one word. Of the words of a longer right answer, at least the proportion ``threshold`` must occur;
    but a long right answer that contains a short one is ignored.
    """
    short = [one for one in expected if _length(one, language) <= SHORT]
    long = [one for one in expected if one not in short and not any(contains(one, core, language) for core in short)]
    return any(contains(text, one, language) for one in short) or any(
        recall(text, one, language) >= threshold for one in long
    )


def _length(text: str, language: str) -> float:
    return sum(0.5 if _is_word(word[0]) else 1 for word in normalise(text, language).split())


def contains(text: str, right: str, language: str) -> bool:
    """Return whether a text contains all words of a right answer in sequence.

    Joined words such as ``1994-1998`` are compared as one word, then as two. A right answer that normalises to nothing
    must be contained with its punctuation and articles.
    """
    for links in ({}, LINKS):
        said, wanted = (_with_decimals(one.translate(links), language) for one in (text, right))
        if wanted and f" {wanted} " in f" {said} ":
            return True
    return not wanted and f" {bare(right)} " in f" {bare(text)} "


def recall(text: str, right: str, language: str) -> float:
    """Return the proportion of a right answer's words that a text contains.

    If the right answer has no words, return 1 if the texts are equal except for case and white space, else 0.
    """
    words, wanted = (_with_decimals(one, language).split() for one in (text, right))
    shared = (Counter(words) & Counter(wanted)).total()
    return shared / len(wanted) if wanted else float(bare(text) == bare(right))


@lru_cache(maxsize=1 << 14)
def normalise(text: str, language: str) -> str:
    """Return a text in lower case, without punctuation or the language's articles, with single spaces between words."""
    lowered = text.lower() if text.isascii() else _fold(text)
    if language == "french":
        lowered = ELISIONS.sub(" ", lowered)
    plain = lowered.translate(PUNCTUATION)
    return " ".join(ARTICLES[language].sub(" ", plain if plain.isascii() else _separated(plain)).split())


def _with_decimals(text: str, language: str) -> str:
    """Normalise a text, keeping the decimal mark of numbers, so that ``1.5`` equals ``1,5`` but not ``15``."""
    return normalise(_DECIMAL.sub(rf"\1{_POINT}\2", text), language)


def articles_of(question: Question, language: Language) -> str:
    """Return the language of the articles to drop: "french" or "english".

    If ``language`` is "label", the question's label ``language`` decides or, without one, the detected language of its
    text; any language other than French counts as "english".
    """
    if language != "label":
        return language
    label = question.labels.get("language", "")
    return "french" if (language_code(label) if label else detect_language(question.text)) == "fr" else "english"


def bare(text: str) -> str:
    """Fold the case and compatibility forms of a text, and collapse whitespace; punctuation is kept."""
    return " ".join(_fold(text).split())


def _fold(text: str) -> str:
    """Fold case and compatibility forms; remove soft hyphens. The second NFKC composes letters that folding splits."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", without_soft_hyphens(text)).casefold())


def _separated(text: str) -> str:
    """Drop punctuation, currency and format signs; convert digits to ASCII; put spaces around one-character words."""
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
    """Return whether a character is a word by itself, as in scripts without spaces and in Hangul.

    Numerals are not: otherwise the Chinese for 15, "ten five", would contain the word for 5.
    """
    return is_syllabic(letter) and not letter.isnumeric()
