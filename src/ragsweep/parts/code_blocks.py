"""Fenced blocks in a text, as Markdown writes code."""

from __future__ import annotations

import re

_BLOCK = re.compile(r"^(`{3,})[ \t]*([\w+.-]*)[^\n`]*\n(.*?)^\1`*[ \t]*$", re.MULTILINE | re.DOTALL)


def code_blocks(text: str) -> list[tuple[str, str]]:
    """List the fenced blocks of a text: the word after the opening fence, and the content."""
    return [(match[2], match[3]) for match in _BLOCK.finditer(text)]
