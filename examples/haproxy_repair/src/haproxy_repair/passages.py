"""Facts about keywords from passages of the manual: names, sections that may contain them, and arguments."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from haproxy_repair.corpus import entries

PROXIES = ("defaults", "frontend", "listen", "backend")
TABLE = re.compile(r"May be used in (?:the following )?(?:sections|contexts?) *:.*\n\s*((?:yes|no)\b.*)")
ANSWERS = re.compile(r"\b(yes|no)\b")
WORDS = re.compile(r"[A-Za-z0-9_][\w.+-]*")
QUOTED = re.compile(r'"([\w.+-]+)')
LISTED = re.compile(r"^ {4,}([a-z][\w.-]+)(?:\(.*?\))?(?: {2,}| *:|$)", re.MULTILINE)
UNIT = re.compile(r"^ *- (us|ms|s|m|h|d) +:", re.MULTILINE)
UNITS_IN_WORDS = re.compile(r"\b(us|ms|s|m|h|d)=")
INFINITE = "unspecified timeout results in an infinite timeout"


@dataclass
class Entry:
    """The facts about one keyword."""

    words: frozenset[str]  # all of its words
    choices: frozenset[str]  # words that it lists or quotes, and those of its headings
    sections: frozenset[str]  # those that may contain it; empty if the passage has no table
    missing_is_infinite: bool  # whether the manual warns of leaving out this timeout


@dataclass
class Passages:
    """The facts in the passages of a request."""

    words: set[str] = field(default_factory=set)
    entries: dict[tuple[str, ...], Entry] = field(default_factory=dict)  # of directives, by their words
    settings: dict[str, set[str]] = field(default_factory=lambda: {"bind": set(), "server": set()})
    fetches: set[str] = field(default_factory=set)  # words of the passages on sample fetches and converters
    units: set[str] = field(default_factory=set)

    @classmethod
    def read(cls, passages: Iterable[tuple[str, str]]) -> Passages:
        """Read passages, given as name and text."""
        said = cls()
        for name, text in passages:
            said._add(name.partition(" ")[0], text)
        return said

    def directives(self, first: str) -> list[tuple[str, ...]]:
        """List the directives of two words or more that begin with a word."""
        return [name for name in self.entries if name[0] == first and len(name) > 1]

    @property
    def first_words(self) -> set[str]:
        """The first words of all directives."""
        return {name[0] for name in self.entries}

    def entry(self, words: tuple[str, ...]) -> Entry | None:
        """Return the entry of the longest directive that a line begins with."""
        found = (self.entries.get(words[:length]) for length in (3, 2, 1))
        return next((entry for entry in found if entry), None)

    def _add(self, section: str, text: str) -> None:
        words = frozenset(WORDS.findall(text))
        self.words |= words
        self.units |= set(UNIT.findall(text))
        for keyword, body in entries(text):
            name = tuple(keyword.split())
            if section.startswith("7.3"):
                self.fetches |= words
            elif not name:
                continue
            elif section.startswith("5."):
                self.settings["bind" if section == "5.1" else "server"].add(name[0])
            elif section in ("3.1", "3.2"):
                only = frozenset({"global"} if section == "3.1" else ())  # limits of 3.2 are keywords of proxies, too
                self.entries.setdefault(name, Entry(words, frozenset(), only, False))
            elif section.startswith("4.2"):
                self.entries[name] = _read_entry(body, words)


def _read_entry(text: str, words: frozenset[str]) -> Entry:
    table = TABLE.search(text)
    answers = ANSWERS.findall(table[1]) if table else []
    sections = frozenset(section for section, answer in zip(PROXIES, answers, strict=False) if answer == "yes")
    heading = " ".join(line for line in text.split("\n") if line[:1].strip())
    choices = {*QUOTED.findall(text), *LISTED.findall(text), *WORDS.findall(heading)}
    return Entry(words, frozenset(choices), sections, INFINITE in " ".join(text.split()))
