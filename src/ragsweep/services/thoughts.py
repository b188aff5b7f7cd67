"""Separate the thoughts of a reasoning model from its answer: only the answer is scored."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from typing import Any, NamedTuple

from ragsweep.core.errors import ConfigError

TAGS = ("think", "thinking", "reasoning")
"""Tags of DeepSeek-R1, Qwen3 and others, where the server does not separate the thoughts."""


class Separated(NamedTuple):
    """A reply in two parts; ``unclosed``: it ends within the thoughts, and there is no answer."""

    answer: str
    thoughts: str = ""
    unclosed: bool = False


def check_tags(tags: Any, where: str) -> None:
    """Raise ConfigError unless ``tags`` is None or a list of names of tags."""
    names = tags if isinstance(tags, list | tuple) else () if tags is None else (None,)
    if not all(isinstance(name, str) and re.fullmatch(r"[\w:-]+", name) for name in names):
        raise ConfigError(f"{where}.thoughts must be a list of names of tags, such as [think], or null, given {tags!r}")


def separate(text: str, tags: Sequence[str] | None, prompt: str = "") -> Separated:
    """Separate the answer, which is the text behind the last closed block, from the thoughts.

    A closing tag needs no opening one: a chat template may have opened the block at the end of ``prompt``. Tags within
    code stay, as does a reply that is JSON as a whole, and an opening tag within a line that no tag closes.
    """
    if not tags or _is_json(text):
        return Separated(text)
    tag, token = _patterns(tuple(tags))
    last = max((found.start() for found in tag.finditer(text) if found["close"]), default=-1)
    inside = any(not one["close"] and not prompt[one.end() :].strip() for one in tag.finditer(prompt))
    start = place = 0
    while (found := None if inside else _next_tag(text, place, tag, token)) or inside:
        at = found.start() if found else place
        if at <= last:
            start = place = next(one.end() for one in tag.finditer(text, at) if one["close"])
        elif inside or text[start:at].rstrip(" \t")[-1:] in ("", "\n"):
            return Separated("", tag.sub("", text).strip(), unclosed=True)
        elif found:
            place = found.end()
        inside = False
    return Separated(text[start:].strip() if start else text, tag.sub("", text[:start]).strip())


@cache
def _patterns(tags: tuple[str, ...]) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return what matches a tag, and what matches code or a tag."""
    tag = rf"<(?P<close>/)?(?:{'|'.join(map(re.escape, tags))})\s*>"
    code = r"(?P<code>```.*?(?:```|\Z)|`[^`\n]*`)"
    return re.compile(tag, re.IGNORECASE), re.compile(f"{code}|{tag}", re.IGNORECASE | re.DOTALL)


def _next_tag(text: str, place: int, tag: re.Pattern[str], token: re.Pattern[str]) -> re.Match[str] | None:
    """Find the first tag outside of code. A block of code that begins within thoughts ends with them."""
    for found in token.finditer(text, place):
        if not found["code"]:
            return found
        first = tag.search(text, found.start(), found.end()) if found["code"].startswith("```") else None
        if first and first["close"]:
            return first
    return None


def _is_json(text: str) -> bool:
    with suppress(ValueError, RecursionError):
        return isinstance(json.loads(text), dict | list)
    return False
