"""Remove what was chosen, beside processes that use the store.

First the data goes, then the row that tells of it. Wherever that is cut off, a row without data is left: a miss, which
the next computation fills and the next eviction removes. A whole value that another process has mapped stays readable
to it until it lets go; its room on the disk is free after that.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from ragsweep.stages.storekeeping.contents import Item, contents
from ragsweep.stages.storekeeping.place import Busy, Place, busy, is_address

WORTH_COPYING = 0.1
"""Share of the database that must be unused before the rest is copied to give that room back."""

CHANGED = "it was used meanwhile"
COMPUTED = "another process computes it"


def evict(place: Place, items: Sequence[Item]) -> Iterator[tuple[Item, str]]:
    """Remove items one by one, and yield each with why it was left, "" where it is gone."""
    gone, rows = [], [item for item in items if item.sort == "rows"]
    # Files first: on a full disk they make the room without which the database cannot even be opened for writing.
    with place.opened("ro") as connection:
        for item in items:
            if item.sort != "rows":
                why = _remove_files(place, connection, item)
                if item.sort == "whole" and not why:
                    gone.append(item.name)
                yield item, why
    if gone or rows:
        with place.opened("rw") as connection:
            # Or all that becomes free would be overwritten, by way of the log, for which a full disk has no room.
            connection.execute("PRAGMA secure_delete=OFF")
            for address in gone:
                _forget_file(place, connection, address)
            for item in rows:
                yield item, _remove_rows(place, connection, item)


def give_back(place: Place) -> str:
    """Give the room of removed rows back to the disk; return why it was left in the database, "" where nothing was.

    VACUUM copies what is kept, so it waits until that frees a good part. (An incremental vacuum would need no copy, but
    it moves pages one by one: twice the time for the same room, and the database would have to be made for it.) It is
    done only while nobody else has the database open: they would wait for as long as the copy takes, and after a
    minute go on without the store.
    """
    size, unused = place.database_bytes, contents(place).unused
    if unused <= WORTH_COPYING * size:
        return ""
    if shutil.disk_usage(place.folder).free < 2 * (size - unused):
        return "the disk has no room for the copy that would free it"
    try:
        with _copying_beside(place), place.opened_alone() as connection:
            connection.execute("VACUUM")
    except Busy:
        return "another process has it open"
    except sqlite3.Error as fault:
        return str(fault)
    return ""


def _remove_files(place: Place, connection: sqlite3.Connection, item: Item) -> str:
    if item.sort in ("quarantine", "temporary"):
        (place.folder / item.sort / item.name).unlink(missing_ok=True)
        return ""
    try:
        with place.locks.alone(item.name, busy):
            if item.sort == "pieces":
                shutil.rmtree(place.folder / "pieces" / item.name, ignore_errors=True)
            elif _changed(connection, item):
                return CHANGED
            elif is_address(item.name):
                (place.folder / "whole" / item.name).unlink(missing_ok=True)
            return ""
    except Busy:
        return COMPUTED


def _forget_file(place: Place, connection: sqlite3.Connection, address: str) -> None:
    """Remove the row of a value whose file was removed, unless another process makes it anew."""
    with suppress(Busy), place.locks.alone(address, busy):
        if not (is_address(address) and (place.folder / "whole" / address).exists()):
            _forget(connection, address)


def _remove_rows(place: Place, connection: sqlite3.Connection, item: Item) -> str:
    try:
        with place.locks.alone(item.name, busy):
            if _changed(connection, item):
                return CHANGED
            # One transaction a segment: freeing gigabytes takes seconds, and whoever else writes waits for its end.
            for number in connection.execute("SELECT id FROM segments WHERE address = ?", (item.name,)).fetchall():
                connection.execute("DELETE FROM segments WHERE id = ?", number)
            _forget(connection, item.name)
            return ""
    except Busy:
        return COMPUTED


def _forget(connection: sqlite3.Connection, address: str) -> None:
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("DELETE FROM uses WHERE address = ?", (address,))
    connection.execute("DELETE FROM entries WHERE address = ?", (address,))
    connection.execute("COMMIT")


def _changed(connection: sqlite3.Connection, item: Item) -> bool:
    """Say whether an entry is no longer what was listed, and shown to whoever said yes."""
    row = connection.execute("SELECT used, rows FROM entries WHERE address = ?", (item.name,)).fetchone()
    return row is not None and row != (item.used, item.rows)


@contextmanager
def _copying_beside(place: Place) -> Iterator[None]:
    """Let SQLite copy on the store's own disk, where the room was measured, not in the system's temporary folder."""
    before = os.environ.get("SQLITE_TMPDIR")
    os.environ["SQLITE_TMPDIR"] = str(place.folder / "temporary")
    try:
        yield
    finally:
        del os.environ["SQLITE_TMPDIR"]
        if before is not None:
            os.environ["SQLITE_TMPDIR"] = before
