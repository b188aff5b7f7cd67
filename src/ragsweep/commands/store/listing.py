"""List a store: by stage, by entry, or for programs."""

from __future__ import annotations

import argparse
import json
import shutil
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from ragsweep.core.errors import ConfigError, InputError, nearest
from ragsweep.report.numbers import ago, duration, spelled
from ragsweep.report.terminal import Terminal
from ragsweep.stages.storekeeping import Contents, Item, Place, Results, contents, read_results

LEFTOVERS = {
    "pieces": "pieces of interrupted computations",
    "quarantine": "quarantine",
    "temporary": "temporary files",
}  # fmt: skip
SHORT = 12
"""Characters of an address that are shown."""


def known_stage(stage: str | None, found: Contents) -> None:
    """Refuse a stage of which nothing is stored; raises ConfigError with the nearest one."""
    known = {item.stage for item in found.items if item.stage}
    if stage is not None and stage not in known:
        raise ConfigError(f'--stage: nothing of a stage "{stage}" in this store{nearest(stage, known)}')


def show(given: argparse.Namespace, place: Place, terminal: Terminal) -> int:
    """Print the content of a store."""
    found = contents(place)
    known_stage(given.stage, found)
    results, unread = _results(place)
    entries = [item for item in found.entries if given.stage in (None, item.stage)]
    if given.json:
        print(json.dumps(_plain(place, found, entries, results, given.entries), allow_nan=False))
        return 0
    if given.entries:
        _print_entries(terminal, entries, results)
    else:
        _print_stages(terminal, entries, [] if given.stage else list(found.items))
    disk = shutil.disk_usage(place.folder)
    unused = f", {spelled(found.unused)} of it unused inside store.db" if found.unused >= 1e6 else ""
    terminal.line(
        "disk", f"the store takes {spelled(found.bytes)}{unused} · {spelled(disk.free)} of {spelled(disk.total)} free"
    )
    gone = sum(not item.there for item in found.items)
    if gone:
        terminal.line("gone", f"{counted(gone, 'entry', 'entries')} without data: computed again when needed")
    say_unknown(terminal, place)
    if unread:
        terminal.line("warning", f"{unread}; it is not known which sweeps used what")
    return 0


def _results(place: Place) -> tuple[Results | None, str]:
    try:
        return read_results(place), ""
    except InputError as fault:
        return None, str(fault)


def _print_stages(terminal: Terminal, entries: Sequence[Item], items: Sequence[Item]) -> None:
    now = time.time()
    header = ["stage", ">entries", ">size", ">took", ">oldest", ">newest", ">last used"]
    rows = [[stage, *_summary(found, now)] for stage, found in by_stage(entries)]
    if len(rows) > 1:
        rows.append(["all", *_summary(entries, now)])
    for sort, label in LEFTOVERS.items():
        found = [item for item in items if item.sort == sort]
        if found:
            rows.append([label, *_summary(found, now)])
    print_table(terminal, header, rows)


def by_stage(items: Iterable[Item]) -> list[tuple[str, list[Item]]]:
    """Group by stage, the largest first."""
    stages: dict[str, list[Item]] = {}
    for item in items:
        stages.setdefault(item.stage or LEFTOVERS.get(item.sort, "unlisted"), []).append(item)
    return sorted(stages.items(), key=lambda pair: -sum(item.bytes for item in pair[1]))


def _summary(items: Sequence[Item], now: float) -> list[str]:
    made = [item.made for item in items]
    told = [item.seconds for item in items if item.stage]
    return [
        str(len(items)),
        spelled(sum(item.bytes for item in items)),
        duration(sum(told)) if told else "",
        ago(now - min(made)),
        ago(now - max(made)),
        ago(now - max(item.used for item in items)),
    ]


def _print_entries(terminal: Terminal, entries: Sequence[Item], results: Results | None) -> None:
    now = time.time()
    header = ["address", "stage", "class", ">size", ">rows", ">took", ">made", ">used", ">results", "of"]
    rows = [
        [
            item.name[:SHORT], item.stage or "unlisted", item.target.rpartition(".")[2], spelled(item.bytes),
            f"{item.rows:,}" if item.sort == "rows" else "", duration(item.seconds) if item.stage else "",
            ago(now - item.made), ago(now - item.used), str(len(item.users)), _users(item, results),
        ]
        for item in sorted(entries, key=lambda item: (item.stage, -item.used))
    ]  # fmt: skip
    print_table(terminal, header, rows)


def _users(item: Item, results: Results | None) -> str:
    """Name the sweeps whose results were made from an entry, with counts."""
    names = results.names if results else {}
    counted = Counter(name for user in item.users for name in names.get(user, ("not in the ledger",)))
    return ", ".join(f"{name} ({count})" for name, count in counted.items())


def _plain(
    place: Place, found: Contents, entries: Sequence[Item], results: Results | None, each: bool
) -> dict[str, Any]:
    disk = shutil.disk_usage(place.folder)
    facts: dict[str, Any] = {
        "path": str(place.path), "bytes": found.bytes, "disk_free": disk.free,
        "disk_total": disk.total, "database_bytes": found.database, "database_unused": found.unused,
        "stages": {stage: _totals(items) for stage, items in by_stage(entries)},
        "unknown": [str(path.relative_to(place.folder)) for path in place.unknown()],
        **{sort: {"count": len(items), "bytes": sum(i.bytes for i in items)}
           for sort, items in (("pieces", found.of("pieces")), ("quarantine", found.of("quarantine")),
                               ("temporary", found.of("temporary")))},
    }  # fmt: skip
    if each:
        names = results.names if results else {}
        facts["entries"] = [
            {
                **{
                    key: value
                    for key, value in asdict(item).items()
                    if key not in ("name", "there", "written", "users")
                },
                "address": item.name,
                "users": {user: list(names.get(user, ())) for user in item.users},
            }
            for item in entries
        ]
    return facts


def _totals(items: Sequence[Item]) -> dict[str, float]:
    return {
        "entries": len(items), "bytes": sum(item.bytes for item in items), "rows": sum(item.rows for item in items),
        "seconds": sum(item.seconds for item in items), "oldest": min(item.made for item in items),
        "newest": max(item.made for item in items), "used": max(item.used for item in items),
    }  # fmt: skip


def say_unknown(terminal: Terminal, place: Place) -> None:
    """Name the files that no store wrote."""
    for path in place.unknown():
        terminal.line("unknown", f"{printable(str(path.relative_to(place.folder)))} is not the store's, and left alone")


def counted(number: int, one: str, several: str) -> str:
    """Spell a number of things."""
    return f"{number:,} {one if number == 1 else several}"


def printable(text: str) -> str:
    """Escape control characters, which names from files may hold."""
    return text if text.isprintable() else ascii(text)


def print_table(terminal: Terminal, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows below their header, or that there are none."""
    if not rows:
        terminal.line("", "nothing is stored")
        return
    terminal.console.print()
    terminal.table(header, [[printable(cell) for cell in row] for row in rows])
    terminal.console.print()
