"""List the contents of a store without reading the values, and the results in the ledger next to the store."""

import os
import re
import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Literal, NamedTuple, NoReturn

from ragsweep.core.errors import InputError
from ragsweep.core.locks import Holder, Locks, locks
from ragsweep.stages.database import SCHEMA
from ragsweep.stages.store_files import still_written

DATABASE = ("store.db", "store.db-wal", "store.db-shm", "store.db-journal")
KNOWN = {"whole", "pieces", "temporary", "quarantine", "locks", *DATABASE}
"""The names of the files and folders of a store."""

FULL = 1_000_000
"""Free bytes below which a disk is considered full."""


class Busy(Exception):
    """Raised if another process holds the lock on an entry."""


def is_address(name: str) -> bool:
    """Return whether a name has the form of an address; other names from a database are not used as paths."""
    return bool(re.fullmatch(r"[0-9a-f]{64}", name))


def busy() -> NoReturn:
    """Raise Busy; as the argument ``waiting`` of ``Locks.alone``, this function prevents a wait for the lock."""
    raise Busy


class StorePlace:
    """The store below ``path``, the value of store.path; raises InputError if there is none."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.folder = path / "stages"
        self.database = self.folder / "store.db"
        if not (self.folder / "whole").is_dir():
            inside = path.name == "stages" and (path / "whole").is_dir()
            hint = f"did you mean {path.parent}?" if inside else "run a config first, or pass another --path"
            raise InputError(f"no store in {path}; {hint}")

    @cached_property
    def locks(self) -> Locks:
        """The locks of the store; a process that computes a node holds the lock with the node's address as its name."""
        return locks(self.folder / "locks")

    def whole(self) -> list[Path]:
        """List the files of whole values."""
        files = sorted((self.folder / "whole").iterdir())
        return [path for path in files if is_address(path.name) and path.is_file() and not path.is_symlink()]

    def pieces(self) -> list[Path]:
        """List the folders with pieces of whole values whose computation is running or was interrupted."""
        folders = sorted((self.folder / "pieces").glob("*"))
        return [path for path in folders if is_address(path.name) and path.is_dir() and not path.is_symlink()]

    def unknown(self) -> list[Path]:
        """List the files and folders in the store's folder that are not part of a store."""
        inside = {*self.whole(), *self.pieces()}
        files = [path for name in ("whole", "pieces") for path in sorted((self.folder / name).glob("*"))]
        above = [path for path in sorted(self.folder.iterdir()) if path.name not in KNOWN]
        return above + [path for path in files if path not in inside]

    @contextmanager
    def opened(self, mode: Literal["ro", "rw"]) -> Iterator[sqlite3.Connection]:
        """Open the database, or an empty one in memory if the file does not exist (as after a move to quarantine).

        Raises InputError if the database cannot be opened, or if a statement in the block fails.
        """
        try:
            with closing(self._connect(mode)) as connection:
                yield connection
        except sqlite3.DatabaseError as fault:
            if not isinstance(fault, sqlite3.OperationalError):
                raise InputError(f"{self.database} is damaged: {fault}; the next run moves it to quarantine") from None
            full = shutil.disk_usage(self.folder).free < FULL
            way = "free space on its disk" if full else "check its permissions, or wait until no process writes to it"
            raise InputError(f"cannot use {self.database}: {fault}; {way}") from None

    def _connect(self, mode: str) -> sqlite3.Connection:
        if not self.database.exists():
            connection = sqlite3.connect(":memory:", isolation_level=None)
            connection.executescript(SCHEMA)
            return connection
        return _open(self.database, mode)


def _open(path: Path, mode: str) -> sqlite3.Connection:
    where = f"{path.absolute().as_uri()}?mode={mode}"
    connection = sqlite3.connect(where, uri=True, timeout=60, isolation_level=None)
    try:
        connection.execute("PRAGMA schema_version")
    except BaseException as fault:
        connection.close()
        # SQLite creates companion files even to read a database. If it cannot, and there is no log to read, open the
        # database as immutable, without companion files.
        log = path.with_name(f"{path.name}-wal")
        waiting = log.exists() and log.stat().st_size
        if not isinstance(fault, sqlite3.OperationalError) or mode != "ro" or waiting:
            raise
        connection = sqlite3.connect(f"{where}&immutable=1", uri=True, isolation_level=None)
    return connection


Sort = Literal["whole", "rows", "pieces", "quarantine", "temporary"]


