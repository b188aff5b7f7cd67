"""A rule-based repairer, which uses the passages of the manual and the names in the configuration."""

import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, ClassVar, NamedTuple

from ragsweep.core.errors import ConfigError
from ragsweep.core.types import Answer, PartTraits, Request

from haproxy_repair.lines import Line, read_lines
from haproxy_repair.passages import Passages

NAMES_FIRST = frozenset({"acl", "use_backend", "default_backend", "bind", "server", "server-template", "use-server"})
"""Directives whose first argument is a name, not a keyword."""

SETTING_LINES = {"bind": ("bind", 2), "server": ("server", 3), "default-server": ("server", 1)}
RULES = ("use_backend", "http-", "tcp-", "monitor", "redirect", "stats")
LOAD_BALANCING = frozenset({"balance", "cookie", "hash-type", "http-reuse", "retry-on", "option"})
DURATION = re.compile(r"(\d+)([A-Za-z]+)$")
FETCH = re.compile(r"(?:^|[\s,])([A-Za-z][\w.]+)")
SHORTEST = 3
"""Minimum number of letters of a word that counts as misspelt."""

Finding = dict[str, Any]


class Edit(NamedTuple):
    """A finding, and the line that replaces the one where it is; None removes it."""

    finding: Finding
    line: str | None
    into: str = ""  # heading of the section that the line moves to, as written


@dataclass(eq=False)
class Repairer:
    """Repair a configuration by rules whose facts are in the passages.

    A keyword, option, action or setting that occurs in no passage is replaced by the most similar one that has an entry
    in them; an argument by the most similar one that its entry lists; a directive is moved where the entry's table
    denies its section; a time gets a unit that the passages list; a timeout is added where its entry warns of leaving
    it out. Names of backends and ACLs are compared with those that the configuration defines; without passages only
    this rule applies.

    Args:
        similarity: The least similarity of a word and its replacement, 0 to 1.
    """

    TRAITS: ClassVar[PartTraits] = PartTraits(version="1")

    similarity: float = 0.75

    def check(self) -> None:
        """Raise ConfigError for a similarity out of range."""
        if not 0 < self.similarity <= 1:
            raise ConfigError(f"similarity: must be above 0 and at most 1, got {self.similarity:g}")

    def generate(self, requests: Sequence[Request], done: Callable[[int, Answer], None]) -> None:
        """Repair one configuration after the other."""
        for number, request in enumerate(requests):
            begin = time.perf_counter()
            text = json.dumps(self.repair(request.question, request.passages))
            done(number, Answer(text, seconds=time.perf_counter() - begin))

    def repair(self, config: str, passages: Iterable[tuple[str, str]]) -> dict[str, Any]:
        """Return findings and the repaired configuration."""
        said, lines = Passages.read(passages), read_lines(config)
        edits = {line.number: edit for line in lines if (edit := self._edit(line, lines, said))}
        findings = [edit.finding for edit in edits.values()]
        texts = config.split("\n")
        moved: dict[str, list[str]] = {}
        repaired: list[str] = []
        for number, text in enumerate(texts, 1):
            edit = edits.get(number)
            if edit is None:
                repaired.append(text)
            elif edit.into:
                moved.setdefault(edit.into, []).append(text)
            elif edit.line is not None:
                repaired.append(edit.line)
        for heading, additions in _missing_timeouts(lines, said):
            findings += [
                _finding("bad_timeout", heading.number, f"timeout {name}", "it is missing") for name in additions
            ]
            moved.setdefault(heading.text, []).extend(f"    timeout {name} 30s" for name in additions)
        return {"findings": findings, "config": "\n".join(_insert(repaired, moved))}

    def _edit(self, line: Line, lines: Sequence[Line], said: Passages) -> Edit | None:
        """Return the first edit that a rule makes of a line."""
        if line.heading:
            return None
        rules = (self._reference, self._keyword, self._section, self._setting, self._time, self._argument, self._fetch)
        return next(filter(None, (rule(line, lines, said) for rule in rules)), None)

    def _reference(self, line: Line, lines: Sequence[Line], said: Passages) -> Edit | None:
        """Correct the name of a backend or an ACL that the configuration does not define."""
        words = line.words
        if words[0] in ("use_backend", "default_backend") and len(words) > 1:
            backends = {one.name for one in lines if one.section in ("backend", "listen")}
            if words[1] not in backends and (name := self._nearest(words[1], backends, 0.6)):
                return _replace(line, words[1], name, "missing_backend", words[1])
        acls = {one.words[1] for one in lines if one.words[0] == "acl" and one.name == line.name and len(one.words) > 1}
        for word in _condition(words):
            plain = word.removeprefix("!")
            if plain not in acls and (name := self._nearest(plain, acls, 0.6)):
                return _replace(line, plain, name, "acl_routing", plain)
        return None

    def _keyword(self, line: Line, lines: Sequence[Line], said: Passages) -> Edit | None:
        """Correct the first or the second word of a directive."""
        words = line.words
        if words[0] not in said.words:
            name = self._nearest(words[0], said.first_words)
            return _replace(line, words[0], name, "unknown_directive", words[0]) if name else None
        seconds = {name[1] for name in said.directives(words[0])}
        if len(words) < 2 or not seconds or words[1].partition("(")[0] in said.words:
            return None
        kind = "bad_timeout" if words[0] == "timeout" else "unknown_directive"
        name = self._nearest(words[1], seconds)
        return _replace(line, words[1], name, kind, f"{words[0]} {words[1]}") if name else None

    def _section(self, line: Line, lines: Sequence[Line], said: Passages) -> Edit | None:
        """Move a directive out of a section in which its entry does not allow it."""
        entry = said.entry(line.words)
        if not entry or not entry.sections or line.section in entry.sections or line.section not in SECTION_KINDS:
            return None
        finding = _finding("wrong_section", line.number, line.words[0], f"not allowed in {line.section}")
        return Edit(finding, None, _destination(line, lines, entry.sections))

    def _setting(self, line: Line, lines: Sequence[Line], said: Passages) -> Edit | None:
        """Correct a setting of a bind or server line."""
        group, start = SETTING_LINES.get(line.words[0], ("", 0))
        for word in line.words[start:]:
            if group and word not in said.words and (name := self._nearest(word, said.settings[group])):
                return _replace(line, word, name, "unknown_directive", word)
        return None

    def _time(self, line: Line, lines: Sequence[Line], said: Passages) -> Edit | None:
        """Correct the unit of a time."""
        for before, word in zip(line.words, line.words[1:], strict=False):
            match = DURATION.match(word)
            if match and said.units and match[2] not in said.units:
                units = sorted((unit for unit in said.units if match[2].startswith(unit)), key=len)
                element = before if line.words[0] in SETTING_LINES else " ".join(line.words[:2])
                if units:
                    return _replace(line, word, match[1] + units[-1], "bad_timeout", element)
        return None

    def _argument(self, line: Line, lines: Sequence[Line], said: Passages) -> Edit | None:
        """Replace an argument that is not in the entry of the directive by one that the entry lists."""
        entry = said.entry(line.words)
        if not entry or line.words[0] in NAMES_FIRST:
            return None
        for word in line.words[1:]:
            plain = word.partition("(")[0]
            if plain not in entry.words and (name := self._nearest(plain, entry.choices)):
                kind = "load_balancing" if line.words[0] in LOAD_BALANCING else "unknown_directive"
                return _replace(line, plain, name, kind, line.words[0])
        return None

    def _fetch(self, line: Line, lines: Sequence[Line], said: Passages) -> Edit | None:
        """Correct a sample fetch or a converter."""
        expressions = line.words[2:3] if line.words[0] == "acl" else [word for word in line.words if "," in word]
        for word in FETCH.findall(" ".join(expressions)):
            if word not in said.words and (name := self._nearest(word, said.fetches, 0.8)):
                return _replace(line, word, name, "acl_routing", word)
        return None

    def _nearest(self, word: str, known: Iterable[str], least: float | None = None) -> str:
        """Return the most similar known word; empty if none is similar enough."""
        least = self.similarity if least is None else least
        if len(word) < SHORTEST or word.isdigit():
            return ""
        ratios = ((SequenceMatcher(None, word, one).ratio(), one) for one in known if one != word)
        best = max(((ratio, one) for ratio, one in ratios if ratio >= least), default=(0.0, ""))
        return best[1]


