"""Metrics that compare the words of an answer with the words of the right answers.

Texts are normalised as in SQuAD 2.0 (Rajpurkar, Jia and Liang 2018, "Know What You Don't Know: Unanswerable Questions
for SQuAD", and its evaluation script): they are converted to lower case, and punctuation and English articles are
removed. If there are several right answers, the best score counts. ExactMatch and TokenF1 compare the answer to an
unanswerable question with an empty string, as SQuAD does; the other metrics do not score unanswerable questions.

These rules are not part of SQuAD:

- Citations such as ``[1]`` are removed from the answer, except those that a right answer contains.
- If a right answer consists only of articles and punctuation, such as the letter "A" of a choice, articles are not
  removed before the comparison. If it consists only of punctuation, punctuation is not removed either (see
  ``literal``). ExactMatch and TokenF1 ignore these right answers unless all right answers are of this form.
- For French questions, French articles and elided words (``l'``, ``qu'``) are removed instead of English articles.
- In texts that are not ASCII, Unicode's punctuation, currency signs, format characters, and optional marks such as
  Arabic vowel signs are removed. Compatibility forms (NFKC), case and the letters in LETTERS are folded; digits become
  ASCII digits.
- In scripts without spaces, each character that is not a numeral is a word (as in the evaluation of CMRC 2018). The
  same applies to Hangul, because particles are attached to words (as in the evaluation of KorQuAD).
"""

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Literal

from ragsweep.core.types import Answer, PartTraits, Passage, Question
from ragsweep.core.words import is_syllabic, without_optional_marks, without_soft_hyphens
from ragsweep.parts.metrics.bases import (
    AnswerMetric,
    answer_text,
    question_language,
    reason_incomparable,
    reason_unreferenced,
)
from ragsweep.parts.metrics.numerals import aligned, mark_decimals, split_dates

Language = Literal["label", "english", "french"]

PUNCTUATION = str.maketrans("", "", string.punctuation + "\u2044\u2212")
"""Translation table that removes ASCII punctuation, the fraction slash and the minus sign.

Unicode classifies the last two as mathematical symbols, not as punctuation.
"""

LETTERED = "english, with A as a letter"
ARTICLES = {
    "english": re.compile(r"\b(a|an|the)\b"),
    "french": re.compile(r"\b(le|la|les|un|une|des)\b"),
    LETTERED: re.compile(r"^\s*a\b|\b(an|the)\b"),
}
"""Patterns of articles, by language. LETTERED matches ``a`` only at the start of a text, not in ``Serie A``."""

_LAST_LETTER = re.compile(r"\w\W+a\W*$", re.IGNORECASE)
ELISIONS = re.compile(r"\b(?:[cdjlmnst]|qu)['\u2019]")
"""Matches elided French words with their apostrophe; ``normalise`` removes them before it removes punctuation."""

LETTERS = str.maketrans({"\u0153": "oe", "\u00e6": "ae", "\u0131": "i", "\u0451": "\u0435", "\u02bc": "'"})
"""Translation table from letters to common substitutes: ligatures (oe, ae), dotless i, Russian yo, an apostrophe."""

LINKS = re.compile(
    "[-/='\u2019\u2010-\u2014\u2044\u2212\u02bc|<>(){}\"\u201c-\u201e;\uff1b\u2026\u3001\u3008-\u3011\uff08\uff09\\[\\]]"
    "|(?<!\\d)[,:\uff0c\uff1a]|[,:\uff0c\uff1a](?!\\d)"
)
"""Matches punctuation that may join two words (``1994-1998``, ``x=3``, ``|a|b|``), but not in ``1,5`` or ``10:30``."""

SHORT = 6
"""Maximum number of words of a short right answer.

``is_right`` requires all words of a short right answer in sequence, but only some of the words of a longer one.
"""


