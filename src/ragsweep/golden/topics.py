"""Read TREC topics in the classic format (``<top> <num> ...``, often unclosed) or XML (``<topic number="...">``)."""

import re
from collections.abc import Iterator, Mapping
from html import escape, unescape
from pathlib import Path
from typing import NamedTuple

from ragsweep.core.errors import Faults
from ragsweep.golden.text_files import read_lines

FIELDS: Mapping[str, tuple[str, ...]] = {
    "title": ("title", "query"),
    "description": ("desc", "description", "question"),
    "narrative": ("narr", "narrative"),
}
"""Part of a topic -> the tags that contain it, with the tag of the classic format first."""
_NUMBER = ("num", "number")
_TAG = re.compile(r"(</?[A-Za-z][\w-]*(?:\s[^<>]*)?>)")
_UNREAD = re.compile(
    r"<[?!][^>]*>|</?(?:a|abbr|b|cite|code|em|i|q|s|small|span|strong|sub|sup|tt|u)(?:\s[^<>]*)?/?>", re.I
)
"""Pattern of declarations, comments, and tags that format words within a field."""
_LITERAL = re.compile(r"<!\[CDATA\[(.*?)\]\]>")
_ATTRIBUTE = re.compile(r"""\s(?:number|num|id)\s*=\s*["']?([^"'\s>]+)""")
_HEADING = re.compile(r"\A\s*(?:number|topic|description|narrative)\s*:", re.IGNORECASE)


class Topic(NamedTuple):
    """A topic: its location in a file (``where``), and ``texts``, a mapping of its tags to the texts after each tag."""

    where: str
    texts: dict[str, list[str]]

    def text(self, field: str) -> str:
        """Return the part of the topic named by ``field``, a key of FIELDS; "" if the topic lacks it.

        For any other ``field``, return the number of the topic.
        """
        found = (" ".join(self.texts.get(tag, [])) for tag in FIELDS.get(field, _NUMBER))
        return next(filter(None, (" ".join(_HEADING.sub("", text).split()) for text in found)), "")


def has_topics(path: Path, faults: Faults) -> bool:
    """Return whether a file has topics: its first non-blank line begins with ``<``. An unreadable file has none."""
    return next((line for _, line in read_lines(path, faults.apart())), "").lstrip().startswith("<")


def read_topics(path: Path, faults: Faults) -> Iterator[Topic]:
    """Yield the topics in a file; text outside topics, and a topic without an end tag, are faults."""
    topic, tag, is_xml = None, "", False
    for where, line in read_lines(path, faults):
        plain = _UNREAD.sub("", _LITERAL.sub(lambda literal: escape(literal[1], quote=False), line))
        for part in filter(str.strip, _TAG.split(plain)):
            name = part.strip("</>").split()[0].lower() if _TAG.fullmatch(part) else None
            if name in ("top", "topic"):
                if topic and not part.startswith("</"):
                    fact = f"a topic begins before the topic in {topic.where} ends"
                    faults.add(where, f"{fact}; close the earlier one with </{'topic' if is_xml else 'top'}>")
                if topic:
                    yield topic
                number = _ATTRIBUTE.search(part)
                begun = Topic(where, {"num": [number[1]]} if number else {})
                topic, is_xml = None if part.startswith("</") else begun, name == "topic"
                tag = "title" if is_xml else ""
            elif topic is None:
                if name is None:
                    faults.add(where, f'"{part.strip()[:40]}" is outside a topic; remove it')
            elif name is not None:
                tag = "" if part.startswith("</") else name
            elif tag:
                topic.texts.setdefault(tag, []).append(unescape(part) if is_xml else part)
    if topic:
        faults.add(topic.where, f"the topic has no end; close it with </{'topic' if is_xml else 'top'}>")
        yield topic