SECTION_KINDS = frozenset({"defaults", "frontend", "listen", "backend"})


def _finding(kind: str, line: int, element: str, message: str) -> Finding:
    return {"kind": kind, "line": line, "element": element, "message": message}


def _replace(line: Line, word: str, name: str, kind: str, element: str) -> Edit:
    pattern = re.compile(rf"(?<![\w.-]){re.escape(word)}(?![\w.-])")
    finding = _finding(kind, line.number, element, f'"{word}" is not in the manual; "{name}" is')
    return Edit(finding, "    " + pattern.sub(lambda _: name, line.text, count=1))


def _condition(words: Sequence[str]) -> Iterator[str]:
    """Yield the names of ACLs in a condition; text in braces is not a name."""
    if not words[0].startswith(RULES) or not {"if", "unless"} & set(words):
        return
    depth = 0
    for word in words[max(words.index(one) for one in ("if", "unless") if one in words) + 1 :]:
        depth += word.endswith("{") - (word == "}")
        if not depth and word not in ("}", "or", "||", "{", "!{"):
            yield word


def _destination(line: Line, lines: Sequence[Line], sections: frozenset[str]) -> str:
    """Return the heading of the section that a line belongs to; empty if there is none."""
    if sections == {"global"}:
        return next((one.text for one in lines if one.heading and one.section == "global"), "")
    links = [one for one in lines if one.words[0] == "default_backend" and len(one.words) > 1]
    if line.section == "frontend" and "backend" in sections:
        target = next((one.words[1] for one in links if one.name == line.name), "")
        return next((one.text for one in lines if one.heading and one.section == "backend" and one.name == target), "")
    if line.section == "backend" and "frontend" in sections:
        source = next((one.name for one in links if one.words[1] == line.name), "")
        return next((one.text for one in lines if one.heading and one.section == "frontend" and one.name == source), "")
    return ""


def _missing_timeouts(lines: Sequence[Line], said: Passages) -> Iterator[tuple[Line, list[str]]]:
    """Yield the first defaults section, with the unset timeouts whose entries warn against leaving them out."""
    heading = next((line for line in lines if line.heading and line.section == "defaults"), None)
    present = {line.words[1] for line in lines if line.words[0] == "timeout" and len(line.words) > 1}
    names = [name[1] for name, entry in said.entries.items() if name[0] == "timeout" and entry.missing_is_infinite]
    missing = sorted(set(names) - present)
    if heading and missing and not present:
        yield heading, missing


def _insert(texts: Sequence[str], moved: dict[str, list[str]]) -> list[str]:
    """Insert lines after the headings of their sections."""
    inserted = []
    for text in texts:
        inserted.append(text)
        inserted += moved.get(" ".join(text.split()), [])
    return inserted
