"""Read everything in a store, and put aside what is not what was written."""

from __future__ import annotations

import mmap
import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from ragsweep.core.identity import content_hash
from ragsweep.stages.blobs import Damaged, OtherFormat, unpack
from ragsweep.stages.storekeeping.place import DATABASE, Busy, DamagedDatabase, Place, busy

Fault = Damaged | OtherFormat | None
ASIDE = "put into quarantine"


class Checked(NamedTuple):
    """A file or segment that was read, and what is wrong with it."""

    name: str
    bytes: int
    fault: Fault = None
    done: str = ""  # what was done about it, or why nothing was


def checkable(place: Place) -> int:
    """Return how many bytes there are to be read, near enough to show how far it is."""
    files = [*place.whole(), *(path for folder in place.pieces() for path in folder.iterdir())]
    return sum(path.stat().st_size for path in files if path.exists()) + place.database_bytes


def verify(place: Place, dry_run: bool = False) -> Iterator[Checked]:
    """Read everything, and yield it one by one; unless ``dry_run``, what is damaged is put into quarantine.

    What another version of ragsweep wrote is a fault of its own kind, and left alone. Raises InputError where the
    database cannot be opened, on a full disk for example: that is no damage.
    """
    for path in place.whole():
        yield _file(place, path, path.name, dry_run)
    for folder in place.pieces():
        for path in sorted(folder.glob("*")):
            yield _file(place, path, f"{folder.name}/{path.name}", dry_run)
    try:
        with place.opened("ro") as connection:
            numbers = _segment_numbers(connection)
    except (DamagedDatabase, Damaged) as fault:
        yield _database(place, Damaged(str(fault)), dry_run)
        return
    yield from _segments(place, numbers, dry_run)


def _file(place: Place, path: Path, address: str, dry_run: bool) -> Checked:
    checked = Checked(str(path.relative_to(place.folder)), *_read(path, address))
    if dry_run or not isinstance(checked.fault, Damaged):
        return checked
    try:
        with place.locks.alone(address.partition("/")[0], busy):
            if _read(path, address)[1] is None:
                return checked._replace(fault=None)  # written anew meanwhile
            path.replace(_quarantine(place, f"{path.parent.name}-{path.name}"))
            return checked._replace(done=ASIDE)
    except Busy:
        return checked._replace(done="left: another process works on it")


def _read(path: Path, address: str) -> tuple[int, Fault]:
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if not size:
                return 0, Damaged("it is empty")
            return size, _fault(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), address)
    except FileNotFoundError:
        return 0, None  # removed meanwhile
    except OSError as fault:
        return 0, Damaged(str(fault))


def _segment_numbers(connection: sqlite3.Connection) -> list[int]:
    """Check the database itself, and list its segments."""
    (said, *_) = [text for (text,) in connection.execute("PRAGMA integrity_check(1)")]
    if said != "ok":
        raise Damaged(" ".join(said.split()))
    return [number for (number,) in connection.execute("SELECT id FROM segments ORDER BY id")]


def _segments(place: Place, numbers: Sequence[int], dry_run: bool) -> Iterator[Checked]:
    with place.opened("ro" if dry_run else "rw") as connection:
        for number in numbers:
            row = connection.execute("SELECT address, keys, data FROM segments WHERE id = ?", (number,)).fetchone()
            if row is None:
                continue  # removed meanwhile
            address, listed, data = row
            size = len(data) if isinstance(data, bytes) else 0
            checked = Checked(f"store.db, segment {number} of {str(address)[:12]}", size, _fault(data, address, listed))
            if isinstance(checked.fault, Damaged) and not dry_run:
                _write_private(_quarantine(place, f"segment-{number}"), data if size else repr(data).encode())
                connection.execute("DELETE FROM segments WHERE id = ?", (number,))
                checked = checked._replace(done=ASIDE)
            yield checked


def _fault(data: Any, address: str, listed: str | None = None) -> Fault:
    """Say what is wrong with the bytes of an entry, whose rows are ``listed`` by their hash."""
    try:
        keys = unpack(data, address, dict).keys
    except OtherFormat as fault:
        return OtherFormat(str(fault))
    except (Damaged, ValueError, KeyError, TypeError) as fault:
        return Damaged(str(fault))
    if listed is not None and content_hash(list(dict.fromkeys(keys or ()))) != listed:
        return Damaged("its rows are not those it is listed under")
    return None


def _database(place: Place, fault: Damaged, dry_run: bool) -> Checked:
    checked = Checked("store.db", place.database_bytes, fault)
    if dry_run:
        return checked
    try:
        with place.locks.alone(place.database.name, busy):
            with suppress(sqlite3.Error), place.opened_alone():
                pass  # nobody else has it open
            for path in [path for name in DATABASE if (path := place.folder / name).exists()]:
                path.replace(_quarantine(place, path.name))
    except Busy:
        return checked._replace(done="left: another process has it open; verify again when nothing uses the store")
    return checked._replace(done=f"{ASIDE}: the rows it held are computed again")


def _quarantine(place: Place, name: str) -> Path:
    folder = place.folder / "quarantine"
    folder.mkdir(exist_ok=True, mode=0o700)
    return folder / f"{time.time_ns()}-{name}"


def _write_private(path: Path, data: bytes) -> None:
    path.touch(mode=0o600, exist_ok=False)
    path.write_bytes(data)
