"""Read tables: CSV and TSV with a header, and JSON lines."""

import csv
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from ragsweep.core.errors import ConfigError, Faults, nearest
from ragsweep.core.escaping import original_cell
from ragsweep.core.plurals import counted
from ragsweep.golden.reading import Row, read_rows
from ragsweep.golden.text_files import LONGEST_LINE, read_raw_lines

_JSON_LINES = (".jsonl", ".ndjson", ".json")
_ENDINGS = {".csv", ".tsv", ".tab"}
_DELIMITERS = {",": "a comma", ";": "a semicolon", "\t": "a tab"}
_SEPARATOR = re.compile("sep=.?")  # first line of a table for Excel
_CARRIAGE = re.compile(r"(?<=\r)(?!\n)")  # the line end of Excel's format "CSV (Macintosh)"


class Columns:
    """A mapping of each field in ``known`` to a column: the column in ``given``, else the column of the same name.

    The fields in ``needed`` and ``given`` must have a column. A field in ``lists`` may have several values, written in
    a cell as a JSON list of strings. ``key`` is the config key that sets ``given``, or "". Raises ConfigError if a
    field in ``given`` is not in ``known``.
    """

    def __init__(
        self, key: str, given: Mapping[str, str], known: Sequence[str], needed: Sequence[str], lists: Sequence[str] = ()
    ) -> None:
        self.key = key
        self.needed = {*needed, *given}
        self.names = {field: given.get(field, field) for field in known}
        self.lists = {self.names[field] for field in lists}
        for field in given:
            if field not in known:
                raise ConfigError(
                    f'{key}: "{field}" is not a field that a column can be mapped to{nearest(field, known)}'
                )


def is_table(path: Path) -> bool:
    """Return whether a file has the suffix of CSV or TSV; ``.gz`` at the end of the name is ignored."""
    return Path(path.name.removesuffix(".gz")).suffix.lower() in _ENDINGS


def read_table(path: Path, columns: Columns, faults: Faults) -> Iterator[Row]:
    """Yield the rows of CSV, TSV or JSON lines, with their cells under the names of fields.

    The cells of a column without a field are under the column's own name. Cells are strings; an empty cell is treated
    as missing, and a row of empty cells is skipped. A column without a name is not read; a note is added if any of its
    cells is filled. The apostrophe that an export puts before a formula is removed. In JSON lines, each object is a
    row, and a list of strings becomes one cell: a JSON list for a field in ``columns.lists``, else the strings, joined
    by semicolons.

    The delimiter is the most frequent of comma, semicolon and tab in the header, which may follow blank lines and a
    line ``sep=;`` (for Excel). A cell that contains a delimiter, a quote or a line break must be quoted, with each
    quote inside it doubled (RFC 4180). Errors are added to ``faults``, with the first line of the row; if the header
    has a fault, no rows are yielded.
    """
    if path.name.removesuffix(".gz").lower().endswith(_JSON_LINES):
        yield from _json_lines(path, columns, faults)
        return
    lines, before = _lines(path, faults), list[str]()
    for first in lines:
        if first.strip() and not _SEPARATOR.fullmatch(first.strip()):
            break
        before.append("\n")
    else:
        return
    csv.field_size_limit(max(csv.field_size_limit(), LONGEST_LINE))
    first, *others = _CARRIAGE.split(first)
    rest = chain.from_iterable(map(_CARRIAGE.split, lines)) if others else lines
    delimiter = max(_DELIMITERS, key=first.count)
    rows = _rows(csv.reader(chain(before, [first], others, rest), delimiter=delimiter, strict=True), path, faults)
    where, header = next(rows, (f"{path}:1", []))
    header = [original_cell(name.strip()) for name in header]
    if not _check_header(header, where, columns, faults):
        return
    for where, cells in rows:
        if len(cells) != len(header):
            fact = f"{counted(len(cells), 'cell')} where the header has {counted(len(header), 'column')}"
            way = f"quote a cell that contains {_DELIMITERS[delimiter]}"
            faults.add(where, f"{fact}; {way if len(cells) > len(header) else 'add the missing cells'}")
            continue
        if any(cell and not name for name, cell in zip(header, cells, strict=True)):
            faults.note(str(path), "columns without a name, not read")
        by_name = {name: original_cell(cell) or None for name, cell in zip(header, cells, strict=True) if name}
        yield _row(where, by_name, columns, faults)


def _row(where: str, by_name: Mapping[str, str | None], columns: Columns, faults: Faults) -> Row:
    others = {name: cell for name, cell in by_name.items() if name not in columns.names.values()}
    return Row(where, others | {field: by_name.get(name) for field, name in columns.names.items()}, faults)


def _json_lines(path: Path, columns: Columns, faults: Faults) -> Iterator[Row]:
    rows = list(read_rows(path, faults))
    if rows and _check_header(list(dict.fromkeys(chain(*(row.values for row in rows)))), str(path), columns, faults):
        for row in rows:
            cells = {name: _cell(value, name in columns.lists) for name, value in row.values.items()}
            yield _row(row.where, cells, columns, faults)


def _cell(value: Any, keeps_list: bool) -> str | None:
    """Return a JSON value as the text of a cell; None for an empty cell.

    A list of strings is joined by semicolons, unless ``keeps_list`` is true.
    """
    if isinstance(value, list) and not (keeps_list and value) and all(isinstance(item, str) for item in value):
        return ";".join(value) or None
    return value or None if isinstance(value, str | None) else json.dumps(value, ensure_ascii=False)


def _lines(path: Path, faults: Faults) -> Iterator[str]:
    for number, line in read_raw_lines(path, faults):
        if "\0" in line:
            faults.add(f"{path}:{number}", "contains a null character; save the table as UTF-8 text")
        yield line


def _rows(reader: Iterator[list[str]], path: Path, faults: Faults) -> Iterator[tuple[str, list[str]]]:
    """Yield (``file:line``, cells) for every row that is not blank; a row that cannot be parsed is a fault."""
    while True:
        where = f"{path}:{reader.line_num + 1}"  # type: ignore[attr-defined]
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            faults.add(where, f"not a row of a table: {error}; quote the whole cell, and double each quote inside it")
        else:
            if any(cell.strip() for cell in cells):
                yield where, cells


def _check_header(header: Sequence[str], where: str, columns: Columns, faults: Faults) -> bool:
    before = len(faults.found)
    for name, count in Counter(filter(None, header)).items():
        if count > 1:
            faults.add(where, f'column "{name}" occurs {count} times; rename all but one')
    for field, name in columns.names.items():
        if field in columns.needed and name not in header:
            chosen = f"name the column with {columns.key}='{{{field}: NAME}}'"
            way = chosen if columns.key else f'name a column "{name}"'
            faults.add(where, f'no column "{name}" in the header{nearest(name, filter(None, header))}; {way}')
    return len(faults.found) == before
