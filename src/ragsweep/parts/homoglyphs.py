"""Homoglyphs (characters that resemble others) and invisible characters."""

from __future__ import annotations

import re
import unicodedata

_LETTERS = {
    **dict(zip("абсԁеһіјӏорԛѕѵԝхукмтнв", "abcdehijlopqsvwxykmthb", strict=True)),  # Cyrillic
    **dict(zip("αοινυρετκ", "aoivupetk", strict=True)),  # Greek
    **dict(zip("\u0251\u0131\u217c", "ail", strict=True)),
}
_SLASHES = frozenset("\u2044\u2215\u29f8\u2571\uff0f")
_DASHES = frozenset("\u2212\u02d7\u30fc\u2796\u4e00")
_CONTROL = re.compile("[\x00-\x08\x0e-\x1b\x7f]")
_INVISIBLE = frozenset("\u115f\u1160\u3164\uffa0\u2800\u180b\u180c\u180d\u180e\u034f")


def is_invisible(character: str) -> bool:
    """Return whether a character is invisible by itself: format characters, combining accents, fillers."""
    return (
        unicodedata.category(character) in ("Cf", "Mn", "Me", "Cc")
        or character in _INVISIBLE
        or "\ufe00" <= character <= "\ufe0f"
    )


def folded(character: str) -> str:
    """Replace a character by the lower-case ASCII that it resembles, where there is any; may return several characters.

    Unicode's compatibility decomposition (NFKD), then a small table; not the complete list of confusables.
    """
    if character < "\x7f":
        return character.lower()
    plain = [one for one in unicodedata.normalize("NFKD", character) if not unicodedata.combining(one)]
    return "".join(_letter(one) for one in "".join(plain).casefold())


def _letter(character: str) -> str:
    if character in _SLASHES:
        return "/"
    if character in _DASHES or unicodedata.category(character) == "Pd":
        return "-"
    return _LETTERS.get(character, character)


def fold(text: str) -> str:
    """Fold a whole text: invisible characters are removed, white space becomes single spaces."""
    if text.isascii():
        return " ".join(_CONTROL.sub("", text).lower().split())
    parts = (folded(one) if not is_invisible(one) or one.isspace() else "" for one in text)
    return " ".join("".join(parts).split())
