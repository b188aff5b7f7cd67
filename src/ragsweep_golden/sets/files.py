"""Write JSON lines and reports atomically."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ragsweep.core.errors import InputError
from ragsweep.core.replacing import replace_file
from ragsweep.report.tables import to_json


def json_lines(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return rows as text, one JSON object per line."""
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def write_rows(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write one JSON object per line."""
    write_whole(path, json_lines(rows))


def write_report(path: Path, report: Mapping[str, Any]) -> None:
    """Write one JSON object, indented; NaN becomes null."""
    write_whole(path, to_json(report) + "\n")


def write_whole(path: Path, text: str) -> None:
    """Write or replace a file, and create its folder. Raises InputError if the file cannot be written."""
    try:
        if path.is_dir():
            raise InputError(f"{path}: is a folder where a file must be written; name a file")
        replace_file(path, text.encode())
    except (FileExistsError, NotADirectoryError):
        taken = next(one for one in path.parents if one.exists())
        raise InputError(f"{taken}: is a file where a folder is required; choose another folder") from None
    except OSError as fault:
        raise InputError(f"{path}: cannot be written: {fault.strerror}; choose another file") from None
