"""Names that users give to sweeps and configs, so that commands can refer to a sweep or config by name."""

import re
import shlex
import sqlite3

from ragsweep.core.errors import ConfigError
from ragsweep.records import checksums
from ragsweep.records.ledger_file import LedgerFile


class Names:
    """User-defined names in a ledger, each with its target: a sweep's id, ``ID#NUMBER`` or ``record NUMBER``."""

    def __init__(self, file: LedgerFile) -> None:
        self._file = file

    def all(self) -> dict[str, str]:
        """Return a mapping from each name to its target, in the order in which the names were given."""
        with self._file.reading() as connection:
            return {row["name"]: row["target"] for row in checksums.read_whole(connection, "names")}

    def of(self, target: str) -> list[str]:
        """Return the names that refer to ``target``; [] if there are none."""
        return [name for name, one in self.all().items() if one == target]

    def give(self, name: str, target: str, signature: str = "") -> None:
        """Store a name for a target. Raises ConfigError if the name is invalid or taken.

        A name in use is available if its target is ``target``, another round of the same sweep, or a single config with
        this ``signature``. In these cases, ``target`` replaces the current target.
        """
        check_name(name)
        with self._file.transaction() as connection:
            self.check_free(name, target, signature)
            with checksums.changing(connection, "names", "name = ?", name):
                connection.execute("INSERT OR REPLACE INTO names VALUES (?, ?)", (name, target))

    def check_free(self, name: str, target: str, signature: str = "") -> None:
        """Raise ConfigError if `give` would reject the name as taken.

        Before a run, ``target`` is "KEY-" for a new sweep with the key KEY, and "" for a single config.
        """
        with self._file.reading() as connection:
            row = connection.execute("SELECT target FROM names WHERE name = ?", (name,)).fetchone()
            if row and row[0] not in (target, *_runs_of(connection, signature)) and not _is_round(row[0], target):
                raise ConfigError(
                    f'name: "{name}" is taken by {self.shown(row[0])}; choose another name, or free this one:'
                    f" ragsweep name --drop {name} --path {shlex.quote(str(self._file.path.parent))}"
                )

    def shown(self, target: str) -> str:
        """Return a target as lists of runs display it, with ids cut to 8 characters.

        For a sweep or single config with an MLflow run, the id is that of the MLflow run.
        """
        with self._file.reading() as connection:
            if target.startswith("record "):
                row = connection.execute("SELECT run FROM records WHERE id = ?", (target.partition(" ")[2],)).fetchone()
                return row["run"][:8] if row and row["run"] else target
            sweep, mark, number = target.partition("#")
            row = connection.execute("SELECT parent FROM sweeps WHERE id = ?", (sweep,)).fetchone()
            return f"{(row[0] or sweep)[:8]}{mark}{number}" if row else target

    def drop(self, name: str) -> bool:
        """Remove a name; return False if it did not exist."""
        with self._file.transaction() as connection, checksums.changing(connection, "names", "name = ?", name):
            return connection.execute("DELETE FROM names WHERE name = ?", (name,)).rowcount > 0


def check_name(name: object) -> None:
    """Raise ConfigError for an invalid name, or for a name that commands could mistake for a run id.

    A valid name begins with a letter and contains only letters, digits, ``.``, ``_`` and ``-``.
    """
    if not isinstance(name, str) or not re.fullmatch(r"[^\W\d_][\w.-]*", name):
        raise ConfigError(f"name: {name!r} must begin with a letter and contain only letters, digits, . _ and -")
    if re.fullmatch(r"[0-9a-f]{8,}", name):
        raise ConfigError(
            f'name: "{name}" could be a run id (8 or more hexadecimal digits); include a letter beyond f, or use fewer'
            " than 8 characters"
        )


def _runs_of(connection: sqlite3.Connection, signature: str) -> list[str]:
    """Return the targets of the single configs with this signature, as ``record NUMBER``."""
    rows = connection.execute("SELECT id FROM records WHERE sweep IS NULL AND signature = ?", (signature,))
    return [f"record {number}" for (number,) in rows]


def _is_round(one: str, other: str) -> bool:
    """Return whether both targets are rounds of the same sweep, that is, have the same key."""
    return "#" not in one + other and one.rpartition("-")[0] == other.rpartition("-")[0] != ""
