"""Find a section of a document by its heading: a Markdown heading, an underlined line, or another whole line."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from ragsweep.core.words import words as words_of

_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})")
_MARKED = re.compile(r"^ {0,3}(#{1,6})[ \t]+(.*?)[ \t]*#*[ \t]*$")
_UNDERLINE = re.compile(r"^([!-/:-@\[-`{-~])\1{2,}[ \t]*$")


class Heading(NamedTuple):
    """A heading: the offset of its line, its level from 1 (the highest), and its text."""

    start: int
    level: int
    text: str


def section(text: str, name: str) -> tuple[int, int] | None:
    """Find a section: its heading and everything below, up to the next heading of the same or a higher level.

    Headings are compared by their words, ignoring case and punctuation. If no heading matches, the section is the first
    line with the words of the name, and everything up to the next heading. Returns None if no line matches.
    """
    wanted = words(name)
    found = list(headings(text))
    for n, heading in enumerate(found):
        if words(heading.text) == wanted:
            following = (later.start for later in found[n + 1 :] if later.level <= heading.level)
            return heading.start, next(following, len(text))
    start = next((start for start, line in _lines(text) if words(line) == wanted), None)
    if start is None or not wanted:
        return None
    return start, next((heading.start for heading in found if heading.start > start), len(text))


def words(text: str) -> list[str]:
    """Return the words of a heading, case-folded and without punctuation."""
    return words_of(text.casefold())


def headings(text: str) -> Iterator[Heading]:
    """Yield the headings outside fenced code; underline characters rank as levels in the order of their first use."""
    signs: list[str] = []
    fence = before = ""
    began = 0
    for start, line in _lines(text):
        marker = _FENCE.match(line)
        if marker and (not fence or marker[1].startswith(fence)):
            fence = "" if fence else marker[1]
        elif not fence and (marked := _MARKED.match(line)):
            yield Heading(start, len(marked[1]), marked[2])
        elif not fence and words(before) and (under := _UNDERLINE.match(line)):
            signs += [under[1]] if under[1] not in signs else []
            yield Heading(began, signs.index(under[1]) + 1, before)
        before, began = line, start


def _lines(text: str) -> Iterator[tuple[int, str]]:
    start = 0
    for line in text.splitlines(keepends=True):
        yield start, line.rstrip("\r\n")
        start += len(line)
