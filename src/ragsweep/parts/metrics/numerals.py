"""Recognise numbers in texts; decimal marks and thousands separators differ between languages."""

import re
import unicodedata

MINUS = "\ue001"
"""The private-use character that replaces a number's minus sign in the result of ``aligned``."""

POINT = "\ue000"
"""The private-use character that ``mark_decimals`` substitutes for a decimal mark; no comparison removes it."""

_DECIMAL = re.compile(
    r"(?<![\d.,])(\d{4,}|\d+(?![.,]\d{3}(?!\d))|\d{1,3}(?:,\d{2,3})*,\d{3}(?=\.)|\d{1,3}(?:\.\d{3})+(?=,))[.,](\d+)"
    r"(?![.,]?\d)"
)
"""Matches a number with a decimal mark, with or without thousands separators: ``1.5``, ``1,5`` and ``1,234.50``.

Groups of two digits, as in ``12,34,567.50``, are Indian. A single mark after at most three digits and before exactly
three digits may separate thousands and is not matched.
"""

_LEADING_POINT = re.compile(r"(?<![\w.,])\.(?=\d+(?![.,]?\d))")
_ARABIC_POINT = re.compile(r"(?<=\d)\u066b(?=\d)")

_SEPARATORS = "'\u2019\u00a0\u2009\u202f\u066c"
_GROUPED = r"(?<![\d.,])\d{1,3}(?:([%s])\d{3})(?:\1\d{3})*(?!\1?\d)"
_SPACED = {"english": re.compile(_GROUPED % _SEPARATORS), "french": re.compile(_GROUPED % f" {_SEPARATORS}")}
"""Matches a number whose thousands are separated by apostrophes, no-break spaces, thin spaces or, in French, spaces."""

_THOUSANDS = re.compile(rf"\d{{4}}|\d[ .,{_SEPARATORS}]\d{{3}}(?!\d)")

_DASH = "[-\u2010-\u2013\u2212\uff0d]"
_DASHED = re.compile(rf"{_DASH}\d")
_NEGATIVE = re.compile(
    rf"(?<![^\s(\[{{\"'\u00ab\u201c\u201e\u2018*`=<>\u2248~:|])(?<!\d\s){_DASH}(?=[$\u20ac\u00a3\u00a5]?\.?\d)"
)
"""Matches the minus sign of a number, but not the dash of ``3-5``, ``3 -5`` or ``UTC-5``."""

_SAID_NEGATIVE = re.compile(
    rf"(?<!\d){_DASH}(?=[$\u20ac\u00a3\u00a5]?\.?\d)"
    r"|(?:\b(?:minus|moins|menos|meno|min|минус)\s+|マイナス|零下|[负負]|영하\s*)(?=\d)",
    re.IGNORECASE,
)
"""Matches any sign or word that may make a number negative."""

_DIGIT = r"[\d\u00b2\u00b3\u00b9\u2070\u2074-\u2079\u2080-\u2089]"
"""Matches a digit, even a superscript or subscript, which compatibility folding turns into a plain digit."""

_QUANTITY = re.compile(rf"{_DIGIT}\s*(?:[^\W\d_]|[%\u2030°\u20ac$\u00a3\u00a5])")
_UNIT = re.compile(rf"(?<={_DIGIT})(?!a\b)(?=[^\W\d_]|[%\u2030°\u20ac$\u00a3\u00a5])", re.IGNORECASE)
"""Matches the position between a number and a unit, as in ``16GB``; not in ``5a``, because ``a`` may be an article."""

_PERCENT = re.compile(
    r"(?<=\d)[\s-]*(?:%|(per ?cent|pour ?cent|prozent|por ?ciento|por ?cento|per ?cento|procent)\b)", re.IGNORECASE
)
"""Matches the percent sign after a number, or the word for it (group 1)."""

_MARKED = re.compile(r"(?<![\d.,])\d{1,3}(?:([.,])\d{3})(?:\1\d{3})*(?![.,]?\d)|\d{1,3}(?:,\d{2,3})*,\d{3}(?=\ue000)")
"""Matches a number whose thousands are separated by full stops or commas, up to its decimal mark."""


_DATE = re.compile(r"(?<![\d.])(\d{1,2})\.(\d{1,2})\.(?=\d{4}(?!\d|\.\d))")


def split_dates(text: str) -> str:
    """Return a text in which the day, month and year of dates such as ``12.05.2024`` are separate words."""
    return _DATE.sub(r"\1 \2 ", text)


def aligned(text: str, right: str, language: str) -> str:
    """Return a text with its numbers rewritten for comparison with the numbers of ``right``, a right answer.

    - If the right answer has a negative number, minus signs and words such as "minus" become MINUS. Otherwise, minus
      signs become MINUS unless the right answer has a dash before a digit, as in ``3-5``.
    - If the right answer has a number with a unit, a space precedes every unit: ``16GB`` equals ``16 GB``.
    - If the right answer has a percent sign or the word "percent" after a number, all percentages take
      this form.
    - Apostrophes and special spaces that separate thousands are removed. A plain space separates thousands only if
      ``language`` is "french" (the other value is "english"), or if the right answer has a number of at least four
      digits.
    """
    if _NEGATIVE.search(right):
        text = _SAID_NEGATIVE.sub(f" {MINUS}", text)
    elif not _DASHED.search(right):
        text = _NEGATIVE.sub(MINUS, text)
    if percent := _PERCENT.search(right):
        text = _PERCENT.sub(" percent" if percent[1] else " %", text)
    if _QUANTITY.search(right):
        text = _UNIT.sub(" ", text)
    return _SPACED["french" if _THOUSANDS.search(right) else language].sub(_digits, text)


def mark_decimals(folded: str) -> str:
    """Return ``folded``, a text in compatibility form (NFKC), with POINT as the decimal mark of every number.

    A decimal mark that is followed only by two zeros, as in ``$5.00``, is removed with the zeros.
    """
    plain = folded if folded.isascii() else _ARABIC_POINT.sub(POINT, folded)
    marked = _DECIMAL.sub(rf"\1{POINT}\2", _LEADING_POINT.sub("0.", plain))
    return re.sub(rf"{POINT}00(?!\d)", "", marked)


def unbroken(text: str, right: str, language: str) -> str:
    """Return a text in which every number is one word: ``1,234.50`` becomes ``1234_50``, and ``-5`` becomes ``_5``.

    Numbers with several decimal marks, such as versions and dates, are unchanged. For ``right`` and ``language``, see
    ``aligned``.
    """
    plain = unicodedata.normalize("NFKC", aligned(text, right, language))
    return re.sub(f"[{MINUS}{POINT}]", "_", _MARKED.sub(_digits, mark_decimals(plain)))


def _digits(number: re.Match[str]) -> str:
    return "".join(filter(str.isdigit, number[0]))
