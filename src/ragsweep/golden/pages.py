"""Read a document: the source of plain text and Markdown, or the visible text of reStructuredText, HTML and PDF."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ragsweep.core.errors import Faults
from ragsweep.golden.text_files import read_bytes, read_text

if TYPE_CHECKING:
    from bs4 import BeautifulSoup, Tag
    from bs4.element import PageElement


_BLOCKS = re.compile(
    r"^(?:address|article|aside|blockquote|center|details|dialog|div|d[dlt]|fieldset|figcaption|figure|footer|form"
    r"|h[1-6]|header|hgroup|hr|li|main|menu|nav|ol|p|pre|search|section|summary|table|t[dhr]|ul)$"
)
_WITHIN = re.compile(r"^(?:body|br|button|caption|head|html|legend|optgroup|option|select|text|textarea)$")
"""Elements whose text is separate from the surrounding text, but which do not end a paragraph."""

_HEADINGS = ["h1", "h2", "h3", "h4", "h5", "h6"]
_FALLBACKS = ("audio", "canvas", "iframe", "noscript", "rp", "video")  # text for a browser that lacks the feature
_UNSEEN = frozenset(["script", "style", "template", "datalist", *_FALLBACKS])
_UNSEEN_STYLE = re.compile(r"(?i)(^|;)\s*(display\s*:\s*none|visibility\s*:\s*hidden)\s*(!\s*important\s*)?(;|$)")
_ENDED_BY = {  # element with an optional end tag -> (elements that end it, the container within which they end it)
    **dict.fromkeys(["p"], (_BLOCKS, re.compile("^body$"))),
    **dict.fromkeys(["li"], (re.compile("^li$"), re.compile("^([ou]l|menu)$"))),
    **dict.fromkeys(["dt", "dd"], (re.compile("^d[dt]$"), re.compile("^dl$"))),
    **dict.fromkeys(["td", "th"], (re.compile("^t[dhr]$"), re.compile("^table$"))),
    **dict.fromkeys(["tr"], (re.compile("^tr$"), re.compile("^table$"))),
}
_TAG = re.compile(r"<(/?)([a-zA-Z][^\s/<>]*)[^<>]*>")
_VOID = frozenset(
    ["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr"]
)
_DEEPEST = 3_000  # nested elements; parsing time is quadratic in the depth
_FRONT_MATTER = re.compile(r"\A---\r?\n(.*?)^---\s*?$", re.DOTALL | re.MULTILINE)
_FRONT_LINE = re.compile(r"\w[\w.-]*(?: [\w.-]+){0,2}\s*:(?:\s|$)|-(?:\s|$)|[\s#}\]]|$")
_FRONT_TITLE = re.compile(r"""^title:[^\S\n]*["']?(.*?)["']?\s*$""", re.MULTILINE)
_LONGEST_FRONT = 1 << 16  # characters that are parsed as YAML, at about 0.1 MiB a second
_DOCUTILS = {
    "file_insertion_enabled": False,  # a page must not include other files
    "report_level": 5,
    "halt_level": 5,
    "warning_stream": False,
    "_disable_config": True,
}


class Page(NamedTuple):
    """The title and the text of a file; both may be empty.

    For a PDF file, ``starts`` lists the offsets at which its pages begin in the text; ``doubts`` describes any pages
    that may have been misread.
    """

    title: str
    text: str
    starts: tuple[int, ...] = ()
    doubts: str = ""


def read_page(path: Path, faults: Faults, way_out: str) -> Page:
    """Return the title and text of a file whose suffix is in ENDINGS.

    If the file cannot be read, add a fault and return an empty page. ``way_out`` is a remedy that the fault suggests
    for a damaged file, in addition to repairing it.
    """
    read, before = ENDINGS[path.suffix.lower()], len(faults.found)
    content = read_bytes(path, faults) if read is _pdf else read_text(path, faults, declares=read is _html)
    if len(faults.found) == before:
        try:
            return read(content)
        except Exception as error:  # any library may raise anything for a damaged file
            reason = f"{type(error).__name__}: {error}".rstrip(".")
            faults.add(str(path), f"cannot be read: {reason}; repair it, or {way_out}")
    return Page("", "")


def _plain(text: str) -> Page:
    return Page("", text)


def _html(text: str) -> Page:
    soup = _soup(text)
    titles = (title for title in soup("title") if not title.find_parent("svg"))  # in a drawing, a title is a tooltip
    heading = next((title.get_text(" ", strip=True) for title in titles), "") or _heading(soup)
    for title in soup("title"):
        title.decompose()
    for block in soup([_BLOCKS, _WITHIN]):  # each on its own lines
        block.insert_before("\n")
        block.insert_after("\n")
    return Page(heading, _spaced(soup.get_text()))  # a browser shows text outside the body, too


def _markdown(text: str) -> Page:
    """Return the title of a Markdown text and its source without the front matter.

    The text is not rendered, because chunkers cut it at its headings and code.
    """
    from markdown_it import MarkdownIt

    front = _FRONT_MATTER.match(text)
    title = _front_title(front[1]) if front else None
    body = text if front is None or title is None else text[front.end() :].lstrip("\r\n")
    return Page(title or _heading(_soup(MarkdownIt("commonmark").render(body))), body)


def _front_title(block: str) -> str | None:
    """Return the title in a block between two "---" lines, "" if it has none; None if the block is not front matter.

    Valid front matter is blank or a YAML mapping. In practice, it is often invalid YAML, for example because of an
    unquoted colon in a title. A block that cannot be parsed, or is very long, is therefore treated as front matter if
    its lines look like the lines of a mapping.
    """
    import yaml  # type: ignore[import-untyped]

    try:
        if len(block) > _LONGEST_FRONT:
            raise ValueError
        root = yaml.compose(block, yaml.SafeLoader)  # nodes are not expanded and keep the source of dates and numbers
    except Exception:  # besides YAMLError, errors of deep nesting and of escapes beyond Unicode
        lines = block.lstrip("\r\n").split("\n")
        if lines[0][:1].isalnum() and all(map(_FRONT_LINE.match, lines)):
            title = _FRONT_TITLE.search(block)
            return title[1] if title else ""
        return None
    if not isinstance(root, yaml.MappingNode):
        return None if block.strip() else ""
    titles = [value for key, value in root.value if isinstance(key, yaml.ScalarNode) and key.value == "title"]
    if titles and isinstance(titles[0], yaml.ScalarNode) and titles[0].tag != "tag:yaml.org,2002:null":
        return " ".join(titles[0].value.splitlines()).strip()
    return ""


def _soup(text: str) -> BeautifulSoup:
    from bs4 import BeautifulSoup

    _check_depth(text)
    soup = BeautifulSoup(text, "html.parser")
    for unseen in soup(_is_unseen):
        _end_where_omitted(unseen)
        unseen.decompose()
    return soup


def _is_unseen(tag: Tag) -> bool:
    """Return whether a browser hides an element because of its name or attributes; style sheets are not read."""
    if tag.name in {"html", "body"}:  # often hidden until a script runs
        return False
    is_hidden = str(tag.get("hidden", "until-found")).lower() != "until-found"
    is_closed = tag.name == "dialog" and not tag.has_attr("open")
    return tag.name in _UNSEEN or is_hidden or is_closed or bool(_UNSEEN_STYLE.search(str(tag.get("style", ""))))


def _end_where_omitted(tag: Tag) -> None:
    """Move content out of an element if html.parser nests it there only because the end tag is omitted."""
    if tag.name not in _ENDED_BY:
        return
    ends, container = _ENDED_BY[tag.name]
    outer, found = tag.find_parent(container), tag.find(ends)
    while found is not None and found.find_parent(container) is not outer:
        found = found.find_next(ends)
    if found is None or tag not in found.parents:
        return
    following: list[PageElement] = [found]
    node: PageElement | None = found
    while node is not None and node is not tag:
        following += node.next_siblings
        node = node.parent
    for one in reversed(following):
        tag.insert_after(one)


def _check_depth(text: str) -> None:
    """Raise ValueError for an HTML page whose elements are nested too deeply to parse in reasonable time."""
    opened: list[str] = []
    counts = Counter[str]()
    for tag in _TAG.finditer(text):
        name = tag[2].lower()
        if tag[1]:
            while counts[name]:
                last = opened.pop()
                counts[last] -= 1
                if last == name:
                    break
        elif name not in _VOID and not tag[0].endswith("/>"):
            opened.append(name)
            counts[name] += 1
            if len(opened) > _DEEPEST:
                raise ValueError(f"more than {_DEEPEST:,} nested elements (unclosed tags?)")


def _heading(soup: BeautifulSoup) -> str:
    heading = soup.find(_HEADINGS)
    return heading.get_text(" ", strip=True) if heading else ""


def _restructured(text: str) -> Page:
    from docutils import nodes
    from docutils.core import publish_doctree

    tree = publish_doctree(text, settings_overrides=_DOCUTILS)
    for message in list(tree.findall(nodes.system_message)):  # keep unknown markup as text
        message.parent.replace(message, [node for node in message if isinstance(node, nodes.literal_block)])
    for comment in list(tree.findall(nodes.comment)):
        comment.parent.remove(comment)
    titles = tree.findall(nodes.title)  # also the titles of tables of contents, admonitions and tables
    heading = next((title for title in titles if isinstance(title.parent, nodes.document | nodes.section)), None)
    return Page(heading.astext() if heading else "", _spaced(tree.astext()))


def _pdf(data: bytes) -> Page:
    from pypdfium2 import PdfDocument

    with PdfDocument(data) as document:
        title = document.get_metadata_value("Title")
        printed = [page.get_textpage().get_text_range() for page in document]
    if not any(page.strip() for page in printed):
        raise ValueError("contains no text (a scan needs OCR)")
    pages = [_spaced(page) for page in _uncut("\f".join(printed).replace("\r\n", "\n")).split("\f")]
    starts = tuple(accumulate((len(page) + 2 for page in pages[:-1]), initial=0))
    return Page(title, "\n\n".join(pages), starts, doubts(pages))


def _spaced(text: str) -> str:
    """Return ``text`` without white space at the ends of lines and without blank lines at its beginning and end.

    Each remaining run of blank lines becomes a single blank line.
    """
    lines = [line.rstrip() for line in text.split("\n")]
    return "\n".join(line for n, line in enumerate(lines) if line or (n and lines[n - 1])).strip("\n")


ENDINGS: Mapping[str, Callable[[Any], Page]] = {
    ".txt": _plain,
    ".text": _plain,
    ".md": _markdown,
    ".markdown": _markdown,
    ".rst": _restructured,
    ".html": _html,
    ".htm": _html,
    ".xhtml": _html,
    ".pdf": _pdf,
}
"""Suffix of a file -> the function that reads it."""


_CUT = "\ufffe"  # PDFium's replacement for a hyphen and line break at a line end
_CUT_WORD = re.compile(rf"(\w[\w-]*){_CUT}\n?(\w[\w-]*)")
_WORD = re.compile(r"\w[\w-]*")
_LONG_RUN = re.compile(r"(?:(?![\u0e00-\U0010ffff])[^\W\d_]){25,}")  # in a script that separates words by spaces
_GLUED_SHARE = 0.05  # share of letters in long runs: at most .02 in manuals, .05 to .9 on pages without spaces
_LISTED = 10


def _uncut(text: str) -> str:
    """Return ``text`` after joining the words that are hyphenated at a line end.

    PDFium does not distinguish a hyphen that belongs to a word from one at a line break. The hyphen is therefore kept
    if, in the rest of the text, the word occurs more often with a hyphen than without.
    """
    known = Counter(_WORD.findall(text))

    def whole(cut: re.Match[str]) -> str:
        joined, hyphenated = cut[1] + cut[2], f"{cut[1]}-{cut[2]}"
        return hyphenated if known[hyphenated] > known[joined] else joined

    return _CUT_WORD.sub(whole, text).replace(_CUT, "-")


def doubts(pages: Sequence[str]) -> str:
    """Describe the pages without text, and the pages with words that look joined; return "" if there are none."""
    empty = [number for number, page in enumerate(pages, start=1) if not page.strip()]
    shares = [sum(map(len, _LONG_RUN.findall(page))) / (sum(map(str.isalpha, page)) or 1) for page in pages]
    glued = [number for number, share in enumerate(shares, start=1) if share > _GLUED_SHARE]
    scanned = "without text (blank, or a scan that needs OCR)"
    kinds = {scanned: empty, "with words that look joined": glued}
    return "; ".join(f"{_numbered(numbers)} {fact}" for fact, numbers in kinds.items() if numbers)


def _numbered(numbers: Sequence[int]) -> str:
    more = f" and {len(numbers) - _LISTED:,} more" if len(numbers) > _LISTED else ""
    return f"page{'s' * (len(numbers) > 1)} {', '.join(map(str, numbers[:_LISTED]))}{more}"
