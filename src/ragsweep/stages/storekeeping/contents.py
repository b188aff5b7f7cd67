"""List what a store holds, from names, sizes and the database's rows: no value is read."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from ragsweep.stages.store import still_written
from ragsweep.stages.storekeeping.place import Place

Sort = Literal["whole", "rows", "pieces", "quarantine", "temporary"]


@dataclass(frozen=True)
class Item:
    """Something in the store: a whole value, all rows of a node, or files that are no entry.

    ``seconds`` is what it took to compute; ``made`` and ``used`` are Unix times, the file's own where no row tells.
    """

    sort: Sort
    name: str  # the address; in quarantine/ and temporary/, the file's name
    bytes: int
    made: float
    used: float
    stage: str = ""
    target: str = ""
    rows: int = 0
    seconds: float = 0.0
    users: tuple[str, ...] = ()  # signatures of the configs whose results were made from it
    there: bool = True  # False: a row whose data is gone
    written: bool = False  # a temporary file whose process still writes it


@dataclass(frozen=True)
class Contents:
    """What a store holds: its items, and what is unused inside its database."""

    items: tuple[Item, ...]
    database: int  # bytes of the database and its log
    unused: int  # bytes of it that hold nothing any more

    @cached_property
    def entries(self) -> list[Item]:
        """Return what can be recalled."""
        return [item for item in self.items if item.sort in ("whole", "rows") and item.there]

    @cached_property
    def bytes(self) -> int:
        """Return the room that the store takes on its disk."""
        return sum(item.bytes for item in self.items if item.sort != "rows") + self.database

    def of(self, sort: Sort) -> list[Item]:
        """Return the items of one sort."""
        return [item for item in self.items if item.sort == sort]


def contents(place: Place) -> Contents:
    """List everything in a store; raises InputError where its database cannot be read."""
    files = {}
    for path in place.whole():
        with suppress(FileNotFoundError):
            files[path.name] = path.stat()
    with place.opened("ro") as connection:
        items = list(_entries(connection, files))
        ((size,), (free,)) = (connection.execute(f"PRAGMA {of}").fetchone() for of in ("page_size", "freelist_count"))
    listed = {item.name for item in items}
    items += [_file("whole", name, stat) for name, stat in files.items() if name not in listed]
    items += [*_loose(place, "quarantine"), *_loose(place, "temporary"), *_pieces(place)]
    return Contents(tuple(items), place.database_bytes, size * free)


def _entries(connection: sqlite3.Connection, files: dict[str, os.stat_result]) -> Iterator[Item]:
    """Make items of the database's rows, with the sizes of what is really there."""
    segments = dict(connection.execute("SELECT address, sum(length(data)) FROM segments GROUP BY address"))
    users: dict[str, list[str]] = {}
    for address, user in connection.execute("SELECT address, user FROM uses ORDER BY at"):
        users.setdefault(address, []).append(user)
    for address, stage, target, kind, rows, seconds, made, used in connection.execute(
        "SELECT address, stage, target, kind, rows, seconds, made, used FROM entries ORDER BY address"
    ):
        data = segments.pop(address, None)
        if kind == "whole" and address in files:
            data = files[address].st_size
        yield Item(
            "rows" if kind == "rows" else "whole", str(address), data or 0, made, used, str(stage), str(target), rows,
            seconds, tuple(users.get(address, ())), data is not None,
        )  # fmt: skip
    for address, size in segments.items():
        yield Item("rows", str(address), size, 0.0, 0.0)


def _file(sort: Sort, name: str, stat: os.stat_result) -> Item:
    return Item(sort, name, stat.st_size, stat.st_mtime, stat.st_mtime)


def _pieces(place: Place) -> Iterator[Item]:
    for folder in place.pieces():
        with suppress(FileNotFoundError):  # its value is whole by now
            stats = [path.lstat() for path in folder.iterdir()]
            times = [stat.st_mtime for stat in stats] or [folder.stat().st_mtime]
            yield Item("pieces", folder.name, sum(stat.st_size for stat in stats), min(times), max(times))


def _loose(place: Place, sort: Literal["quarantine", "temporary"]) -> Iterator[Item]:
    for path in sorted((place.folder / sort).glob("*")):
        with suppress(FileNotFoundError):
            item, put_aside = _file(sort, path.name, path.lstat()), path.name.partition("-")[0]
            if sort == "temporary":
                yield replace(item, written=still_written(item.name, time.time() - item.used))
            else:
                yield replace(item, used=int(put_aside) / 1e9) if put_aside.isdecimal() else item
