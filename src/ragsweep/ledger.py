"""Keep what was measured in one SQLite file: the truth that tables, reports and MLflow are made from.

One transaction a config. Every value is JSON (NaN as null) and nothing is ever executed that was read.
"""

from __future__ import annotations

import dataclasses
import json
import math
import sqlite3
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragsweep.errors import TrackingError
from ragsweep.results import DatasetFacts, Failure, Result, Summary

SCHEMA = """
CREATE TABLE IF NOT EXISTS sweeps (
    id TEXT PRIMARY KEY, name TEXT NOT NULL, parent TEXT, jobs TEXT NOT NULL, names TEXT NOT NULL, created REAL NOT NULL
);
CREATE TABLE IF NOT EXISTS records (
    id INTEGER PRIMARY KEY, sweep TEXT, job INTEGER NOT NULL, status TEXT NOT NULL, signature TEXT, run TEXT,
    record TEXT NOT NULL, created REAL NOT NULL
);
CREATE UNIQUE INDEX IF NOT EXISTS one_record_a_job ON records (sweep, job) WHERE sweep IS NOT NULL;
"""


@dataclass(frozen=True)
class Sweep:
    """A multirun: its jobs' overrides in order, what tells each from its siblings, and its parent run."""

    id: str
    name: str
    parent: str  # the MLflow run; empty without tracking
    jobs: tuple[tuple[str, ...], ...]
    names: tuple[str, ...]


@dataclass(frozen=True)
class Record:
    """What became of one job, and the MLflow run that mirrors it."""

    job: int
    run: str | None
    outcome: Result | Failure


class Ledger:
    """Open (or make) the ledger in a folder; safe for many processes of one machine."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "ledger.db"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with self._transaction() as connection:
                for statement in SCHEMA.split(";"):
                    connection.execute(statement)
        except (OSError, sqlite3.Error) as fault:
            raise TrackingError(
                f"cannot write results to {self.path}: {fault}; set store.path to another folder"
            ) from None

    def open_sweep(self, name: str, parent: str, jobs: Sequence[Sequence[str]], names: Sequence[str]) -> Sweep:
        """Write a sweep down before its first job starts."""
        sweep = Sweep(uuid.uuid4().hex, name, parent, tuple(map(tuple, jobs)), tuple(names))
        with self._transaction() as connection:
            connection.execute(
                "INSERT INTO sweeps VALUES (?, ?, ?, ?, ?, ?)",
                (sweep.id, name, parent, json.dumps(sweep.jobs), json.dumps(sweep.names), time.time()),
            )
        return sweep

    def sweep(self, identifier: str) -> Sweep:
        """Read a sweep back; in a job's process, say."""
        with self._transaction() as connection:
            row = connection.execute(
                "SELECT id, name, parent, jobs, names FROM sweeps WHERE id = ?", (identifier,)
            ).fetchone()
        return Sweep(row[0], row[1], row[2], tuple(map(tuple, json.loads(row[3]))), tuple(json.loads(row[4])))

    def write(self, sweep: str | None, job: int, outcome: Result | Failure) -> int:
        """Write down what became of a job, all of it or nothing, and return the record's number.

        A repeated job replaces its record. Rankings are not kept: they are large, and the tracker has them.
        """
        if isinstance(outcome, Result):
            outcome = dataclasses.replace(outcome, rankings={})
        status = "finished" if isinstance(outcome, Result) else "failed"
        signature = outcome.signature if isinstance(outcome, Result) else None
        text = json.dumps(_to_json(dataclasses.asdict(outcome)), allow_nan=False)
        with self._transaction() as connection:
            cursor = connection.execute(
                "INSERT OR REPLACE INTO records (sweep, job, status, signature, record, created)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                (sweep, job, status, signature, text, time.time()),
            )
            return int(cursor.lastrowid or 0)

    def mirrored(self, record: int, run: str) -> None:
        """Note the MLflow run that shows a record."""
        with self._transaction() as connection:
            connection.execute("UPDATE records SET run = ? WHERE id = ?", (run, record))

    def records(self, sweep: str) -> list[Record]:
        """Read what became of a sweep's jobs so far, in the order of the jobs."""
        with self._transaction() as connection:
            rows = connection.execute(
                "SELECT job, run, status, record FROM records WHERE sweep = ? ORDER BY job", (sweep,)
            ).fetchall()
        return [Record(job, run, _outcome(status, json.loads(text))) for job, run, status, text in rows]

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        # IMMEDIATE: two processes that both read and then write would otherwise fail with "database is locked".
        connection = sqlite3.connect(self.path, timeout=60, isolation_level=None)
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("BEGIN IMMEDIATE")
            yield connection
            connection.execute("COMMIT")
        finally:
            connection.close()


def _to_json(value: Any) -> Any:
    """Turn numbers that JSON has no word for into null, and arrays into lists."""
    if isinstance(value, Mapping):
        return {str(key): _to_json(item) for key, item in value.items()}
    if hasattr(value, "tolist"):
        return _to_json(value.tolist())
    if isinstance(value, list | tuple):
        return [_to_json(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _outcome(status: str, fields: dict[str, Any]) -> Result | Failure:
    fields["overrides"] = tuple(fields["overrides"])
    if status == "failed":
        return Failure(**fields)
    fields["dataset"] = DatasetFacts(**{**fields["dataset"], "notes": tuple(fields["dataset"]["notes"])})
    fields["summaries"] = _summaries(fields["summaries"])
    fields["groups"] = {
        label: {value: _summaries(group) for value, group in values.items()}
        for label, values in fields["groups"].items()
    }
    fields["warnings"] = tuple(fields["warnings"])
    return Result(**fields)


def _summaries(fields: dict[str, dict[str, Any]]) -> dict[str, Summary]:
    numbers = ("value", "low", "high")
    return {
        name: Summary(**{**one, **{key: math.nan for key in numbers if one[key] is None}})
        for name, one in fields.items()
    }