class ExactMatch(AnswerMetric):
    """Whether the answer equals a right answer word for word: 1 or 0.

    An unanswerable question scores 1 for a refusal or an answer without words, and otherwise 0. An answerable question
    without a right answer is not scored.
    """

    TRAITS = PartTraits(version="7")
    name = "exact_match"
    needs = ("answer", "reference")

    def __init__(self, language: Language = "label") -> None:
        self.language = language

    def _skip_reason(self, question: Question) -> str:
        return reason_unreferenced(question)

    def score_answer(self, question: Question, answer: Answer, passages: Sequence[Passage]) -> float | str:
        """Return the highest score over the right answers.

        The answer to an unanswerable question is compared with an empty string.
        """
        language = articles_of(question, self.language)
        texts = question.expected if question.answerable else ()
        text, right_answers = answer_text(answer, texts), [normalise(one, language) for one in texts]
        if texts and not any(right_answers):  # right answers such as "A" or "?"
            return max(self._compare(literal(text, one), literal(one, one)) for one in texts)
        text = normalise(text, language)
        return max(self._compare(text, right) for right in list(filter(None, right_answers)) or [""])

    def _compare(self, text: str, right: str) -> float:
        return float(text == right)


class TokenF1(ExactMatch):
    """Harmonic mean of the precision and recall of the answer's words; the best score over the right answers counts.

    An unanswerable question scores 1 for a refusal or an answer without words, and otherwise 0. An answerable question
    without a right answer is not scored.
    """

    TRAITS = PartTraits(version="7")
    name = "token_f1"

    def _compare(self, text: str, right: str) -> float:
        words, wanted = text.split(), right.split()
        shared = (Counter(words) & Counter(wanted)).total()
        return 2 * shared / (len(words) + len(wanted)) if words or wanted else 1.0


class TokenRecall(ExactMatch):
    """Proportion of a right answer's words that the answer contains; the best score over the right answers counts.

    A refusal scores 0. Unanswerable questions, and questions without a right answer, are not scored.
    """

    TRAITS = PartTraits(version="9")
    name = "token_recall"

    def _skip_reason(self, question: Question) -> str:
        return reason_incomparable(question)

    def score_answer(self, question: Question, answer: Answer, passages: Sequence[Passage]) -> float | str:
        """Return the highest recall over the right answers; 0 for a refusal."""
        text, language = answer_text(answer, question.expected), articles_of(question, self.language)
        return max(recall(text, right, language) for right in question.expected) if text else 0.0


class ContainsAnswer(TokenRecall):
    """Whether the answer contains all words of a right answer in sequence: 1 or 0.

    A refusal scores 0. Unanswerable questions, and questions without a right answer, are not scored. A negation of the
    right answer is not detected, and an answer that copies the whole context contains every right answer in it. The
    metric is the "sub-EM" of FlashRAG (Jin et al. 2024), but it compares whole words: ``15`` does not contain ``1``.
    """

    TRAITS = PartTraits(version="9")
    name = "contains_answer"

    def score_answer(self, question: Question, answer: Answer, passages: Sequence[Passage]) -> float | str:
        """Return 1.0 if the answer contains a right answer; 0.0 if it does not, or if it is a refusal."""
        text, language = answer_text(answer, question.expected), articles_of(question, self.language)
        return float(bool(text) and any(contains(text, right, language) for right in question.expected))


def is_right(text: str, expected: Sequence[str], language: str, threshold: float) -> bool:
    """Return whether a text contains at least one of the right answers in ``expected``; False if there are none.

    All words of a right answer of at most SHORT words must occur in sequence (see ``contains``). For this limit, two
    characters of Hangul or of a script without spaces count as one word. A longer right answer counts as contained if
    at least the proportion ``threshold`` of its words occurs, in any order. Longer right answers that contain a short
    one are ignored.
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

    Joined words such as ``1994-1998``, and dates such as ``12.05.2024``, are first compared as one word, then as
    several. If nothing is left of the right answer after normalisation, both texts are replaced by the results of
    ``literal``.
    """
    for links in (None, LINKS):
        said, wanted = (_with_decimals(one, right, language, links) for one in (text, right))
        if wanted and f" {wanted} " in f" {said} ":
            return True
    return not wanted and f" {literal(right, right)} " in f" {literal(text, right)} "


