"""Random mutations of bytes, of trees of plain values, and of database cells."""

import copy
import json
import math
import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from ragsweep.parts.tracking.served_traces import LONGEST_TEXT

VALUES = [
    None, True, "", "text", "\ud800", "\x00", "x" * (LONGEST_TEXT + 1), 0, -1, 10**400, 1e308, math.nan, -math.inf,
    [], [None], [[]], ["a"] * 2000, {}, {"a": 1}, {"a": {"milliseconds": "5"}}, {"\ud800": {}},
    {str(n): {} for n in range(2000)}, json.loads("[" * 100 + "]" * 100),
]  # fmt: skip

CELLS = [
    None, "", "text", "\x00", "1e999", "[", "[[1]]", "{}", -1, 0, 7, 2**62, 1e308, math.inf, b"", b"\xff\x00", b"[]",
]  # fmt: skip


def mutant(data: bytes, draw: random.Random) -> bytes:
    """Flip a bit, delete or zero a block, append bytes, or delete or replace the rest."""
    changed = bytearray(data)
    at, length = draw.randrange(len(data)), draw.randint(1, 64)
    match draw.randrange(6):
        case 0:
            changed[at] ^= 1 << draw.randrange(8)
        case 1:
            del changed[at:]
        case 2:
            changed += draw.randbytes(length)
        case 3:
            changed[at : at + length] = bytes(min(length, len(data) - at))
        case 4:
            del changed[at : at + length]
        case 5:
            changed[at:] = draw.randbytes(len(data) - at)
    return bytes(changed)


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield (container, key) for every item of a tree."""
    for key in list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield value, key
        yield from places(value[key])


def mutated(plain: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    """Return a copy of a tree with one or two items replaced or removed."""
    plain = json.loads(json.dumps(plain))
    for _ in range(chance.randint(1, 2)):
        container, key = chance.choice(list(places(plain)))
        if isinstance(container, dict) and container is not plain and chance.random() < 0.2:
            del container[key]
        else:
            container[key] = copy.deepcopy(chance.choice(VALUES))
    return plain


def change_cell(database: Path, chance: random.Random) -> None:
    """Replace one cell of a SQLite file, or delete its row."""
    with closing(sqlite3.connect(database)) as connection, suppress(sqlite3.IntegrityError), connection:
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        rows = [(table, row) for table in tables for (row,) in connection.execute(f"SELECT rowid FROM {table}")]
        table, row = chance.choice(rows)
        columns = [name for _, name, *_ in connection.execute(f"PRAGMA table_info({table})")]
        change = f"UPDATE OR IGNORE {table} SET {chance.choice(columns)} = ?"
        if chance.random() < 0.1:
            connection.execute(f"DELETE FROM {table} WHERE rowid = ?", (row,))
        else:
            connection.execute(f"{change} WHERE rowid = ?", (chance.choice(CELLS), row))
