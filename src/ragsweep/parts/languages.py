"""Detect the language of a text and the form of a question from word lists and scripts, without a model or library."""

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from ragsweep.core.words import (
    INVISIBLE,
    has_question_mark,
    is_syllabic,
    with_ascii_digits,
    without_soft_hyphens,
    words,
)

LIGATURES = str.maketrans({"œ": "oe", "æ": "ae", "ø": "o", "ł": "l", "đ": "d", "\u0131": "i", "\u0640": ""})
"""Letters that Unicode does not decompose, and their ASCII replacements; the Arabic tatweel is removed."""

SIGNS = str.maketrans(
    {
        **dict.fromkeys("\u2018\u2019\u02bc\u05f3", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u05f4", '"'),
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2212", "-"),
    }
)
"""Apostrophes, quotation marks, dashes and the minus sign, and their ASCII equivalents."""

_ACCENTS = frozenset({*range(10, 37), *range(200, 256)})
"""The Unicode combining classes of the marks that ``fold`` removes: accents, and vowel signs of Hebrew and Arabic.

Marks of other classes are kept, because they distinguish words: voicing marks of kana, tone marks of Thai, viramas.
"""

STOP_WORDS: Mapping[str, frozenset[str]] = {
    code: frozenset(words.split())
    for code, words in json.loads(Path(__file__).with_name("stop_words.json").read_text("utf-8")).items()
}
"""Two-letter code of each language with a list of stop words -> its stop words, as returned by ``fold``."""

NAMES = {
    "en": "english", "fr": "french", "de": "german", "es": "spanish", "it": "italian", "nl": "dutch",
    "pt": "portuguese", "ru": "russian", "zh": "chinese", "ja": "japanese", "ko": "korean", "th": "thai",
    "ar": "arabic",
}  # fmt: skip
"""Two-letter code -> English name of each language that can be detected from its stop words or script."""

_CODES = {name: code for code, name in NAMES.items()} | {
    "francais": "fr",
    "deutsch": "de",
    "espanol": "es",
    "italiano": "it",
    "nederlands": "nl",
    "portugues": "pt",
    **{"eng": "en", "fra": "fr", "fre": "fr", "deu": "de", "ger": "de", "spa": "es", "ita": "it", "nld": "nl"},
    **{"dut": "nl", "por": "pt"},
}
"""English and native names of languages, and codes of three letters (ISO 639-2) -> two-letter code."""

_SCRIPTS = {
    "ja": re.compile("[\u3041-\u30ff]"),
    "ko": re.compile("[\u1100-\u11ff\uac00-\ud7a3]"),
    "th": re.compile("[\u0e01-\u0e3a]"),
    "ar": re.compile("[\u0621-\u064a]"),
    "ru": re.compile("[\u0410-\u044f\u0401\u0451]"),
    "zh": re.compile("[\u3400-\u9fff]"),
}
"""The main language of each script -> the characters of the script.

Japanese is tested first, because Japanese texts also contain Chinese characters.
"""

_NOT_RUSSIAN = re.compile("[\u0404\u0406-\u0408\u040e\u0452-\u045f\u0490-\u052f]")
"""Cyrillic letters of other languages, such as Ukrainian, Serbian, Kazakh or Mongolian, that Russian does not use."""

_ONLY_RUSSIAN = re.compile("[\u044b\u044d\u0451]")
_LEAST_LETTERS = 300
"""A text with at least this many letters is Russian only if it contains a letter that Bulgarian does not use."""

_NOT_ARABIC = re.compile("[\u067e\u0686\u06a9\u06af\u06cc]")
"""Letters that Persian or Urdu uses and Arabic does not."""

_SCRIPT_SHARE = {"ja": 0.1, "ko": 0.3, "th": 0.3, "ar": 0.5, "ru": 0.5, "zh": 0.3}
"""Language -> the minimum share of its script's characters among the letters of a text.

The share is lower for scripts in which words have few characters, such as Chinese.
"""

_LEAST_SCORE = 1.5
"""The minimum score for a language to be detected; a stop word of only one language scores 1."""

_LEAST_RATIO = 1.3
"""The minimum ratio of the highest score to the second highest for a language to be detected."""
_BEGINNING = 10_000  # number of characters from which the language of many texts is detected

_LANGUAGES_OF: Mapping[str, tuple[str, ...]] = {
    word: tuple(code for code, words in STOP_WORDS.items() if word in words)
    for word in frozenset().union(*STOP_WORDS.values())
}


def fold(text: str) -> str:
    """Return a text in lower case, without accents or invisible characters, and with ASCII digits.

    LIGATURES and SIGNS are replaced by ASCII: ``Œuvre été`` becomes ``oeuvre ete``. Compatibility characters such as
    ``㎒`` are decomposed (NFKD).
    """
    if text.isascii():
        return text.lower()
    # Both steps run twice: decomposition can yield a capital (㎒), and case folding can yield a composed letter.
    compatible = unicodedata.normalize("NFKD", INVISIBLE.sub("", without_soft_hyphens(text)))
    lower = unicodedata.normalize("NFKD", compatible.casefold()).translate(LIGATURES | SIGNS)
    return with_ascii_digits(
        "".join(letter for letter in lower.casefold() if unicodedata.combining(letter) not in _ACCENTS)
    )


def language_code(label: str) -> str:
    """Return the key in STOP_WORDS for a label (``fr``, ``fr-CA``, ``fra``, ``French``); "" if there is none."""
    name = re.split(r"[-_ ]", fold(label.strip()))[0]
    code = _CODES.get(name, name)
    return code if code in STOP_WORDS else ""


def script_language(text: str) -> str:
    """Return the two-letter code of a text's language; "" if its script (for example, Latin) does not determine it."""
    if text.isascii() or not (letters := sum(map(str.isalpha, text))):
        return ""
    for code, pattern in _SCRIPTS.items():
        if len(pattern.findall(text)) >= _SCRIPT_SHARE[code] * letters:
            others = {"ru": _NOT_RUSSIAN, "ar": _NOT_ARABIC}.get(code)
            is_bulgarian = code == "ru" and letters >= _LEAST_LETTERS and not _ONLY_RUSSIAN.search(text)
            return "" if is_bulgarian or (others and others.search(text)) else code
    return ""


@lru_cache(maxsize=1 << 14)
def detect_language(text: str) -> str:
    """Return the two-letter code of a text's language, detected from its stop words; "" if the language is unclear.

    A stop word that n languages share adds 1/n to the score of each of these languages.
    """
    score = dict.fromkeys(STOP_WORDS, 0.0)
    for word in words(fold(text)):
        for language in (languages := _LANGUAGES_OF.get(word, ())):
            score[language] += 1 / len(languages)
    (best, most), (_, next_most) = sorted(score.items(), key=lambda item: -item[1])[:2]
    return best if most >= _LEAST_SCORE and most >= _LEAST_RATIO * next_most else ""


def usual_language(texts: Iterable[str]) -> str:
    """Return the code that ``detect_language`` returns for the beginning of the joined texts."""
    return detect_language(" ".join(islice(texts, _BEGINNING))[:_BEGINNING])


SAMPLE = 200
"""Maximum number of documents, or questions, sampled to detect their language."""

HEAD = 1000
"""Maximum number of characters read from each document or question."""

MIXED = 0.9
"""A corpus is mixed if its most frequent language has less than this share of the texts with a detected language."""

LEAST_STOP_WORDS = 0.25
"""The minimum mean share of a language's stop words among the words of the texts detected as that language.

If the share is lower, the detection is discarded, because unsupported languages share words with supported ones (``a``,
``to``, ``do``). Measured shares are 7 to 21 % in Polish, Danish, Hungarian, Latin, Vietnamese and Indonesian texts, and
29 to 41 % in English and French collections.
"""


class SampledLanguage(NamedTuple):
    """The most frequent language of sampled texts; ``shares`` maps each detected language to its share of the texts."""

    name: str  # empty if none is detected
    shares: Mapping[str, float]
    texts: int  # number of sampled texts

    @property
    def is_mixed(self) -> bool:
        """Whether fewer than the share MIXED of the texts with a detected language are in the most frequent one."""
        return self.shares.get(self.name, 0.0) < MIXED * sum(self.shares.values())


def sample_language(texts: Sequence[str]) -> SampledLanguage:
    """Detect the most frequent language of texts by script and stop words, from at most SAMPLE evenly spaced texts."""
    count = min(SAMPLE, len(texts))
    heads = [texts[n * len(texts) // count][:HEAD] for n in range(count)]
    codes = [script_language(head) or detect_language(head) for head in heads]
    if not any(codes):  # detect short texts jointly
        codes = [detect_language(" ".join(heads))] * len(heads)
    spoken = [(NAMES[code], _stop_word_share(head, code)) for head, code in zip(heads, codes, strict=True) if code]
    totals = Counter(name for name, _ in spoken)
    known = {
        name: number / count
        for name, number in totals.most_common()
        if sum(share for one, share in spoken if one == name) >= LEAST_STOP_WORDS * number
    }
    return SampledLanguage(next(iter(known), ""), known, count)


def _stop_word_share(text: str, code: str) -> float:
    """Return the share of the words of ``text`` that are stop words of a language; 1 if STOP_WORDS lacks it."""
    if code not in STOP_WORDS:
        return 1.0
    found = words(fold(text))
    return sum(word in STOP_WORDS[code] for word in found) / max(len(found), 1)


def content_words(text: str, language: str = "") -> frozenset[str]:
    """Return the words of a text (see :func:`fold`) that are not stop words of its language.

    Single letters are excluded, except in scripts where each character counts as a word; single digits are included.
    ``language`` is a code in STOP_WORDS. If it is empty, the language is detected; if the detection fails, English is
    used.
    """
    stop_words = STOP_WORDS[language or detect_language(text) or "en"]
    return frozenset(
        word
        for word in words(fold(text))
        if word not in stop_words and (len(word) > 1 or word.isdigit() or is_syllabic(word))
    )


KEYWORDS, OTHER, YES_NO = "keywords", "other", "yes or no"
"""Forms without a question word: a few keywords, any other text (such as a request), and a yes/no question."""

_LOOKED_AT = 4
"""Number of words at the start of a text without a question mark; a phrase that begins after them is ignored."""

_MOST_KEYWORDS = 4
"""The maximum number of words in a text that counts as keywords."""

_PHRASES: Mapping[str, str] = {
    "how many": "en: how many, how much, how often, how long; fr: combien; de: wie viel, wie viele, wieviel, wie oft,"
    " wie lange; es: cuanto, cuanta, cuantos, cuantas; it: quanto, quanta, quanti, quante; nl: hoeveel; pt: quanto,"
    " quanta, quantos, quantas",
    "why": "en: why; fr: pourquoi; de: warum, wieso, weshalb; es: por que; it: perche; nl: waarom; pt: por que",
    "when": "en: when; fr: quand; de: wann; es: cuando; it: quando; nl: wanneer; pt: quando",
    "where": "en: where; fr: ou est, ou sont, ou se, ou peut, ou puis, d ou; de: wo, wohin, woher; es: donde; it: dove;"
    " nl: waar; pt: onde",
    "who": "en: who, whom, whose; fr: qui; de: wer, wen, wem, wessen; es: quien, quienes; it: chi; nl: wie; pt: quem",
    "which": "en: which; fr: quel, quelle, quels, quelles, lequel, laquelle; de: welche, welcher, welches, welchen,"
    " welchem; es: cual, cuales; it: quale, quali; nl: welke, welk; pt: qual, quais",
    "how": "en: how; fr: comment; de: wie; es: como; it: come; nl: hoe; pt: como",
    "what": "en: what; fr: que, qu, quoi; de: was; es: que; it: che, cosa, che cosa; nl: wat; pt: o que, que",
    YES_NO: "en: is, are, was, were, do, does, did, can, could, may, might, must, should, shall, will, would,"
    " has, have, had; fr: est ce que, est ce qu, est il, est elle, peut on, puis je, faut il, dois je, y a t il;"
    " de: ist, sind, war, kann, darf, muss, soll, wird, hat, haben, gibt; es: es, son, puede, pueden, puedo, hay, debo;"
    " it: posso, puo, si puo, devo, e possibile; nl: is, zijn, kan, mag, moet, heeft; pt: posso, pode, ha, devo",
}


def _phrases() -> dict[str, list[tuple[str, tuple[str, ...]]]]:
    """Map each language to its phrases, longest first, as pairs: the form of question, and the words of the phrase."""
    found: dict[str, list[tuple[str, tuple[str, ...]]]] = {}
    for form, text in _PHRASES.items():
        for part in text.split(";"):
            language, _, phrases = part.strip().partition(": ")
            found.setdefault(language, []).extend((form, tuple(phrase.split())) for phrase in phrases.split(", "))
    return {language: sorted(some, key=lambda one: -len(one[1])) for language, some in found.items()}


_FORMS = _phrases()


def question_form(text: str) -> str:
    """Return the form of a question: the key in _PHRASES of the first phrase that the text contains.

    The phrases are those of the detected language, or of English if none is detected. In a text without a question
    mark, only phrases that begin within the first four words count; phrases of yes/no questions count only at the
    beginning of a text. If no phrase counts, the form is KEYWORDS if the text has at most four words, no stop words
    and no question mark; otherwise, it is OTHER.
    """
    spoken, is_asked = words(fold(text)), has_question_mark(text)
    language = detect_language(text) or "en"
    phrases = _FORMS.get(language, _FORMS["en"])
    for start in range(len(spoken) if is_asked else min(_LOOKED_AT, len(spoken))):
        for form, phrase in phrases:
            if (start == 0 or form != YES_NO) and tuple(spoken[start : start + len(phrase)]) == phrase:
                return form
    is_short = len(spoken) <= _MOST_KEYWORDS and not is_asked
    return KEYWORDS if is_short and not STOP_WORDS[language].intersection(spoken) else OTHER
