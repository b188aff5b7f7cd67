"""The names that users give to sweeps and configs, so that commands can refer to them."""

from __future__ import annotations

import re

from ragsweep.core.errors import ConfigError
from ragsweep.records.ledger_file import LedgerFile


class Names:
    """Keep names in a ledger: each stands for ``SWEEP``, ``SWEEP#NUMBER`` or ``record NUMBER``, by whole ids."""

    def __init__(self, file: LedgerFile) -> None:
        self._file = file

    def all(self) -> dict[str, str]:
        """Return name -> what it stands for, the oldest first."""
        with self._file.reading() as connection:
            return dict(connection.execute("SELECT name, target FROM names ORDER BY rowid").fetchall())

    def of(self, target: str) -> list[str]:
        """List the names of a sweep, config or record."""
        return [name for name, one in self.all().items() if one == target]

    def give(self, name: str, target: str) -> None:
        """Give a name, which a later round of its sweep takes over; raises ConfigError for an invalid or taken one."""
        check_name(name)
        with self._file.transaction() as connection:
            row = connection.execute("SELECT target FROM names WHERE name = ?", (name,)).fetchone()
            check_free(name, row[0] if row else "", target)
            connection.execute("INSERT OR REPLACE INTO names VALUES (?, ?)", (name, target))

    def drop(self, name: str) -> bool:
        """Free a name; return whether it was given."""
        with self._file.transaction() as connection:
            return connection.execute("DELETE FROM names WHERE name = ?", (name,)).rowcount > 0


def check_name(name: object) -> None:
    """Raise ConfigError for a name that could not be told from a run's id or ``SWEEP#NUMBER``."""
    if not isinstance(name, str) or not re.fullmatch(r"[^\W\d_][\w.-]*", name):
        raise ConfigError(f"name: {name!r} is none; begin with a letter, and go on with letters, digits, . _ and -")
    if re.fullmatch(r"[0-9a-f.-]+", name):
        raise ConfigError(f'name: "{name}" looks like the id of a run; add a letter after f')


def check_free(name: str, taken: str, target: str) -> None:
    """Raise ConfigError where a name stands for something else; "" stands for nothing, or for what is not made yet."""
    if taken and taken != target and not _is_round(taken, target):
        raise ConfigError(f'name: "{name}" is taken by {shown(taken)}; choose another, or free it:'
                          f" ragsweep name --drop {name}")  # fmt: skip


def shown(target: str) -> str:
    """Write what a name stands for as commands take it, ids shortened."""
    sweep, mark, number = target.partition("#")
    return target if target.startswith("record ") else f"{sweep[:8]}{mark}{number}"


def _is_round(one: str, other: str) -> bool:
    """Return whether both are rounds of one sweep."""
    return "#" not in one + other and one.rpartition("-")[0] == other.rpartition("-")[0] != ""
