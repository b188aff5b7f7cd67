"""Separate the thoughts of a reasoning model from its answer: only the answer is scored."""

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, NamedTuple

from ragsweep.core.errors import ConfigError
from ragsweep.core.escaping import well_formed

TAGS = ("think", "thinking", "reasoning")
"""Names of the tags in which DeepSeek-R1, Qwen3 and other models write thoughts, unless the server separates them."""

_CHANNEL = r"(?:<\|end\|>)?(?:(?:<\|start\|>)?assistant)?<\|channel\|>"
_MESSAGE = r"\b(?:[^<]|<\|constrain\|>)*<\|message\|>"
OPENING = rf"<\|begin_of_thought\|>|{_CHANNEL}(?:analysis|commentary){_MESSAGE}"
CLOSING = rf"<\|end_of_thought\|>(?:\s*<\|begin_of_solution\|>)?|{_CHANNEL}final{_MESSAGE}"
"""Patterns of the special tokens that act as opening and closing tags.

OpenThinker and Sky-T1 write such tokens, and gpt-oss marks its channels with them (Harmony format).
"""

_END = re.compile(r"\s*<\|(?:end_of_solution|return|end)\|>\s*\Z")

THINKING_PARTS, TEXT_PARTS = ("thinking", "reasoning", "redacted_thinking"), ("text", "output_text")


class Separated(NamedTuple):
    """A reply separated into answer and thoughts; ``unclosed`` is true if the reply ends within thoughts."""

    answer: str
    thoughts: str = ""
    unclosed: bool = False


def check_tags(tags: Any, where: str) -> None:
    """Raise ConfigError unless ``tags`` is None or a list of names of tags; ``where`` is the part's config key."""
    names = tags if isinstance(tags, list | tuple) else () if tags is None else (None,)
    if not all(isinstance(name, str) and re.fullmatch(r"[\w:-]+", name) for name in names):
        raise ConfigError(f"{where}.thoughts must be a list of tag names, such as [think], or null, got {tags!r}")


def separate(text: str, tags: Sequence[str] | None, prompt: str = "") -> Separated:
    """Separate a reply into thoughts and the answer, which is the text after the last closing tag.

    If ``tags`` is None or empty, or if the reply has no tags, the whole reply is the answer. If the reply ends within
    the thoughts, the result is ``unclosed`` and has no answer. A closing tag needs no opening tag in the reply, because
    a chat template may write the opening tag at the end of ``prompt``. A reply to such a prompt has no answer unless it
    has a closing tag.

    Three kinds of tags are treated as plain text: tags in code, tags in a reply that is entirely JSON, and an opening
    tag within a line if no tag closes it. Names in capitals may be in brackets (Mistral's ``[THINK]``); OPENING and
    CLOSING match other kinds of tags.
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
    return Separated(_END.sub("", text[start:]).strip() if start else text, tag.sub("", text[:start]).strip())


def read_content(content: Any) -> Separated:
    """Return the answer and the thoughts in the content of a chat message: None, a string, or a list of parts.

    Parts of the types in THINKING_PARTS are thoughts. Lone surrogates are replaced (see ``well_formed``). Raises
    ValueError for any other content, and for a part of an unknown type or without text.
    """
    if content is None or isinstance(content, str):
        return Separated(well_formed(content or ""))
    if not isinstance(content, list):
        raise ValueError(f"the content is {content!r:.60}, which is neither text nor a list of parts")
    texts: dict[bool, list[str]] = {True: [], False: []}
    for part in content:
        kind = part.get("type") if isinstance(part, dict) else None
        if kind not in (*THINKING_PARTS, *TEXT_PARTS):
            known = ", ".join((*TEXT_PARTS, *THINKING_PARTS))
            raise ValueError(f"a part of the content is {part!r:.60}, not of a known type ({known})")
        texts[kind in THINKING_PARTS].append(_text_of(part, kind))
    return Separated(well_formed("".join(texts[False])), well_formed("".join(texts[True])))


def _text_of(part: Mapping[str, Any], kind: str) -> str:
    """Return the text of a part: the field named after its type, or ``text``, or ``summary``.

    Return "" for encrypted thoughts. Raises ValueError for any other part without text.
    """
    if kind == "redacted_thinking":  # encrypted
        return ""
    given = next((part[name] for name in (kind, "text", "summary") if part.get(name) is not None), None)
    pieces = given if isinstance(given, list) else [given]
    texts = [piece.get("text") if isinstance(piece, dict) else piece for piece in pieces]
    known = [text for text in texts if isinstance(text, str)]
    if len(known) < len(texts):
        raise ValueError(f"a part of the content has no text: {part!r:.60}")
    return "".join(known)


def is_tag(token: str, tags: Sequence[str] | None) -> bool:
    """Return whether a special token, which decoding would otherwise drop, is a tag of thoughts or part of one."""
    tokens = ("<|channel|>", "<|constrain|>", "<|message|>")
    return bool(tags) and (token in tokens or _patterns(tuple(tags or ()))[0].fullmatch(token) is not None)


@cache
def _patterns(tags: tuple[str, ...]) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return two patterns: the first matches a tag, and the second matches code or a tag."""
    name = "|".join(map(re.escape, tags))
    opening = rf"<(?i:{name})\s*>|\[(?:{name.upper()})\]|{OPENING}"
    closing = rf"</(?i:{name})\s*>|\[/(?:{name.upper()})\]|{CLOSING}"
    tag, code = rf"(?P<close>{closing})|{opening}", r"(?P<code>```.*?(?:```|\Z)|`[^`\n]*`)"
    return re.compile(tag), re.compile(f"{code}|{tag}", re.DOTALL)


def _next_tag(text: str, place: int, tag: re.Pattern[str], token: re.Pattern[str]) -> re.Match[str] | None:
    """Return the first tag outside code from ``place`` on, or None.

    In a fenced code block, a tag counts only if it is the first in the block and closes the thoughts.
    """
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
