"""Read and spell sizes and times as people write them, and lay rows out below each other."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence

from ragsweep.report.terminal import Terminal

_SIZES = {"B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}
_AGES = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_GAP = 3
_INDENT = 4


def size(text: str) -> int:
    """Read a size such as 500MB or 2 GiB: bytes."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?) *([KMGT]?I?B)", text.strip().upper())
    if not found:
        raise argparse.ArgumentTypeError(f'must be a size such as 500MB or 2GB, given "{text}"')
    return int(float(found[1]) * _SIZES[found[2]])


def age(text: str) -> float:
    """Read an age such as 12h or 30d: seconds."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?) *([smhdw])", text.strip().lower())
    if not found:
        raise argparse.ArgumentTypeError(f'must be an age such as 45m, 12h, 30d or 8w, given "{text}"')
    return float(found[1]) * _AGES[found[2]]


def spelled(number: float) -> str:
    """Spell a size: 412 B, 15.7 kB, 2.3 GB."""
    for unit in ("B", "kB", "MB", "GB"):
        if number < 999.5:
            return f"{number:.0f} {unit}" if unit == "B" or number >= 99.95 else f"{number:.1f} {unit}"
        number /= 1000
    return f"{number:.1f} TB"


def duration(seconds: float) -> str:
    """Spell how long something took: 0.48 s, 12 s, 34 min, 5.2 h."""
    if seconds < 9.95:
        return f"{seconds:.2f} s" if seconds < 0.995 else f"{seconds:.1f} s"
    if seconds < 180:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 180 * 60 else f"{seconds / 3600:.1f} h"


def ago(seconds: float) -> str:
    """Spell how long ago something was, in its largest whole unit: 40 s, 3 min, 5 h, 12 d."""
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds // length:,.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"


def counted(number: int, one: str, several: str) -> str:
    """Spell a number of things."""
    return f"{number:,} {one if number == 1 else several}"


def printable(text: str) -> str:
    """Escape what a terminal would obey: names come from files."""
    return text if text.isprintable() else ascii(text)


def laid_out(header: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """Align columns, to the side that their name in the header begins with (< or >).

    Where a row is wider than ``width`` its last columns go on further lines, indented: nothing is cut.
    """
    names = [name[1:] for name in header]
    table = [names, *rows]
    widths = [max(len(row[column]) for row in table) for column in range(len(names))]
    lines: list[list[int]] = [[]]
    for column, wide in enumerate(widths):
        used = _INDENT * (len(lines) > 1) + sum(widths[one] + _GAP for one in lines[-1])
        if lines[-1] and used + wide > width:
            lines.append([])
        lines[-1].append(column)
    return [
        (
            " " * _INDENT * (n > 0) + (" " * _GAP).join(f"{row[one]:{header[one][0]}{widths[one]}}" for one in line)
        ).rstrip()
        for row in table
        for n, line in enumerate(lines)
    ]


def print_table(terminal: Terminal, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows below their header, with an empty line before and after; where there are none, say so."""
    if not rows:
        terminal.line("", "nothing is stored")
        return
    terminal.console.print()
    for line in laid_out(header, [[printable(cell) for cell in row] for row in rows], terminal.console.width):
        terminal.console.print(line, markup=False, soft_wrap=True)
    terminal.console.print()
