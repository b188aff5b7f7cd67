"""Outputs that are texts: the whole answer, or a fenced block in it."""

import re
from dataclasses import dataclass
from typing import ClassVar

from ragsweep.core.types import PartTraits

_BLOCK = re.compile(r"^(`{3,})[ \t]*([\w+.-]*)[^\n`]*\n(.*?)^\1`*[ \t]*$", re.MULTILINE | re.DOTALL)


def code_blocks(text: str) -> list[tuple[str, str]]:
    """List the fenced blocks of a text as pairs of the word after the opening fence (may be empty) and the content."""
    return [(match[2], match[3]) for match in _BLOCK.finditer(text)]


@dataclass(eq=False)
class WholeText:
    """Read the whole text of an answer."""

    TRAITS: ClassVar[PartTraits] = PartTraits(version="1")

    def read(self, text: str) -> str:
        """Return the text; raises ValueError for a blank one."""
        if not text.strip():
            raise ValueError("blank")
        return text


@dataclass(eq=False)
class FencedBlock:
    """Read the last block fenced by three or more backticks in an answer.

    If ``language`` is set, only blocks marked with it count.
    """

    TRAITS: ClassVar[PartTraits] = PartTraits(version="1")

    language: str | None = None

    def read(self, text: str) -> str:
        """Return the block's content; raises ValueError if there is none."""
        blocks = [block for language, block in code_blocks(text) if self.language in (None, language)]
        if not blocks:
            raise ValueError(f"no fenced block of {self.language}" if self.language else "no fenced block")
        return blocks[-1]
