"""Store results of benchmarks in benchmarks/results/, and write the tables of docs/measurements.md from them.

    python benchmarks/tables.py

A file has the command, the date, the conditions, and tables of cells as they are printed. ``SHOWN`` selects
the part that the page shows. A benchmark calls ``keep_results`` with the lines of its report.
"""

import datetime as dt
import json
import os
import platform
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from doc_pages import DOCS
from shown_tables import SHOWN

RESULTS = Path(__file__).resolve().parent / "results"
PAGE = DOCS / "measurements.md"
MARKED = re.compile(r"<!-- (?P<name>[\w-]+): begin -->\n.*?<!-- (?P=name): end -->", re.DOTALL)


class Report(NamedTuple):
    """Tables of a report, and the paragraphs around them."""

    conditions: list[str]
    tables: list[dict[str, Any]]


def keep_results(name: str, lines: Sequence[str]) -> None:
    """Write the tables of a report into ``results/NAME.json``, and the page from all files."""
    given = [word if "/" not in word else Path(word).name for word in sys.argv]
    found = parse(lines)
    conditions = [f"Python {platform.python_version()}, {os.cpu_count()} cores", *found.conditions]
    result = {"command": " ".join(["python", f"benchmarks/{given[0]}", *given[1:]]), "date": f"{dt.date.today()}"}
    write(name, {**result, "conditions": conditions, "tables": found.tables})
    PAGE.write_text(page(PAGE.read_text("utf-8")), "utf-8")


def parse(lines: Sequence[str]) -> Report:
    """Extract the tables from Markdown: the paragraph before each is its caption, all others are conditions."""
    conditions, tables, caption = list[str](), list[dict[str, Any]](), ""
    for block in re.split(r"\n\s*\n", "\n".join(lines).strip()):
        if block.startswith("|"):
            columns, _, *rows = ([cell.strip() for cell in row.strip()[1:-1].split("|")] for row in block.splitlines())
            tables.append({"caption": caption, "columns": columns, "rows": rows})
            caption = ""
        elif not block.startswith("!["):
            conditions += [caption] if caption else []
            caption = " ".join(block.lstrip("# ").split())
    return Report(conditions + ([caption] if caption else []), tables)


def write(name: str, result: dict[str, Any]) -> None:
    """Write a file of results, with one row per line."""
    text = json.dumps(result, indent=1, ensure_ascii=False)
    cells = re.compile(r'\[\n((?: {4,}".*\n)+) +\]')
    text = cells.sub(lambda row: f"[{' '.join(map(str.strip, row[1].splitlines()))}]", text)
    (RESULTS / f"{name}.json").write_text(text + "\n", "utf-8")


def page(text: str) -> str:
    """Fill the tables between the markers of a page."""
    return MARKED.sub(lambda found: "\n".join(marked(found["name"])), text)


def marked(name: str) -> list[str]:
    """Return the lines between two markers: the chosen rows and columns of a table, and a link to all of them."""
    shown = SHOWN[name]
    result = json.loads((RESULTS / f"{shown.result}.json").read_text("utf-8"))
    table = result["tables"][shown.table]
    columns = [table["columns"].index(column) for column in shown.columns] or list(range(len(table["columns"])))
    rows = [row for row in table["rows"] if re.search(shown.rows, " | ".join(row))]
    lines = [tuple(table["columns"][column] for column in columns), ("---",) * len(columns)]
    lines += dict.fromkeys(tuple(row[column] for column in columns) for row in rows)
    source = f"[{shown.result}.json](../benchmarks/results/{shown.result}.json)"
    body = [f"| {' | '.join(line)} |" for line in lines]
    return [f"<!-- {name}: begin -->", "", *body, "", source, "", f"<!-- {name}: end -->"]


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text("utf-8")), "utf-8")
