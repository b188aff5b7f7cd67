"""Outputs that are texts: the whole answer, or a fenced block in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ragsweep.core.types import PartTraits
from ragsweep.parts.code_blocks import code_blocks


@dataclass(eq=False)
class WholeText:
    """Take the whole text of an answer."""

    TRAITS: ClassVar[PartTraits] = PartTraits(version="1")

    def read(self, text: str) -> str:
        """Return the text; raises ValueError for a blank one."""
        if not text.strip():
            raise ValueError("blank")
        return text


@dataclass(eq=False)
class FencedBlock:
    """Take the last block of an answer between two fences (three backticks or more).

    Args:
        language: Only blocks with this word after the opening fence; None: any.
    """

    TRAITS: ClassVar[PartTraits] = PartTraits(version="1")

    language: str | None = None

    def read(self, text: str) -> str:
        """Return the block's content; raises ValueError if there is none."""
        blocks = [block for language, block in code_blocks(text) if self.language in (None, language)]
        if not blocks:
            raise ValueError(f"no fenced block of {self.language}" if self.language else "no fenced block")
        return blocks[-1]
