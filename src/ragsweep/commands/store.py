"""``ragsweep store``: list the stored stage results, and remove some or all of them."""

import argparse
import os
import re
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from ragsweep.commands.command_line import Parser, print_document
from ragsweep.core.errors import ConfigError, InputError, nearest
from ragsweep.report.document import Block, Document, Section, Statement, Table, lines
from ragsweep.report.numbers import ago, duration, spelled
from ragsweep.report.terminal import Terminal
from ragsweep.stages.eviction import Conditions, choose, evict, give_back
from ragsweep.stages.storekeeping import Contents, Item, StorePlace, contents, read_results

_LIST = "show the stored results of stages (the default command)"
_COMMANDS = {"list": _LIST, "evict": "remove the entries that meet all given conditions"}
_CONDITION = """store evict: specify a condition: --older-than AGE, --to-size SIZE, --unreachable, --stage STAGE, \
--quarantine, --all; entries that meet all of them are removed"""
_SIZES = {"B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}
_AGES = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
LEFTOVERS = {"pieces": "pieces of interrupted computations", "quarantine": "quarantine", "temporary": "temporary files"}
SHORT = 12  # displayed characters of an address


class Listing(NamedTuple):
    """The content of a store, and the entries to list: all entries, or the entries of one stage."""

    place: StorePlace
    contents: Contents
    entries: Sequence[Item]
    stage: str | None
    each: bool  # list single entries, not sums by stage
    names: Mapping[str, tuple[str, ...]]  # signature of a result -> names of the sweeps that contain it
    unread: str  # reason why the ledger could not be read (``names`` is then empty), or ""


def store(arguments: Sequence[str]) -> int:
    """Run ``ragsweep store``; return 0. Raises RagsweepError for bad input, or if an eviction cannot be confirmed."""
    options = read(arguments)
    place, origin = _find(options.path)
    try:
        found = contents(place)
        if options.stage not in (None, *(known := {item.stage for item in found.items if item.stage})):
            near = nearest(options.stage, known)
            raise ConfigError(f'--stage: no entry of the stage "{options.stage}" in this store{near}')
        listed = listing_document(_list(place, found, options), origin) if options.command == "list" else None
        if listed is None:
            _evict(place, found, origin, options)
    except OSError as fault:  # a read-only folder, a failing disk
        way = "check the permissions and the disk of the store"
        raise InputError(f"{fault.filename or 'store'}: {fault.strerror}; {way}") from None
    if listed is not None:
        print_document(listed, options)
    return 0


def read(arguments: Sequence[str]) -> argparse.Namespace:
    """Read a command and its options; raises ConfigError, with a one-line message, for invalid ones."""
    parser = Parser("ragsweep store", description="Show and empty the store of stage results.")
    commands = parser.add_subparsers(dest="command", metavar="list | evict")
    parsers = {name: commands.add_parser(name, help=text, description=text) for name, text in _COMMANDS.items()}
    folder = "folder of the store (default: the environment variable RAGSWEEP_STORE, else .ragsweep)"
    for each in parsers.values():
        each.add_argument("--path", help=folder)
        each.add_argument("--stage", help="only this stage")
    add = parsers["list"].add_argument
    add("--entries", action="store_true", help="one line per entry instead of per stage")
    add("--json", action="store_true", help="print JSON, with times in Unix seconds and sizes in bytes")
    add = parsers["evict"].add_argument
    add("--older-than", type=read_age, metavar="AGE", help="only entries unused for at least this time: 12h, 30d, 8w")
    add("--unreachable", action="store_true", help="only entries that no result in the ledger uses")
    add("--quarantine", action="store_true", help="only the quarantine")
    add("--all", action="store_true", help="everything, quarantine included")
    to_size = "the least recently used entries, until the store has this size: 500MB, 2GB"
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
            raise ConfigError(_CONDITION)
    return options


def read_size(text: str) -> int:
    """Convert a size such as 500MB or 2 GiB to bytes; raises ArgumentTypeError for any other text."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?) *((?:[KMGT]I?)?B)", text.strip().upper())
    if not match:
        raise argparse.ArgumentTypeError(f'must be a size such as 500MB or 2GB, got "{text}"')
    return int(float(match[1]) * _SIZES[match[2]])


def read_age(text: str) -> float:
    """Convert an age such as 12h or 30d to seconds; raises ArgumentTypeError for any other text."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?) *([smhdw])", text.strip().lower())
    if not match:
        raise argparse.ArgumentTypeError(f'must be an age such as 45m, 12h, 30d or 8w, got "{text}"')
    return float(match[1]) * _AGES[match[2]]


