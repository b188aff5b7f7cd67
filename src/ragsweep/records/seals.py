"""Seals of the ledger's rows: a row that was lost, doubled, renumbered or changed is detected when it is read.

A seal is the hash of a whole row; a record's large columns enter by the digest in the row. Seals have a table of their
own, which thereby also lists the records of each sweep.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Sequence
from typing import Any

RECORD = (
    "id, records.sweep, kind, job, status, partition, golden, signature, tracker, run, tracked, shared, digest, created"
)
SWEEP = "id, key, round, tracker, name, parent, status, jobs, names, created"


def seal_records(connection: sqlite3.Connection, condition: str, values: Sequence[Any]) -> None:
    """Seal the records of which a condition holds, after a change."""
    rows = connection.execute(f"SELECT {RECORD} FROM records WHERE {condition}", values).fetchall()
    named = [(f"record {row[0]}", row[1], seal(row)) for row in rows]
    connection.executemany("INSERT OR REPLACE INTO seals VALUES (?, ?, ?)", named)


def forget_record(connection: sqlite3.Connection, record: int) -> None:
    """Delete the seal of a record that another one replaces."""
    connection.execute("DELETE FROM seals WHERE name = ?", (f"record {record}",))


def seal_sweep(connection: sqlite3.Connection, sweep: str) -> None:
    """Seal a sweep after a change."""
    row = connection.execute(f"SELECT {SWEEP} FROM sweeps WHERE id = ?", (sweep,)).fetchone()
    connection.execute("INSERT OR REPLACE INTO seals VALUES (?, ?, ?)", (f"sweep {sweep}", None, seal(row)))


def is_sealed(connection: sqlite3.Connection, sweep: str, row: Sequence[Any]) -> bool:
    """Return whether a sweep's row is the one that was sealed."""
    stored = connection.execute("SELECT seal FROM seals WHERE name = ?", (f"sweep {sweep}",)).fetchone()
    return bool(stored == (seal(row),))


def sealed_sweeps(connection: sqlite3.Connection) -> int:
    """Count the sweeps that were sealed."""
    return int(connection.execute("SELECT count(*) FROM seals WHERE name LIKE 'sweep %'").fetchone()[0])


def unlisted(connection: sqlite3.Connection, sweep: str | None) -> list[int]:
    """List the records of a sweep (None: of no sweep) with a seal but no row, or a row but no seal."""
    names = connection.execute("SELECT name FROM seals WHERE sweep IS ? AND name LIKE 'record %'", (sweep,)).fetchall()
    rows = connection.execute("SELECT id FROM records WHERE sweep IS ?", (sweep,)).fetchall()
    return sorted({int(name.removeprefix("record ")) for (name,) in names} ^ {number for (number,) in rows})


def seal(row: Sequence[Any]) -> str:
    """Hash a row; its values keep their types."""
    return hashlib.sha256(repr(tuple(row)).encode("utf-8", "surrogatepass")).hexdigest()
