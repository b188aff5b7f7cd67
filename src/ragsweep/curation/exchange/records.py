"""Read the records of a file as they are: a table, JSON lines, or JSON."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ragsweep.core.errors import Faults
from ragsweep.golden.reading import Row, read_object, read_rows
from ragsweep.golden.tables import Columns, is_table, read_table

_WRAPPERS = ("data", "records", "samples", "examples", "questions", "rows", "items")


def read_records(path: Path, faults: Faults) -> list[Row]:
    """Read all records; those of a JSON object are its one list. Errors are added to the faults."""
    if is_table(path):
        return list(read_table(path, Columns("", {}, (), ()), faults))
    of_lines = Faults()
    rows = list(read_rows(path, of_lines))
    if of_lines.found and (root := read_object(path, Faults())):
        rows = [root]
    else:
        faults.found += of_lines.found
    if len(rows) == 1:
        lists = [name for name in _WRAPPERS if isinstance(rows[0].values.get(name), list)]
        rows = rows[0].parts(lists[0]) if lists else rows
    return rows


def decoded(value: Any) -> Any:
    """Decode a text that is a JSON or Python list or object, as tables have them in their cells."""
    if not isinstance(value, str) or not value.lstrip().startswith(("[", "{")):
        return value
    for decode in (json.loads, ast.literal_eval):
        try:
            return decode(value)
        except (ValueError, SyntaxError, RecursionError):
            continue
    return value


def is_filled(value: Any) -> bool:
    """Return whether a field has content."""
    return value is not None and value not in ("", [], {})


def as_mapping(value: Any) -> Mapping[str, Any]:
    """Return an object, empty where there is none."""
    found = decoded(value)
    return found if isinstance(found, dict) else {}


def as_texts(value: Any) -> list[str]:
    """Return the texts of a list, or of a text with commas or semicolons between them."""
    found = decoded(value)
    if isinstance(found, str):
        found = found.split(";" if ";" in found else ",")
    return [str(one).strip() for one in (found if isinstance(found, list) else [found]) if str(one).strip()]


def as_passages(value: Any) -> list[tuple[str, str | None]]:
    """Return the texts of a list, each with the id of its document where it has one."""
    found = decoded(value)
    items = found if isinstance(found, list) else [found]
    passages: list[tuple[str, str | None]] = []
    for item in items:
        given = item if isinstance(item, dict) else {"text": item}
        text = next((given[name] for name in ("content", "text", "page_content") if is_filled(given.get(name))), "")
        document = next((given[name] for name in ("doc_uri", "document", "id") if is_filled(given.get(name))), None)
        passages.append((str(text), None if document is None else str(document)))
    return passages
