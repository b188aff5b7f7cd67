"""Find a store's files, and open its database and locks without making anything."""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Literal, NoReturn

from ragsweep.database import SCHEMA
from ragsweep.errors import InputError
from ragsweep.locks import Locks, locks

DATABASE = ("store.db", "store.db-wal", "store.db-shm", "store.db-journal")
KNOWN = {"whole", "pieces", "temporary", "quarantine", "locks", *DATABASE}
"""What a store writes into its folder."""

_ADDRESS = re.compile(r"[0-9a-f]{64}")


class Busy(Exception):
    """Another process holds what would be changed."""


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
        """Open the database; where it was put aside, an empty one stands for it. Raises InputError where it cannot."""
        try:
            with _connected(self.database if self.database.exists() else None, mode) as connection:
                yield connection
        except sqlite3.Error as fault:
            raise InputError(
                f"cannot use {self.database}: {fault}; ragsweep store verify says whether it is damaged"
            ) from None

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
    where = f"{path.absolute().as_uri()}?mode={mode}" if path else ":memory:"
    if path and mode == "ro" and not os.access(path.parent, os.W_OK) and not path.with_name(DATABASE[1]).exists():
        where += "&immutable=1"  # SQLite would make files beside it even to read
    connection = sqlite3.connect(where, uri=path is not None, timeout=timeout, isolation_level=None)
    try:
        if path is None:
            connection.executescript(SCHEMA)
        yield connection
    finally:
        connection.close()
