"""Split text in any script into words, for search, text lengths, comparisons and quotes.

A word is a run of letters, digits and underscores, with their combining marks (such as vowel signs of Devanagari). In
scripts written without spaces, each character is a word, because segmentation would need a dictionary. These characters
are called unspaced. Each Hangul syllable is also a word, so that a noun matches with or without an attached particle.
Unspaced characters and Hangul syllables together are called syllabic. Quotes of a document are the exception: in a
quote, the Hangul syllables between two spaces are one word.
"""

import re
import unicodedata
from functools import cache
from itertools import pairwise
from typing import Literal

_UNSPACED = (
    "\u0e01-\u0e4e\u0e81-\u0ecf\u0edc-\u0edf\u1000-\u103f\u1050-\u108f\u109a-\u109f\u1780-\u17d3\u17d7\u17dc\u17dd"
    "\u1950-\u19cf\u1a20-\u1a7f\u1b00-\u1b4f\ua980-\ua9cf\ua9e0-\ua9ef\uaa60-\uaadf"  # South East Asia, no digits
    "\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3031-\u303c\u3041-\u30fa\u30fc-\u312f\u31a0-\u31bf\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\ua000-\ua48c\uf900-\ufaff\uff66-\uff9f\U0001aff0-\U0001b16f\U00020000-\U0003fffd"
)
"""Characters of scripts written without spaces, such as Thai, Lao, Burmese, Khmer, Chinese, Japanese and Yi."""

_SYLLABIC = _UNSPACED + "\u1100-\u115f\u3131-\u318e\ua960-\ua97f\uac00-\ud7a3"
"""The characters in ``_UNSPACED``, and the characters of Hangul."""

_SOUTH_EAST_ASIAN = re.compile("[\u0e01-\u0e3a\u0e81-\u0ebd\u1000-\u102a\u1780-\u17b3]")

SOFT_HYPHEN = re.compile("\u00ad(?:[^\\S\n]*\n\\s*)?")
INVISIBLE = re.compile("[\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff]")
_OPTIONAL = re.compile(
    "(?<=i)\u0307|(?<=[\u0400-\u052f])\u0301|(?<=[\u05d0-\u05ea])[\u0591-\u05bd\u05bf-\u05c7]+"
    "|(?<=[\u0621-\u063f\u0641-\u064a\u0671-\u06d3])[\u0640\u064b-\u0652\u0670]+"
)
_FOREIGN_DIGIT = re.compile(r"(?![0-9])\d")
_ASCII_WORD = re.compile(r"\w+")

STOPS = (".", "!", "?", "\u3002", "\uff01", "\uff1f")
"""Punctuation marks that end a sentence, in ASCII and in full width."""

_BEHIND, _CLOSING = frozenset("\"'`*_!\uff01"), frozenset({"Pe", "Pf", "Pi", "Cf"})

Kind = Literal["word", "token", "term", "search", "letter", "run", "character", "quoted", "unspaced", "mark"]


@cache
def _marks() -> str:
    """Return the characters that combine with the previous character, as the content of a regex character class.

    These are marks, the vowels and finals of Hangul, and the soft hyphen (U+00AD). The marks of rare scripts beyond
    U+FFFF are excluded, because ``re`` tests such characters one by one.
    """
    marks = (chr(code) for code in range(0x300, 0x10000) if unicodedata.category(chr(code))[0] == "M")
    return "".join(marks) + "\u1160-\u11ff\u00ad\U000e0100-\U000e01ef"


@cache
def pattern(kind: Kind) -> re.Pattern[str]:
    """Return the compiled pattern of one kind of text unit.

    - word: a word as the module defines it
    - token: a word, or one punctuation mark or symbol
    - term: a word of a text's ``search_form``, in which syllabic characters are paired
    - search: a term of at least two characters, or one syllabic character
    - letter: one word character that is not syllabic, or a mark
    - run: neighbouring syllabic characters
    - character: one syllabic character with its marks
    - quoted: the smallest unit of a quote: one unspaced character, or a run of other characters without white space
    - unspaced: one unspaced character with its marks
    - mark: one mark, as listed by ``_marks``
    """
    letter, character = rf"(?:[^\W{_SYLLABIC}]|[{_marks()}])", f"[{_SYLLABIC}][{_marks()}]*"
    unspaced = f"[{_UNSPACED}][{_marks()}]*"
    spaced_word = rf"[^\W{_SYLLABIC}]+(?:[{_marks()}]+[^\W{_SYLLABIC}]*)*"  # several times as fast as matching letters
    word = rf"{spaced_word}|{character}"
    term = rf"\w*(?:[{_marks()}]+\w*)*"
    return re.compile(
        {
            "word": word,
            "token": rf"{word}|[^\w\s]",
            "term": rf"\w{term}",
            "search": rf"\w(?=[\w{_marks()}]){term}|[{_SYLLABIC}]",
            "letter": letter,
            "run": f"(?:{character})+",
            "character": character,
            "quoted": rf"{unspaced}|[^\s{_UNSPACED}]+",
            "unspaced": unspaced,
            "mark": f"[{_marks()}]",
        }[kind]
    )


