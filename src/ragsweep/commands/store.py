"""``ragsweep store``: show and empty the store."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ragsweep.commands.command_line import Parser, ignore_closed_pipe
from ragsweep.core.errors import ConfigError, InputError, nearest
from ragsweep.report.numbers import ago, duration, spelled
from ragsweep.report.tables import to_json
from ragsweep.report.terminal import Terminal
from ragsweep.stages.eviction import Conditions, choose, evict, give_back
from ragsweep.stages.storekeeping import Contents, Item, StorePlace, SweepResults, contents, read_results

LEFTOVERS = {
    "pieces": "pieces of interrupted computations",
    "quarantine": "quarantine",
    "temporary": "temporary files",
}
SHORT = 12
"""Shown characters of an address."""

_COMMANDS = {
    "list": "show the stored stages (the default command)",
    "evict": "remove the entries that fulfil all given conditions",
}
_SIZES = {"B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}
_AGES = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


def store(arguments: Sequence[str]) -> int:
    """Run ``ragsweep store``; return the exit status: 0 done, 2 bad input or no terminal to confirm at."""
    options = read(arguments)
    place, chosen = _find(options.path)
    terminal = Terminal.current()
    try:
        with ignore_closed_pipe():
            if options.command == "list":
                _show(options, place, terminal, chosen)
            else:
                terminal.line("store", f"{place.path} ({chosen})")
                _remove(options, place, terminal)
    except OSError as fault:  # a read-only folder, a failing disk
        raise InputError(f"{fault.filename or 'store'}: {fault.strerror}") from None
    return 0


def read(arguments: Sequence[str]) -> argparse.Namespace:
    """Read a command and its options; raises ConfigError, in one line, for invalid ones."""
    parser = Parser("ragsweep store", description="Show and empty the store of stage results.", allow_abbrev=False)
    commands = parser.add_subparsers(dest="command", metavar="list | evict")
    parsers = {
        name: commands.add_parser(name, help=text, description=text, allow_abbrev=False)
        for name, text in _COMMANDS.items()
    }
    for each in parsers.values():
        each.add_argument(
            "--path", help="the store's folder; default: the environment's RAGSWEEP_STORE, else .ragsweep"
        )
        each.add_argument("--stage", help="only this stage")
    add = parsers["list"].add_argument
    add("--entries", action="store_true", help="one line per entry instead of per stage")
    add("--json", action="store_true", help="for programs: times in Unix seconds, sizes in bytes")
    add = parsers["evict"].add_argument
    add("--older-than", type=read_age, metavar="AGE", help="unused for at least: 12h, 30d, 8w")
    add("--unreachable", action="store_true", help="not used by any result in the ledger")
    add("--quarantine", action="store_true", help="only the quarantine")
    add("--all", action="store_true", help="everything, quarantine included")
    to_size = "the least recently used, down to this size of the store: 500MB, 2GB"
    add("--to-size", type=read_size, metavar="SIZE", help=to_size)
    add("--yes", action="store_true", help="remove without confirmation")
    words = list(arguments)
    if not words or (words[0].startswith("-") and words[0] not in ("-h", "--help")):
        words.insert(0, "list")
    options = parser.parse_args(words)
    if options.command == "evict":
        options.conditions = Conditions(
            options.older_than, options.unreachable, options.stage, options.quarantine, options.all, options.to_size
        )
        if options.conditions == Conditions():
            raise ConfigError(
                "store evict: give a condition: --older-than AGE, --to-size SIZE, --unreachable, --stage STAGE,"
                " --quarantine, --all; entries that fulfil all given ones are removed"
            )
    return options


def read_size(text: str) -> int:
    """Return a size such as 500MB or 2 GiB in bytes."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?) *([KMGT]?I?B)", text.strip().upper())
    if not match:
        raise argparse.ArgumentTypeError(f'must be a size such as 500MB or 2GB, given "{text}"')
    return int(float(match[1]) * _SIZES[match[2]])