@dataclass(frozen=True)
class Item:
    """An item of the store: a whole value, its pieces, all rows of a node, or a file in quarantine/ or temporary/.

    ``seconds`` is the computing time, 0 if unknown. ``made`` and ``used`` are the Unix times of creation and last
    use. They are read from the database or, if the item has no entry there, from its files; they are 0 for rows without
    an entry. ``used`` of a file in quarantine is the time at which it was moved there.
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
    users: tuple[str, ...] = ()  # signatures of configs with results that depend on the item
    there: bool = True  # False if the database lists the item, but its data is missing
    written: bool = False  # whether the item is a temporary file of a live process


@dataclass(frozen=True)
class Contents:
    """The contents of a store: its items, and the size of its database."""

    items: tuple[Item, ...]
    database: int  # bytes of the database and its log
    unused: int  # unused bytes inside the database

    @cached_property
    def entries(self) -> list[Item]:
        """The items that are whole values or rows, and whose data exists."""
        return [item for item in self.items if item.sort in ("whole", "rows") and item.there]

    @cached_property
    def bytes(self) -> int:
        """The bytes that the store occupies on disk."""
        return sum(item.bytes for item in self.items if item.sort != "rows") + self.database


def contents(place: StorePlace) -> Contents:
    """List everything in a store; raises InputError if its database cannot be read."""
    files = {}
    for path in place.whole():
        with suppress(FileNotFoundError):
            files[path.name] = path.stat()
    with place.opened("ro") as connection:
        items = list(_entries(connection, files))
        ((size,), (free,)) = (connection.execute(f"PRAGMA {of}").fetchone() for of in ("page_size", "freelist_count"))
    listed = {item.name for item in items}
    items += [_file("whole", name, stat) for name, stat in files.items() if name not in listed]
    sorts: tuple[Sort, ...] = ("quarantine", "temporary")
    for sort in sorts:
        for path in sorted((place.folder / sort).glob("*")):
            with suppress(FileNotFoundError):
                item, aside = _file(sort, path.name, path.lstat()), path.name.partition("-")[0]
                if sort == "temporary":
                    item = replace(item, written=still_written(item.name, time.time() - item.used))
                elif aside.isdecimal():  # the time of the move
                    item = replace(item, used=int(aside) / 1e9)
                items.append(item)
    for folder in place.pieces():
        with suppress(FileNotFoundError):  # the folder was removed in the meantime, because the value is complete
            stats = [path.lstat() for path in folder.iterdir()]
            times = [stat.st_mtime for stat in stats] or [folder.stat().st_mtime]
            items.append(Item("pieces", folder.name, sum(stat.st_size for stat in stats), min(times), max(times)))
    database = sum(path.stat().st_size for name in DATABASE if (path := place.folder / name).exists())
    return Contents(tuple(items), database, size * free)


def _entries(connection: sqlite3.Connection, files: dict[str, os.stat_result]) -> Iterator[Item]:
    """Yield the entries in the database, and rows without an entry; ``files`` contains the files of whole values."""
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
            "rows" if kind == "rows" else "whole",
            str(address),
            data or 0,
            made,
            used,
            str(stage),
            str(target),
            rows,
            seconds,
            tuple(users.get(address, ())),
            data is not None,
        )
    for address, size in segments.items():
        yield Item("rows", str(address), size, 0.0, 0.0)


def _file(sort: Sort, name: str, stat: os.stat_result) -> Item:
    return Item(sort, name, stat.st_size, stat.st_mtime, stat.st_mtime)


class SweepResults(NamedTuple):
    """The results in a ledger, and whether a sweep is running.

    ``names`` maps the signature of each config with a result to the names of its sweeps; the name is "single runs" if
    a result has no sweep. ``running`` is the Unix time at which the oldest running sweep was created; None if no sweep
    is running.
    """

    names: dict[str, tuple[str, ...]]
    running: float | None


def read_results(place: StorePlace) -> SweepResults | None:
    """Return the results in the ledger next to a store; None if there is no ledger.

    Raises InputError if the ledger cannot be read.
    """
    path = place.path / "ledger.db"
    if not path.exists():
        return None
    try:
        with closing(_open(path, "ro")) as connection:
            rows = connection.execute(
                "SELECT signature, coalesce(name, 'single runs') FROM records"
                " LEFT JOIN sweeps ON sweeps.id = records.sweep WHERE signature IS NOT NULL ORDER BY records.id"
            ).fetchall()
            claims = connection.execute(
                "SELECT host, process, claims.started, heartbeat, sweeps.created FROM claims"
                " JOIN sweeps ON sweeps.id = claims.sweep"
            ).fetchall()
    except sqlite3.Error as fault:
        raise InputError(
            f"cannot read {path}: {fault}; check its permissions, restore a copy, or move it to another folder"
        ) from None
    names: dict[str, dict[str, None]] = {}
    for signature, name in rows:
        names.setdefault(signature, {})[name] = None
    now = time.time()
    living = [began for *holder, beat, began in claims if Holder(*holder).lives(now - beat)]
    return SweepResults({signature: tuple(found) for signature, found in names.items()}, min(living, default=None))
