"""Choose items of a store to evict, and remove them while other processes use the store.

The data of an entry is removed before its row in the database. An interruption between these steps leaves a row without
data. Such an entry counts as missing: the next computation adds the data, or the next eviction removes the row. If
another process has mapped a whole value into memory, the value stays readable there, and its disk space is freed when
that process unmaps it or ends.
"""

import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from ragsweep.core.errors import InputError
from ragsweep.stages.storekeeping import Busy, Contents, Item, StorePlace, SweepResults, busy, is_address

UNRECORDED = ("reply", "speed")
"""Stages of entries whose use by results is not recorded: replies to requests, and the speed of the machine."""


@dataclass(frozen=True)
class Conditions:
    """The conditions of an eviction; an item must meet every condition that is set (not None or False) to be removed.

    Files in quarantine are removed only if ``everything`` or ``quarantine`` is set; with ``quarantine``, nothing else
    is removed. Temporary files of live processes are never removed. With ``to_size``, items are removed, least recently
    used first, only until the store has at most ``to_size`` bytes.
    """

    older_than: float | None = None  # seconds since the last use
    unreachable: bool = False  # no result in the ledger depends on the item (see UNRECORDED)
    stage: str | None = None  # the stage of the item
    quarantine: bool = False  # only files in quarantine
    everything: bool = False  # also files in quarantine
    to_size: int | None = None  # maximum size of the store after the eviction, in bytes


def choose(contents: Contents, conditions: Conditions, results: SweepResults | None, now: float) -> list[Item]:
    """Return the items to evict, least recently used first; ``now`` is a Unix time.

    With ``conditions.unreachable``, raises InputError if there is no ledger (``results`` is None) or if no entry is
    recorded as used by a result in the ledger. While a sweep is running, a ledger without results is allowed.
    """
    if conditions.unreachable:
        if results is None:
            raise InputError("--unreachable: there is no ledger next to the store; use --older-than or --stage")
        used = {user for item in contents.entries for user in item.users}
        if (results.names or results.running is None) and not used & results.names.keys():
            raise InputError(
                "--unreachable: the store does not record which entries the results in the ledger use;"
                " use --older-than or --stage"
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


def _fulfils(item: Item, conditions: Conditions, results: SweepResults | None, now: float) -> bool:
    aside, is_reachable = item.sort == "quarantine", False
    if conditions.unreachable and results is not None:
        is_running = results.running is not None and item.used >= results.running  # a running sweep may have used it
        is_reachable = is_running or item.stage in UNRECORDED or any(user in results.names for user in item.users)
    return (
        (aside if conditions.quarantine else not aside or conditions.everything)
        and not item.written
        and (conditions.older_than is None or now - item.used >= conditions.older_than)
        and (conditions.stage is None or item.stage == conditions.stage)
        and not is_reachable
    )


CHANGED = "it has been used in the meantime"
COMPUTED = "another process is computing it"


def evict(place: StorePlace, items: Sequence[Item]) -> Iterator[tuple[Item, str]]:
    """Evict items one by one; yield each item with "" if it was removed, else with the reason for keeping it.

    Files are evicted before rows. Raises InputError if the database cannot be used, and OSError if a file cannot be
    removed.
    """
    gone, rows = [], [item for item in items if item.sort == "rows"]
    # Files first: on a full disk, this frees the space that is needed to open the database for writing.
    with place.opened("ro") as connection:
        for item in items:
            if item.sort != "rows":
                why = _remove(place, connection, item)
                if item.sort == "whole" and not why:
                    gone.append(item.name)
                yield item, why
    if gone or rows:
        with place.opened("rw") as connection:
            # Otherwise, SQLite may overwrite freed pages with zeros, first in its log; a full disk has no space for the
            # log.
            connection.execute("PRAGMA secure_delete=OFF")
            for address in gone:
                with suppress(Busy), place.locks.alone(address, busy):
                    # If another process has written the value again, its row is kept.
                    if not (is_address(address) and (place.folder / "whole" / address).exists()):
                        _forget(connection, address)
            for item in rows:
                yield item, _remove(place, connection, item)


def give_back(place: StorePlace) -> str:
    """Release the database's unused space to the file system; return "" on success, else the reason for the failure."""
    try:
        with place.opened("rw") as connection:
            connection.execute("PRAGMA busy_timeout=0")  # fail immediately if it is in use, because VACUUM locks it
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
                # One transaction per segment, because a single one could block other writers for seconds.
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