def read_age(text: str) -> float:
    """Return an age such as 12h or 30d in seconds."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?) *([smhdw])", text.strip().lower())
    if not match:
        raise argparse.ArgumentTypeError(f'must be an age such as 45m, 12h, 30d or 8w, given "{text}"')
    return float(match[1]) * _AGES[match[2]]


def _find(path: str | None) -> tuple[StorePlace, str]:
    """Return the store and the source of its path; raises InputError if there is none."""
    for folder, how in ((path, "--path"), (os.environ.get("RAGSWEEP_STORE"), "the environment's RAGSWEEP_STORE")):
        if folder:
            return StorePlace(Path(folder).absolute()), how
    return StorePlace(Path(".ragsweep").absolute()), "the default, in this folder"


def _check_stage(stage: str | None, found: Contents) -> None:
    """Raise ConfigError for a stage without entries, with the nearest known stage."""
    known = {item.stage for item in found.items if item.stage}
    if stage is not None and stage not in known:
        raise ConfigError(f'--stage: no entry of the stage "{stage}" in this store{nearest(stage, known)}')


def _by_stage(items: Iterable[Item]) -> list[tuple[str, list[Item]]]:
    """Group entries by stage, largest first."""
    stages: dict[str, list[Item]] = {}
    for item in items:
        stages.setdefault(item.stage or LEFTOVERS.get(item.sort, "unlisted"), []).append(item)
    return sorted(stages.items(), key=lambda pair: -_bytes(pair[1]))


def _bytes(items: Iterable[Item]) -> int:
    return sum(item.bytes for item in items)


def _seconds(items: Iterable[Item]) -> float:
    return sum(item.seconds for item in items)


# --- list --------------------------------------------------------------------------------------------------------


def _show(options: argparse.Namespace, place: StorePlace, terminal: Terminal, chosen: str) -> None:
    """Print the content of a store."""
    if not options.json:
        terminal.line("store", f"{place.path} ({chosen})")
    found = contents(place)
    _check_stage(options.stage, found)
    unread = ""
    try:
        results = read_results(place)
    except InputError as fault:
        results, unread = None, str(fault)
    entries = [item for item in found.entries if options.stage in (None, item.stage)]
    if options.json:
        print(to_json(_facts(place, found, entries, results, options.entries)))
        return
    if options.entries:
        _print_entries(terminal, entries, results)
    else:
        _print_stages(terminal, entries, [] if options.stage else found.items)
    disk = shutil.disk_usage(place.folder)
    unused = f", {spelled(found.unused)} of it unused inside store.db" if found.unused >= 1e6 else ""
    terminal.line(
        "disk", f"the store takes {spelled(found.bytes)}{unused} · {spelled(disk.free)} of {spelled(disk.total)} free"
    )
    if gone := sum(not item.there for item in found.items):
        terminal.line("gone", f"{_count_entries(gone)} without data: computed again when needed")
    for path in place.unknown():
        name = _printable(str(path.relative_to(place.folder)))
        terminal.line("unknown", f"{name} is not the store's, and left alone")
    if unread:
        terminal.line("warning", f"{unread}; the sweeps that used an entry are unknown")


def _print_stages(terminal: Terminal, entries: Sequence[Item], items: Sequence[Item]) -> None:
    now, groups = time.time(), _by_stage(entries)
    if len(groups) > 1:
        groups.append(("all", list(entries)))
    groups += [(label, [item for item in items if item.sort == sort]) for sort, label in LEFTOVERS.items()]
    rows = [
        [
            label,
            str(len(group)),
            spelled(_bytes(group)),
            duration(_seconds(group)) if any(item.stage for item in group) else "",
            ago(now - min(item.made for item in group)),
            ago(now - max(item.made for item in group)),
            ago(now - max(item.used for item in group)),
        ]
        for label, group in groups
        if group
    ]
    _print_table(terminal, ["stage", ">entries", ">size", ">took", ">oldest", ">newest", ">last used"], rows)


def _print_entries(terminal: Terminal, entries: Sequence[Item], results: SweepResults | None) -> None:
    now, names = time.time(), results.names if results else {}
    rows = []
    for item in sorted(entries, key=lambda item: (item.stage, -item.used)):
        sweeps = Counter(name for user in item.users for name in names.get(user, ("not in the ledger",)))
        rows.append([
            item.name[:SHORT], item.stage or "unlisted", item.target.rpartition(".")[2], spelled(item.bytes),
            f"{item.rows:,}" if item.sort == "rows" else "", duration(item.seconds) if item.stage else "",
            ago(now - item.made), ago(now - item.used), str(len(item.users)),
            ", ".join(f"{name} ({count})" for name, count in sweeps.items()),
        ])  # fmt: skip
    header = ["address", "stage", "class", ">size", ">rows", ">took", ">made", ">used", ">results", "of"]
    _print_table(terminal, header, rows)


def _facts(
    place: StorePlace, found: Contents, entries: Sequence[Item], results: SweepResults | None, each: bool
) -> dict[str, Any]:
    disk = shutil.disk_usage(place.folder)
    facts: dict[str, Any] = {
        "path": place.path,
        "bytes": found.bytes,
        "disk_free": disk.free,
        "disk_total": disk.total,
        "database_bytes": found.database,
        "database_unused": found.unused,
        "stages": {stage: _totals(items) for stage, items in _by_stage(entries)},
        "unknown": [path.relative_to(place.folder) for path in place.unknown()],
    }
    for sort in LEFTOVERS:
        items = [item for item in found.items if item.sort == sort]
        facts[sort] = {"count": len(items), "bytes": _bytes(items)}
    if each:
        names = results.names if results else {}
        facts["entries"] = []
        for item in entries:
            entry = {key: value for key, value in asdict(item).items() if key not in ("name", "there", "written")}
            users = {user: names.get(user, ()) for user in item.users}
            facts["entries"].append({**entry, "address": item.name, "users": users})
    return facts


def _totals(items: Sequence[Item]) -> dict[str, float]:
    return {
        "entries": len(items),
        "bytes": _bytes(items),
        "rows": sum(item.rows for item in items),
        "seconds": _seconds(items),
        "oldest": min(item.made for item in items),
        "newest": max(item.made for item in items),
        "used": max(item.used for item in items),
    }


def _count_entries(number: int) -> str:
    return f"{number:,} {'entry' if number == 1 else 'entries'}"


def _printable(text: str) -> str:
    """Escape control characters, which names from files may contain."""
    return text if text.isprintable() else ascii(text)


def _print_table(terminal: Terminal, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    if not rows:
        terminal.line("", "nothing is stored")
        return
    terminal.console.print()
    terminal.table(header, [[_printable(cell) for cell in row] for row in rows])
    terminal.console.print()


# --- evict -------------------------------------------------------------------------------------------------------


def _remove(options: argparse.Namespace, place: StorePlace, terminal: Terminal) -> None:
    """Print what will be removed, ask for confirmation, and remove it."""
    found = contents(place)
    _check_stage(options.stage, found)
    results = read_results(place) if options.unreachable else None
    items = choose(found, options.conditions, results, time.time())
    kept = ""
    if items:
        rows = [
            [stage, str(len(group)), spelled(_bytes(group)), duration(_seconds(group))]
            for stage, group in _by_stage(items)
        ]
        _print_table(terminal, ["remove", ">count", ">size", ">took to compute"], rows)
        terminal.line("remove", _amount(items))
        if not (options.yes or _confirmed()):
            terminal.line("removed", "nothing")
            return
        removed = []
        with terminal.console.status("") as status:
            for item, why in evict(place, items):
                if why:
                    terminal.line("left", f"{item.stage or item.sort} {item.name[:SHORT]}: {why}")
                else:
                    removed.append(item)
                status.update(f"{len(removed)} of {len(items)} removed")
        terminal.line("removed", _amount(removed) if removed else "nothing")
        kept = give_back(place)
    else:
        terminal.line("remove", "nothing: no entry fulfils all conditions")
    found = contents(place)
    if kept:
        terminal.line("note", f"{spelled(found.unused)} stay unused inside store.db until the next evict: {kept}")
    free = shutil.disk_usage(place.folder).free
    terminal.line("disk", f"the store takes {spelled(found.bytes)} · {spelled(free)} free")


def _amount(items: Sequence[Item]) -> str:
    entries = sum(item.sort in ("whole", "rows") for item in items)
    counts = [_count_entries(entries)] if entries else []
    counts += [f"{n} in {sort}" for sort in LEFTOVERS if (n := sum(item.sort == sort for item in items))]
    cost = f" · {duration(_seconds(items))} of computing" if entries else ""
    return f"{', '.join(counts)} · {spelled(_bytes(items))}{cost}"


def _confirmed() -> bool:
    if not sys.stdin.isatty():
        raise ConfigError("store evict: confirmation needs a terminal; --yes removes without confirmation")
    print("remove? [y/N] ", end="", flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")
