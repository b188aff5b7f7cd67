"""Assemble the document of a sweep, its style and its scripts into one self-contained HTML file."""

from __future__ import annotations

import html
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from ragsweep.report.tables import to_json

_ESCAPES = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"})
"""Characters in JSON that could end a script element, or a line of a script."""


def write_page(document: Mapping[str, Any]) -> bytes:
    """Write the page of a document (``build_document``) as HTML in UTF-8."""
    from plotly.offline import get_plotlyjs

    parts = {
        "title": html.escape(document["title"]),
        "style": _template("page.css"),
        "data": to_json(document, indent=None).translate(_ESCAPES),
        "script": _template("page.js"),
        "plotly": get_plotlyjs(),
    }
    before, *rest = _template("page.html").split("{{")
    pieces = [before]
    for piece in rest:  # one pass: data that looks like a placeholder is not replaced
        name, _, after = piece.partition("}}")
        pieces += [parts[name], after]
    return "".join(pieces).encode("utf-8", "replace")


def _template(name: str) -> str:
    return (files("ragsweep.report.page") / name).read_text(encoding="utf-8")
