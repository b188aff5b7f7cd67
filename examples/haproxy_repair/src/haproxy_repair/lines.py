"""Read the lines of a configuration: words, quotes, comments and sections, as the manual's sections 2.1 and 2.2 say."""

import re
from typing import NamedTuple

SECTIONS = (
    "global", "defaults", "frontend", "backend", "listen", "userlist", "peers", "resolvers", "mailers", "cache",
    "http-errors", "ring", "log-forward", "fcgi-app", "program",
)  # fmt: skip
"""Words that begin a section."""

QUOTES = "\"'"
ESCAPE = re.compile(r"\\(?:x([0-9A-Fa-f]{2})|([nrt])|([ \t\\#$'\"]))")
VARIABLE = re.compile(r"\$[A-Za-z_.{]")
SPACES = " \t\r\f\v"
CONTROL = {"n": "\n", "r": "\r", "t": "\t"}


def word_set(text: str) -> frozenset[str]:
    """Return the words of a text."""
    return frozenset(text.split())


class Line(NamedTuple):
    """A line with words in it."""

    number: int  # from 1
    words: tuple[str, ...]
    section: str  # the section's keyword; empty before the first one
    name: str  # the section's name, empty where it has none
    heading: bool  # whether the line begins the section
    text: str  # words as written, separated by one space, without a comment
    variable: bool  # whether environment variables are read: there is a dollar sign between double quotes


def read_lines(text: str) -> list[Line]:
    """Read all lines that are neither blank nor comments."""
    lines, section, name = [], "", ""
    for number, line in enumerate(text.split("\n"), 1):
        words, written, variable = _split(line)
        if not words:
            continue
        if heading := words[0] in SECTIONS:
            section, name = words[0], words[1] if len(words) > 1 and words[1] != "from" else ""
        lines.append(Line(number, words, section, name, heading, written, variable))
    return lines


def _split(line: str) -> tuple[tuple[str, ...], str, bool]:
    """Split a line at spaces outside of quotes: words without quotes, words as written, whether there is a variable."""
    words: list[str] = []
    written: list[str] = []
    word, raw, quote, position, variable = "", "", "", 0, False
    while position < len(line):
        sign = line[position]
        escape = ESCAPE.match(line, position) if quote != "'" else None
        position = escape.end() if escape else position + 1
        if not quote and not escape and sign == "#":
            break
        if not quote and not escape and sign in SPACES:
            if raw:
                words.append(word)
                written.append(raw)
            word, raw = "", ""
            continue
        raw += escape[0] if escape else sign
        if escape:
            word += chr(int(escape[1], 16)) if escape[1] else CONTROL.get(escape[2], escape[3])
        elif sign == quote:
            quote = ""
        elif not quote and sign in QUOTES:
            quote = sign
        else:
            word += sign
            variable |= quote == '"' and VARIABLE.match(line, position - 1) is not None
    if raw:
        words.append(word)
        written.append(raw)
    return tuple(words), " ".join(written), variable
