"""Choose what of a store shall go, and remove it beside processes that use the store.

First the data goes, then the row that describes it. Wherever that is cut off, a row without data is left: a miss, which
the next computation fills and the next eviction removes. A whole value that another process has mapped stays readable
to that process; its room on the disk is free after it ends.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from ragsweep.core.errors import InputError
from ragsweep.stages.storekeeping import Busy, Contents, Item, StorePlace, SweepResults, busy, is_address


@dataclass(frozen=True)
class Conditions:
    """What shall be removed: whatever fulfils all of these; None and False ask for nothing.

    Files in quarantine are meant only where ``quarantine`` (then nothing else is) or ``everything`` says so.
    """

    older_than: float | None = None  # seconds since the last use
    unreachable: bool = False
    stage: str | None = None
    quarantine: bool = False
    everything: bool = False
    to_size: int | None = None  # bytes that the store may take after it


def choose(contents: Contents, conditions: Conditions, results: SweepResults | None, now: float) -> list[Item]:
    """Return what fulfils all conditions, the least recently used first; raises InputError where that is not known."""
    if conditions.unreachable:
        if results is None:
            raise InputError("--unreachable: no ledger beside the store, so its results are not known")
        used = {user for item in contents.entries for user in item.users}
        if results.names and not used & results.names.keys():
            raise InputError(
                "--unreachable: no entry records a result in the ledger as its user; use --older-than or --stage"
            )
    chosen = sorted(
        (item for item in contents.items if _fulfils(item, conditions, results, now)), key=lambda item: item.used
    )
    if conditions.to_size is None:
        return chosen
    left, count = contents.bytes - contents.unused, 0
    while count < len(chosen) and left > conditions.to_size:
        left -= chosen[count].bytes
        count += 1
    return chosen[:count]


def reachable(item: Item, results: SweepResults) -> bool:
    """Return whether a result in the ledger was made from an item, or a sweep that still runs may have touched it."""
    running = results.running is not None and item.used >= results.running
    return running or any(user in results.names for user in item.users)


def _fulfils(item: Item, conditions: Conditions, results: SweepResults | None, now: float) -> bool:
    aside = item.sort == "quarantine"
    return (
        (aside if conditions.quarantine else not aside or conditions.everything)
        and not item.written
        and (conditions.older_than is None or now - item.used >= conditions.older_than)
        and (conditions.stage is None or item.stage == conditions.stage)
        and not (conditions.unreachable and results is not None and reachable(item, results))
    )


CHANGED = "it was used meanwhile"
COMPUTED = "another process computes it"


def evict(place: StorePlace, items: Sequence[Item]) -> Iterator[tuple[Item, str]]:
    """Remove items one by one, and yield each with why it was left, "" where it is gone."""
    gone, rows = [], [item for item in items if item.sort == "rows"]
    # Files first: on a full disk they make the room without which the database cannot even be opened for writing.
    with place.opened("ro") as connection:
        for item in items:
            if item.sort != "rows":
                why = _remove(place, connection, item)
                if item.sort == "whole" and not why:
                    gone.append(item.name)
                yield item, why
    if gone or rows:
        with place.opened("rw") as connection:
            # Or all that becomes free would be overwritten, by way of the log, for which a full disk has no room.
            connection.execute("PRAGMA secure_delete=OFF")
            for address in gone:
                with suppress(Busy), place.locks.alone(address, busy):
                    if not (is_address(address) and (place.folder / "whole" / address).exists()):  # made anew
                        _forget(connection, address)
            for item in rows:
                yield item, _remove(place, connection, item)


def give_back(place: StorePlace) -> str:
    """Free the database's unused space; return why that was not possible, or an empty text."""
    try:
        with place.opened("rw") as connection:
            connection.execute("PRAGMA busy_timeout=0")  # others would wait for as long as the copy takes
            connection.execute("VACUUM")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except (sqlite3.Error, InputError) as fault:
        return str(fault)
    return ""


def _remove(place: StorePlace, connection: sqlite3.Connection, item: Item) -> str:
    if item.sort in ("quarantine", "temporary"):
        (place.folder / item.sort / item.name).unlink(missing_ok=True)
        return ""
    try:
        with place.locks.alone(item.name, busy):
            if item.sort == "pieces":
                shutil.rmtree(place.folder / "pieces" / item.name, ignore_errors=True)
                return ""
            row = connection.execute("SELECT used, rows FROM entries WHERE address = ?", (item.name,)).fetchone()
            if row is not None and row != (item.used, item.rows):
                return CHANGED
            if item.sort == "rows":
                # One transaction a segment: freeing gigabytes takes seconds, and other writers wait for its end.
                for number in connection.execute("SELECT id FROM segments WHERE address = ?", (item.name,)).fetchall():
                    connection.execute("DELETE FROM segments WHERE id = ?", number)
                _forget(connection, item.name)
            elif is_address(item.name):
                (place.folder / "whole" / item.name).unlink(missing_ok=True)
            return ""
    except Busy:
        return COMPUTED


def _forget(connection: sqlite3.Connection, address: str) -> None:
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("DELETE FROM uses WHERE address = ?", (address,))
    connection.execute("DELETE FROM entries WHERE address = ?", (address,))
    connection.execute("COMMIT")
