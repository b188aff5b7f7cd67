"""The documents of ``ragsweep store``."""

import shutil
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

from ragsweep.report.document import Block, Document, Section, Statement, Table, lines
from ragsweep.report.numbers import ago, duration, spelled
from ragsweep.stages.storekeeping import Contents, Item, StorePlace, SweepResults

LEFTOVERS = {"pieces": "pieces of interrupted computations", "quarantine": "quarantine", "temporary": "temporary files"}
SHORT = 12  # displayed characters of an address


class Listing(NamedTuple):
    """The content of a store, and the entries to list: all, or those of one stage."""

    place: StorePlace
    contents: Contents
    entries: Sequence[Item]
    stage: str | None
    each: bool  # list single entries, not sums by stage
    results: SweepResults | None
    unread: str = ""  # why the ledger could not be read

    @property
    def names(self) -> Mapping[str, tuple[str, ...]]:
        """Signature of a result -> names of the sweeps that have it; empty without a readable ledger."""
        return self.results.names if self.results else {}


def listing_document(listing: Listing, origin: str) -> Document:
    """Build the document of a store's content; ``origin`` says where the store's path was set."""
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
        yield Statement("unknown", f"{path.relative_to(listing.place.folder)} is not the store's; skipped")
    if listing.unread:
        yield Statement("warning", f"{listing.unread}; the sweeps that used an entry are unknown")


def _disk(place: StorePlace, found: Contents) -> Statement:
    disk = shutil.disk_usage(place.folder)
    unused = f", {spelled(found.unused)} of it unused inside store.db" if found.unused >= 1e6 else ""
    text = f"the store takes {spelled(found.bytes)}{unused} · {spelled(disk.free)} of {spelled(disk.total)} free"
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
        facts["entries"] = [_entry_facts(item, listing.names) for item in listing.entries]
    return facts


def _entry_facts(item: Item, names: Mapping[str, tuple[str, ...]]) -> dict[str, Any]:
    facts = {key: value for key, value in asdict(item).items() if key not in ("name", "there", "written")}
    return {**facts, "address": item.name, "users": {user: names.get(user, ()) for user in item.users}}


def _by_stage(items: Iterable[Item]) -> list[tuple[str, list[Item]]]:
    """Group items by stage, and those without a stage by their kind; the largest group comes first."""
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
    """Build the document of the items to remove."""
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
    """Build the document of the removed items, and of those that could not be removed.

    ``tried`` has each item with the reason why it was not removed, or "". ``kept`` is why store.db keeps unused space,
    or "". ``found`` is the present content of the store.
    """
    left = [Statement("left", f"{item.stage or item.sort} {item.name[:SHORT]}: {why}") for item, why in tried if why]
    removed = [item for item, why in tried if not why]
    done = Statement("removed", _amount(removed) or "nothing", {"removed": len(removed)})
    text = f"{spelled(found.unused)} stay unused inside store.db until the next evict: {kept}"
    note = [Statement("note", text)] if kept else []
    return Document("Eviction", [Section([lines(left, done, note, _disk(place, found))])])


def _amount(items: Sequence[Item]) -> str:
    """Describe items by their number, size and computing time; "" for none."""
    entries = sum(item.sort in ("whole", "rows") for item in items)
    counts = [_count_entries(entries)] if entries else []
    sorts = Counter[str](item.sort for item in items)
    counts += [f"{label}: {sorts[sort]:,}" for sort, label in LEFTOVERS.items() if sorts[sort]]
    cost = f" · {duration(_sums(items)['seconds'])} of computing" if entries else ""
    return f"{', '.join(counts)} · {spelled(_bytes(items))}{cost}" if items else ""


def _count_entries(number: int) -> str:
    return f"{number:,} {'entry' if number == 1 else 'entries'}"
