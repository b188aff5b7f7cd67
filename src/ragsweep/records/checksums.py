"""Checksums of the ledger, which reveal lost, duplicated, renumbered or changed rows when the ledger is read.

Each checksum covers a scope: the records of one sweep, the records without a sweep, or all rows of another table in
COLUMNS. The checksum is the XOR of the hashes of the rows in the scope. A change to the ledger replaces only the hashes
of the changed rows, so damage to other rows stays detectable. A record is hashed with its digest instead of its large
columns.
"""

import hashlib
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

COLUMNS = {
    "records": "id, sweep, kind, job, status, partition, golden, signature, tracker, run, tracked, shared, digest,"
    " created",
    "sweeps": "id, key, round, tracker, name, parent, status, jobs, names, created",
    "names": "name, target",
    "holdouts": "golden, questions",
    "holdout_views": "golden, viewer, at",
}
"""The tables that have checksums, each with the columns that are hashed."""


@contextmanager
def changing(connection: sqlite3.Connection, table: str, condition: str, *values: Any) -> Iterator[None]:
    """Update the checksums of ``table`` for the changes that are made in the ``with`` block.

    ``condition`` (SQL, with ``values`` for its placeholders) must match every row that the block adds, alters or
    removes. If the block raises an exception, the checksums are wrong until the transaction is rolled back.
    """
    _toggle(connection, table, condition, values)
    yield
    _toggle(connection, table, condition, values)


def read_whole(connection: sqlite3.Connection, table: str, sweep: str | None = None) -> list[sqlite3.Row]:
    """Return the rows of a table in insertion order.

    If the table is ``records``, return only the records of ``sweep`` or, if it is None, the records of single configs.
    Raises sqlite3.DatabaseError if the rows do not match their checksum.
    """
    of_sweep = "sweep = ?" if sweep else "sweep IS NULL AND ? IS NULL"
    rows = _read(connection, table, *((of_sweep, (sweep,)) if table == "records" else ("1", ())))
    left = _stored(connection, _scope(table, sweep))
    for row in rows:
        left ^= _hash(row)
    if left:
        of = f" of the sweep {sweep}" if sweep else ""
        raise sqlite3.DatabaseError(f"the {table.replace('_', ' ')}{of} do not match their checksum")
    return rows


def upgrade(connection: sqlite3.Connection) -> None:
    """Replace the table ``seals`` of format 4, which has one hash per row, with checksums.

    Raises sqlite3.DatabaseError if a row does not match its hash.
    """
    tables = ("records", "sweeps")
    rows = {f"{table[:-1]} {row[0]}": f"{_hash(row):064x}" for table in tables for row in _read(connection, table)}
    if changed := dict(rows.items() ^ dict(connection.execute("SELECT name, seal FROM seals")).items()):
        raise sqlite3.DatabaseError(f"{min(changed)} does not match its hash")
    write_all(connection)
    connection.execute("DROP TABLE seals")


def write_all(connection: sqlite3.Connection) -> None:
    """Replace all checksums with the checksums of the current rows."""
    connection.execute("DELETE FROM checksums")
    for table in COLUMNS:
        _toggle(connection, table)


def _toggle(connection: sqlite3.Connection, table: str, condition: str = "1", values: Sequence[Any] = ()) -> None:
    for row in _read(connection, table, condition, values):
        scope = _scope(table, row[1])
        changed = _stored(connection, scope) ^ _hash(row)
        connection.execute("INSERT OR REPLACE INTO checksums VALUES (?, ?)", (scope, f"{changed:064x}"))


def _read(
    connection: sqlite3.Connection, table: str, condition: str = "1", values: Sequence[Any] = ()
) -> list[sqlite3.Row]:
    query = f"SELECT {COLUMNS[table]} FROM {table} WHERE {condition} ORDER BY rowid"
    return connection.execute(query, values).fetchall()


def _hash(row: sqlite3.Row) -> int:
    """Return a hash of a row that covers the values and their types."""
    return int(hashlib.sha256(repr(tuple(row)).encode("utf-8", "surrogatepass")).hexdigest(), 16)


def _scope(table: str, sweep: str | None) -> str:
    return f"records {sweep or ''}" if table == "records" else table


def _stored(connection: sqlite3.Connection, scope: str) -> int:
    row = connection.execute("SELECT checksum FROM checksums WHERE scope = ?", (scope,)).fetchone()
    try:
        return int(row[0], 16) if row else 0
    except (TypeError, ValueError):
        raise sqlite3.DatabaseError(f'the checksum "{scope.strip()}" is malformed') from None
