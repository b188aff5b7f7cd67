"""Read the documents of a corpus: JSON lines, in our own format or that of BEIR, or a table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ragsweep.errors import Faults
from ragsweep.reading import Row, Seen, read_rows
from ragsweep.tables import Columns, is_table, read_table
from ragsweep.types import Corpus

DOCUMENT_KEYS = ("id", "title", "text", "version", "metadata")
DOCUMENT_COLUMNS = ("id", "title", "text", "version")


def read_corpus(path: Path, faults: Faults, columns: Columns | None = None) -> Corpus:
    """Read a corpus; whatever is wrong with it is added to the faults.

    Args:
        path: A file of JSON lines: our own format, or, where its first line has an ``_id``, that of BEIR, whose other
            keys are not read. With ``columns`` it may be a table, too.
        faults: Where faults are collected.
        columns: Which column of a table holds what.
    """
    seen, before = Seen("document"), len(faults.found)
    ids, titles, texts, version = [], [], [], None
    table = columns is not None and is_table(path)
    for key, row in _table_rows(path, columns, faults) if columns and table else _json_rows(path, faults):
        ids.append(row.identifier(key))
        titles.append(row.text("title"))
        texts.append(row.text("text") if table else row.given_text("text"))
        seen.note(ids[-1], row)
        stated = row.text("version") if key == "id" else ""
        version = stated if version is None else version
        if stated != version:
            row.fault(f'version "{stated}" differs from "{version}" of the lines before; a corpus has one version')
    if not ids and len(faults.found) == before:
        faults.add(str(path), "holds no document")
    return Corpus(ids, titles, texts, version or "")


def _json_rows(path: Path, faults: Faults) -> Iterator[tuple[str, Row]]:
    """Yield every line with the name of the key that holds its id: all lines are in the format of the first."""
    key = ""
    for row in read_rows(path, faults):
        key = key or ("_id" if "_id" in row else "id")
        if key == "id":
            row.check_keys(DOCUMENT_KEYS)
        yield key, row


def _table_rows(path: Path, columns: Columns, faults: Faults) -> Iterator[tuple[str, Row]]:
    for row in read_table(path, columns, faults):
        yield "id", row
