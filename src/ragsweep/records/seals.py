"""Seal the rows of the ledger: one that is lost, doubled, renumbered or changed is noticed when it is read.

A seal is the hash of all of a row; a record's large columns are in it by the digest that stands in the row. Seals lie
in a table of their own, so that they also list which records a sweep has.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Sequence
from typing import Any

RECORD = "id, records.sweep, job, status, signature, place, run, mirrored, shared, digest, created"
SWEEP = "id, key, round, place, name, parent, status, jobs, names, created"


def seal_all(connection: sqlite3.Connection) -> None:
    """Seal what an earlier version wrote, as it is."""
    seal_records(connection, "1", ())
    for (sweep,) in connection.execute("SELECT id FROM sweeps").fetchall():
        seal_sweep(connection, sweep)


def seal_records(connection: sqlite3.Connection, condition: str, values: Sequence[Any]) -> None:
    """Seal the records of which a condition holds: they were written, or changed."""
    rows = connection.execute(f"SELECT {RECORD} FROM records WHERE {condition}", values).fetchall()
    sealed = [(_record(row[0]), row[1], seal(row)) for row in rows]
    connection.executemany("INSERT OR REPLACE INTO seals VALUES (?, ?, ?)", sealed)


def forget_record(connection: sqlite3.Connection, record: int) -> None:
    """Forget the seal of a record that another one replaces."""
    connection.execute("DELETE FROM seals WHERE name = ?", (_record(record),))


def seal_sweep(connection: sqlite3.Connection, sweep: str) -> None:
    """Seal a sweep: it was written, or changed."""
    row = connection.execute(f"SELECT {SWEEP} FROM sweeps WHERE id = ?", (sweep,)).fetchone()
    connection.execute("INSERT OR REPLACE INTO seals VALUES (?, ?, ?)", (f"sweep {sweep}", None, seal(row)))


def is_sealed(connection: sqlite3.Connection, sweep: str, row: Sequence[Any]) -> bool:
    """Say whether a sweep's row is the one that was sealed."""
    found = connection.execute("SELECT seal FROM seals WHERE name = ?", (f"sweep {sweep}",)).fetchone()
    return found is not None and found[0] == seal(row)


def sealed_sweeps(connection: sqlite3.Connection) -> int:
    """Count the sweeps that were sealed."""
    return int(connection.execute("SELECT count(*) FROM seals WHERE name LIKE 'sweep %'").fetchone()[0])


def unlisted(connection: sqlite3.Connection, sweep: str | None) -> list[int]:
    """List the records of a sweep (None: of no sweep) that were sealed and are gone, or are there and have no seal."""
    listed = connection.execute("SELECT name FROM seals WHERE sweep IS ? AND name LIKE 'record %'", (sweep,)).fetchall()
    there = connection.execute("SELECT id FROM records WHERE sweep IS ?", (sweep,)).fetchall()
    return sorted({int(name.removeprefix("record ")) for (name,) in listed} ^ {number for (number,) in there})


def seal(row: Sequence[Any]) -> str:
    """Hash a row; its values keep their types."""
    return hashlib.sha256(repr(tuple(row)).encode("utf-8", "surrogatepass")).hexdigest()


def _record(number: int) -> str:
    return f"record {number}"