def _find(path: str | None) -> tuple[StorePlace, str]:
    """Return the store, and a phrase on the origin of its path: the option, the environment or the default."""
    given = os.environ.get("RAGSWEEP_STORE")
    origin = "--path" if path else "the environment variable RAGSWEEP_STORE" if given else "the default, in this folder"
    return StorePlace(Path(path or given or ".ragsweep").absolute()), origin


def _list(place: StorePlace, found: Contents, options: argparse.Namespace) -> Listing:
    entries = [item for item in found.entries if options.stage in (None, item.stage)]
    try:
        results, unread = read_results(place), ""
    except InputError as fault:
        results, unread = None, str(fault)
    names = results.names if results else {}
    return Listing(place, found, entries, options.stage, options.entries, names, unread)


def _evict(place: StorePlace, found: Contents, origin: str, options: argparse.Namespace) -> None:
    results = read_results(place) if options.unreachable else None
    items = choose(found, options.conditions, results, time.time())
    print_document(eviction_document(place, items, origin))
    if not items or not (options.yes or _confirmed()):
        print_document(removal_document(place, found, []))
        return
    outcomes: list[tuple[Item, str]] = []
    with Terminal.current().console.status("") as status:
        for outcome in evict(place, items):
            outcomes.append(outcome)
            status.update(f"{len(outcomes)} of {len(items)}")
    kept = give_back(place)
    print_document(removal_document(place, contents(place), outcomes, kept))


