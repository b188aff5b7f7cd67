"""Escape untrusted text for display, with one function per kind of output, and replace lone surrogates."""

import math
import re
from typing import Any

from ragsweep.core.ordering import is_number

_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0d\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Control characters except tab and line feed, and marks that change the text direction."""

_STYLE = re.compile("\x1b\\[[\\d;]*m")

_MARKUP = re.compile(r"[\\`*$]|(?<![^\W_])_|_(?![^\W_])|~(?=~)|(?<=!)\[|\](?=[(\[:])|(?<=\])[(\[]")
"""Markdown characters that start images, links, code, formulas (on GitHub), emphasis or strikethrough.

The brackets of ``[.5, .6]`` and a single ``_`` within a word do not match.
"""

_MENTION = re.compile(r"(?<!\w)@(?=\w)")

_FORMULA = re.compile(r"'*[=+\-@\t\r]")


def visible(text: str) -> str:
    r"""Return ``text`` with control and bidi characters escaped as in JSON (``\u001b``), for display on a terminal.

    Tabs and line feeds are kept.
    """
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def printable(text: str) -> str:
    """Return program output made safe for a terminal: without ANSI styles, and with other control characters escaped.

    Tabs, line feeds and carriage returns are kept.
    """
    return "\r".join(map(visible, _STYLE.sub("", text).split("\r")))


def markdown_text(value: object) -> str:
    """Return a value as one line of Markdown text: markup, HTML and account mentions (``@name``) are escaped."""
    text = _MARKUP.sub(r"\\\g<0>", visible(str(value))).replace("&", "&amp;").replace("<", "&lt;")
    return _MENTION.sub("@&#8203;", " ".join(text.split()))


def harmless_cell(value: Any) -> Any:
    """Return the value of a table cell, with an apostrophe before a string that a spreadsheet would run as a formula.

    NaN becomes ""; any other value is returned unchanged.
    """
    if isinstance(value, float) and math.isnan(value):
        return ""
    return f"'{value}" if isinstance(value, str) and _is_formula(value) else value


def original_cell(text: str) -> str:
    """Return the string from which `harmless_cell` made the cell ``text``."""
    return text[1:] if text.startswith("'") and _is_formula(text[1:]) else text


def _is_formula(text: str) -> bool:
    """Return whether ``text``, after any apostrophes, begins like a formula and is not a number."""
    return _FORMULA.match(text) is not None and not is_number(text)


def well_formed(text: str) -> str:
    """Return ``text`` with U+FFFD in place of each lone surrogate.

    A lone surrogate is half of a pair that a service has cut; local models and UTF-8 encoders reject it. Two adjacent
    halves of a pair become one character.
    """
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
