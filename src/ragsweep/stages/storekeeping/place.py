"""Find a store's files, and open its database and locks without making anything."""

from __future__ import annotations

import re
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Literal, NoReturn

from ragsweep.core.errors import InputError
from ragsweep.core.locks import Locks, locks
from ragsweep.stages.database import SCHEMA

DATABASE = ("store.db", "store.db-wal", "store.db-shm", "store.db-journal")
KNOWN = {"whole", "pieces", "temporary", "quarantine", "locks", *DATABASE}
"""What a store writes into its folder."""

FULL = 1_000_000
"""Free bytes below which a disk is called full."""

_ADDRESS = re.compile(r"[0-9a-f]{64}")


class Busy(Exception):
    """Another process holds what would be changed."""


class DamagedDatabase(InputError):
    """The database cannot be read, and never will be."""


def is_address(name: str) -> bool:
    """Say whether a name is an address; no other name, of a file or in the database, is ever followed."""
    return bool(_ADDRESS.fullmatch(name))


def busy() -> NoReturn:
    """Wait for no lock: pass this to ``Locks.alone``."""
    raise Busy


class Place:
    """The store below ``path``, the folder that store.path names; raises InputError where there is none."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.folder = path / "stages"
        if not (self.folder / "whole").is_dir():
            inside = path.name == "stages" and (path / "whole").is_dir()
            hint = f"did you mean {path.parent}?" if inside else "the first ragsweep run makes it; --path names another"
            raise InputError(f"no store in {path}; {hint}")

    @cached_property
    def locks(self) -> Locks:
        """Return the locks by which processes tell each other what they compute."""
        return locks(self.folder / "locks")

    @property
    def database(self) -> Path:
        """Return the path of the database."""
        return self.folder / "store.db"

    @property
    def database_bytes(self) -> int:
        """Return the size of the database and its log."""
        return sum(path.stat().st_size for name in DATABASE if (path := self.folder / name).exists())

    def whole(self) -> Iterator[Path]:
        """Yield the files of whole values."""
        for path in sorted((self.folder / "whole").iterdir()):
            if is_address(path.name) and path.is_file() and not path.is_symlink():
                yield path

    def pieces(self) -> Iterator[Path]:
        """Yield the folders with pieces of interrupted computations."""
        for path in sorted((self.folder / "pieces").glob("*")):
            if is_address(path.name) and path.is_dir() and not path.is_symlink():
                yield path

    def unknown(self) -> list[Path]:
        """List what is in the folder and was not written by a store."""
        inside = {*self.whole(), *self.pieces()}
        files = [path for name in ("whole", "pieces") for path in sorted((self.folder / name).glob("*"))]
        above = [path for path in sorted(self.folder.iterdir()) if path.name not in KNOWN]
        return above + [path for path in files if path not in inside]

    @contextmanager
    def opened(self, mode: Literal["ro", "rw"]) -> Iterator[sqlite3.Connection]:
        """Open the database; where it was put aside, an empty one stands for it.

        Raises InputError where that cannot be, DamagedDatabase where the file is no database any more.
        """
        try:
            with _connected(self.database if self.database.exists() else None, mode) as connection:
                yield connection
        except sqlite3.DatabaseError as fault:
            if not isinstance(fault, sqlite3.OperationalError):
                raise DamagedDatabase(
                    f"{self.database} is damaged: {fault}; ragsweep store verify puts it aside"
                ) from None
            full = shutil.disk_usage(self.folder).free < FULL
            raise InputError(f"cannot use {self.database}: {fault}{'; its disk is full' if full else ''}") from None

    @contextmanager
    def opened_alone(self) -> Iterator[sqlite3.Connection]:
        """Open the database while nobody else has; raises Busy where somebody has, sqlite3.Error where it cannot."""
        with self.locks.alone(self.database.name, busy), _connected(self.database, "rw", timeout=0) as connection:
            try:
                connection.execute("PRAGMA journal_mode=DELETE")  # which is granted to the only one
            except sqlite3.OperationalError:
                raise Busy from None
            yield connection
            connection.execute("PRAGMA journal_mode=WAL")


@contextmanager
def _connected(path: Path | None, mode: str, timeout: float = 60) -> Iterator[sqlite3.Connection]:
    """Open a database that exists; of None, an empty store's."""
    connection = _connect(path, mode, timeout)
    try:
        yield connection
    finally:
        connection.close()


def _connect(path: Path | None, mode: str, timeout: float) -> sqlite3.Connection:
    if path is None:
        connection = sqlite3.connect(":memory:", isolation_level=None)
        connection.executescript(SCHEMA)
        return connection
    where = f"{path.absolute().as_uri()}?mode={mode}"
    connection = sqlite3.connect(where, uri=True, timeout=timeout, isolation_level=None)
    try:
        connection.execute("PRAGMA schema_version")
    except sqlite3.OperationalError:
        connection.close()
        # Even to read, SQLite makes files beside a database. Where it cannot, and no log is waiting, do without.
        log = path.with_name(DATABASE[1])
        if mode != "ro" or (log.exists() and log.stat().st_size):
            raise
        connection = sqlite3.connect(f"{where}&immutable=1", uri=True, isolation_level=None)
    except BaseException:
        connection.close()
        raise
    return connection