def _confirmed() -> bool:
    if not sys.stdin.isatty():
        raise ConfigError("store evict: confirmation needs a terminal; add --yes to remove without confirmation")
    print("remove? [y/N] ", end="", flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


# --- documents --------------------------------------------------------------------------------------------------------


def listing_document(listing: Listing, origin: str) -> Document:
    """Build the document of a store's content; ``origin`` describes where the path of the store was set."""
    rows = _entry_rows(listing) if listing.each else _stage_rows(listing)
    header = ["stage", ">entries", ">size", ">took", ">oldest", ">newest", ">last used"]
    if listing.each:
        header = ["address", "stage", "class", ">size", ">rows", ">took", ">made", ">used", ">results", "of"]
    table: Block = Table(header, rows) if rows else lines(Statement("", "nothing is stored"))
    blocks = ([_named(listing.place, origin)], [table], [lines(_notes(listing))])
    return Document("Store", [Section(one) for one in blocks], _facts(listing))


def _named(place: StorePlace, origin: str) -> Block:
    return lines(Statement("store", f"{place.path} ({origin})", {"path": place.path}))


def _notes(listing: Listing) -> Iterator[Statement]:
    yield _disk(listing.place, listing.contents)
    if gone := sum(not item.there for item in listing.contents.items):
        yield Statement("gone", f"{_count_entries(gone)} without data: recomputed when needed", {"gone": gone})
    for path in listing.place.unknown():
        yield Statement("unknown", f"{path.relative_to(listing.place.folder)} does not belong to the store; skipped")
    if listing.unread:
        yield Statement("warning", f"{listing.unread}; the sweeps that used an entry are unknown")


def _disk(place: StorePlace, found: Contents) -> Statement:
    disk = shutil.disk_usage(place.folder)
    unused = f", {spelled(found.unused)} of it unused inside store.db" if found.unused >= 1e6 else ""
    text = f"the store uses {spelled(found.bytes)}{unused} · {spelled(disk.free)} of {spelled(disk.total)} free"
    return Statement("disk", text, {"bytes": found.bytes, "unused": found.unused, "free": disk.free})


def _stage_rows(listing: Listing) -> list[list[str]]:
    now, groups = time.time(), _by_stage(listing.entries)
    if len(groups) > 1:
        groups.append(("all", list(listing.entries)))
    if listing.stage is None:
        items = listing.contents.items
        groups += [(label, [one for one in items if one.sort == sort]) for sort, label in LEFTOVERS.items()]
    rows = []
    for label, group in groups:
        if group:
            sums = _sums(group)
            took = duration(sums["seconds"]) if any(item.stage for item in group) else ""
            ages = [ago(now - sums[name]) for name in ("oldest", "newest", "used")]
            rows.append([label, str(len(group)), spelled(sums["bytes"]), took, *ages])
    return rows


def _entry_rows(listing: Listing) -> list[list[str]]:
    now, rows = time.time(), []
    for item in sorted(listing.entries, key=lambda item: (item.stage, -item.used)):
        sweeps = Counter(name for user in item.users for name in listing.names.get(user, ("not in the ledger",)))
        named = [item.name[:SHORT], item.stage or "unlisted", item.target.rpartition(".")[2]]
        count = f"{item.rows:,}" if item.sort == "rows" else ""
        took = duration(item.seconds) if item.stage else ""
        ages = [ago(now - item.made), ago(now - item.used)]
        users = [str(len(item.users)), ", ".join(f"{name} ({count})" for name, count in sweeps.items())]
        rows.append([*named, spelled(item.bytes), count, took, *ages, *users])
    return rows


def _facts(listing: Listing) -> dict[str, Any]:
    place, found, disk = listing.place, listing.contents, shutil.disk_usage(listing.place.folder)
    facts: dict[str, Any] = {
        "path": place.path,
        "bytes": found.bytes,
        "disk_free": disk.free,
        "disk_total": disk.total,
        "database_bytes": found.database,
        "database_unused": found.unused,
        "stages": {stage: _sums(items) for stage, items in _by_stage(listing.entries)},
        "unknown": [path.relative_to(place.folder) for path in place.unknown()],
    }
    for sort in LEFTOVERS:
        items = [item for item in found.items if item.sort == sort]
        facts[sort] = {"count": len(items), "bytes": _bytes(items)}
    if listing.each:
        facts["entries"] = []
        for item in listing.entries:
            known = {key: value for key, value in asdict(item).items() if key not in ("name", "there", "written")}
            users = {user: listing.names.get(user, ()) for user in item.users}
            facts["entries"].append({**known, "address": item.name, "users": users})
    return facts


def _by_stage(items: Iterable[Item]) -> list[tuple[str, list[Item]]]:
    """Group items by stage, and items without a stage by ``sort``; the group with the most bytes comes first."""
    stages: dict[str, list[Item]] = {}
    for item in items:
        stages.setdefault(item.stage or LEFTOVERS.get(item.sort, "unlisted"), []).append(item)
    return sorted(stages.items(), key=lambda pair: -_bytes(pair[1]))


def _bytes(items: Iterable[Item]) -> int:
    return sum(item.bytes for item in items)


def _sums(items: Sequence[Item]) -> dict[str, float]:
    rows, seconds = sum(item.rows for item in items), sum(item.seconds for item in items)
    sums: dict[str, float] = {"entries": len(items), "bytes": _bytes(items), "rows": rows, "seconds": seconds}
    made, used = [item.made for item in items], [item.used for item in items]
    return sums | {"oldest": min(made), "newest": max(made), "used": max(used)}


def eviction_document(place: StorePlace, items: Sequence[Item], origin: str) -> Document:
    """Build the document of the items to remove; ``origin`` describes where the path of the store was set."""
    sections = [Section([_named(place, origin)])]
    if items:
        rows = []
        for stage, group in _by_stage(items):
            sums = _sums(group)
            rows.append([stage, str(len(group)), spelled(sums["bytes"]), duration(sums["seconds"])])
        sections.append(Section([Table(["remove", ">count", ">size", ">took to compute"], rows)]))
    text = _amount(items) or "nothing: no entry meets all conditions"
    sections.append(Section([lines(Statement("remove", text, {"items": len(items)}))]))
    return Document("Eviction", sections)


def removal_document(place: StorePlace, found: Contents, tried: Sequence[tuple[Item, str]], kept: str = "") -> Document:
    """Build the document of the items that were removed, and of the items that could not be removed.

    ``tried``: (item, reason why it was not removed, or "") pairs; ``kept``: why store.db keeps unused space, or "".
    """
    left = [Statement("left", f"{item.stage or item.sort} {item.name[:SHORT]}: {why}") for item, why in tried if why]
    removed = [item for item, why in tried if not why]
    done = Statement("removed", _amount(removed) or "nothing", {"removed": len(removed)})
    text = f"{spelled(found.unused)} in store.db stays unused until the next evict: {kept}"
    note = [Statement("note", text)] if kept else []
    return Document("Eviction", [Section([lines(left, done, note, _disk(place, found))])])


def _amount(items: Sequence[Item]) -> str:
    entries = sum(item.sort in ("whole", "rows") for item in items)
    counts = [_count_entries(entries)] if entries else []
    sorts = Counter[str](item.sort for item in items)
    counts += [f"{label}: {sorts[sort]:,}" for sort, label in LEFTOVERS.items() if sorts[sort]]
    cost = f" · {duration(_sums(items)['seconds'])} of computation" if entries else ""
    return f"{', '.join(counts)} · {spelled(_bytes(items))}{cost}" if items else ""


def _count_entries(number: int) -> str:
    return f"{number:,} {'entry' if number == 1 else 'entries'}"
