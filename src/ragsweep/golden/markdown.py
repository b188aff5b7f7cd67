"""Find the visible words and the sections of a Markdown document, with their positions in the source."""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from itertools import accumulate
from typing import Any, NamedTuple

from ragsweep.core.words import words as words_of

_LINE_END = re.compile(r"\r\n?|\n")
_WORD = re.compile(r"\S+")
_TAG = re.compile(r"</?[a-zA-Z][^<>]*>")
_LINK_TAIL = re.compile(r"\]\((?:[^()\\]|\\.|\([^()]*\))*\)|\]\[[^\]]*\]|\]", re.DOTALL)
_HARD_LIMIT = 1 << 20  # characters; a longer text is not parsed, because its tokens could exhaust the memory


class Piece(NamedTuple):
    """A piece of a derived text, and its span in the source: from ``start`` to ``end``, exclusive."""

    text: str
    start: int
    end: int


class Derived(NamedTuple):
    """A text derived from a source, with the start of each piece in the text and the span of the piece in the source.

    If a piece is as long as its span, their characters correspond one to one; otherwise, the piece corresponds to the
    span only as a whole.
    """

    text: str
    begins: list[int]
    spans: list[tuple[int, int]]

    def source(self, start: int, end: int) -> tuple[int, int]:
        """Return the span in the source that corresponds to a non-empty span of the derived text."""
        return self._place(start)[0], self._place(end - 1)[1]

    def _place(self, position: int) -> tuple[int, int]:
        n = bisect_right(self.begins, position) - 1
        begin, (start, end) = self.begins[n], self.spans[n]
        following = self.begins[n + 1] if n + 1 < len(self.begins) else len(self.text)
        if following - begin != end - start:
            return start, end
        return start + position - begin, start + position - begin + 1


def derive(pieces: Iterable[Piece]) -> Derived:
    """Return the text that consists of ``pieces``, which must be in the order of the source; empty ones are omitted."""
    kept = [piece for piece in pieces if piece.text]
    begins = list(accumulate((len(piece.text) for piece in kept), initial=0))[: len(kept)]
    return Derived("".join(piece.text for piece in kept), begins, [(piece.start, piece.end) for piece in kept])


@lru_cache(maxsize=128)
def render(source: str) -> Derived:
    """Return the visible words of a Markdown text (CommonMark, tables, strikethrough), without markup.

    The white space between words may differ from the rendered page. A text of more than 2**20 characters is returned
    unchanged. The results for the latest 128 texts are cached.
    """
    if len(source) > _HARD_LIMIT:
        return derive([Piece(source, 0, len(source))])
    lines = [0, *(match.end() for match in _LINE_END.finditer(source)), len(source)]
    reader = _Reader(source)
    return derive(piece for token in _parser().parse(source) for piece in reader.block(token, lines))


@cache
def _parser() -> Any:
    from markdown_it import MarkdownIt

    # Escapes and entities stay separate tokens, with their source text.
    return MarkdownIt("commonmark").enable(["table", "strikethrough"]).disable("text_join")


class _Reader:
    """A reader that finds the words of tokens in the source, in order, because inline tokens have no positions."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._at = 0

    def block(self, token: Any, lines: list[int]) -> Iterator[Piece]:
        """Yield the words of a block and a line feed; yield nothing for a block that contains other blocks.

        ``lines`` are the offsets of the lines of the source.
        """
        if token.map and not token.children and not token.content:
            return
        if token.map:
            self._at = max(self._at, lines[token.map[0] + (token.type == "fence")])
        if token.type == "inline":
            for child in token.children or ():
                yield from self._inline(child)
        elif token.type in {"fence", "code_block"}:
            yield from self._words(token.content)
        elif token.type == "html_block":
            yield from self._words(_TAG.sub(" ", token.content))
        else:
            return
        yield Piece("\n", self._at, self._at)

    def _inline(self, token: Any) -> Iterator[Piece]:
        if token.type == "text":
            yield from self._words(token.content)
        elif token.type == "code_inline":
            yield from self._words(token.content)
            self._skip(token.markup)
        elif token.type == "text_special":
            start = self._find(token.markup)
            yield Piece(token.content, start, self._at)
        elif token.type in {"softbreak", "hardbreak"}:
            yield Piece("\n", self._at, self._at)
        elif token.type in {"html_inline", "image"}:
            self._find(token.content)
            if token.type == "image":
                self._leave_link()
        elif token.type == "link_close" and not token.markup:
            self._leave_link()
        elif token.markup and token.nesting == -1:
            self._skip(">" if token.markup == "autolink" else token.markup)

    def _words(self, content: str) -> Iterator[Piece]:
        """Yield the words of ``content``, and one space for each run of white space before, between and after them."""
        end = 0
        for word in _WORD.finditer(content):
            if word.start() > end:
                yield Piece(" ", self._at, self._at)
            start, end = self._find(word[0]), word.end()
            yield Piece(word[0], start, self._at)
        if len(content) > end:
            yield Piece(" ", self._at, self._at)

    def _find(self, text: str) -> int:
        """Advance past the next occurrence of ``text`` and return its start.

        If it does not occur, return the current position without advancing.
        """
        start = self._source.find(text, self._at)
        if start < 0:
            return self._at
        self._at = start + len(text)
        return start

    def _skip(self, markup: str) -> None:
        if markup and self._source.startswith(markup, self._at):
            self._at += len(markup)

    def _leave_link(self) -> None:
        tail = _LINK_TAIL.search(self._source, self._at)
        self._at = tail.end() if tail else self._at


_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})")
_MARKED = re.compile(r"^ {0,3}(#{1,6})[ \t]+(.*?)[ \t]*#*[ \t]*$")
_UNDERLINE = re.compile(r"^([!-/:-@\[-`{-~])\1{2,}[ \t]*$")


class Heading(NamedTuple):
    """A heading: the offset of its line, its level, from 1 (the highest), and its text."""

    start: int
    level: int
    text: str


def section(text: str, name: str) -> tuple[int, int] | None:
    """Return the span of the section ``name``: from its heading to the next heading of the same or a higher level.

    Headings are compared by their words, ignoring case and punctuation. If no heading matches, the section begins at
    the first line that consists of the words of ``name``; it ends before the next heading. Returns None if no line
    matches either.
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
    """Return the words of ``text``, case-folded and without punctuation."""
    return words_of(text.casefold())


def headings(text: str) -> Iterator[Heading]:
    """Yield the headings of ``text`` outside fenced code: lines that begin with ``#``, and underlined lines.

    The level of an underlined heading is the number of its underline character: these characters are numbered from 1,
    in the order of their first use.
    """
    signs: list[str] = []
    fence = before = ""
    began = 0
    for start, line in _lines(text):
        marker = _FENCE.match(line)
        if marker and (not fence or marker[1].startswith(fence)):
            fence = "" if fence else marker[1]
        elif not fence and (marked := _MARKED.match(line)):
            yield Heading(start, len(marked[1]), marked[2])
            line = ""  # a line below it, such as ---, does not make it a second, underlined heading
        elif not fence and (under := _UNDERLINE.match(line)) and words(before):
            signs += [under[1]] if under[1] not in signs else []
            yield Heading(began, signs.index(under[1]) + 1, before)
        before, began = line, start


def _lines(text: str) -> Iterator[tuple[int, str]]:
    start = 0
    for line in text.splitlines(keepends=True):
        yield start, line.rstrip("\r\n")
        start += len(line)