def recall(text: str, right: str, language: str) -> float:
    """Return the proportion of a right answer's words that a text contains.

    A word that occurs several times counts several times. Joined words are compared as one word and as several, as in
    ``contains``, and the higher proportion is returned. If nothing is left of the right answer after normalisation, the
    words are those that ``literal`` returns.
    """
    pairs = [[_with_decimals(one, right, language, links).split() for one in (text, right)] for links in (None, LINKS)]
    if not pairs[0][1]:
        pairs = [[literal(one, right).split() for one in (text, right)]]
    return max((Counter(words) & Counter(wanted)).total() / max(len(wanted), 1) for words, wanted in pairs)


@lru_cache(maxsize=1 << 14)
def normalise(text: str, language: str) -> str:
    """Return a text in lower case, without punctuation or articles, and with single spaces between words.

    ``language``, a key of ARTICLES, determines which articles are removed.
    """
    lowered = _fold(text)
    if language == "french":
        lowered = ELISIONS.sub(" ", lowered)
    return " ".join(ARTICLES[language].sub(" ", _unpunctuated(lowered)).split())


def _with_decimals(text: str, right: str, language: str, links: re.Pattern[str] | None = None) -> str:
    """Return a normalised text with one form of decimal marks and minus signs, so that ``1.5`` equals ``1,5``.

    If ``links`` is given, its matches become spaces, but only after ``aligned`` has joined the digits of numbers, so
    that ``12 500`` does not contain ``500`` in French. If the right answer ends with the letter A, as in ``Serie A``,
    this letter is not an article.
    """
    joined = aligned(text, right, language)
    joined = split_dates(links.sub(" ", joined)) if links else joined
    articles = LETTERED if language == "english" and _LAST_LETTER.search(right) else language
    return normalise(mark_decimals(_fold(joined)), articles)


def articles_of(question: Question, language: Language) -> str:
    """Return the language whose articles are removed from the question's answers: "french" or "english".

    If ``language`` is not "label", it is returned unchanged. Otherwise, the language is read from the question's label
    ``language`` or, without this label, detected in the question's text; "english" stands for all languages except
    French.
    """
    if language != "label":
        return language
    return "french" if question_language(question) == "fr" else "english"


def literal(text: str, right: str) -> str:
    """Return a text in the form used to compare right answers that consist only of articles and punctuation.

    Case and compatibility forms are folded, and white space is collapsed. Articles are kept, and punctuation is removed
    unless the right answer contains nothing else.
    """
    folded = _fold(text)
    is_word = _unpunctuated(_fold(right)).strip()
    return " ".join((_unpunctuated(folded) if is_word else folded).split())


def _unpunctuated(lowered: str) -> str:
    plain = lowered.translate(PUNCTUATION)
    return plain if plain.isascii() else _separated(plain)


def _fold(text: str) -> str:
    """Fold case, compatibility forms and LETTERS, and remove soft hyphens and optional marks.

    NFKC is applied again after case folding, because case folding may split a letter and its mark.
    """
    if text.isascii():
        return text.lower()
    folded = unicodedata.normalize("NFKC", without_soft_hyphens(text)).casefold()
    return unicodedata.normalize("NFKC", without_optional_marks(folded.translate(LETTERS)))


def _separated(text: str) -> str:
    """Remove punctuation, currency signs and format characters; put spaces around characters that count as words.

    Digits are converted to ASCII.
    """
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
    """Return whether a single character counts as a word, as in scripts without spaces and in Hangul.

    Numerals do not count as words: otherwise the Chinese number 15, written "ten five", would contain 5.
    """
    return is_syllabic(letter) and not letter.isnumeric()
