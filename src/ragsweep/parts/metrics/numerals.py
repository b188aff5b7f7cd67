"""Recognise numbers in texts, whose decimal marks and thousands separators differ between languages."""

import re

POINT = "\ue000"
"""The decimal mark of a number after ``mark_decimals``: a private-use character, which no comparison removes."""

_DECIMAL = re.compile(
    r"(?<![\d.,])(\d{4,}|\d+(?![.,]\d{3}(?!\d))|\d{1,3}(?:,\d{2,3})*,\d{3}(?=\.)|\d{1,3}(?:\.\d{3})+(?=,))[.,](\d+)"
    r"(?![.,]?\d)"
)
"""Matches a number with a decimal mark, with or without thousands separators: ``1.5``, ``1,5`` and ``1,234.50``.

Groups of two digits, as in ``12,34,567.50``, are Indian. A single mark after at most three digits and before exactly
three may separate thousands and is not matched.
"""

_LEADING_POINT = re.compile(r"(?<![\w.,])\.(?=\d+(?![.,]?\d))")
_ARABIC_POINT = re.compile(r"(?<=\d)\u066b(?=\d)")

_GROUPED = r"(?<![\d.,])\d{1,3}(?:([%s])\d{3})(?:\1\d{3})*(?!\1?\d)"
_SPACED = {
    "english": re.compile(_GROUPED % "'\u2019\u00a0\u2009\u202f"),
    "french": re.compile(_GROUPED % " '\u2019\u00a0\u2009\u202f"),
}
"""Matches a number whose thousands are separated by apostrophes or no-break or thin spaces or, in French, by spaces."""

_MARKED = re.compile(r"(?<![\d.,])\d{1,3}(?:([.,])\d{3})(?:\1\d{3})*(?![.,]?\d)|\d{1,3}(?:,\d{2,3})*,\d{3}(?=\ue000)")
"""Matches a number whose thousands are separated by full stops or commas, up to its decimal mark."""


_DATE = re.compile(r"(?<![\d.])(\d{1,2})\.(\d{1,2})\.(?=\d{4}(?!\d|\.\d))")


def split_dates(text: str) -> str:
    """Return a text in which the day, month and year of dates such as ``12.05.2024`` are separate words."""
    return _DATE.sub(r"\1 \2 ", text)


def join_thousands(text: str, language: str) -> str:
    """Return a text without the spaces and apostrophes that separate thousands; other numbers are unchanged.

    A space separates thousands only if ``language`` is "french"; the other possible value is "english".
    """
    return _SPACED[language].sub(_digits, text)


def mark_decimals(folded: str) -> str:
    """Return a text, with compatibility forms folded, in which the decimal mark of every number is POINT."""
    plain = folded if folded.isascii() else _ARABIC_POINT.sub(POINT, folded)
    return _DECIMAL.sub(rf"\1{POINT}\2", _LEADING_POINT.sub("0.", plain))


def unbroken(text: str, language: str) -> str:
    """Return a text in which every number is one word: ``1,234.50`` becomes ``1234_50``.

    Numbers with several decimal marks, such as versions and dates, are unchanged. For ``language``, see
    ``join_thousands``.
    """
    return _MARKED.sub(_digits, mark_decimals(join_thousands(text, language))).replace(POINT, "_")


def _digits(number: re.Match[str]) -> str:
    return "".join(filter(str.isdigit, number[0]))
