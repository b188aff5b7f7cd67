"""Write the tables of a benchmark into its page of docs/, between two markers."""

from collections.abc import Sequence
from pathlib import Path

DOCS = Path(__file__).resolve().parent.parent / "docs"


def fill(page: str, name: str, lines: Sequence[str]) -> None:
    """Replace the text between ``<!-- NAME: begin -->`` and ``<!-- NAME: end -->``."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    text = (DOCS / page).read_text()
    before, after = text.partition(begin)[0], text.partition(end)[2]
    (DOCS / page).write_text("\n".join([before + begin, "", *lines]) + end + after)


def table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table below its title."""
    cells = [f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *rows]]
    return ["", title, "", *cells]
