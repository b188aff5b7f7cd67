"""The names that users give to sweeps and configs, so that commands can refer to them."""

from __future__ import annotations

import re
import sqlite3

from ragsweep.core.errors import ConfigError
from ragsweep.records import checksums
from ragsweep.records.ledger_file import LedgerFile


class Names:
    """Keep names in a ledger: each stands for ``SWEEP``, ``SWEEP#NUMBER`` or ``record NUMBER``, by whole ids."""

    def __init__(self, file: LedgerFile) -> None:
        self._file = file

    def all(self) -> dict[str, str]:
        """Return name -> what it stands for, the oldest first."""
        with self._file.reading() as connection:
            return {row["name"]: row["target"] for row in checksums.read_whole(connection, "names")}

    def of(self, target: str) -> list[str]:
        """List the names of a sweep, config or record."""
        return [name for name, one in self.all().items() if one == target]

    def give(self, name: str, target: str, signature: str = "") -> None:
        """Give a name; raise ConfigError for an invalid or taken one.

        A later round of its sweep takes it over, and so does a single run of the config with the same ``signature``.
        """
        check_name(name)
        with self._file.transaction() as connection:
            _check_free(connection, name, target, signature)
            with checksums.changing(connection, "names", "name = ?", name):
                connection.execute("INSERT OR REPLACE INTO names VALUES (?, ?)", (name, target))

    def check_free(self, name: str, target: str, signature: str = "") -> None:
        """Raise ConfigError where a name stands for something else; "" stands for what is not made yet."""
        with self._file.reading() as connection:
            _check_free(connection, name, target, signature)

    def shown(self, target: str) -> str:
        """Write what a name stands for as lists of runs show it."""
        with self._file.reading() as connection:
            return _shown(connection, target)

    def drop(self, name: str) -> bool:
        """Free a name; return whether it was given."""
        with self._file.transaction() as connection, checksums.changing(connection, "names", "name = ?", name):
            return connection.execute("DELETE FROM names WHERE name = ?", (name,)).rowcount > 0


def check_name(name: object) -> None:
    """Raise ConfigError for a name that could not be told from a run's id or ``SWEEP#NUMBER``."""
    if not isinstance(name, str) or not re.fullmatch(r"[^\W\d_][\w.-]*", name):
        raise ConfigError(f"name: {name!r} is none; begin with a letter, and go on with letters, digits, . _ and -")
    if re.fullmatch(r"[0-9a-f]{8,}", name):
        raise ConfigError(f'name: "{name}" looks like the id of a run; add a letter after f, or write fewer than 8')


def _check_free(connection: sqlite3.Connection, name: str, target: str, signature: str) -> None:
    row = connection.execute("SELECT target FROM names WHERE name = ?", (name,)).fetchone()
    if row and row[0] not in (target, *_runs_of(connection, signature)) and not _is_round(row[0], target):
        raise ConfigError(f'name: "{name}" is taken by {_shown(connection, row[0])}; choose another, or free it:'
                          f" ragsweep name --drop {name}")  # fmt: skip


def _shown(connection: sqlite3.Connection, target: str) -> str:
    """Shorten a target's ids; a sweep with a run in a tracker is shown by that run's id."""
    sweep, mark, number = target.partition("#")
    row = connection.execute("SELECT parent FROM sweeps WHERE id = ?", (sweep,)).fetchone()
    return f"{(row[0] or sweep)[:8]}{mark}{number}" if row else target


def _runs_of(connection: sqlite3.Connection, signature: str) -> list[str]:
    """List the single runs of a config."""
    rows = connection.execute("SELECT id FROM records WHERE sweep IS NULL AND signature = ?", (signature,))
    return [f"record {number}" for (number,) in rows]


def _is_round(one: str, other: str) -> bool:
    """Return whether both are rounds of one sweep."""
    return "#" not in one + other and one.rpartition("-")[0] == other.rpartition("-")[0] != ""
