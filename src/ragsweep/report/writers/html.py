"""Conversion of a document to a self-contained HTML file, which contains the data, the style and the scripts."""

import base64
import gzip
import html
import math
import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from itertools import groupby
from string import Template
from typing import Any

from ragsweep.core.secrets import Secrets
from ragsweep.core.user_cache import cached
from ragsweep.report.document import Block, Charts, Document, Statements, Table, Widget, texts
from ragsweep.report.numbers import NOT_MEASURED, chance
from ragsweep.report.tables import to_json

_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
"""Character that could end a script element, or a line of a script -> its escape in JSON."""
_AMOUNT = re.compile(r"^(?:x |p )?(< )?([+-]?[\d,]*\.?\d+(?:e[+-]?\d+)?)(?![\w.]|-\d\d-|-W)")
"""Matches an amount, a ratio or a p-value, but neither a date nor a week, which are sorted by their text."""

Item = dict[str, Any]


def as_html(document: Document, secrets: Secrets) -> bytes:
    """Return a document as an HTML page in UTF-8, with secrets masked."""
    return write_page(page_data(document, secrets))


def page_data(document: Document, secrets: Secrets) -> dict[str, Any]:
    """Return the data that a page's script displays, with secrets masked; sections without content are omitted."""
    sections = [
        {"id": section.key, "title": section.title, "items": [item for one in section.blocks for item in _items(one)]}
        for section in document.sections
    ]
    kept = [one for one in sections if one["items"]]
    masked: dict[str, Any] = secrets.mask_tree({**document.facts, "title": document.title, "sections": kept})
    return masked


def _items(block: Block) -> Iterator[Item]:
    if isinstance(block, Widget):
        yield dict(block.item)
    elif isinstance(block, Charts):
        yield {"kind": "charts", "title": block.title, "note": block.note, "options": list(block.options)}
    elif isinstance(block, Table):
        yield _table(block)
    elif block.items:
        yield _statements(block)


def _table(table: Table) -> Item:
    item: Item = {
        "kind": "table",
        "title": table.title,
        "note": table.note,
        "header": [name.removeprefix(">") for name in table.header],
        "right": [name.startswith(">") for name in table.header],
        "rows": [[*row] for row in table.rows],
        "keys": [[_sort_key(text) for text in row] for row in table.rows],
    }
    if table.values:
        for values, keys in zip(table.values, item["keys"], strict=True):
            keys[:] = [key if value is None else value for value, key in zip(values, keys, strict=True)]
    return {**item, "marked": list(table.marked)} if table.marked else item


def _sort_key(text: str) -> float | str | None:
    """Return the sort key of a cell: its leading number, else its case-folded text; None if there is no value.

    A p-value below a bound has the key 0, so that it sorts before any other p-value.
    """
    if amount := _AMOUNT.match(text):
        return 0.0 if amount[1] else float(amount[2].replace(",", ""))
    return None if text in ("", NOT_MEASURED, chance(math.nan)) else text.casefold()


def _statements(block: Statements) -> Item:
    if block.style == "paragraphs":
        groups = groupby(block.items, lambda one: one.label)
        return {
            "kind": "blocks",
            "rows": [(label.capitalize(), list(dict.fromkeys(texts(items)))) for label, items in groups],
        }
    if block.style == "notes" and not block.title and not any(one.label for one in block.items):
        return {"kind": "text", "text": " ".join(texts(block.items))}
    kind = block.style if block.style in ("commands", "definitions") else "facts"
    item: Item = {"kind": kind, "rows": [(one.label, one.text) for one in block.items]}
    return {**item, "title": block.title} if block.title else item


def write_page(document: Mapping[str, Any]) -> bytes:
    """Return the HTML page, in UTF-8, for the data from :func:`page_data`."""
    data = to_json(document, indent=None)
    for character, escape in _ESCAPES.items():
        data = data.replace(character, escape)  # ten times as fast as str.translate
    parts = {
        "title": html.escape(document["title"]),
        "style": _file("page.css"),
        "data": data,
        "script": _file("page.js"),
        "plotly": _chart_library(),
    }
    return Template(_file("page.html")).substitute(parts).encode("utf-8", "replace")


@cache
def _chart_library() -> str:
    """Return the chart library, gzipped and encoded in base64 (2 instead of 5 MB); the page unpacks it."""

    def compress() -> bytes:
        from plotly.offline import get_plotlyjs

        return base64.b64encode(gzip.compress(get_plotlyjs().encode(), compresslevel=4, mtime=0))

    return cached(f"plotly-{version('plotly')}.b64", compress).decode("ascii")  # plotly takes 50 ms to import


def _file(name: str) -> str:
    return (files("ragsweep.report.page") / name).read_text(encoding="utf-8")
