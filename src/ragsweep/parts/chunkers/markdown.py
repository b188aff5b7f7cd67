"""Cut Markdown documents into sections."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby, pairwise
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from ragsweep.core.spans import Piece, cut, encodable, last_pause, merge_neighbours
from ragsweep.core.types import Corpus, PartTraits, Spans
from ragsweep.parts.libraries import UsesLibraries
from ragsweep.parts.limits import check_at_least

if TYPE_CHECKING:
    from markdown_it.token import Token

LINE_END = re.compile(r"\r\n?|\n")
CODE = frozenset({"fence", "code_block"})


class Block(NamedTuple):
    """A block, such as a heading, paragraph or list; its span, in characters, ends where the next block starts."""

    start: int
    end: int
    level: int  # the level of a heading, 1 to 6; 0 for other blocks


@dataclass(eq=False)
class Markdown(UsesLibraries):
    """A chunker that cuts documents at CommonMark headings into chunks of at most ``size`` characters.

    A section that fits into ``size`` stays whole, including its subsections; a longer section is cut into its
    subsections. Neighbouring small subsections of one section are joined as long as they fit into ``size`` together. A
    long section without subsections is cut at the last start of a paragraph or list in the second half of the next
    ``size`` characters; if none starts there, it is cut after a line, sentence or word (see ``last_pause``). Code
    blocks are never cut, so a chunk with a long code block may exceed ``size``. The headings above a section are not
    repeated in its chunks.
    """

    TRAITS: ClassVar[PartTraits] = PartTraits(version="1")
    LIBRARIES = ("markdown-it-py",)

    size: int = 800

    def __post_init__(self) -> None:
        check_at_least("chunker", 1, size=self.size)

    def split(self, corpus: Corpus) -> Spans:
        """Return the spans of all chunks; blank chunks are omitted, but a blank document is one chunk."""
        from markdown_it import MarkdownIt

        # The cuts depend only on blocks, so the content of paragraphs is not parsed.
        parse = MarkdownIt("commonmark").disable("inline").parse
        return cut(corpus, lambda text: self._sections(text, *_blocks(text, parse(encodable(text)))))

    def _sections(self, text: str, blocks: Sequence[Block], code: Sequence[Piece]) -> list[Piece]:
        """Cut a section, given as its ``blocks``, into pieces; ``code`` lists the spans of the document's code blocks.

        If the section fits into ``size``, it is one piece. Otherwise it is cut at its headings of the highest level,
        except at headings at its start. Neighbouring subsections that stay whole are joined while they fit into
        ``size``. A section that has no heading after its start is cut by ``_divide``.
        """
        whole = (blocks[0].start, blocks[-1].end)
        if whole[1] - whole[0] <= self.size:
            return [whole]
        first = next((n for n, block in enumerate(blocks) if not block.level), len(blocks))
        highest = min((block.level for block in blocks[first:] if block.level), default=0)
        if not highest:
            return list(self._divide(text, blocks, code))
        begins = [0, *(n for n, block in enumerate(blocks) if n > first and block.level == highest), len(blocks)]
        sections = [self._sections(text, blocks[low:high], code) for low, high in pairwise(begins)]
        pieces: list[Piece] = []
        for whole_ones, neighbours in groupby(sections, key=lambda section: len(section) == 1):
            run = list(chain.from_iterable(neighbours))
            pieces += merge_neighbours(run, self.size) if whole_ones else run
        return pieces

    def _divide(self, text: str, blocks: Sequence[Block], code: Sequence[Piece]) -> Iterator[Piece]:
        """Yield pieces of at most ``size`` characters, cut at the start of a block or otherwise at a pause.

        Code blocks are not cut; a piece that contains a long code block may therefore exceed ``size``.
        """
        start, end = blocks[0].start, blocks[-1].end
        while end - start > self.size:
            begins = [block.start for block in blocks if self.size // 2 < block.start - start <= self.size]
            stop = begins[-1] if begins else last_pause(text, start, start + self.size)
            for begin, behind in code:
                if begin < stop < behind:
                    stop = begin if begin > start else behind
            yield start, stop
            start = stop
        if start < end:
            yield start, end


def _blocks(text: str, tokens: Sequence[Token]) -> tuple[list[Block], list[Piece]]:
    """Return the top-level blocks, which cover the whole text, and the spans of the code blocks at any depth."""
    lines = [0, *(match.end() for match in LINE_END.finditer(text)), len(text)]
    placed = [(token, lines[token.map[0]], lines[token.map[1]]) for token in tokens if token.map]
    code = [(start, end) for token, start, end in placed if token.type in CODE]
    outer = [(token, start) for token, start, _ in placed if token.level == 0]
    starts = [0, *(start for _, start in outer[1:])]
    levels = [int(token.tag[1]) if token.type == "heading_open" else 0 for token, _ in outer] or [0]
    return [Block(*row) for row in zip(starts, [*starts[1:], len(text)], levels, strict=True)], code