def words(text: str) -> list[str]:
    """Return the words of ``text``, in order and unchanged."""
    return (_ASCII_WORD if text.isascii() else pattern("word")).findall(text)


def is_symbol(letter: str) -> bool:
    """Return whether a character outside words can distinguish two questions, such as + and # in C++ and C#."""
    return letter in "#%" or unicodedata.category(letter) in ("Sm", "Sc")


def word_count(text: str) -> float:
    """Return the number of whitespace-separated words in ``text``; an unspaced character counts as half a word."""
    if text.isascii() or not (characters := pattern("unspaced").findall(text)):
        return len(text.split())
    return len(characters) / 2 + sum(bool(words(part)) for part in pattern("unspaced").sub(" ", text).split())


def spaced(text: str) -> str:
    """Return the tokens of ``text``, joined by spaces, if it has syllabic characters; else return it unchanged."""
    return text if text.isascii() or not pattern("run").search(text) else " ".join(pattern("token").findall(text))


def is_syllabic(letter: str) -> bool:
    """Return whether a character is syllabic, and is therefore a word."""
    return not letter.isascii() and pattern("character").fullmatch(letter) is not None


def without_soft_hyphens(text: str) -> str:
    """Return ``text`` without soft hyphens and the line breaks after them, so that hyphenated words are joined."""
    return SOFT_HYPHEN.sub("", text) if "\u00ad" in text else text


def without_optional_marks(text: str) -> str:
    """Return ``text`` without the marks that most writers omit.

    These are Cyrillic stress marks, vowel signs of Hebrew and Arabic, the Arabic tatweel, and the dot above an ``i``
    that remains if a Turkish capital is converted to lower case.
    """
    return _OPTIONAL.sub("", text)


def with_ascii_digits(text: str) -> str:
    """Return ``text`` with ASCII digits in place of the decimal digits of other scripts."""
    return _FOREIGN_DIGIT.sub(lambda digit: str(unicodedata.decimal(digit[0])), text)


def search_form(text: str) -> str:
    """Return ``text`` in the form that search uses; ``pattern("term")`` matches the words of this form.

    Compatibility characters, such as ligatures and full-width letters, are replaced (Unicode's NFKC), and soft hyphens
    and invisible characters are removed. Neighbouring syllabic characters become overlapping pairs, as in Lucene's
    CJKAnalyzer. ASCII text is returned unchanged.
    """
    if text.isascii():
        return text
    folded = unicodedata.normalize("NFKC", INVISIBLE.sub("", without_soft_hyphens(text)))
    return pattern("run").sub(_pairs, folded)


def search_terms(text: str) -> list[str]:
    """Return the words of a text's ``search_form``, in order, for search and comparison."""
    return pattern("term").findall(search_form(text))


def _pairs(run: re.Match[str]) -> str:
    characters = pattern("character").findall(run[0])
    pairs = [one + other for one, other in pairwise(characters)] or characters
    return f" {' '.join(pairs)} "


def is_unsegmented(text: str) -> bool:
    """Return whether more than a quarter of the characters in ``text`` are letters of Thai, Lao, Burmese or Khmer.

    Only a dictionary can find the words in these scripts.
    """
    return not text.isascii() and len(_SOUTH_EAST_ASIAN.findall(text)) > len(text) / 4


def has_question_mark(text: str) -> bool:
    """Return whether ``text`` contains a question mark of any script, or a semicolon and Greek letters."""
    return any(map(_asks, text)) or (";" in text and _is_greek(text))


def is_question(text: str) -> bool:
    """Return whether ``text`` ends with a question mark of any script.

    White space, closing quotes and brackets, Markdown emphasis and "!" may follow the mark. The Armenian question mark
    may be anywhere in the text, because it is written inside a word.
    """
    if "\u055e" in text:
        return True
    for letter in reversed(text):
        if _asks(letter) or (letter == ";" and _is_greek(text)):
            return True
        if not (letter.isspace() or letter in _BEHIND or unicodedata.category(letter) in _CLOSING):
            return False
    return False


@cache
def _asks(letter: str) -> bool:
    name = unicodedata.name(letter, "")
    return ("QUESTION" in name or "INTERROBANG" in name) and "INVERTED" not in name and letter != "\u2e2e"


def _is_greek(text: str) -> bool:
    return any("GREEK" in unicodedata.name(letter, "") for letter in text if letter.isalpha())
